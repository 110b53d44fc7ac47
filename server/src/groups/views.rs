//! Views of the groups for other parts of the shard, checks and metrics.

use super::counters::LoadGauges;
use super::slots::{ListingOfSlots, Slots};
use super::{ASKED_BYTES_MAX, Groups};
use crate::limit_gauges::{Limit, LimitGauges};
use muster_coordinator::limits::{GROUPS_MAX, MEMBERS_BYTES_MAX, PENDING_BYTES_MAX};
use muster_coordinator::{Coordinator, Event, Held, Rebalance};
use muster_counters::Copies;
use muster_runtime::Runtime;

impl Groups {
    /// Continues a list by about `count` groups.
    pub(crate) fn list(&mut self, runtime: &Runtime, list: &mut ListingOfSlots, count: usize) {
        self.coordinators.list(runtime, list, count);
    }

    /// Estimates how much work it is to describe a group, or to list its offsets. The result is 1
    /// if another shard leads the group's slot.
    pub(crate) fn weight(
        &mut self,
        group_id: &str,
        of: impl FnOnce(&Coordinator, &str) -> usize,
    ) -> usize {
        self.slots_mut().weight(group_id, of)
    }

    /// The coordinators, for checks.
    pub(crate) fn slots(&self) -> &Slots {
        self.coordinators.slots()
    }

    pub(crate) fn slots_mut(&mut self) -> &mut Slots {
        self.coordinators.slots_mut()
    }

    /// The groups' time at a past time.
    pub(crate) fn time(&self, now: i64) -> i64 {
        self.coordinators.time(now)
    }

    /// Copies of the counters and gauges of the groups at a time, for metrics.
    pub(crate) fn numbers(&self, now: i64) -> Copies {
        let gauges = LoadGauges {
            unloaded_groups: self.slots().unloaded_groups() as u64,
            coordinators: self.slots().iter().len() as u64,
        };
        let coordinators = self.slots().counters();
        let mut numbers: Copies = vec![
            Box::new(coordinators.gauges),
            Box::new(coordinators.events),
            Box::new(*self.coordinators.counters()),
            Box::new(gauges),
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
    }

    /// The time at which the timer that is due first is late, if it has not fired by then.
    pub(crate) fn late_deadline(&self) -> Option<i64> {
        self.coordinators.late_deadline()
    }

    /// The time since which a timer has been late and no timer has fired. Call this now and then,
    /// because the time is that of the first call that found it.
    pub(crate) fn timers_late_since(&mut self, now: i64) -> Option<i64> {
        self.coordinators.timers_late_since(now)
    }

    /// The time since which operations of the log have been pending without any becoming durable.
    pub(crate) fn flushing_since(&self) -> Option<i64> {
        self.coordinators.flushing_since()
    }

    /// The last finished rebalances of a group, the oldest first, and the rebalance under way.
    pub(crate) fn rebalances(&self, group_id: &str) -> (Vec<&Event>, Option<Rebalance>) {
        (self.events.history().of(group_id).collect(), self.slots().rebalance_under_way(group_id))
    }

    /// The time of the last refusal of a client as a member, and a description.
    pub(crate) fn last_refused(&self) -> Option<(i64, String)> {
        self.events.last_refused()
    }
}
