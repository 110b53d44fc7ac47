//! Single rules of a replicated log.

use super::*;

pub(super) fn slot(number: u32) -> LogPartition {
    partition(0, number)
}

#[test]
fn an_entry_has_all_records_of_a_slot_in_a_block() {
    let mut node = Node::new();
    let positions = [slot(1), partition(1, 5), slot(2), slot(1)].map(|it| node.append(it, b"a"));
    assert_eq!(positions, [1, 1, 1, 1], "the indexes that the entries will have");
    assert_eq!(node.append(IMAGE, b"image"), 1);
    let ended = node.log.end_entries(|group| u32::from(group) + 5);
    let groups: Vec<u16> = ended.iter().map(|it| it.group).collect();
    assert_eq!(groups, [2, 3, 0], "in the order of the first operations");
    let partitions: Vec<_> = values_of(&ended[0].bytes).iter().map(|it| (it.0, it.1)).collect();
    assert_eq!(partitions, [(slot(1), 0), (slot(1), 1), (partition(1, 5), 0)]);
    // Operations from now on are in the next entry.
    assert_eq!(node.log.next_position(crate::LogSlot::at(1)), 1);
    for (index, EndedEntry { group, bytes }) in ended.into_iter().enumerate() {
        let (kind, term) = (EntryKind::Records, u32::from(group) + 5);
        let new = |term| NewEntry { group, kind, index: 1, term, stamp: STAMP };
        assert!(node.log.write_entry(new(term + 1), &bytes).is_err(), "{index}: another epoch");
        node.log.write_entry(new(term), &bytes).unwrap();
    }
    assert_eq!(node.append(slot(1), b"b"), 2);
}

#[test]
fn records_are_visible_once_their_entry_is_committed_and_durable() {
    let mut node = Node::new();
    node.append(slot(1), b"a");
    node.propose(2);
    node.seal();
    assert!(!node.log.commit(2, 1), "the leader's disk is slower than the others");
    assert_eq!(node.log.high_watermark(slot(1)), 0);
    node.settle();
    assert_eq!(node.log.high_watermark(slot(1)), 1);
    assert_eq!(node.log.flushed_block(), 1);
    node.append(slot(1), b"b");
    node.propose(2);
    node.seal();
    node.settle();
    assert_eq!(node.log.high_watermark(slot(1)), 1, "durable here, and not committed");
    let progress = node.log.progress_of(crate::LogSlot::at(1));
    assert_eq!((progress.accepted(), progress.flushed()), (2, 1));
    assert!(node.log.commit(2, 2));
    assert_eq!(node.log.high_watermark(slot(1)), 2);
}

#[test]
fn a_deposed_leader_takes_its_open_records_back() {
    let mut node = Node::new();
    node.append(slot(1), b"a");
    node.propose(2);
    node.append(slot(1), b"b");
    node.append(slot(2), b"c");
    node.log.discard(2);
    node.open.remove(&2);
    assert_eq!([1, 2].map(|it| node.log.log_end_offset(slot(it))), [1, 1]);
    assert_eq!(node.log.next_position(crate::LogSlot::at(1)), 2);
    assert_eq!(node.log.position_of(slot(1)), 0, "no answer waits for an entry that is undone");
    node.propose(2);
    node.follow(2, 2, 3, &[(slot(1), b"d")]);
    node.seal();
    node.settle();
    node.check();
    node.restart(1);
}

#[test]
fn entries_that_do_not_follow_are_refused() {
    let mut node = Node::new();
    for index in 1..=3 {
        node.follow(2, index, 4, &[(slot(1), b"a")]);
    }
    node.commit(2, 1);
    let refused = [
        (5, 4, batch(slot(1), 3, 4, b"")),
        (1, 5, batch(slot(1), 0, 5, b"")),
        (2, 3, batch(slot(1), 1, 3, b"")),
        (4, 4, batch(slot(1), 2, 4, b"")),
        (2, 5, batch(slot(1), 0, 5, b"")),
        (4, 4, batch(slot(2), 0, 4, b"")),
    ];
    for (index, term, bytes) in refused {
        let kind = EntryKind::Records;
        let new = NewEntry { group: 2, kind, index, term, stamp: STAMP };
        assert!(node.log.write_entry(new, &bytes).is_err(), "{index} in term {term}");
        node.check();
    }
    // Offsets may have a gap, as in a log that was damaged once.
    let (kind, index, term) = (EntryKind::Records, 2, 5);
    let new = NewEntry { group: 2, kind, index, term, stamp: STAMP };
    node.log.write_entry(new, &batch(slot(1), 7, 5, b"")).unwrap();
    assert_eq!(node.log.log_end_offset(slot(1)), 8);
}

