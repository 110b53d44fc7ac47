//! One replica: raft's state machine with its log, and the rules by which it is called.
//!
//! Each call changes raft, and then `ready` hands out what has changed. `leader` has the calls that
//! only a leader answers. `peers` handles what becomes known about other nodes.
//!
//! Letters such as (A) in comments name the rules of `docs/raft.md`. The order of calls inside
//! `ready` keeps A, B, D and G; `settle` there keeps C; `storage` keeps F. Rule E is kept where the
//! replica could stand for election: at a tick, and when a leader names it.

mod leader;
mod peers;
mod ready;

use crate::convert::message_to_raft;
use crate::heard::Heard;
use crate::injected::Injected;
use crate::log::{Log, Start};
use crate::output::{Output, Record, Role};
use crate::ranks::{self, ELECTION_TICKS};
use crate::rounds::Rounds;
use crate::unflushed::Unflushed;
use crate::validation::{Lie, check_members, validate};
use crate::{
    Base, BlockNumber, Body, EntryHead, Group, Index, Members, NodeId, PeerMessage, ReplicaId,
    Round, Term,
};
pub use leader::NotNow;
use raft::{Config, RawNode, ReadOnlyOption, StateRole};
use std::collections::BTreeSet;

/// The ticks between two heartbeats.
const HEARTBEAT_TICKS: usize = 4;

/// The most messages with entries that may be on their way to a follower.
const MESSAGES_IN_FLIGHT: usize = 64;

/// The most bytes of entries in a message, unless a single entry has more.
const MESSAGE_BYTES: u64 = 1 << 20;

/// A group that recovery found in the log of the shard.
#[derive(Debug, Clone)]
pub struct RecoveredGroup {
    pub group: Group,
    pub replica: ReplicaId,
    /// Where the log begins: the group's row in the newest snapshot, or a birth or restore marker.
    pub base: Base,
    /// The newest term, and the vote in it.
    pub term: Term,
    pub vote: Option<ReplicaId>,
    /// The greatest commit index that an entry's header has, but at least the index of the base.
    pub commit: Index,
    /// The entries after the base that are not void.
    pub tail: Vec<EntryHead>,
    /// Whether a record says that the replica is quarantined. Then its log is not looked at.
    pub is_quarantined: bool,
    /// The replicas that group 0 has placed.
    pub known: Vec<ReplicaId>,
}

/// The reason why a recovered group cannot be used. The log of the shard has lost blocks, or has
/// blocks that are not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The entries after the base have a hole, or falling terms.
    Hole,
    /// The commit index is before the base, or after the last entry.
    Commit,
    /// The term is out of range, or earlier than the term of the last entry.
    Term,
    /// The base lacks the replica itself, or has fewer than two voters. A single voter would lead
    /// before its log is durable, for which raft is not made.
    Members,
}

impl RecoveredGroup {
    /// The log of a quarantined replica is damaged. It must not keep other groups from their start.
    fn without_log(self) -> Self {
        Self { base: Base::default(), commit: Index(0), tail: Vec::new(), ..self }
    }
}

/// The calls of a turn write to the open block, and to the output.
pub(crate) struct Turn<'a> {
    pub(crate) open: BlockNumber,
    pub(crate) heard: &'a Heard,
    pub(crate) out: &'a mut Output,
}

pub(crate) struct Replica {
    group: Group,
    id: ReplicaId,
    slots: u16,
    raft: RawNode<Log>,
    /// The applied configuration.
    members: Members,
    /// Its voters, in the order in which they stand for election.
    order: Vec<ReplicaId>,
    /// The replicas that group 0 has placed.
    placed: BTreeSet<ReplicaId>,
    state: State,
    /// The term, and the vote in it, as last handed out.
    vote: (Term, Option<ReplicaId>),
    unflushed: Unflushed,
    /// The last entry that the machines of the caller have applied.
    machines: Index,
    rounds: Rounds,
    /// The round that has to be confirmed before the next transfer.
    proof: Option<Round>,
    /// The leader that the replica last knew.
    last_leader: Option<ReplicaId>,
    /// The role and the commit index as last reported.
    role: Role,
    committed: Index,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Quarantined,
    /// The replica is no member of its group any more, and raft would panic if it were called.
    /// When the replica left, [`Output::gone`] got the group, so that the replica is dropped.
    Gone,
}

impl Replica {
    /// A replica without an entry. It waits for a snapshot, as the first configuration is not in
    /// the log. Its first record in the open block is its birth marker.
    pub(crate) fn born(
        slots: u16,
        group: Group,
        id: ReplicaId,
        placed: &[ReplicaId],
        turn: &mut Turn<'_>,
    ) -> Self {
        turn.out.log.push((group, Record::Born(id)));
        let mut replica = Self::new(slots, group, id, Log::default(), placed);
        replica.unflushed.begin(turn.open);
        replica
    }

