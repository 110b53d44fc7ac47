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
    /// Hands out all that has changed in raft, and then updates what depends on raft's state.
    pub(super) fn take_readies(&mut self, turn: &mut Turn<'_>) {
        while self.state == State::Running && self.raft.has_ready() {
            self.take_ready(turn);
        }
        if self.state == State::Running {
            self.settle(turn);
        }
    }

    /// Nothing else is called between `ready` and `advance_append_async` (B). When the latter is
    /// called, the log already has the entries, though they are not durable yet.
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
        // raft lets a leader send its messages before its own flush. In any other role it would
        // keep every message until the flush.
        let free = self.messages(ready.take_messages(), turn);
        let waiting = self.messages(ready.take_persisted_messages(), turn);
        let (early, held) = waiting.into_iter().partition(may_leave_early);
        self.raft.advance_append_async(ready);
        self.end_installs(&free);
        free.into_iter().chain::<Vec<_>>(early).for_each(|it| Self::send(it, turn));
        self.hold(number, held, turn);
        self.take_reads(reads, turn);
        self.take_changes(committed, turn);
    }

    /// After raft has sent a snapshot, it waits until it is notified of the result, for ever if the
    /// answer is lost. But here the receiver has the snapshot before the message leaves. So raft is
    /// notified at once that the receiver has it. The next append shows whether it was installed.
    fn end_installs(&mut self, sent: &[PeerMessage]) {
        for install in sent.iter().filter(|it| matches!(it.body, Body::Install { .. })) {
            self.raft.report_snapshot(install.to.raw(), SnapshotStatus::Finish);
        }
    }

    /// Messages that promise something durable wait for the last block that has a record of this
    /// replica. If no such block is left, all is durable.
    fn hold(&mut self, ready: u64, messages: Vec<PeerMessage>, turn: &mut Turn<'_>) {
        if let Some(waiting) = self.unflushed.add(ready) {
            waiting.extend(messages);
        } else {
            self.raft.on_persist_ready(ready);
            messages.into_iter().for_each(|it| Self::send(it, turn));
        }
    }

    /// raft has made these messages in the call that has not returned yet.
    fn messages(&self, messages: Vec<Message>, turn: &Turn<'_>) -> Vec<PeerMessage> {
        let message = |it| {
            let it = message_from_raft(self.group, it);
            let echo = turn.heard.newest(it.to.node(), self.group, self.slots);
            PeerMessage { echo, ..it }
        };
        messages.into_iter().map(message).collect()
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
        // raft's state also has the commit index, which the headers of entries have already.
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
    /// is no member, so such a replica is not called again (D). For some changes that do not fit,
    /// raft returns an error; no honest leader proposes such a change.
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

    /// The replica is no member any more, and is dropped at the end of the call. If it has led, its
    /// caller hears first that it does so no longer: the open entry has no leader.
    pub(crate) fn leave(&mut self, turn: &mut Turn<'_>) {
        self.state = State::Gone;
        self.unflushed.clear();
        self.fail_rounds(turn);
        if self.role.leads().is_some() {
            self.role = Role::Follower { leader: None };
            turn.out.roles.push((self.group, self.role));
        }
        turn.out.gone.push(self.group);
    }

    /// Reports the new role and commit index, and other results of raft's new state. The commit
    /// index is compared after each call, because even a vote may move it (G).
    fn settle(&mut self, turn: &mut Turn<'_>) {
        self.keep_rank();
        self.report_role(turn);
        let log = &self.raft.raft.raft_log;
        let (committed, persisted) = (Index(log.committed), Index(log.persisted));
        if committed > self.committed {
            self.committed = committed;
            turn.out.committed.push((self.group, committed));
        }
        // raft panics if it is notified of more applied entries (C).
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
        self.fail_rounds(turn);
    }
}

/// Whether a message may be sent before the flush: if no part of it has to be durable to be true.
/// The answer to a heartbeat is such a message: a round needs only that the voter knew of no later
/// term.
fn may_leave_early(message: &PeerMessage) -> bool {
    match &message.body {
        Body::Heard { .. } | Body::Rejected { .. } => true,
        Body::Vote { pre, .. } => *pre,
        Body::Voted { pre, granted, .. } => *pre || !granted,
        Body::Appended { .. } => false,
        // A leader's messages are here only if it was deposed before they were handed out.
        Body::Append { .. } | Body::Heartbeat { .. } | Body::Install { .. } | Body::StandNow => {
            false
        }
    }
}
