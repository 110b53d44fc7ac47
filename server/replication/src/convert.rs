//! Entries, members and messages as raft's structs, field by field.

use crate::{
    Base, Body, Change, Content, Entry, Group, Index, Members, PeerMessage, ReplicaId, Round, Term,
    Tick,
};
use bytes::Bytes;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
    Entry as RaftEntry, EntryType, Message, MessageType, Snapshot,
};

/// The context of raft's vote requests in an election that a transfer of the leadership begins.
const TRANSFER: &[u8] = raft::CAMPAIGN_TRANSFER;

pub(crate) fn message_to_raft(message: PeerMessage) -> Message {
    let mut raft = Message {
        from: message.from.raw(),
        to: message.to.raw(),
        term: u64::from(message.term.0),
        ..Message::default()
    };
    match message.body {
        Body::Append { previous, commit, entries } => {
            raft.set_msg_type(MessageType::MsgAppend);
            (raft.index, raft.log_term) = to_raft(previous);
            raft.commit = commit.0;
            raft.set_entries(entries.into_iter().map(entry_to_raft).collect());
        }
        Body::Appended { last } => {
            raft.set_msg_type(MessageType::MsgAppendResponse);
            raft.index = last.0;
        }
        Body::Rejected { at, hint } => {
            raft.set_msg_type(MessageType::MsgAppendResponse);
            raft.reject = true;
            raft.index = at.0;
            (raft.reject_hint, raft.log_term) = to_raft(hint);
        }
        Body::Heartbeat { commit, round } => {
            raft.set_msg_type(MessageType::MsgHeartbeat);
            raft.commit = commit.0;
            raft.context = context_of(round);
        }
        Body::Heard { round } => {
            raft.set_msg_type(MessageType::MsgHeartbeatResponse);
            raft.context = context_of(round);
        }
        Body::Vote { pre, transfer, last, commit } => {
            raft.set_msg_type(if pre {
                MessageType::MsgRequestPreVote
            } else {
                MessageType::MsgRequestVote
            });
            raft.context = Bytes::from_static(if transfer { TRANSFER } else { &[] });
            (raft.index, raft.log_term) = to_raft(last);
            (raft.commit, raft.commit_term) = to_raft(commit);
        }
        Body::Voted { pre, granted, commit } => {
            raft.set_msg_type(if pre {
                MessageType::MsgRequestPreVoteResponse
            } else {
                MessageType::MsgRequestVoteResponse
            });
            raft.reject = !granted;
            (raft.commit, raft.commit_term) = to_raft(commit);
        }
        Body::Install { base } => {
            raft.set_msg_type(MessageType::MsgSnapshot);
            raft.set_snapshot(base_to_raft(&base));
        }
        Body::StandNow => raft.set_msg_type(MessageType::MsgTimeoutNow),
    }
    raft
}