/// An entry is replaced by another one, and then written again in its old place
/// (raft_log.rs:513-541).
#[test]
fn an_entry_may_come_back_in_place_of_the_one_that_took_its_place() {
    let mut node = Node::new();
    node.follow(2, 1, 2, &[(slot(1), b"first")]);
    node.follow(2, 2, 2, &[(slot(1), b"second"), (slot(1), b"third")]);
    node.seal();
    node.settle();
    node.follow(2, 2, 3, &[(slot(1), b"other")]);
    node.seal();
    // The first copy is durable, but no longer counts: it is void.
    node.settle();
    node.follow(2, 2, 2, &[(slot(1), b"second"), (slot(1), b"third")]);
    node.commit(2, 2);
    assert_eq!(node.log.high_watermark(slot(1)), 1, "the new copy is not durable");
    node.follow(2, 3, 4, &[(slot(1), b"fourth")]);
    node.seal();
    node.settle();
    assert_eq!(node.log.high_watermark(slot(1)), 3);
    node.check_reads();
    node.restart(3);
    node.settle();
    node.check_reads();
}

/// An entry becomes void while its block is written. The completed write of the block then makes
/// nothing visible, and adds nothing to the index.
#[test]
fn an_entry_may_become_void_while_its_block_is_written() {
    let mut node = Node::new();
    node.follow(2, 1, 2, &[(slot(1), b"first")]);
    node.seal();
    let mut ops = Vec::new();
    node.log.poll(2_000, &mut ops);
    let at = ops.iter().position(is_block).unwrap();
    let write = ops.remove(at);
    for done in node.disk.perform_all(ops) {
        node.log.done(done);
    }
    node.follow(2, 1, 3, &[(slot(1), b"x"), (slot(1), b"y"), (slot(1), b"z")]);
    node.commit(2, 1);
    let done = node.disk.perform(write).unwrap();
    node.log.done(done);
    assert_eq!(node.log.high_watermark(slot(1)), 0);
    node.seal();
    node.settle();
    assert_eq!(node.log.high_watermark(slot(1)), 3);
    node.check_reads();
    node.restart(2);
}

/// The void entry and the entry that makes it void are in the same block. Their places differ only
/// in the number within the block.
#[test]
fn an_entry_may_become_void_in_its_own_block() {
    let mut node = Node::new();
    node.follow(2, 1, 2, &[(slot(1), b"first")]);
    node.follow(2, 1, 3, &[(slot(1), b"second")]);
    node.commit(2, 1);
    node.seal();
    node.settle();
    node.check_reads();
    assert_eq!(node.read(slot(1)).len(), 1);
    node.follow(2, 2, 3, &[]);
    node.seal();
    node.settle();
    node.restart(2);
    node.settle();
    node.check_reads();
}

/// An entry makes later entries void even if it is already merged itself (etcd#22442).
#[test]
fn an_entry_before_the_base_makes_later_ones_void() {
    let mut node = Node::new();
    for (index, value) in [(1, b"a"), (2, b"b"), (3, b"c")] {
        node.follow(2, index, 2, &[(slot(1), value)]);
    }
    node.follow(2, 2, 3, &[(slot(1), b"d")]);
    node.commit(2, 2);
    node.follow(2, 3, 3, &[]);
    node.seal();
    node.settle();
    let (mut recovered, _) = recover(&node.disk).unwrap();
    recovered.groups.get_mut(2).compact(EntryId { index: 2, term: 3 });
    let of_group = recovered.groups.get(2).unwrap();
    assert_eq!(of_group.last(), EntryId { index: 3, term: 3 });
    assert_eq!(of_group.kept().map(|(index, it)| (index, it.term)).collect::<Vec<_>>(), [(3, 3)]);
}