    pub(crate) fn recovered(
        slots: u16,
        of: RecoveredGroup,
        turn: &mut Turn<'_>,
    ) -> Result<Self, Refused> {
        let is_quarantined = of.is_quarantined;
        let of = if is_quarantined { of.without_log() } else { of };
        let RecoveredGroup { group, replica: id, base, term, vote, commit, tail, .. } = of;
        let before = base.index;
        let is_born = before == Index(0);
        if !is_born && (check_members(&base.members).is_err() || !base.members.contains(id)) {
            return Err(Refused::Members);
        }
        let log = Log::recovered(Start { term, vote, commit }, base, tail);
        let log = log.map_err(|_| Refused::Hole)?;
        if !(before..=log.last()).contains(&commit) {
            return Err(Refused::Commit);
        }
        if term >= Term::LIMIT || log.term_of(log.last()).is_none_or(|it| it > term) {
            return Err(Refused::Term);
        }
        let mut replica = Self::new(slots, group, id, log, &of.known);
        replica.unflushed.begin(BlockNumber::RECOVERED);
        replica.committed = commit;
        // raft does not stand for election while a committed change of members is not applied.
        replica.machines = commit;
        if is_quarantined {
            replica.stop(turn);
        } else {
            replica.take_readies(turn);
        }
        Ok(replica)
    }

    fn new(slots: u16, group: Group, id: ReplicaId, log: Log, placed: &[ReplicaId]) -> Self {
        let (applied, members) = (log.base().index, log.base().members.clone());
        let vote = (log.start.term, log.start.vote);
        let config = Config {
            id: id.raw(),
            applied: applied.0,
            election_tick: ELECTION_TICKS as usize,
            min_election_tick: ELECTION_TICKS as usize,
            max_election_tick: ranks::MAX_ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            max_size_per_msg: MESSAGE_BYTES,
            max_inflight_msgs: MESSAGES_IN_FLIGHT,
            pre_vote: true,
            check_quorum: true,
            batch_append: true,
            read_only_option: if Injected::LeaseReads.is_injected() {
                ReadOnlyOption::LeaseBased
            } else {
                ReadOnlyOption::Safe
            },
            // Followers of a slot need its commit index no earlier than the next entry. Followers
            // of the image need it at once, because a new leader waits for the image.
            skip_bcast_commit: group != Group::IMAGE,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raft = RawNode::new(&config, log, &logger).expect("the log and the config are valid");
        let mut replica = Self {
            group,
            id,
            slots,
            members: Members::default(),
            order: Vec::new(),
            raft,
            placed: placed.iter().copied().collect(),
            state: State::Running,
            vote,
            unflushed: Unflushed::default(),
            machines: applied,
            rounds: Rounds::default(),
            proof: None,
            last_leader: None,
            role: Role::Follower { leader: None },
            committed: applied,
        };
        replica.set_members(members);
        replica.keep_rank();
        replica
    }

    pub(crate) fn id(&self) -> ReplicaId {
        self.id
    }

    /// The newest term that the replica has heard of.
    pub(crate) fn term(&self) -> Term {
        self.vote.0
    }

    pub(crate) fn next_index(&self) -> Index {
        self.raft.store().last().next()
    }

    /// The applied configuration.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Whether the replica has a vote in its group, for all that it knows.
    pub(crate) fn is_voter(&self) -> bool {
        self.members.is_voter(self.id)
    }

    /// Whether the replica does nothing until another one takes its place.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.state == State::Quarantined
    }

    #[cfg(test)]
    pub(crate) fn is_gone(&self) -> bool {
        self.state == State::Gone
    }

    /// Group 0 has placed these replicas.
    pub(crate) fn place(&mut self, placed: &[ReplicaId]) {
        self.placed = placed.iter().copied().collect();
    }

    /// A tick of the clock. `gone` has the nodes whose process is known to be gone.
    pub(crate) fn tick(&mut self, gone: &BTreeSet<NodeId>, turn: &mut Turn<'_>) {
        if self.state != State::Running {
            return;
        }
        self.raft.store().wants.borrow_mut().tick();
        let failed = self.rounds.tick();
        turn.out.failed.extend(failed.map(|it| (self.group, it)));
        if self.may_stand() {
            self.hurry(gone);
        } else if self.role.leads().is_none() {
            self.raft.raft.election_elapsed = 0;
        }
        self.raft.tick();
        self.take_readies(turn);
    }

    /// A message from another replica. If it is not fresh, it does not count as contact.
    pub(crate) fn step(
        &mut self,
        message: PeerMessage,
        fresh: bool,
        turn: &mut Turn<'_>,
    ) -> Result<(), Lie> {
        // A message to an older replica of this node may still be on its way.
        if self.state != State::Running || message.to != self.id {
            return Ok(());
        }
        if let Err(lie) = validate(&self.raft.raft, &self.placed, &message) {
            if matches!(lie, Lie::Quarantined(_)) {
                self.quarantine(turn);
            }
            return Err(lie);
        }
        if message.body == Body::StandNow && !self.may_stand() {
            return Ok(());
        }
        let from = message.from.raw();
        let was_active = self.raft.raft.prs().get(from).is_some_and(|it| it.recent_active);
        match self.raft.step(message_to_raft(message)) {
            Ok(()) => {}
            // It answers this replica, which has meanwhile applied the removal of the sender.
            Err(raft::Error::StepPeerNotFound) => return Ok(()),
            Err(error) => panic!("raft refuses a valid message: {error}"),
        }
        if !fresh && let Some(progress) = self.raft.raft.mut_prs().get_mut(from) {
            progress.recent_active = was_active;
        }
        self.take_readies(turn);
        Ok(())
    }