/// Converts a message of this node's raft. The commit index of an acknowledgement is left out: raft
/// uses it only for its group commit, which is switched off. raft knows no echo.
///
/// # Panics
///
/// If raft is used differently than in this crate, and sends a message of another kind.
pub(crate) fn message_from_raft(group: Group, mut raft: Message) -> PeerMessage {
    let index_and_term = (Index(raft.index), term_from_raft(raft.log_term));
    let commit = (Index(raft.commit), term_from_raft(raft.commit_term));
    let kind = raft.get_msg_type();
    let body = match kind {
        MessageType::MsgAppend => Body::Append {
            previous: index_and_term,
            commit: Index(raft.commit),
            entries: raft.take_entries().into_iter().map(entry_from_raft).collect(),
        },
        MessageType::MsgAppendResponse if raft.reject => Body::Rejected {
            at: Index(raft.index),
            hint: (Index(raft.reject_hint), term_from_raft(raft.log_term)),
        },
        MessageType::MsgAppendResponse => Body::Appended { last: Index(raft.index) },
        MessageType::MsgHeartbeat => {
            Body::Heartbeat { commit: Index(raft.commit), round: round_of(&raft.context) }
        }
        MessageType::MsgHeartbeatResponse => Body::Heard { round: round_of(&raft.context) },
        MessageType::MsgRequestPreVote | MessageType::MsgRequestVote => Body::Vote {
            pre: kind == MessageType::MsgRequestPreVote,
            transfer: raft.context == TRANSFER,
            last: index_and_term,
            commit,
        },
        MessageType::MsgRequestPreVoteResponse | MessageType::MsgRequestVoteResponse => {
            let pre = kind == MessageType::MsgRequestPreVoteResponse;
            Body::Voted { pre, granted: !raft.reject, commit }
        }
        MessageType::MsgSnapshot => Body::Install { base: base_from_raft(raft.get_snapshot()) },
        MessageType::MsgTimeoutNow => Body::StandNow,
        MessageType::MsgHup
        | MessageType::MsgBeat
        | MessageType::MsgPropose
        | MessageType::MsgUnreachable
        | MessageType::MsgSnapStatus
        | MessageType::MsgCheckQuorum
        | MessageType::MsgTransferLeader
        | MessageType::MsgReadIndex
        | MessageType::MsgReadIndexResp => panic!("raft sent {kind:?} to another replica"),
    };
    let (from, to) = (replica_from_raft(raft.from), replica_from_raft(raft.to));
    PeerMessage { group, from, to, term: term_from_raft(raft.term), echo: Tick::NONE, body }
}

/// An entry with a change of members has the change in raft's `context`. raft parses the entry's
/// `data` only when the entry is proposed, and nothing else reads it, so it stays empty here.
pub(crate) fn entry_to_raft(entry: Entry) -> RaftEntry {
    let mut raft =
        RaftEntry { index: entry.index.0, term: u64::from(entry.term.0), ..RaftEntry::default() };
    match entry.content {
        Content::Records(records) => raft.data = records,
        Content::Empty => {}
        Content::Change(change) => {
            raft.set_entry_type(EntryType::EntryConfChangeV2);
            raft.context = Bytes::copy_from_slice(&change.encode());
        }
    }
    raft
}

pub(crate) fn entry_from_raft(raft: RaftEntry) -> Entry {
    let content = match raft.get_entry_type() {
        EntryType::EntryNormal if raft.data.is_empty() => Content::Empty,
        EntryType::EntryNormal => Content::Records(raft.data),
        EntryType::EntryConfChangeV2 => Content::Change(change_from_raft(&raft.context)),
        EntryType::EntryConfChange => panic!("raft has a change of members of its first version"),
    };
    Entry { index: Index(raft.index), term: term_from_raft(raft.term), content }
}

/// The change in the context of an entry, which [`entry_to_raft`] or a proposal has written.
pub(crate) fn change_from_raft(context: &[u8]) -> Change {
    Change::decode(context).expect("raft has a change of members that was not written here")
}

/// The change as raft applies it.
pub(crate) fn change_to_raft(change: Change) -> ConfChangeV2 {
    let single = |kind, replica: ReplicaId| {
        let mut single = ConfChangeSingle::default();
        single.set_change_type(kind);
        single.node_id = replica.raw();
        single
    };
    let mut raft = ConfChangeV2::default();
    match change {
        Change::AddLearner(id) => {
            raft.set_changes(vec![single(ConfChangeType::AddLearnerNode, id)].into());
        }
        Change::RemoveLearner(id) => {
            raft.set_changes(vec![single(ConfChangeType::RemoveNode, id)].into());
        }
        Change::Replace { old, new } => {
            // With Explicit, raft stays in the joint configuration until `Change::Leave`. It would
            // otherwise leave by itself, but forgets to if the leader changes meanwhile.
            raft.set_transition(ConfChangeTransition::Explicit);
            let remove = single(ConfChangeType::RemoveNode, old);
            raft.set_changes(vec![remove, single(ConfChangeType::AddNode, new)].into());
        }
        // An empty change makes raft leave the joint configuration.
        Change::Leave => {}
    }
    raft
}

