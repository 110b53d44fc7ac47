//! A member of a share group (KIP-932). It learns its partitions from its heartbeats. With each of
//! their leaders it has a share session, in which it acquires and acknowledges records. The order
//! of requests is that of Kafka's `ShareConsumeRequestManager`: one at a time to each leader.
//!
//! A broker that is both the member's coordinator and a leader gets two connections, as from real
//! clients. So a heartbeat does not wait for a fetch that waits for records.

mod answers;
mod membership;
mod messages;
mod records;
mod session;

use std::time::Duration;

use self::session::Session;
use super::consumer_messages::Target;
use super::core::{Core, Turn};
use super::error::Step;
use super::heartbeating::Heartbeating;
use super::io::{Answer, NodeIndex};
use super::leaders::Leaders;
use super::membership::Membership;
use super::owned::sorted;
use crate::event::EventKind;
use crate::plan::{MemberIndex, Partition, SharePlan};
use crate::time::Time;
use crate::topics::Topics;

pub(super) struct Share {
    plan: SharePlan,
    pub(super) membership: Membership,
    /// The newest assignment received, while some of its topics are unknown.
    target: Option<Target>,
    /// All partitions that may be assigned to the member. Their leaders have the same indexes.
    partitions: Vec<Partition>,
    leaders: Leaders,
    sessions: Vec<Session>,
    /// The member closes its sessions, and opens no new ones.
    closing: bool,
}

impl Share {
    pub(super) fn new(plan: &SharePlan) -> Self {
        Self {
            plan: plan.clone(),
            membership: Membership::new(&membership::BEATS),
            target: None,
            partitions: Vec::new(),
            leaders: Leaders::of(0),
            sessions: Vec::new(),
            closing: false,
        }
    }

    pub(super) fn advance(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        self.adopt(core, turn);
        self.keep_alive(core, turn)?;
        if core.owned.is_empty() && self.sessions.is_empty() {
            return Ok(());
        }
        self.know(core, turn.context.topics);
        self.leaders.advance(&self.partitions, core, turn)?;
        self.open(core);
        self.send(core, turn)
    }

    /// Closes all sessions of the member. The last request of each session acknowledges the records
    /// that the member has processed.
    pub(super) fn finish(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        self.closing = true;
        self.send(core, turn)
    }

    pub(super) fn answered(
        &mut self,
        answer: Answer<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let of_leaders = self.leaders.answered(answer, &self.partitions, core, turn);
        let Some(answer) = of_leaders else { return Ok(()) };
        if self.membership.awaits(answer.token) {
            return self.heartbeat_answered(answer.sent, answer.outcome, core, turn);
        }
        self.session_answered(answer, core, turn)
    }

    pub(super) fn abandon(&mut self) {
        self.sessions.clear();
        self.membership.abandon();
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        let leaders = self.leaders.deadline().filter(|_| !self.partitions.is_empty());
        let heartbeat = self.membership.deadline(core);
        let sessions = self.sessions.iter().filter_map(|it| self.session_deadline(it, core));
        heartbeat.into_iter().chain(leaders).chain(sessions).min()
    }

    /// When [`Share::finish`] will have something to do.
    pub(super) fn finish_deadline(&self, core: &Core) -> Option<Time> {
        self.sessions.iter().filter_map(|it| self.session_deadline(it, core)).min()
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        self.membership.awaits(token)
            || self.leaders.awaits(token)
            || self.sessions.iter().any(|session| session.awaits(token))
    }

    /// Whether all sessions have ended: a closed session is removed.
    pub(super) fn is_idle(&self) -> bool {
        self.membership.is_idle() && self.sessions.is_empty()
    }

    /// Whether this member is slow to process records.
    fn is_slow(&self, member: MemberIndex) -> bool {
        // The slow members are spread evenly over all indexes. The members of a group have
        // consecutive indexes, so each group gets its part of the slow ones.
        const MILLION: u64 = 1_000_000;
        let (member, slow) = (u64::from(member.0), u64::from(self.plan.slow));
        (member + 1) * slow / MILLION > member * slow / MILLION
    }

    fn takes(&self, core: &Core) -> Duration {
        if self.is_slow(core.plan.index) { self.plan.slow_takes } else { self.plan.takes }
    }

    /// Adds partitions that were added to topics.
    fn know(&mut self, core: &Core, topics: &Topics) {
        let subscribed = core.group().subscription.topics();
        let count = subscribed.iter().map(|topic| topics.partitions(*topic) as usize).sum();
        if self.partitions.len() != count {
            let of = |topic| {
                (0..topics.partitions(topic)).map(move |number| Partition { topic, number })
            };
            self.partitions = sorted(subscribed.iter().flat_map(|topic| of(*topic)).collect());
            self.leaders = Leaders::of(count);
        }
    }

    fn leader(&self, partition: Partition) -> Option<NodeIndex> {
        self.leaders.node(self.partitions.binary_search(&partition).ok()?)
    }

    /// The partitions that belong in the member's session with this node.
    fn wanted(&self, node: NodeIndex, core: &Core) -> Vec<Partition> {
        let owned = core.owned.partitions().iter().copied();
        owned.filter(|partition| self.leader(*partition) == Some(node)).collect()
    }

    /// Opens a session with each leader of its partitions.
    fn open(&mut self, core: &Core) {
        for partition in core.owned.partitions() {
            if let Some(node) = self.leader(*partition)
                && !self.sessions.iter().any(|session| session.node == node)
            {
                self.sessions.push(Session::new(node));
            }
        }
    }

    /// Called when a leader has refused these partitions. Another node may lead them, so the
    /// leaders are looked up again.
    fn led_elsewhere(&mut self, partitions: &[Partition], core: &Core, turn: &mut Turn<'_, '_>) {
        self.leaders.forget();
        core.emit(turn, EventKind::LeaderLost { partitions: partitions.into() });
    }
}
