//! The consequences of a call of raft.

use super::Replication;
use super::group::Stage;
use super::reads::For;
use super::values::marker;
use muster_replication::{Content, Entry, Group, Index, Output, Record, ReplicaId, Role, Term};
use muster_storage::node_state::{ReplicaState, Vote};
use muster_storage::{EntryKind, LogSlot, NewEntry, NodeRecord, ShardLog};

impl Replication {
    /// Performs an output. The roles come first: a leader that is deposed may get entries of the
    /// next one in the same output, which take the places of its own. And one that leaves its group
    /// leads no more before it is gone.
    pub(super) fn follow(&mut self, log: &mut ShardLog, out: Output) {
        let Output { log: records, send, committed, members, roles, fetch, gone, .. } = out;
        let (confirmed, failed) = (out.confirmed, out.failed);
        for (group, role) in roles {
            self.take_role(log, group, role);
        }
        for (group, record) in records {
            self.write(log, group, record);
        }
        for (group, index, members) in members {
            let Some(of_group) = self.groups.get(&group) else { continue };
            let members = Some(marker(of_group.replica, &members));
            self.notes.members(NodeRecord::Members { group: group.0, index: index.0, members });
        }
        self.sends.extend(send);
        for (group, range) in fetch {
            self.reads.want(group, range, For::Follower);
        }
        for group in gone {
            self.leave(log, group);
        }
        for (group, index) in committed {
            self.take_commit(log, group, index);
        }
        self.end_rounds(confirmed, true);
        self.end_rounds(failed, false);
    }

    fn take_role(&mut self, log: &mut ShardLog, group: Group, role: Role) {
        let Some(of_group) = self.groups.get_mut(&group) else { return };
        if of_group.set_role(role) {
            log.discard(group.0);
        }
        self.unsettled.insert(group);
        self.elected.insert(group);
    }

    fn take_commit(&mut self, log: &mut ShardLog, group: Group, index: Index) {
        let of_group = self.groups.get_mut(&group).filter(|it| !it.is_gone);
        let Some(of_group) = of_group else { return };
        log.commit(group.0, index.0);
        of_group.commit(index, self.uncommitted_bytes_max);
        self.has_proved |= of_group.rounds.are_awaited();
        self.moved.insert(LogSlot::of_group(group.0));
        if of_group.stage == Stage::Leading {
            self.call(log, |replicas, out| replicas.applied(group, index, out));
        } else {
            self.unsettled.insert(group);
        }
    }

    /// The replica is no member any more. Its entries become void together with the record of that,
    /// so both are in the same block.
    fn leave(&mut self, log: &mut ShardLog, group: Group) {
        self.note_state(group, ReplicaState::Gone);
        log.end_group(group.0);
        self.reads.forget(group);
        if let Some(of_group) = self.groups.get_mut(&group) {
            of_group.leave();
            self.unsettled.insert(group);
        }
    }

    fn write(&mut self, log: &mut ShardLog, group: Group, record: Record) {
        match record {
            Record::Entry(entry) => self.write_entry(log, group, &entry),
            Record::Vote(term, vote) => {
                if let Some(of_group) = self.groups.get_mut(&group) {
                    of_group.vote = (term, vote);
                    self.elected.insert(group);
                }
                self.note_state(group, ReplicaState::Running);
            }
            Record::Quarantined => self.note_state(group, ReplicaState::Quarantined),
            // Only a placement or a snapshot leads to these. No program places a replica yet, and
            // snapshots of other nodes are refused.
            Record::Born(_) | Record::Installed(_) => unreachable!("no replica is placed"),
        }
    }

    fn write_entry(&mut self, log: &mut ShardLog, group: Group, entry: &Entry) {
        let Entry { index, term, content } = entry;
        let new = |kind| NewEntry { group: group.0, kind, index: index.0, term: term.0, stamp: 0 };
        let (written, records) = match content {
            Content::Records(bytes) => {
                (log.write_entry(new(EntryKind::Records), bytes), Some(bytes.clone()))
            }
            Content::Empty => (log.write_entry(new(EntryKind::Empty), &[]), None),
            Content::Change(change) => {
                (log.write_entry(new(EntryKind::Members), &change.encode()), None)
            }
        };
        // The batches of other nodes were checked, and raft has accepted the index.
        written.expect("an entry of raft follows its log");
        if let Some(of_group) = self.groups.get_mut(&group) {
            of_group.added(*index, records);
        }
    }

    /// Notes the state of a replica, with its vote.
    fn note_state(&mut self, group: Group, state: ReplicaState) {
        let Some(of_group) = self.groups.get(&group) else { return };
        let (Term(term), vote) = of_group.vote;
        let (replica, vote) = (of_group.replica.raw(), vote.map(ReplicaId::raw));
        self.notes.vote(group, Vote { replica, state, term, vote });
    }
}