pub(crate) fn base_to_raft(base: &Base) -> Snapshot {
    let mut raft = Snapshot::default();
    let metadata = raft.mut_metadata();
    (metadata.index, metadata.term) = to_raft((base.index, base.term));
    metadata.set_conf_state(members_to_raft(&base.members));
    raft
}

pub(crate) fn base_from_raft(raft: &Snapshot) -> Base {
    let metadata = raft.get_metadata();
    Base {
        index: Index(metadata.index),
        term: term_from_raft(metadata.term),
        members: members_from_raft(metadata.get_conf_state()),
    }
}

pub(crate) fn members_to_raft(members: &Members) -> ConfState {
    let raw = |ids: &[ReplicaId]| ids.iter().map(|it| it.raw()).collect();
    let mut raft = ConfState::default();
    raft.set_voters(raw(&members.voters));
    raft.set_voters_outgoing(raw(&members.outgoing));
    raft.set_learners(raw(&members.learners));
    raft
}

/// raft has members in hash sets, so they are sorted here. Its `learners_next` is always empty,
/// because no change makes a voter a learner.
pub(crate) fn members_from_raft(raft: &ConfState) -> Members {
    let sorted = |raw: &[u64]| {
        let mut ids: Vec<ReplicaId> = raw.iter().map(|it| replica_from_raft(*it)).collect();
        ids.sort_unstable();
        ids
    };
    Members {
        voters: sorted(raft.get_voters()),
        outgoing: sorted(raft.get_voters_outgoing()),
        learners: sorted(raft.get_learners()),
    }
}

pub(crate) fn term_from_raft(term: u64) -> Term {
    Term(u32::try_from(term).expect("a term below the limit"))
}

pub(crate) fn replica_from_raft(raw: u64) -> ReplicaId {
    ReplicaId::from_raw(raw).expect("raft has only replicas that were passed to it")
}

fn to_raft((index, term): (Index, Term)) -> (u64, u64) {
    (index.0, u64::from(term.0))
}

pub(crate) fn context_of(round: Option<Round>) -> Bytes {
    round.map_or_else(Bytes::new, |it| Bytes::copy_from_slice(&it.0.to_le_bytes()))
}

