//! Groups whose replica on this node is gone, or quarantined.

use super::markers::Beside;
use super::*;
use crate::node_state::{NodeRecord, NodeState, ReplicaState, Vote};

const BASE: EntryId = EntryId { index: 1, term: 1 };

fn vote(state: ReplicaState) -> Vote {
    Vote { replica: marker().replica, state, term: 2, vote: None }
}

impl Beside {
    fn end(&mut self, state: ReplicaState) {
        let record = NodeRecord::Vote { group: 2, vote: vote(state) };
        self.node.log.append(LogPartition::NODE, 1_000, [record]).unwrap();
        self.node.log.end_group(2);
        self.node.model.remove(&2);
    }

    /// A new process. Returns the groups that are gone, and those with a replica.
    fn start(&mut self) -> (Vec<u16>, Result<Vec<u16>, u16>) {
        self.node.disk.crash();
        let (mut state, mut recovery) =
            (NodeState::default(), Recovery::new(TOPICS).replicated(SLOTS));
        let files = self.node.disk.dir(&config().dir);
        for (sequence, name) in segment_files(files.keys().cloned()) {
            let mut take = |item: RecoveredItem<'_>| {
                if let RecoveredItem::Batch { found, .. } = item
                    && found.partition == LogPartition::NODE
                {
                    state.replay(&found.batch).unwrap();
                }
            };
            recovery.items(sequence, files[&name], &mut take).unwrap();
        }
        let found = recovery.finish();
        // The groups beside it have no records of their members.
        for group in [1, 3] {
            let vote = vote(ReplicaState::Quarantined);
            state.apply(NodeRecord::Vote { group, vote });
        }
        let gone = state.gone(&found);
        let replicas = state.replicas(&found);
        let replicas = replicas.map(|found| found.iter().map(|it| it.group).collect());
        self.node.disk.close_all();
        self.node.log = ShardLog::new(self.node.config.clone(), found);
        gone.iter().for_each(|group| self.node.log.end_group(*group));
        (gone, replicas)
    }

    fn write(&mut self, index: u64) {
        self.node.follow(2, index, 2, &[(partition(0, 1), &[7; 400])]);
        self.seal();
    }
}

#[test]
fn the_entries_of_a_replica_that_is_gone_are_compacted() {
    let mut beside = Beside::new();
    beside.begin(BASE);
    beside.write(2);
    beside.fill();
    beside.end(ReplicaState::Gone);
    assert_eq!(beside.node.log.first_needed_segment(), 0, "no record says yet that it is gone");
    beside.seal();
    assert_eq!(beside.node.log.high_watermark(partition(0, 1)), 0);
    beside.fill();
    beside.compact();
    assert_eq!(beside.start(), (vec![], Ok(vec![1])), "its entries are gone, too");
    // After the old replica is gone, the node gets a new one of the same group.
    beside.node.settle();
    let newer = Marker { replica: marker().replica + 1, ..marker() };
    beside.node.log.write_marker(2, BASE, &newer, &[]).unwrap();
    beside.node.log.seal_block();
    beside.node.settle();
    assert_eq!(beside.node.log.visible_entry(2), BASE.index);
}

/// A log that lacks an entry of the group, since the record has this state.
fn incomplete(state: ReplicaState) -> Beside {
    let mut beside = Beside::new();
    beside.begin(BASE);
    beside.write(2);
    beside.fill();
    beside.node.follow(3, 1, 2, &[(partition(0, 2), b"needed, and in one block with the next")]);
    beside.write(3);
    beside.end(state);
    beside.seal();
    beside.fill();
    beside.compact();
    beside
}

#[test]
fn a_replica_that_is_gone_may_lack_entries() {
    let mut beside = incomplete(ReplicaState::Gone);
    for _ in 0..2 {
        assert_eq!(beside.start(), (vec![2], Ok(vec![1, 3])));
        beside.node.settle();
    }
    let new = NewEntry { group: 2, kind: EntryKind::Empty, index: 1, term: 2, stamp: STAMP };
    assert!(beside.node.log.write_entry(new, &[]).is_err());
    beside.node.append(LogPartition::NODE, b"record");
    beside.node.log.seal_block();
    beside.node.settle();
    assert_eq!(beside.node.log.group(2).unwrap().first_needed_segment(), None);
}

/// The other groups of the shard continue.
#[test]
fn a_quarantined_replica_may_lack_entries() {
    let mut beside = incomplete(ReplicaState::Quarantined);
    assert_eq!(beside.start(), (vec![], Ok(vec![1, 2, 3])));
    let mut beside = incomplete(ReplicaState::Running);
    assert_eq!(beside.start(), (vec![], Err(2)));
}
