//! The lease of a member (how long the coordinator certainly keeps it), and the rule
//! `evicted-early`.
//!
//! There are only two cases in which a coordinator removes a member that does not leave. It
//! receives nothing from the member for the session timeout, or the member does not do its part of
//! a rebalance within the rebalance timeout.
//!
//! Session: the latest heartbeat that was answered without error took effect at `sent` or later. So
//! the session runs at least until `sent` + session timeout. A coordinator that restarts sessions
//! (after its own restart, or at the end of a rebalance) only makes them longer. Joins and syncs of
//! a classic group do not count: Kafka's coordinator answers a late sync, and some joins, without
//! restarting the session.
//!
//! Rebalance, consumer or streams group: the timer starts when an answer first asks the member to
//! give up partitions. The answer before that one did not ask. So the timer started after the
//! request of this earlier answer was sent, and the lease is computed from that time. If the first
//! answer that asked may have been lost, the lease is computed from the last answer before the
//! loss.
//!
//! Rebalance, classic group: the timer starts when a rebalance of generation e begins. Members that
//! do not join before it ends are not in e + 1. While a rebalance gathers members, heartbeats and
//! syncs are refused (REBALANCE_IN_PROGRESS), and joins are answered with e + 1. So every request
//! that was answered without error with generation e, from any member, took effect before the
//! rebalance began. The latest `sent` of these requests is therefore before the rebalance. A member
//! that joined, but did not sync within the rebalance timeout after the join phase, is removed too.
//! So a generation gives a lease only to members that have synced in it.
//!
//! In a group that is migrated online both rules apply, and the lease is the shorter of the two.
//!
//! After a restart a classic coordinator knows only the generation that the leader's last sync
//! wrote. It may have lost members that joined later. The state of a consumer group is durable
//! before the coordinator answers.

use std::time::Duration;

use super::found::Found;
use super::group::{Facts, Member};
use crate::event::{Event, EventKind};
use crate::history::Kind;
use crate::plan::{GroupIndex, MemberIndex};
use crate::time::Time;

/// The error of a core's times: it reads its clock once for many answers. A shorter overlap of
/// claims does not count.
pub(super) const CLOCK_SLACK: Duration = Duration::from_millis(2);

const UNKNOWN_MEMBER_ID: i16 = 25;

/// A request that was answered without error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Alive {
    pub(super) sent: Time,
    pub(super) at: Time,
    pub(super) epoch: i32,
}

/// The latest sign of life in each of the last generations, from any member.
#[derive(Default)]
pub(super) struct Generations {
    /// Generations and times, oldest first.
    last: Vec<(i32, Time)>,
}

impl Generations {
    /// The number of generations that are kept. A member in an older generation has no lease.
    const KEPT: usize = 8;

    pub(super) fn alive(&mut self, generation: i32, sent: Time) {
        match self.last.iter_mut().rev().find(|(known, _)| *known == generation) {
            Some((_, last)) => *last = (*last).max(sent),
            None => {
                let at = self.last.partition_point(|(known, _)| *known < generation);
                self.last.insert(at, (generation, sent));
                if self.last.len() > Self::KEPT {
                    self.last.remove(0);
                }
            }
        }
    }

    fn last(&self, generation: i32) -> Option<Time> {
        self.last.iter().find(|(known, _)| *known == generation).map(|(_, last)| *last)
    }
}

/// The time until which the coordinator certainly keeps the member with its assignment of `epoch`.
pub(super) fn certain_until(member: &Member, epoch: i32, facts: &Facts) -> Time {
    let Some(alive) = member.alive else { return Time::ZERO };
    let session = with_margin(alive.sent, facts.group.session_timeout);
    let rebalance = |from: Time| with_margin(from, facts.group.rebalance_timeout);
    match facts.group.protocol {
        Kind::Consumer | Kind::Streams => {
            let rebalance = member.must_rebalance.map_or(Time::MAX, rebalance);
            session.min(rebalance).max(alive.sent)
        }
        Kind::Classic => {
            let last = facts.generations.last(epoch);
            last.map_or(Time::ZERO, |last| session.min(rebalance(last)))
        }
        // The member may have either protocol, so both limits apply.
        Kind::Migrating => {
            let last = facts.generations.last(epoch).map_or(Time::ZERO, rebalance);
            session.min(last).min(member.must_rebalance.map_or(Time::MAX, rebalance))
        }
        // The session timeout of share groups is not known to clients.
        Kind::Manual | Kind::Producer | Kind::Reader | Kind::Share => Time::ZERO,
    }
}

/// `timeout` after `from`, less a margin: clocks of two machines may differ in speed, and a
/// coordinator may count in milliseconds.
fn with_margin(from: Time, timeout: Duration) -> Time {
    let margin = Duration::from_millis(10) + timeout / 500;
    from + timeout.saturating_sub(margin)
}

/// Judges an [`EventKind::Fenced`]. UNKNOWN_MEMBER_ID means that the member was removed.
pub(super) fn judge_eviction(event: &Event, member: &Member, facts: &Facts, found: &mut Found) {
    let EventKind::Fenced { error: UNKNOWN_MEMBER_ID } = event.kind else { return };
    let Some(alive) = member.alive else { return };
    let until = certain_until(member, alive.epoch, facts);
    if until <= event.at || !was_durable(member, alive, facts) {
        return;
    }
    found.add("evicted-early", event.at, &facts.group.id, || {
        let what = format!(
            "member {} was unknown to the coordinator {:.3} s after a request that it accepted; \
             its lease ran for {:.3} s more",
            event.member.0,
            event.at.since(alive.sent).as_secs_f64(),
            until.since(event.at).as_secs_f64(),
        );
        (what, vec![alive.event(facts.group.index, event.member), event.clone()])
    });
}

fn was_durable(member: &Member, alive: Alive, facts: &Facts) -> bool {
    match facts.group.protocol {
        Kind::Classic | Kind::Migrating => {
            member.synced == alive.epoch && facts.shaken < member.joined
        }
        Kind::Consumer
        | Kind::Manual
        | Kind::Producer
        | Kind::Reader
        | Kind::Share
        | Kind::Streams => true,
    }
}

impl Alive {
    pub(super) fn event(self, group: GroupIndex, member: MemberIndex) -> Event {
        let kind = EventKind::Alive { sent: self.sent, epoch: self.epoch };
        Event { at: self.at, group, member, kind }
    }
}