#[test]
fn a_marker_makes_all_earlier_entries_void() {
    let mut node = Node::new();
    node.follow(2, 1, 2, &[(slot(1), b"a"), (partition(1, 1), b"b")]);
    node.follow(3, 1, 2, &[(slot(2), b"c")]);
    node.commit(2, 1);
    node.seal();
    node.settle();
    let (base, ends) = (EntryId { index: 9, term: 3 }, [(slot(1), 40)]);
    node.log.write_marker(2, base, &marker(), &ends).unwrap();
    assert_eq!([slot(1), partition(1, 1)].map(|it| node.log.log_end_offset(it)), [40, 0]);
    assert_eq!(node.log.high_watermark(slot(1)), 0);
    let ends = BTreeMap::from(ends);
    node.model.insert(2, ModelGroup { base: 9, ends, in_headers: 9, ..ModelGroup::default() });
    node.commits.insert(2, 9);
    node.follow(2, 10, 3, &[(slot(1), b"d")]);
    node.seal();
    node.settle();
    assert_eq!(node.log.high_watermark(slot(1)), 40);
    node.commit(2, 10);
    node.check_reads();
    // Recovery reports the marker. It does not know the partitions' ends that were written with it.
    node.disk.crash();
    let mut found = Vec::new();
    let mut recovery = Recovery::new(TOPICS).replicated(SLOTS);
    let files = node.disk.dir(&config().dir);
    for (sequence, name) in segment_files(files.keys().cloned()) {
        let mut take = |item: RecoveredItem<'_>| {
            if let RecoveredItem::Marker { group, base, marker } = item {
                found.push((group, base, marker));
            }
        };
        recovery.items(sequence, files[&name], &mut take).unwrap();
    }
    assert_eq!(found, [(2, base, marker())]);
    let recovered = recovery.finish();
    let of_group = recovered.groups().find(|(group, _)| *group == 2).unwrap().1;
    assert_eq!((of_group.base(), of_group.last().index, of_group.commit()), (base, 10, 9));
}

/// A snapshot proves that entries are committed even if no header says so.
#[test]
fn a_snapshot_commits_entries() {
    let mut node = Node::new();
    node.follow(2, 1, 2, &[(slot(1), b"a")]);
    node.follow(2, 2, 2, &[(slot(1), b"b")]);
    node.seal();
    node.settle();
    for (index, expected, is_there) in [(0, 0, true), (1, 1, true), (2, 2, true), (3, 2, false)] {
        let mut recovery = Recovery::new(TOPICS).replicated(SLOTS);
        let files = node.disk.dir(&config().dir);
        let mut count = 0;
        let mut replay = |_: RecoveredItem<'_>| count += 1;
        for (sequence, name) in segment_files(files.keys().cloned()) {
            recovery.items(sequence, files[&name], &mut replay).unwrap();
        }
        assert_eq!(recovery.commit(2, index, &mut replay), is_there);
        assert_eq!(count, expected);
    }
}

#[test]
fn the_nodes_own_records_are_visible_once_they_are_durable() {
    let mut node = Node::new();
    node.append(LogPartition::NODE, b"vote");
    node.open.clear();
    assert!(node.log.end_entries(|_| 1).is_empty(), "they need no leader");
    assert_eq!(node.log.seal_block(), Some(1));
    assert_eq!(node.log.high_watermark(LogPartition::NODE), 0);
    node.settle();
    assert_eq!(node.log.high_watermark(LogPartition::NODE), 1);
    assert_eq!(node.read(LogPartition::NODE), [(LogPartition::NODE, 0, b"vote".to_vec())]);
    node.disk.crash();
    let (_, replayed) = recover(&node.disk).unwrap();
    assert_eq!(replayed, [(LogPartition::NODE, 0, b"vote".to_vec())]);
}

#[test]
fn recovery_hands_out_the_entries_that_a_new_leader_may_commit() {
    let mut node = Node::new();
    for (index, value) in (1..).zip([b"a", b"b", b"c"]) {
        node.follow(2, index, 4, &[(slot(1), value)]);
    }
    node.commit(2, 1);
    node.follow(2, 4, 4, &[(slot(1), b"d")]);
    node.seal();
    node.settle();
    assert_eq!(node.log.committed_entry(2), 1);
    let mut found = recover(&node.disk).unwrap().0;
    let uncommitted: Vec<_> = found.take_uncommitted(2).collect();
    let indexes: Vec<u64> = uncommitted.iter().map(|(index, _)| *index).collect();
    assert_eq!(indexes, [2, 3, 4]);
    assert_eq!(values_of(&uncommitted[2].1), [(slot(1), 3, b"d".to_vec())]);
    assert_eq!(found.take_uncommitted(2).count(), 0);
}

/// A group with many records in one block gets several entries.
#[test]
fn a_long_block_is_cut() {
    let mut node = Node::new();
    let positions: Vec<u64> = (0..6).map(|_| node.append(slot(1), &[7; 1_000])).collect();
    assert_eq!(positions, [1, 1, 1, 1, 2, 2]);
    assert!(node.log.is_full());
    node.propose(2);
    assert!(node.log.next_block_is_full());
    node.seal();
    node.settle();
    node.check();
    node.restart(1);
}

