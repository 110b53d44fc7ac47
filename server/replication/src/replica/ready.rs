//! Hands out what has changed in raft: a *ready*.

use super::{Replica, State, Turn};
use crate::convert::{
    base_from_raft, change_from_raft, change_to_raft, entry_from_raft, members_from_raft,
    message_from_raft, replica_from_raft, round_of, term_from_raft,
};
use crate::output::{Record, Role};
use crate::{Body, Entry, Index, PeerMessage};
use raft::eraftpb::{Entry as RaftEntry, EntryType, Message};
use raft::{INVALID_ID, ReadState, Ready, SnapshotStatus, StateRole};

impl Replica {
    /// Hands out all that has changed, and then brings the rest in line with it.
    pub(super) fn take_readies(&mut self, turn: &mut Turn<'_>) {
        while self.state == State::Running && self.raft.has_ready() {
            self.take_ready(turn);
        }
        if self.state == State::Running {
            self.settle(turn);
        }
    }

    /// Between `ready` and `advance_append_async`, nothing else is called (B). The log has the
    /// entries by then; they are not durable.
    fn take_ready(&mut self, turn: &mut Turn<'_>) {
        let mut ready = self.raft.ready();
        let number = ready.number();
        if ready.must_sync() {
            self.unflushed.begin(turn.open);
        }
        self.take_snapshot(&ready, turn);
        self.take_vote(&ready, turn);
        self.take_entries(ready.take_entries(), turn);
        let committed = ready.take_committed_entries();
        let reads = ready.take_read_states();
        // raft's leaders wait for no flush of their own; the others would wait with each message.
        let free = self.messages(ready.take_messages());
        let (early, held) =
            self.messages(ready.take_persisted_messages()).into_iter().partition(may_leave_early);
        self.raft.advance_append_async(ready);
        self.end_installs(&free);
        free.into_iter().chain::<Vec<_>>(early).for_each(|it| Self::send(it, turn));
        self.hold(number, held, turn);
        self.take_reads(reads, turn);
        self.take_changes(committed, turn);
    }

    /// raft waits for the answer to a snapshot for ever, and any message may be lost. A receiver
    /// has its snapshot before this message leaves. So raft hears of its success at once: the next
    /// append shows whether the receiver has installed it.
    fn end_installs(&mut self, sent: &[PeerMessage]) {
        for install in sent.iter().filter(|it| matches!(it.body, Body::Install { .. })) {
            self.raft.report_snapshot(install.to.raw(), SnapshotStatus::Finish);
        }
    }

    /// Messages that promise something durable wait for the last block that has a part of it. If
    /// there is none, all is durable.
    fn hold(&mut self, ready: u64, messages: Vec<PeerMessage>, turn: &mut Turn<'_>) {
        if let Some(waiting) = self.unflushed.add(ready) {
            waiting.extend(messages);
        } else {
            self.raft.on_persist_ready(ready);
            messages.into_iter().for_each(|it| Self::send(it, turn));
        }
    }

    fn messages(&self, messages: Vec<Message>) -> Vec<PeerMessage> {
        messages.into_iter().map(|it| message_from_raft(self.group, it)).collect()
    }

    fn take_snapshot(&mut self, ready: &Ready, turn: &mut Turn<'_>) {
        if ready.snapshot().is_empty() {
            return;
        }
        let base = base_from_raft(ready.snapshot());
        self.raft.mut_store().install(base.clone());
        self.set_members(base.members.clone());
        self.machines = Index(0);
        turn.out.log.push((self.group, Record::Installed(base)));
    }

    fn take_vote(&mut self, ready: &Ready, turn: &mut Turn<'_>) {
        let Some(state) = ready.hs() else { return };
        let vote = (state.vote != INVALID_ID).then(|| replica_from_raft(state.vote));
        let vote = (term_from_raft(state.term), vote);
        // The state also changes with the commit index, which the headers of entries have.
        if vote != self.vote {
            self.vote = vote;
            turn.out.log.push((self.group, Record::Vote(vote.0, vote.1)));
        }
    }

    fn take_entries(&mut self, entries: Vec<RaftEntry>, turn: &mut Turn<'_>) {
        let entries: Vec<Entry> = entries.into_iter().map(entry_from_raft).collect();
        self.raft.mut_store().append(turn.open, &entries);
        let records = entries.into_iter().map(|it| (self.group, Record::Entry(it)));
        turn.out.log.extend(records);
    }

