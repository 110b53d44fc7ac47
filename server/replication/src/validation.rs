//! The checks of a message before raft sees it.
//!
//! raft panics at messages that an honest replica with an intact disk never sends. So without these
//! checks, one bad message could end a process with all of its groups. No message that passes them
//! makes a replica panic.
//!
//! Most refusals blame the sender: its message is dropped, which is always safe. A refusal blames
//! *this* replica only if the message contradicts what this replica has, and the sender cannot be
//! wrong. Then this replica has lost entries, or has other entries than the committed ones.

use crate::injected::Injected;
use crate::log::Log;
use crate::{Base, Body, Content, Entry, Index, Members, PeerMessage, ReplicaId, Term};
use raft::{Raft, StateRole};
use std::collections::BTreeSet;

/// A message that is dropped, with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// This replica has lost a part of its log. It does nothing more until it is restored.
    Quarantined(&'static str),
    /// The sender is wrong. Its connection is dropped; this replica is not affected.
    Peer(&'static str),
    /// The sender is no member, for all that this replica knows. It may have left the group, or
    /// have joined it, while this node heard nothing. Only the message is dropped.
    Stranger,
}

/// The most terms by which a member may be ahead: those of 12 days with an election each second.
const TERM_JUMP_MAX: u64 = 1 << 20;

type Verdict = Result<(), Lie>;

/// `placed` has the replicas that group 0 has placed. A replica without entries accepts its leader
/// because the leader is among them.
pub(crate) fn validate(
    raft: &Raft<Log>,
    placed: &BTreeSet<ReplicaId>,
    message: &PeerMessage,
) -> Verdict {
    expect(message.from.raw() != raft.id, "a message from this replica")?;
    if !is_member(raft, placed, message.from) {
        return Err(Lie::Stranger);
    }
    expect((Term(1)..Term::LIMIT).contains(&message.term), "the term is out of range")?;
    check_jump(raft.term, message.term)?;
    check_form(message)?;
    if u64::from(message.term.0) < raft.term {
        // raft answers or drops it by its term alone.
        return Ok(());
    }
    check_state(raft, message)
}

fn expect(holds: bool, otherwise: &'static str) -> Verdict {
    if holds { Ok(()) } else { Err(Lie::Peer(otherwise)) }
}

/// A term is durable, and all members take the greatest one. So the group would stand still for
/// ever in the last term. A replica that was born empty has no term to compare.
fn check_jump(own: u64, term: Term) -> Verdict {
    let is_near = own == 0 || u64::from(term.0) <= own + TERM_JUMP_MAX;
    expect(is_near, "a term far after this replica's")
}

/// Whether a replica may send messages. The configuration of raft alone is too strict: a follower
/// may need entries to know of its leader.
fn is_member(raft: &Raft<Log>, placed: &BTreeSet<ReplicaId>, replica: ReplicaId) -> bool {
    let is_named = || raft.store().changes().any(|it| it.replicas().any(|it| it == replica));
    raft.prs().get(replica.raw()).is_some() || placed.contains(&replica) || is_named()
}

/// The checks of the message alone.
fn check_form(message: &PeerMessage) -> Verdict {
    let term = message.term;
    match &message.body {
        Body::Append { previous, commit, entries } => {
            check_position(*previous, term)?;
            check_index(*commit)?;
            check_entries(*previous, entries, term)
        }
        Body::Appended { last } => check_index(*last),
        Body::Rejected { at, hint } => {
            check_index(*at)?;
            check_position(*hint, term)?;
            expect(hint.0 <= *at, "the hint of a rejection is after the rejected entry")
        }
        Body::Heartbeat { commit, .. } => check_index(*commit),
        Body::Heard { .. } | Body::StandNow => Ok(()),
        Body::Vote { pre, transfer, last, commit } => {
            check_position(*last, term)?;
            check_position(*commit, term)?;
            let is_ordered = commit.0 <= last.0 && commit.1 <= last.1;
            expect(is_ordered, "a candidate has less than what is committed")?;
            expect(!(*pre && *transfer), "a pre-vote of a transfer")
        }
        Body::Voted { commit, .. } => check_position(*commit, term),
        Body::Install { base } => check_base(base, message.to, term),
    }
}

fn check_index(index: Index) -> Verdict {
    expect(index < Index::LIMIT, "the index is out of range")
}

/// Checks the place of an entry, or of the beginning of an empty log. Term 0 is refused for all
/// other indexes, because raft takes it for the term of any index beyond the log.
fn check_position((index, term): (Index, Term), of_message: Term) -> Verdict {
    check_index(index)?;
    expect(term <= of_message, "an entry has a later term than the message")?;
    expect((index == Index(0)) == (term == Term(0)), "an entry without a term")
}

fn check_entries(previous: (Index, Term), entries: &[Entry], of_message: Term) -> Verdict {
    let (mut index, mut term) = previous;
    for entry in entries {
        expect(entry.index == index.next(), "the entries are not contiguous")?;
        let is_in_range = (term.max(Term(1))..=of_message).contains(&entry.term);
        expect(is_in_range, "the terms of the entries fall, or exceed the message's")?;
        let is_empty = matches!(&entry.content, Content::Records(records) if records.is_empty());
        expect(!is_empty, "an entry of records without a record")?;
        (index, term) = (entry.index, entry.term);
    }
    check_index(index)
}

fn check_base(base: &Base, receiver: ReplicaId, of_message: Term) -> Verdict {
    check_position((base.index, base.term), of_message)?;
    expect(base.index != Index(0), "an empty snapshot")?;
    check_members(&base.members)?;
    expect(base.members.contains(receiver), "a snapshot without its receiver")
}

/// The members of a snapshot, received or recovered.
pub(crate) fn check_members(members: &Members) -> Verdict {
    let Members { voters, outgoing, learners } = members;
    // A single voter would lead at once, and raft asserts that the log of a leader is durable.
    expect(voters.len() > 1, "a snapshot with fewer than two voters")?;
    expect(outgoing.len() != 1, "a snapshot with fewer than two voters")?;
    // A replica may be a voter both before and after the change, but a voter is no learner.
    for voters in [voters, outgoing] {
        let distinct: BTreeSet<_> = voters.iter().chain(learners).collect();
        let is_distinct = distinct.len() == voters.len() + learners.len();
        expect(is_distinct, "a snapshot has a member twice")?;
    }
    Ok(())
}

/// The checks against the receiver's state, for messages of its term or a later one.
fn check_state(raft: &Raft<Log>, message: &PeerMessage) -> Verdict {
    let log = &raft.raft_log;
    let is_of_this_term = u64::from(message.term.0) == raft.term;
    let leads = raft.state == StateRole::Leader && is_of_this_term;
    if is_of_leader(&message.body) && is_of_this_term {
        let from = message.from.raw();
        let is_leader = raft.leader_id == raft::INVALID_ID || raft.leader_id == from;
        expect(is_leader, "a second leader in the term")?;
    }
    match &message.body {
        Body::Append { previous, entries, .. } => {
            let entries = entries.iter().map(|it| (it.index, it.term));
            std::iter::once(*previous).chain(entries).try_for_each(|it| agree(raft, it))
        }
        Body::Heartbeat { commit, .. }
            if commit.0 > log.last_index() && !Injected::UncheckedHeartbeat.is_injected() =>
        {
            Err(Lie::Quarantined("entries that are committed are missing"))
        }
        Body::Install { base } => agree(raft, (base.index, base.term)),
        // A leader names only a replica that has all of its entries, so this one knows its term.
        Body::StandNow => expect(is_of_this_term, "a leader names a replica without its term"),
        Body::Appended { last } if leads => {
            expect(last.0 <= log.last_index(), "an acknowledgement of entries that were not sent")
        }
        Body::Rejected { at, hint } if leads => {
            expect(at.0 <= log.last_index(), "a rejection of entries that were not sent")?;
            let matched = raft.prs().get(message.from.raw()).map_or(0, |it| it.matched);
            let is_after = at.0 > matched && hint.0.0 >= matched;
            expect(is_after, "a rejection of what was acknowledged")
        }
        Body::Voted { granted: true, pre: false, .. } if is_of_this_term => {
            // A candidate asks for votes once its log is durable.
            let has_asked = raft.state != StateRole::Candidate || log.persisted == log.last_index();
            expect(has_asked, "a vote before it was asked for")
        }
        _ => Ok(()),
    }
}

fn is_of_leader(body: &Body) -> bool {
    match body {
        Body::Append { .. } | Body::Heartbeat { .. } | Body::Install { .. } | Body::StandNow => {
            true
        }
        Body::Appended { .. }
        | Body::Rejected { .. }
        | Body::Heard { .. }
        | Body::Vote { .. }
        | Body::Voted { .. } => false,
    }
}

/// Checks that an entry up to the commit index is the one that this replica has.
fn agree(raft: &Raft<Log>, (index, term): (Index, Term)) -> Verdict {
    let log = &raft.raft_log;
    let is_known = (log.first_index() - 1..=log.committed).contains(&index.0);
    let is_same = || log.term(index.0).is_ok_and(|it| it == u64::from(term.0));
    if is_known && !is_same() {
        return Err(Lie::Quarantined("another entry is committed here"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