/// The log of one machine continues as a replicated log, in another segment.
#[test]
fn a_log_of_one_machine_may_be_continued() {
    let mut node = Node::new();
    let alone = LogConfig { format: Format::Alone, ..config() };
    node.disk = Disk::default();
    node.log = ShardLog::new(alone, Recovered::default());
    for value in [b"a", b"b"] {
        node.log.append(slot(1), 1_000, [(&b"key"[..], Some(&value[..]))]).unwrap();
        node.settle();
    }
    let before = node.disk.live.clone();
    node.disk.crash();
    let (recovered, replayed) = recover(&node.disk).unwrap();
    assert_eq!(replayed.len(), 2);
    node.disk.close_all();
    node.log = ShardLog::new(config(), recovered);
    assert_eq!(node.log.log_end_offset(slot(1)), 2);
    let (base, ends) = (EntryId { index: 2, term: 1 }, [(slot(1), 2)]);
    node.log.write_marker(2, base, &marker(), &ends).unwrap();
    node.seal();
    node.settle();
    for (path, bytes) in &before {
        let has_blocks = bytes.windows(4).any(|it| it == b"MBLK");
        assert!(!has_blocks || node.disk.live[path] == *bytes, "an old segment has changed");
    }
    node.disk.crash();
    let (recovered, _) = recover(&node.disk).unwrap();
    assert_eq!(recovered.groups().count(), 1);
}

/// A node at startup: the terms and votes of its replicas, their members, and the entries that wait
/// for a leader.
#[test]
fn replicas_are_found_again() {
    use crate::node_state::{NodeRecord, NodeState, ReplicaState, Vote};
    let mut node = Node::new();
    let members = |replica| Marker { replica, voters: vec![1, 2, replica], ..Marker::default() };
    let vote = |group, replica, state| NodeRecord::Vote {
        group,
        vote: Vote { replica, state, term: 4, vote: Some(2) },
    };
    for (group, replica, state) in [
        (1, 7, ReplicaState::Running),
        (2, 8, ReplicaState::Quarantined),
        (3, 9, ReplicaState::Gone),
        (4, 6, ReplicaState::Running),
    ] {
        let base = EntryId { index: 1, term: 1 };
        node.log.write_marker(group, base, &members(replica), &[]).unwrap();
        let since = NodeRecord::Members { group, index: 1, members: Some(members(replica)) };
        let records = [vote(group, replica, state), since];
        node.log.append(LogPartition::NODE, 1_000, &records).unwrap();
    }
    // A newer replica of group 4 has no vote yet.
    node.log
        .write_marker(4, EntryId::default(), &Marker { replica: 10, ..Marker::default() }, &[])
        .unwrap();
    let new = |kind, index| NewEntry { group: 1, kind, index, term: 4, stamp: STAMP };
    node.log.write_entry(new(EntryKind::Empty, 2), &[]).unwrap();
    node.log.write_entry(new(EntryKind::Members, 3), &[5; 17]).unwrap();
    node.log.seal_block();
    node.settle();
    node.disk.crash();
    let mut state = NodeState::default();
    let mut recovery = Recovery::new(TOPICS).replicated(SLOTS);
    let files = node.disk.dir(&config().dir);
    for (sequence, name) in segment_files(files.keys().cloned()) {
        let mut take = |item: RecoveredItem<'_>| {
            if let RecoveredItem::Batch { found, .. } = item {
                assert_eq!(found.partition, LogPartition::NODE);
                state.replay(&found.batch).unwrap();
            }
        };
        recovery.items(sequence, files[&name], &mut take).unwrap();
    }
    let replicas = state.replicas(&recovery.finish()).unwrap();
    let summary: Vec<_> =
        replicas.iter().map(|it| (it.group, it.replica, it.is_quarantined, it.term)).collect();
    assert_eq!(summary, [(1, 7, false, 4), (2, 8, true, 4), (4, 10, false, 0)]);
    let first = &replicas[0];
    assert_eq!((first.base.index, &first.members, first.vote), (1, &members(7), Some(2)));
    let tail: Vec<_> = first.tail.iter().map(|it| (it.id.index, it.kind, it.change)).collect();
    let change = (3, EntryKind::Members, Some([5; 17]));
    assert_eq!(tail, [(2, EntryKind::Empty, None), change]);
    assert_eq!((replicas[2].members.voters.len(), replicas[2].tail.len()), (0, 0));
}

