//! Classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup. One member, the leader, assigns
//! partitions to all members. [`state`] shows the protocol on one page.
//!
//! A group has durable and volatile state. The durable state, [`durable`], is its last
//! GroupMetadata record; only [`ClassicGroup::replay`] changes it. The volatile state is the
//! rebalance under way: the members that have joined, the parked requests, the timers. A crash
//! loses it, and clients join again. After a handler has written a record, the replay of the record
//! makes the transition: to Stable with the assignments of all members, or to Empty.

mod describe;
mod durable;
mod heartbeat;
mod join;
mod leave;
mod member;
mod members;
mod migrated;
mod moved;
mod offsets;
mod parked;
mod rebalance;
mod replay;
pub(crate) mod state;
mod static_member;
mod sync;
mod view;

pub(crate) use durable::tombstone;
pub(crate) use join::Joining;
pub(crate) use leave::{leave_each, leave_unknown_group};
pub(crate) use member::{Identity, Protocol};
pub(crate) use migrated::MigratedMember;
pub(crate) use parked::Parked;

use crate::text::Text;
use crate::timers::{Timer, TimerKey};
use crate::turn::Turn;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use durable::Durable;
use hashbrown::HashMap;
use member::Member;
use members::Members;
use muster_codec::Wall;
use muster_codec::consumer_protocol::PROTOCOL_TYPE;
use state::State;

#[derive(Debug)]
pub(crate) struct ClassicGroup {
    id: Text,
    /// None for a simple group, which only commits offsets and has no record of its own.
    durable: Option<Durable>,
    state: State,
    previous_state: State,
    /// When the group entered the state; -1 if the record does not contain it.
    state_timestamp: i64,
    generation: i32,
    protocol_type: Option<Text>,
    protocol: Option<Text>,
    members: Members,
    /// Member ids that were assigned and not used yet (KIP-394).
    pending_joins: HashMap<Text, Timer>,
    /// Members of this generation that have not sent their SyncGroup.
    pending_syncs: BTreeSet<Text>,
    /// Topics to which the members of this generation subscribe; None if they are not consumers.
    subscribed_topics: Option<BTreeSet<Text>>,
    join_timer: Timer,
    /// Set while the join timer counts the delay of the initial rebalance; None while it counts the
    /// rebalance timeout.
    initial_delay: Option<Box<InitialDelay>>,
    /// Whether a member joined since the initial delay was last extended.
    new_member_added: bool,
    sync_timer: Timer,
    /// The time at which a handler wrote a record that is not replayed yet.
    writing_since: Option<Wall>,
}

/// The delay of the initial rebalance, which is extended while more members join
/// (`group.initial.rebalance.delay.ms`).
#[derive(Debug, Clone, Copy)]
struct InitialDelay {
    delay_ms: i64,
    remaining_ms: i64,
}

impl ClassicGroup {
    /// A new group, without members.
    pub(crate) fn new(id: Text, wall: Wall) -> Self {
        Self {
            id,
            durable: None,
            state: State::Empty,
            previous_state: State::Dead,
            state_timestamp: wall.0,
            generation: 0,
            protocol_type: None,
            protocol: None,
            members: Members::default(),
            pending_joins: HashMap::new(),
            pending_syncs: BTreeSet::new(),
            subscribed_topics: None,
            join_timer: Timer::default(),
            initial_delay: None,
            new_member_added: false,
            sync_timer: Timer::default(),
            writing_since: None,
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// The number of members and of pending member ids. Includes members with a parked JoinGroup.
    pub(crate) fn members_and_pending(&self) -> usize {
        self.members.len() + self.pending_joins.len()
    }

    /// Bytes of the members' texts and protocols.
    pub(crate) fn member_bytes(&self) -> usize {
        self.members.member_bytes()
    }

    /// Whether the group has no record, no member and no pending member id.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.durable.is_none() && self.members_and_pending() == 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state == State::Empty
    }

    /// The protocol type; empty if no member ever joined.
    pub(crate) fn protocol_type(&self) -> &str {
        self.protocol_type.as_deref().unwrap_or_default()
    }

    pub(crate) fn durable(&self) -> Option<&Durable> {
        self.durable.as_ref()
    }

    fn transition(&mut self, state: State, wall: Wall) {
        assert!(self.state.may_become(state), "{:?} does not become {state:?}", self.state);
        self.previous_state = self.state;
        self.state = state;
        self.state_timestamp = wall.0;
    }

    fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type() == PROTOCOL_TYPE
    }

    /// Restarts the session of a member that has shown that it is alive.
    fn restart_session(&mut self, turn: &mut Turn<'_, '_>, member_id: &str) {
        if let Some(member) = self.members.get_mut(member_id) {
            restart_session(turn, &self.id, member);
        }
    }
}

fn restart_session(turn: &mut Turn<'_, '_>, group_id: &Text, member: &mut Member) {
    let timeout_ms = i64::from(member.identity.session_timeout_ms);
    schedule_session(turn, group_id, member, timeout_ms);
}

fn schedule_session(
    turn: &mut Turn<'_, '_>,
    group_id: &Text,
    member: &mut Member,
    timeout_ms: i64,
) {
    let member_id = &member.identity.member_id;
    member.heard_at = turn.now;
    let at = turn.now.saturating_add(timeout_ms);
    turn.timers.schedule(&mut member.session, at, || TimerKey::Session {
        group_id: group_id.clone(),
        member_id: member_id.clone(),
    });
}
