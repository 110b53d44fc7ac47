//! Other nodes: connections to them, messages that were lost, and entries and snapshots that
//! their replicas need.

use super::{Replica, State, Turn};
use crate::convert::replica_from_raft;
use crate::{Base, Entry, Index, NodeId, ReplicaId};

impl Replica {
    /// The node is connected. A new process may have lost entries that the older one acknowledged,
    /// so they do not count until they are acknowledged again.
    pub(crate) fn connected(&mut self, node: NodeId, is_new_process: bool) {
        for replica in self.replicas_on(node) {
            self.raft.store().wants.borrow_mut().lost(replica);
            if is_new_process
                && let Some(progress) = self.raft.raft.mut_prs().get_mut(replica.raw())
            {
                // For a node that has acknowledged nothing, raft would continue with entry 1, which
                // no log has: it would ask for a snapshot, for ever.
                let next = progress.next_idx;
                progress.become_probe();
                if progress.matched == 0 {
                    progress.next_idx = progress.next_idx.max(next);
                }
                progress.matched = 0;
            }
        }
    }

    /// Messages to the node were lost. raft sends their entries again. If the node's replicas need
    /// snapshots, the caller is asked for these again.
    pub(crate) fn lost(&mut self, node: NodeId, turn: &mut Turn<'_>) {
        if self.state != State::Running {
            return;
        }
        for replica in self.replicas_on(node) {
            self.raft.report_unreachable(replica.raw());
            self.raft.store().wants.borrow_mut().lost(replica);
        }
        self.take_readies(turn);
    }

    /// The caller has read entries that followers need. `entries` begins at index `first`, and has
    /// those that are still in the log.
    pub(crate) fn fetched(&mut self, first: Index, entries: Vec<Entry>, turn: &mut Turn<'_>) {
        if self.state != State::Running {
            return;
        }
        if entries.is_empty() {
            self.fetch_failed(first);
            return;
        }
        self.raft.store().wants.borrow_mut().end_read(first, entries);
        if self.role.leads().is_some() {
            for follower in self.followers_at(first) {
                self.raft.raft.send_append(follower);
            }
        }
        self.raft.store().wants.borrow_mut().drop_fetched();
        self.take_readies(turn);
    }

    /// Entries from `first` on could not be read.
    pub(crate) fn fetch_failed(&mut self, first: Index) {
        self.raft.store().wants.borrow_mut().fail_read(first);
    }

    /// The replica has the snapshot with this base, and it is durable there.
    pub(crate) fn offer(&mut self, to: ReplicaId, base: Base, turn: &mut Turn<'_>) {
        if self.state != State::Running {
            return;
        }
        self.raft.store().wants.borrow_mut().offer(to, base);
        let is_member = self.raft.raft.prs().get(to.raw()).is_some();
        if self.role.leads().is_some() && is_member {
            self.raft.raft.send_append(to.raw());
        }
        self.take_readies(turn);
    }

    /// The followers whose next entry is this one. raft itself skips those whose answer it awaits.
    fn followers_at(&self, next: Index) -> Vec<u64> {
        let others = self.raft.raft.prs().iter().filter(|(id, _)| **id != self.id.raw());
        others.filter(|(_, it)| it.next_idx == next.0).map(|(id, _)| *id).collect()
    }

    fn replicas_on(&self, node: NodeId) -> Vec<ReplicaId> {
        let others = self.raft.raft.prs().iter().map(|(id, _)| replica_from_raft(*id));
        others.filter(|it| it.node() == node && *it != self.id).collect()
    }
}