/// Replays a log and a snapshot, and returns the values. The snapshot has an entry that becomes
/// void. If the snapshot gets its name before the entry is committed, the entry counts as
/// committed.
fn a_snapshot_of_what_becomes_void() -> Vec<Value> {
    use crate::snapshot::SectionRow;
    let mut node = Node::new();
    node.follow(2, 1, 2, &[(slot(1), b"a")]);
    node.follow(2, 2, 2, &[(slot(1), b"void")]);
    node.seal();
    node.commit(2, 1);
    node.settle();
    let row =
        SectionRow { topic: 0, index: 1, from: 1, newest: 2, term: 2, ..SectionRow::default() };
    let newest = node.log.progress().accepted();
    let is_settled = |node: &Node| node.log.settled_position(&[(row, 2)]) >= newest;
    let before = is_settled(&node);
    node.follow(2, 2, 3, &[]);
    node.seal();
    node.settle();
    // The number of committed entries is that of the section, but they are not the same.
    node.commit(2, 2);
    node.settle();
    let is_named = before || is_settled(&node);
    let (mut recovered, mut replayed) = (Recovery::new(TOPICS).replicated(SLOTS), Vec::new());
    let files = node.disk.dir(&config().dir);
    let mut take = |item: RecoveredItem<'_>| {
        if let RecoveredItem::Batch { found, .. } = item {
            replayed.extend(values_of_batch(found.partition, &found.batch));
        }
    };
    for (sequence, name) in segment_files(files.keys().cloned()) {
        recovered.items(sequence, files[&name], &mut take).unwrap();
    }
    if is_named {
        // The section has the void entry.
        recovered.commit(2, row.newest, &mut take);
        replayed.push((slot(1), 1, b"void".to_vec()));
    }
    replayed
}

#[test]
fn a_snapshot_gets_its_name_once_all_that_it_has_is_committed() {
    use crate::injected::{Injected, inject};
    assert_eq!(a_snapshot_of_what_becomes_void(), [(slot(1), 0, b"a".to_vec())]);
    inject(Some(Injected::NamedBeforeCommit));
    let found = a_snapshot_of_what_becomes_void();
    inject(None);
    assert!(found.iter().any(|it| it.2 == b"void"), "the fault is not found");
}

#[test]
fn rows_are_settled_by_their_groups_and_terms() {
    use crate::snapshot::SectionRow;
    let mut node = Node::new();
    for index in 1..=3 {
        node.follow(2, index, 2, &[(slot(1), b"a")]);
    }
    node.seal();
    node.commit(2, 3);
    let row = |from, newest, term| SectionRow {
        topic: 0,
        index: 1,
        from,
        newest,
        term,
        ..SectionRow::default()
    };
    assert_eq!(node.log.settled_position(&[(row(1, 3, 2), 2)]), 0, "not durable");
    node.settle();
    let flushed = node.log.progress().flushed();
    assert_eq!(node.log.settled_position(&[(row(1, 3, 2), 2)]), flushed);
    assert_eq!(node.log.settled_position(&[]), flushed);
    let others = [
        (row(1, 4, 2), 2),
        (row(1, 3, 1), 2),
        (row(1, 3, 2), 1),
        (SectionRow { index: 2, ..row(1, 1, 2) }, 2),
    ];
    for row in others {
        assert_eq!(node.log.settled_position(&[row]), 0, "{row:?}");
    }
    // Entries before the base are not known any more.
    node.log.compact_group(2, EntryId { index: 2, term: 2 });
    let settled = [1, 2].map(|from| node.log.settled_position(&[(row(from, 3, 2), 2)]));
    assert_eq!(settled, [0, flushed]);
    // The index begins after the row at the next start.
    node.disk.crash();
    let (mut recovered, _) = recover(&node.disk).unwrap();
    let base = EntryId { index: 2, term: 2 };
    assert!(!recovered.begin_after(2, base), "no header says that the entry is committed");
    let mut recovery = Recovery::new(TOPICS).replicated(SLOTS);
    let files = node.disk.dir(&config().dir);
    for (sequence, name) in segment_files(files.keys().cloned()) {
        recovery.items(sequence, files[&name], |_| {}).unwrap();
    }
    assert!(recovery.commit(2, 3, |_| {}));
    let mut recovered = recovery.finish();
    assert!(!recovered.begin_after(2, EntryId { index: 2, term: 1 }));
    assert!(recovered.begin_after(2, base));
    let of_group = recovered.groups().next().unwrap().1;
    assert_eq!((of_group.base(), of_group.last().index), (base, 3));
    assert_eq!(of_group.kept().count(), 1);
}
