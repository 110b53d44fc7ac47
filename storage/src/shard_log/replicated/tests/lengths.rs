//! The longest block.

use super::entries::slot;
use super::*;
use crate::layout::ENTRY_HEADER_BYTES;
use crate::limits::{
    OPEN_BYTES_MAX, OPERATION_BYTES_MAX, SEGMENT_BYTES_DEFAULT, replicated_torn_bytes_max,
};
use crate::shard_log::LogSlot;
use crate::shard_log::recovery::Case;
use crate::slot_entry::SLOT_ENTRY_BYTES;

fn new(index: u64) -> NewEntry {
    NewEntry { group: 2, kind: EntryKind::Records, index, term: 2, stamp: STAMP }
}

/// The entry is refused, and those before it are written.
#[test]
fn a_block_has_a_limit() {
    let mut node = Node::new();
    let value = [7; 1_000];
    let body = |index| batch(partition(0, 1), index - 1, 2, &value);
    let mut last = 0;
    while node.log.write_entry(new(last + 1), &body(last as i64 + 1)).is_ok() {
        last += 1;
        assert!(last < 40, "more than a segment");
        node.append(LogPartition::NODE, &[1; 8]);
    }
    assert!(node.log.next_block_is_full() && last > 10, "{last} entries");
    assert_eq!(node.log.last_entry(2).index, last, "nothing was written of the refused entry");
    node.log.seal_block();
    node.settle();
    assert_eq!(node.log.flushed_block(), 1);
    node.log.write_entry(new(last + 1), &body(last as i64 + 1)).unwrap();
}

/// One request may append more than a segment.
#[test]
fn records_without_room_wait_for_a_later_block() {
    let mut node = Node::new();
    let first = [node.append(slot(2), &[1; 100]), node.append(slot(1), &[2; 100])];
    assert_eq!(first, [1, 1]);
    let positions: Vec<u64> = (0..60).map(|_| node.append(slot(1), &[7; 1_000])).collect();
    let mut blocks = 0;
    while node.log.block_is_due(node.now) {
        node.propose(2);
        let (len, max) = (node.log.next_block_len(), config().entries_len_max());
        assert!((max / 2..=max).contains(&len) || blocks > 3, "{len} bytes");
        assert_eq!(node.log.next_position(LogSlot::at(1)), positions[59] + 1);
        node.check();
        node.seal();
        node.settle();
        blocks += 1;
    }
    assert_eq!((blocks, node.log.last_entry(2).index), (5, positions[59]));
    node.commit(2, positions[59]);
    node.check_reads();
    node.restart(blocks);
}

/// Its leader is deposed before they are written.
#[test]
fn records_without_room_may_be_discarded() {
    let mut node = Node::new();
    for _ in 0..60 {
        node.append(slot(1), &[7; 1_000]);
    }
    node.append(slot(2), b"other");
    node.propose(2);
    node.log.discard(2);
    node.open.remove(&2);
    node.check();
    node.propose(2);
    assert_eq!(node.log.last_entry(3).index, 1);
    let last = node.log.last_entry(2).index;
    node.follow(2, last, 3, &[(slot(1), b"of another leader")]);
    node.seal();
    node.settle();
    node.restart(1);
}

#[test]
#[should_panic(expected = "a block longer than a segment")]
fn no_segment_is_prepared_for_a_block_that_fits_in_none() {
    let mut node = Node::new();
    for _ in 0..4 {
        node.log.segments.place(&config(), 32 << 10);
        node.settle();
    }
}

/// A node never writes a block that a torn write makes unreadable.
#[test]
fn the_longest_block_may_be_torn() {
    let config = LogConfig {
        segment_bytes: SEGMENT_BYTES_DEFAULT,
        first_segment_bytes: SEGMENT_BYTES_DEFAULT,
        block_bytes: 4096,
        operation_bytes_max: OPERATION_BYTES_MAX,
        open_bytes_max: OPEN_BYTES_MAX,
        ..config()
    };
    let longest = config.block_len_max().next_multiple_of(4096);
    assert_eq!(longest, replicated_torn_bytes_max(SLOTS));
    let mut node = Node::of(config);
    node.follow(2, 1, 4, &[(slot(1), b"a")]);
    node.seal();
    node.settle();
    node.disk.crash();
    let (at, path) = (2 * 4096, node.disk.live.keys().next().unwrap().clone());
    node.disk.live.get_mut(&path).unwrap()[at + longest - 1] = 1;
    let (recovered, _) = recover(&node.disk).unwrap();
    assert_eq!(recovered.cut().unwrap().bytes.len(), longest);
    node.disk.live.get_mut(&path).unwrap()[at + longest] = 1;
    let corruption = recover(&node.disk).unwrap_err();
    assert_eq!((corruption.case, corruption.at), (Case::R, at));
}

/// The open entry has almost reached its limit, and then gets one more operation.
#[test]
fn other_nodes_accept_the_longest_entry() {
    let (mut node, config) = (Node::new(), config());
    let (one, other) = (partition(0, 1), partition(1, 1));
    node.append(one, &[1; 1_000]);
    let record = node.log.gather.open_bytes() - ENTRY_HEADER_BYTES;
    node.append(one, &vec![1; 2_000]);
    let rest = config.open_bytes_max - 1 - node.log.gather.open_bytes();
    node.append(one, &vec![1; rest - (record - 1_000)]);
    assert_eq!(node.log.gather.open_bytes(), config.open_bytes_max - 1);
    let value = vec![2; config.operation_bytes_max];
    let mut fits = |len: &usize| {
        let record = (&b"key"[..], Some(&value[..*len]));
        node.log.append(other, 1_000, [record]).is_ok()
    };
    (0..=value.len()).rev().find(&mut fits).unwrap();
    let [EndedEntry { bytes, .. }] = &node.log.end_entries(|_| 2)[..] else { panic!("one entry") };
    assert_eq!(bytes.len(), config.batches_len_max() - 1);
    let follower = Node::new().log;
    assert!(bytes.len() <= follower.entry_bytes_max());
    assert!(follower.has_room(SLOT_ENTRY_BYTES + bytes.len()));
}