/// The round in the context of a heartbeat, which [`context_of`] has written.
pub(crate) fn round_of(context: &[u8]) -> Option<Round> {
    if context.is_empty() {
        return None;
    }
    let bytes = context.try_into().expect("the context of a heartbeat has 8 bytes");
    Some(Round(u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;

    const FROM: ReplicaId = ReplicaId::new(1, NodeId(1));
    const TO: ReplicaId = ReplicaId::new(7, NodeId(65_535));

    /// A message of each kind, with each of its options.
    fn bodies() -> Vec<Body> {
        let entry = |index, content| Entry { index: Index(index), term: Term(5), content };
        let entries = vec![
            entry(8, Content::Records(Bytes::from_static(b"records"))),
            entry(9, Content::Empty),
            entry(10, Content::Change(Change::Replace { old: FROM, new: TO })),
            entry(11, Content::Change(Change::Leave)),
        ];
        let at = |index, term| (Index(index), Term(term));
        let members = Members { voters: vec![FROM], outgoing: vec![], learners: vec![TO] };
        let mut bodies = vec![
            Body::Append { previous: at(7, 4), commit: Index(6), entries },
            Body::Append { previous: at(0, 0), commit: Index(0), entries: vec![] },
            Body::Appended { last: Index(9) },
            Body::Rejected { at: Index(9), hint: at(3, 2) },
            Body::Install { base: Base { index: Index(9), term: Term(4), members } },
            Body::StandNow,
        ];
        for round in [None, Some(Round(0)), Some(Round(u64::MAX))] {
            bodies.extend([Body::Heartbeat { commit: Index(3), round }, Body::Heard { round }]);
        }
        for pre in [false, true] {
            for yes in [false, true] {
                bodies.push(Body::Vote { pre, transfer: yes, last: at(9, 4), commit: at(8, 3) });
                bodies.push(Body::Voted { pre, granted: yes, commit: at(8, 3) });
            }
        }
        bodies
    }

    #[test]
    fn each_message_is_the_same_after_raft() {
        for body in bodies() {
            let term = Term(Term::LIMIT.0 - 1);
            let message =
                PeerMessage { group: Group(3), from: FROM, to: TO, term, echo: Tick::NONE, body };
            let raft = message_to_raft(message.clone());
            assert_eq!(message_from_raft(Group(3), raft), message);
        }
    }

    /// raft would send these kinds of messages only if it were used in other ways than here.
    #[test]
    fn other_messages_of_raft_are_a_defect() {
        for kind in [
            MessageType::MsgPropose,
            MessageType::MsgReadIndex,
            MessageType::MsgReadIndexResp,
            MessageType::MsgTransferLeader,
        ] {
            let mut raft = Message::default();
            (raft.from, raft.to) = (FROM.raw(), TO.raw());
            raft.set_msg_type(kind);
            assert!(std::panic::catch_unwind(|| message_from_raft(Group(3), raft)).is_err());
        }
    }

    #[test]
    fn members_are_the_same_after_raft() {
        let third = ReplicaId::new(2, NodeId(2));
        let members =
            Members { voters: vec![FROM, TO], outgoing: vec![FROM, third], learners: vec![third] };
        assert_eq!(members_from_raft(&members_to_raft(&members)), members);
        let mut unsorted = members_to_raft(&members);
        unsorted.mut_voters().reverse();
        assert_eq!(members_from_raft(&unsorted), members);
    }

    /// raft's own tracker applies each change. The result has the members that this crate expects.
    #[test]
    fn raft_understands_each_change() {
        use raft::{Changer, ProgressTracker};
        let (old, second, new) = (FROM, ReplicaId::new(1, NodeId(2)), TO);
        let members = |voters: &[ReplicaId], outgoing: &[ReplicaId], learners: &[ReplicaId]| {
            let (voters, outgoing) = (voters.to_vec(), outgoing.to_vec());
            Members { voters, outgoing, learners: learners.to_vec() }
        };
        let steps = [
            (Change::AddLearner(new), members(&[old, second], &[], &[new])),
            (Change::RemoveLearner(new), members(&[old, second], &[], &[])),
            (Change::AddLearner(new), members(&[old, second], &[], &[new])),
            (Change::Replace { old, new }, members(&[second, new], &[old, second], &[])),
            (Change::Leave, members(&[second, new], &[], &[])),
        ];
        let mut tracker = ProgressTracker::new(64);
        let voter =
            |id: ReplicaId| ConfChangeSingle { node_id: id.raw(), ..ConfChangeSingle::default() };
        for id in [old, second] {
            let mut changer = Changer::new(&tracker);
            let (members, changes) = changer.simple(&[voter(id)]).expect("a voter more");
            tracker.apply_conf(members, changes, 1);
        }
        for (change, expected) in steps {
            let raft = change_to_raft(change);
            let mut changer = Changer::new(&tracker);
            let applied = match (raft.leave_joint(), raft.enter_joint()) {
                (true, _) => changer.leave_joint(),
                (false, Some(auto_leave)) => changer.enter_joint(auto_leave, raft.get_changes()),
                (false, None) => changer.simple(raft.get_changes()),
            };
            let (members, changes) = applied.expect("raft accepts the change");
            assert!(!members.to_conf_state().auto_leave);
            tracker.apply_conf(members, changes, 1);
            assert_eq!(members_from_raft(&tracker.conf().to_conf_state()), expected, "{change:?}");
        }
    }
}
