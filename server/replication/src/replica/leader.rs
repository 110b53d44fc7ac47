//! The calls that only a leader answers.

use super::{Replica, State, Turn};
use crate::convert::{change_to_raft, context_of};
use crate::output::Role;
use crate::{Change, Index, NodeId, ReplicaId, Round};
use bytes::Bytes;
use raft::eraftpb::{Entry as RaftEntry, Message, MessageType};

/// The reason why a leader does not do something now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotNow {
    /// The replica does not lead, or has no committed entry of its term.
    NotLeader,
    /// A transfer is in progress, or no round was confirmed since the last transfer began.
    /// Transfers delay raft's check that a leader has a quorum, so without this rule a leader that
    /// is cut off could stay the leader.
    Transfer,
    /// A change of members is not applied yet.
    Change,
    /// The change does not fit the members: for example, it removes a learner that the group does
    /// not have.
    Members,
    /// The replica is no voter, was not heard lately, or lacks entries.
    Behind,
}

impl Replica {
    /// Whether a proposal is accepted. raft drops proposals during a transfer.
    pub(crate) fn is_open(&self) -> bool {
        self.role.leads().is_some() && self.raft.raft.lead_transferee.is_none()
    }

    /// Appends an entry with records that the state machines of the group have applied already.
    ///
    /// # Panics
    ///
    /// If the replica is not open, or if there are no records: the only entry without records is
    /// the one with which raft begins a leader's term.
    pub(crate) fn propose(&mut self, records: Bytes, turn: &mut Turn<'_>) -> Index {
        assert!(self.is_open() && !records.is_empty(), "a proposal that cannot be accepted");
        let entry = RaftEntry { data: records, ..RaftEntry::default() };
        let mut message = Message { from: self.id.raw(), ..Message::default() };
        message.set_msg_type(MessageType::MsgPropose);
        message.set_entries(vec![entry].into());
        self.raft.raft.step(message).expect("raft accepts proposals of an open leader");
        self.end_proposal(turn)
    }

    /// Appends a change of members.
    pub(crate) fn change(&mut self, change: Change, turn: &mut Turn<'_>) -> Result<Index, NotNow> {
        self.ready_leader()?;
        if !self.is_open() {
            return Err(NotNow::Transfer);
        }
        // raft does not refuse a second change: it appends an empty entry in its place.
        if self.raft.raft.has_pending_conf() {
            return Err(NotNow::Change);
        }
        if !self.members.fits(change) {
            return Err(NotNow::Members);
        }
        let context = change.encode().to_vec();
        let proposal = self.raft.propose_conf_change(context, change_to_raft(change));
        proposal.expect("raft accepts a change of an open leader");
        Ok(self.end_proposal(turn))
    }

    fn end_proposal(&mut self, turn: &mut Turn<'_>) -> Index {
        let index = Index(self.raft.raft.raft_log.last_index());
        self.take_readies(turn);
        index
    }

    /// Begins a round, which shows whether the replica still leads. None if it does not lead.
    pub(crate) fn confirm(&mut self, turn: &mut Turn<'_>) -> Option<Round> {
        // raft would drop the round silently before the first commit of the term.
        self.ready_leader().ok()?;
        let round = self.rounds.begin();
        self.raft.read_index(context_of(Some(round)).to_vec());
        self.take_readies(turn);
        Some(round)
    }

    /// Hands the group over to the voter on node `to`. The caller has closed the slot before, and
    /// has taken its open entry out of the block.
    pub(crate) fn transfer(&mut self, to: NodeId, turn: &mut Turn<'_>) -> Result<(), NotNow> {
        self.ready_leader()?;
        if !self.is_open() || self.proof.is_some() {
            return Err(NotNow::Transfer);
        }
        let voters = self.members.voters.iter().copied();
        let to = voters.filter(|it| *it != self.id).find(|it| it.node() == to);
        let to = to.filter(|it| self.is_in_step(*it)).ok_or(NotNow::Behind)?;
        self.proof = Some(self.rounds.next());
        self.raft.transfer_leader(to.raw());
        self.take_readies(turn);
        Ok(())
    }

    /// Whether another replica was heard lately, and has all entries.
    fn is_in_step(&self, replica: ReplicaId) -> bool {
        let last = self.raft.raft.raft_log.last_index();
        let progress = self.raft.raft.prs().get(replica.raw());
        progress.is_some_and(|it| it.recent_active && it.matched == last)
    }

    /// Whether another replica of the group was heard within the last election timeout. None if
    /// this one does not lead.
    pub(crate) fn hears(&self, other: ReplicaId) -> Option<bool> {
        self.role.leads()?;
        self.raft.raft.prs().get(other.raw()).map(|it| it.recent_active)
    }

    /// The last entry that another replica has acknowledged. None if this one does not lead.
    pub(crate) fn acknowledged(&self, by: ReplicaId) -> Option<Index> {
        self.role.leads()?;
        self.raft.raft.prs().get(by.raw()).map(|it| Index(it.matched))
    }

    fn ready_leader(&self) -> Result<(), NotNow> {
        match self.role {
            Role::Leader { ready: true, .. } if self.state == State::Running => Ok(()),
            _ => Err(NotNow::NotLeader),
        }
    }
}