    /// The block is durable, and all before it. raft is notified first; then the messages leave
    /// that have waited for the block (A).
    pub(crate) fn persisted(&mut self, durable: BlockNumber, turn: &mut Turn<'_>) {
        let mut has_waited = false;
        while let Some(waiting) = self.unflushed.pop(durable) {
            has_waited = true;
            self.raft.on_persist_ready(waiting.ready);
            waiting.messages.into_iter().for_each(|it| Self::send(it, turn));
        }
        // Most replicas of a shard have nothing in a block.
        if has_waited && self.state == State::Running {
            self.take_readies(turn);
        }
    }

    /// The machines of the caller have applied the entries up to this one.
    pub(crate) fn applied(&mut self, index: Index, turn: &mut Turn<'_>) {
        self.machines = self.machines.max(index);
        if self.state == State::Running {
            self.take_readies(turn);
        }
    }

    /// A snapshot of this replica has the entries up to the base, so the log drops them.
    ///
    /// # Panics
    ///
    /// If one of them is not applied, because raft still reads entries that are not applied.
    pub(crate) fn compacted(&mut self, base: Base) {
        assert!(base.index.0 <= self.raft.raft.raft_log.applied, "a snapshot of the future");
        self.raft.mut_store().compact(base);
    }

    /// Drops the cached records up to the entry with this index, if the cached entry with this
    /// index is the one that the block has. Meanwhile another entry may have replaced it, or
    /// another replica of the group this one.
    pub(crate) fn evict(&mut self, block: BlockNumber, through: Index) {
        if self.raft.store().cached_block(through) == Some(block) {
            self.raft.mut_store().evict(through);
        }
    }

    fn quarantine(&mut self, turn: &mut Turn<'_>) {
        turn.out.log.push((self.group, Record::Quarantined));
        self.stop(turn);
    }

    /// The replica does nothing until the process ends. Its log is not damaged, so the next process
    /// may continue.
    pub(crate) fn halt(&mut self, turn: &mut Turn<'_>) {
        if self.state == State::Running {
            self.stop(turn);
        }
    }

    fn stop(&mut self, turn: &mut Turn<'_>) {
        self.state = State::Quarantined;
        self.unflushed.clear();
        self.fail_rounds(turn);
        self.role = Role::Quarantined;
        turn.out.roles.push((self.group, self.role));
    }

    fn fail_rounds(&mut self, turn: &mut Turn<'_>) {
        turn.out.failed.extend(self.rounds.fail().map(|it| (self.group, it)));
    }

    /// Whether an installed snapshot is not applied yet. raft would look for the entries before it
    /// if the replica stood for election (E).
    fn is_installing(&self) -> bool {
        !Injected::ElectionInInstall.is_injected()
            && self.raft.raft.raft_log.applied < self.raft.store().base().index.0
    }

    /// Whether the replica may stand for election. It does not in the last term: recovery refuses a
    /// vote in the one after it.
    fn may_stand(&self) -> bool {
        let next = self.raft.raft.term + 1;
        !self.is_installing() && next < u64::from(Term::LIMIT.0)
    }

    /// Shortens the wait for an election if the leader's process is gone. One call would not be
    /// enough: a voter that has not noticed it ignores the others.
    fn hurry(&mut self, gone: &BTreeSet<NodeId>) {
        let waits = match self.raft.raft.state {
            StateRole::Follower | StateRole::PreCandidate => true,
            StateRole::Candidate | StateRole::Leader => false,
        };
        let is_lost = self.last_leader.is_some_and(|it| gone.contains(&it.node()));
        if waits && is_lost {
            let waited = ranks::hurried(self.id, &self.order, |it| gone.contains(&it));
            let elapsed = &mut self.raft.raft.election_elapsed;
            *elapsed = waited.max(*elapsed);
        }
    }

    fn set_members(&mut self, members: Members) {
        self.order = ranks::order(self.slots, self.group, &members);
        self.members = members;
    }

    /// Replaces the random timeout that raft has drawn.
    fn keep_rank(&mut self) {
        let timeout = ranks::timeout_of(self.id, &self.order);
        self.raft.raft.set_randomized_election_timeout(timeout);
    }

    fn send(message: PeerMessage, turn: &mut Turn<'_>) {
        turn.out.send.push((message.to.node(), message));
    }
}

#[cfg(test)]
pub(crate) mod tests;
