//! Markers and void entries whose blocks are not on stable storage yet.

use super::*;

const BASE: EntryId = EntryId { index: 500, term: 7 };

/// The blocks of the log have their flush, except the marker's.
#[test]
fn a_marker_counts_as_durable_once_its_block_is() {
    let mut node = Node::new();
    node.follow(2, 1, 2, &[(partition(0, 1), b"a")]);
    node.seal();
    node.settle();
    node.reopen(1);
    let ends = [(partition(0, 1), 40)];
    node.log.write_marker(2, BASE, &marker(), &ends).unwrap();
    node.settle();
    assert!(node.log.is_recovered());
    assert_eq!(node.log.visible_entry(2), 0, "the marker is in no block");
    assert_eq!(node.log.high_watermark(partition(0, 1)), 0);
    node.log.seal_block();
    node.settle();
    assert_eq!(node.log.visible_entry(2), BASE.index);
    assert_eq!(node.log.high_watermark(partition(0, 1)), 40);
}

/// If both markers were lost, the entries before them would be needed.
#[test]
fn two_markers_that_are_not_durable_keep_what_they_make_void() {
    let mut node = Node::new();
    node.follow(2, 1, 2, &[(partition(0, 1), b"a")]);
    node.seal();
    node.settle();
    let born = Marker { replica: 9, ..Marker::default() };
    node.log.write_marker(2, EntryId::default(), &born, &[]).unwrap();
    node.log.write_marker(2, BASE, &marker(), &[]).unwrap();
    assert_eq!(node.log.first_needed_segment(), 0);
    node.log.seal_block();
    node.settle();
    assert_eq!(node.log.first_needed_segment(), u64::MAX);
}

/// All blocks that a recovery has read are durable once the last one is.
#[test]
fn what_was_void_before_the_start_is_not_needed() {
    let mut node = Node::new();
    node.follow(2, 1, 2, &[(partition(0, 1), b"void")]);
    node.seal();
    node.settle();
    node.follow(2, 1, 3, &[]);
    node.commit(2, 1);
    node.follow(2, 2, 3, &[]);
    node.log.write_marker(3, BASE, &marker(), &[]).unwrap();
    node.seal();
    node.settle();
    node.reopen(2);
    node.settle();
    node.commit(2, 2);
    node.log.compact_group(2, EntryId { index: 2, term: 3 });
    assert_eq!(node.log.first_needed_segment(), u64::MAX);
}

#[test]
fn an_entry_that_is_void_in_its_own_block_is_not_needed_after_its_flush() {
    let mut node = Node::new();
    node.follow(2, 1, 2, &[(partition(0, 1), b"void")]);
    node.follow(2, 2, 2, &[]);
    node.follow(2, 1, 3, &[]);
    node.commit(2, 1);
    node.seal();
    node.settle();
    node.log.compact_group(2, EntryId { index: 1, term: 3 });
    assert_eq!(node.log.first_needed_segment(), u64::MAX);
}
