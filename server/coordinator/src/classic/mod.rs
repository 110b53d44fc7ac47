//! Classic groups: the protocol of JoinGroup, SyncGroup, Heartbeat and LeaveGroup, in which one
//! member, the leader, assigns partitions to all. [`state`] has the protocol on one screen.
//!
//! A group has a hard and a soft half. The hard one, [`hard`], is its last GroupMetadata record:
//! only [`ClassicGroup::replay`] changes it. The soft one is the rebalance that is under way: who
//! has joined, whose answer is parked, which timers run. A crash loses it, and clients start anew.
//! When a handler has written a record it leaves to the replay what follows from it: the step to
//! Stable with everyone's assignment, or the step to Empty.

mod describe;
mod hard;
mod heartbeat;
mod join;
mod leave;
mod member;
mod moved;
mod offsets;
mod parked;
mod rebalance;
mod replay;
mod roster;
pub(crate) mod state;
mod static_member;
mod sync;

pub(crate) use join::Joining;
pub(crate) use leave::{leave_each, leave_unknown_group};
pub(crate) use member::{Identity, Protocol};
pub(crate) use moved::MovedMember;
pub(crate) use parked::Parked;

use crate::text::Text;
use crate::timers::{Timer, TimerKey};
use crate::turn::Turn;
use alloc::collections::BTreeSet;
use hard::Hard;
use hashbrown::HashMap;
use member::Member;
use muster_codec::Wall;
use roster::Roster;
use state::State;

/// The protocol type of consumers, whose metadata names the topics.
const CONSUMER: &str = "consumer";

#[derive(Debug)]
pub(crate) struct ClassicGroup {
    id: Text,
    /// None for a simple group, which has no record of its own.
    hard: Option<Hard>,
    state: State,
    previous_state: State,
    /// When the state was entered; -1 if the record does not say.
    state_timestamp: i64,
    generation: i32,
    protocol_type: Option<Text>,
    protocol: Option<Text>,
    roster: Roster,
    /// Member ids that were given out and not used yet (KIP-394).
    pending_joins: HashMap<Text, Timer>,
    /// Members of this generation whose SyncGroup is still to come.
    pending_syncs: BTreeSet<Text>,
    /// What the members of this generation subscribed to, if they are consumers.
    subscribed_topics: Option<BTreeSet<Text>>,
    join_timer: Timer,
    /// How the initial rebalance is put off; None if the join timer ends the join phase.
    initial_delay: Option<InitialDelay>,
    /// Whether a member came since the initial delay was last extended.
    new_member_added: bool,
    sync_timer: Timer,
    /// When a handler wrote a record that is still to be replayed.
    writing_since: Option<Wall>,
}

/// The initial rebalance waits for more members to come, as long as they keep coming
/// (`group.initial.rebalance.delay.ms`).
#[derive(Debug, Clone, Copy)]
struct InitialDelay {
    delay_ms: i64,
    remaining_ms: i64,
}

impl ClassicGroup {
    /// A group that just came to be, without members.
    pub(crate) fn new(id: Text, wall: Wall) -> Self {
        Self {
            id,
            hard: None,
            state: State::Empty,
            previous_state: State::Dead,
            state_timestamp: wall.0,
            generation: 0,
            protocol_type: None,
            protocol: None,
            roster: Roster::default(),
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

    /// Members that have joined or are about to, and ids that were given out.
    pub(crate) fn seats(&self) -> usize {
        self.roster.len() + self.pending_joins.len()
    }

    /// How many bytes the members' texts and protocols have.
    pub(crate) fn member_bytes(&self) -> usize {
        self.roster.member_bytes()
    }

    /// Whether there is nothing of it: no record, and no member that has joined or is about to.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.hard.is_none() && self.seats() == 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state == State::Empty
    }

    /// Empty if no member ever joined.
    pub(crate) fn protocol_type(&self) -> &str {
        self.protocol_type.as_deref().unwrap_or_default()
    }

    pub(crate) fn hard(&self) -> Option<&Hard> {
        self.hard.as_ref()
    }

    fn transition(&mut self, state: State, wall: Wall) {
        assert!(self.state.may_become(state), "{:?} does not become {state:?}", self.state);
        self.previous_state = self.state;
        self.state = state;
        self.state_timestamp = wall.0;
    }

    fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type() == CONSUMER
    }

    /// A member showed that it is alive.
    fn restart_session(&mut self, turn: &mut Turn<'_, '_>, member_id: &str) {
        if let Some(member) = self.roster.get_mut(member_id) {
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
    let at = turn.now.saturating_add(timeout_ms);
    turn.timers.schedule(&mut member.session, at, || TimerKey::Session {
        group_id: group_id.clone(),
        member_id: member_id.clone(),
    });
}
