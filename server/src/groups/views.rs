//! Views of the groups for other parts of the shard, checks and metrics.

use super::counters::LogGauges;
use super::slots::{ListingOfSlots, Slots};
use super::{ASKED_BYTES_MAX, Groups};
use crate::limit_gauges::{Limit, LimitGauges};
use crate::placement::Placement;
use muster_coordinator::limits::{GROUPS_MAX, MEMBERS_BYTES_MAX, PENDING_BYTES_MAX};
use muster_coordinator::{Coordinator, Event, Held, Rebalance};
use muster_counters::Copies;
use muster_storage::ShardLog;

impl Groups {
    /// Continues a list by about `count` groups.
    pub(crate) fn list(&mut self, list: &mut ListingOfSlots, count: usize) {
        self.log.list(list, count);
    }

    /// Estimates how much work it is to describe a group, or to list its offsets. The result is 1
    /// if another shard leads the group's slot.
    pub(crate) fn weight(
        &mut self,
        group_id: &str,
        of: impl FnOnce(&Coordinator, &str) -> usize,
    ) -> usize {
        self.log.parts().0.weight(group_id, of)
    }

    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// The coordinators, for checks.
    pub(crate) fn slots(&self) -> &Slots {
        self.log.slots()
    }

    pub(crate) fn slots_mut(&mut self) -> &mut Slots {
        self.log.parts().0
    }

    /// The log, for checks.
    pub(crate) fn log(&self) -> &ShardLog {
        self.log.log()
    }

    /// The groups' time at a past time.
    pub(crate) fn time(&self, now: i64) -> i64 {
        self.log.time(now)
    }

    /// Copies of the counters and gauges of the groups at a time, for metrics.
    pub(crate) fn numbers(&self, now: i64) -> Copies {
        let gauges = LogGauges {
            unsubmitted_bytes: self.log().unsubmitted_bytes() as u64,
            unloaded_groups: self.slots().unloaded_groups() as u64,
            coordinators: self.slots().iter().len() as u64,
        };
        let coordinators = self.slots().counters();
        let mut numbers: Copies = vec![
            Box::new(coordinators.gauges),
            Box::new(coordinators.events),
            Box::new(*self.log.counters()),
            Box::new(*self.log.runtime_counters()),
            Box::new(gauges),
            Box::new(*self.snapshots.counters()),
            Box::new(*self.check.counters()),
            Box::new(*self.rewrite.counters()),
        ];
        let oldest = self.slots().oldest_rebalance_began_ms();
        numbers.extend(self.events.numbers(oldest.map(|began| self.time(now) - began)));
        numbers
    }

    /// Adds the use of the limits of groups.
    pub(crate) fn add_limits(&self, gauges: &mut LimitGauges) {
        let Held { groups, member_bytes, pending_bytes } = self.slots().held();
        gauges.set(Limit::Groups, groups, GROUPS_MAX);
        let [of_members, of_pending] =
            [MEMBERS_BYTES_MAX, PENDING_BYTES_MAX].map(|limit| self.config.of_memory(limit));
        gauges.set(Limit::MemberBytes, member_bytes, of_members);
        gauges.set(Limit::PendingBytes, pending_bytes, of_pending);
        gauges.set(Limit::AskedBytes, self.asked_bytes(), ASKED_BYTES_MAX);
        gauges.set(Limit::LogBytes, self.log().unsubmitted_bytes(), self.open_bytes_max);
    }

    /// The duration so far of the flush of the log that is under way.
    pub(crate) fn flushing_ms(&self) -> u64 {
        self.log.flushing_micros() / 1_000
    }

    /// A time at which a timer may be late.
    pub(crate) fn late_deadline(&self) -> Option<i64> {
        self.log.late_deadline()
    }

    /// The time since which a timer is late while no timer fires. To be called now and then.
    pub(crate) fn timers_late_since(&mut self, now: i64) -> Option<i64> {
        self.log.timers_late_since(now)
    }

    /// The time since which operations of the log are pending and no further one became durable.
    pub(crate) fn flushing_since(&self) -> Option<i64> {
        self.log.flushing_since()
    }

    /// The last rebalances of a group that ended, the oldest first, and the rebalance under way.
    pub(crate) fn rebalances(&self, group_id: &str) -> (Vec<&Event>, Option<Rebalance>) {
        (self.events.history().of(group_id).collect(), self.slots().rebalance_under_way(group_id))
    }

    /// The time of the last refusal of a client as a member, and a description.
    pub(crate) fn last_refused(&self) -> Option<(i64, String)> {
        self.events.last_refused()
    }

    /// A description of the damage that was found in the log.
    pub(crate) fn log_trouble(&self) -> Option<String> {
        self.rewrite.trouble()
    }

    /// The number of times that damage of the log was found, and that the log was rewritten.
    pub(crate) fn log_damage(&self) -> (u64, u64) {
        let counters = self.rewrite.counters();
        (counters.damage_found, counters.rewritten)
    }

    /// The number of groups that were compared with the log since the shard's start.
    pub(crate) fn compared(&self) -> u64 {
        self.check.counters().compared
    }
}