    fn take_reads(&mut self, reads: Vec<ReadState>, turn: &mut Turn<'_>) {
        for round in reads.iter().filter_map(|it| round_of(&it.request_ctx)) {
            if self.rounds.confirm(round) {
                turn.out.confirmed.push((self.group, round));
            }
            if self.proof.is_some_and(|it| round >= it) {
                self.proof = None;
            }
        }
    }

    /// Applies the changes of members among these committed entries. raft panics at a replica that
    /// is no member, so such a replica is not called again (D). It has an error for some changes
    /// that do not fit, which no honest leader proposes.
    fn take_changes(&mut self, committed: Vec<RaftEntry>, turn: &mut Turn<'_>) {
        for entry in committed {
            if entry.get_entry_type() != EntryType::EntryConfChangeV2 {
                continue;
            }
            let change = change_from_raft(&entry.context);
            if !self.members.fits(change) {
                self.quarantine(turn);
                return;
            }
            let applied = self.raft.apply_conf_change(&change_to_raft(change));
            let applied = applied.expect("a change that fits the members");
            self.set_members(members_from_raft(&applied));
            turn.out.members.push((self.group, Index(entry.index), self.members.clone()));
            if self.raft.raft.prs().get(self.id.raw()).is_none() {
                self.leave(turn);
                return;
            }
        }
    }

    fn leave(&mut self, turn: &mut Turn<'_>) {
        self.state = State::Gone;
        self.unflushed.clear();
        turn.out.failed.extend(self.rounds.fail().map(|it| (self.group, it)));
        turn.out.gone.push(self.group);
    }

    /// The rest that depends on raft's state. Votes move the commit index, too, so that it is
    /// looked at after each call (G).
    fn settle(&mut self, turn: &mut Turn<'_>) {
        self.keep_rank();
        self.report_role(turn);
        let log = &self.raft.raft.raft_log;
        let (committed, persisted) = (Index(log.committed), Index(log.persisted));
        if committed > self.committed {
            self.committed = committed;
            turn.out.committed.push((self.group, committed));
        }
        // raft panics if it hears of more (C).
        let applied = self.machines.min(committed).min(persisted);
        if applied.0 > self.raft.raft.raft_log.applied {
            self.raft.advance_apply_to(applied.0);
        }
        let mut wants = self.raft.store().wants.borrow_mut();
        turn.out.fetch.extend(wants.take_reads().into_iter().map(|it| (self.group, it)));
        turn.out.restore.extend(wants.take_snapshots().into_iter().map(|it| (self.group, it)));
    }

    fn report_role(&mut self, turn: &mut Turn<'_>) {
        let raft = &self.raft.raft;
        let leader = (raft.leader_id != INVALID_ID).then(|| replica_from_raft(raft.leader_id));
        self.last_leader = leader.or(self.last_leader);
        let role = match raft.state {
            StateRole::Leader => Role::Leader {
                term: term_from_raft(raft.term),
                ready: raft.commit_to_current_term(),
            },
            StateRole::Follower => Role::Follower { leader },
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
        };
        if role == self.role {
            return;
        }
        if self.role.leads().is_some() && self.role.leads() != role.leads() {
            self.depose(turn);
        }
        self.role = role;
        turn.out.roles.push((self.group, role));
    }

    /// The end of a leader. Its machines have applied entries that may never be committed, so the
    /// caller loads them again.
    fn depose(&mut self, turn: &mut Turn<'_>) {
        self.machines = self.machines.min(self.committed);
        self.proof = None;
        self.raft.store().wants.borrow_mut().clear_snapshots();
        turn.out.failed.extend(self.rounds.fail().map(|it| (self.group, it)));
    }
}

/// Whether a message claims nothing that has to be durable. The answer to a heartbeat does not: a
/// round needs only that the voter knew of no later term.
fn may_leave_early(message: &PeerMessage) -> bool {
    match &message.body {
        Body::Heard { .. } | Body::Rejected { .. } => true,
        Body::Vote { pre, .. } => *pre,
        Body::Voted { pre, granted, .. } => *pre || !granted,
        Body::Appended { .. } => false,
        // A leader's messages do not wait, unless it was deposed before they were handed out.
        Body::Append { .. } | Body::Heartbeat { .. } | Body::Install { .. } | Body::StandNow => {
            false
        }
    }
}
