//! Entries are read as they were written. Bytes that are not valid entries are rejected.

use super::*;
use crate::layout::{BLOCK_HEADER_BYTES, Block, BlockHeader};
use crate::log_partition::UNPARTITIONED;
use crate::shard_log::LogSlot;
use crate::topic_rules::{KeyRule, TopicRule, TopicRules};
use muster_codec::record_batch::BatchBuilder;
use proptest::prelude::*;

const SLOTS: u32 = 10;

const fn rule(number: u8) -> TopicRule {
    TopicRule { number, lingers: false, keys: KeyRule::SameKey }
}

const TOPICS: TopicRules = TopicRules::new(&[rule(UNPARTITIONED), rule(0), rule(1)]);

fn partition(topic: u8, index: u32) -> LogPartition {
    LogPartition { topic, index }
}

/// A batch with a record, preceded by its partition.
fn batch(at: LogPartition, epoch: i32, value: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    builder.append(1_000, &(&b"key"[..], Some(value)));
    [&at.to_bytes()[..], builder.seal(7, epoch)].concat()
}

fn head(group: u16, kind: EntryKind, body: &[u8]) -> EntryHead {
    let length = body.len() as u32;
    EntryHead { group, kind, term: 5, index: 9, commit: 8, stamp: 3, length }
}

fn marker() -> Marker {
    Marker { replica: 1 << 16 | 3, voters: vec![1, 2, 3], outgoing: vec![4], learners: vec![] }
}

/// Entries of each kind, which together can form a block.
fn entries() -> Vec<(EntryHead, Vec<u8>)> {
    let mut of_marker = Vec::new();
    marker().write(&mut of_marker);
    let of_slot = [batch(partition(0, 3), 5, b"a"), batch(partition(1, 13), 5, b"b")].concat();
    let of_node = batch(LogPartition::NODE, 0, b"vote");
    let bodies = [
        (4, EntryKind::Records, of_slot),
        (0, EntryKind::Records, batch(partition(UNPARTITIONED, 0), 5, b"image")),
        (7, EntryKind::Empty, vec![]),
        (7, EntryKind::Members, vec![1; CHANGE_BYTES]),
        (8, EntryKind::Void, of_marker),
        (NODE_GROUP, EntryKind::Records, of_node),
    ];
    let entry = |(group, kind, body): (u16, EntryKind, Vec<u8>)| (head(group, kind, &body), body);
    let mut entries = bodies.map(entry);
    entries[5].0.term = 0;
    entries.to_vec()
}

fn bytes_of(entries: &[(EntryHead, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (head, body) in entries {
        head.write(&mut bytes);
        bytes.extend(body);
    }
    bytes
}

/// A whole block with these entries.
fn block_of(entries: &[(EntryHead, Vec<u8>)]) -> Vec<u8> {
    let mut block = vec![0; BLOCK_HEADER_BYTES];
    block.extend(bytes_of(entries));
    let header = BlockHeader {
        format: crate::layout::Format::Replicated,
        length: block.len() as u32,
        log_id: 1,
        segment: 1,
        first_position: 1,
        operations: entries.len() as u32,
        batches: 4,
    };
    header.write(&mut block);
    block
}

/// Reads and checks all entries.
fn check(bytes: &[u8], is_merged: bool) -> Result<Vec<EntryHead>> {
    let checked = |entry: Result<SlotEntry<'_>>| {
        let entry = entry?;
        entry.check(TOPICS, SLOTS, is_merged)?;
        Ok(entry.head)
    };
    SlotEntries::new(bytes).map(checked).collect()
}

#[test]
fn entries_are_read_as_they_were_written() {
    let (written, bytes) = (entries(), block_of(&entries()));
    let block = Block::read(&bytes).unwrap();
    let read: Vec<_> = block.slot_entries().map(|entry| entry.unwrap()).collect();
    assert_eq!(read.len(), written.len());
    for (entry, (head, body)) in read.iter().zip(&written) {
        assert_eq!((entry.head, entry.body), (*head, &body[..]));
        assert_eq!(entry.check(TOPICS, SLOTS, false), Ok(()), "{head:?}");
    }
    assert_eq!(Marker::read(read[4].body), Ok(marker()));
    let mut batches = block.entries(TOPICS);
    let mut found = Vec::new();
    while let Some(batch) = batches.next() {
        found.push((batches.head().unwrap().group, batch.unwrap().0));
    }
    let image = partition(UNPARTITIONED, 0);
    let expected =
        [(4, partition(0, 3)), (4, partition(1, 13)), (0, image), (NODE_GROUP, LogPartition::NODE)];
    assert_eq!(found, expected);
}

#[test]
fn the_group_of_a_partition_is_that_of_its_slot() {
    for slots in [1, 3, 50] {
        for at in [(0, 0), (0, 49), (1, 0), (1, 9_999), (UNPARTITIONED, 0)] {
            let at = partition(at.0, at.1);
            assert_eq!(usize::from(group_of(at, slots)), LogSlot::of(at, slots).index());
        }
    }
    assert_eq!(group_of(LogPartition::NODE, 3), NODE_GROUP);
}

#[test]
fn impossible_numbers_are_refused() {
    let records = batch(partition(0, 3), 5, b"a");
    let good = head(4, EntryKind::Records, &records);
    let void = EntryHead { kind: EntryKind::Void, length: 11, ..good };
    let birth = EntryHead { term: 0, index: 0, commit: 0, ..void };
    let node = EntryHead { group: NODE_GROUP, term: 0, ..good };
    let read = |head: EntryHead| {
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        EntryHead::read(&mut Reader::new(&bytes))
    };
    for head in [good, void, birth, node, EntryHead { group: GROUP_MAX, ..good }] {
        assert_eq!(read(head), Ok(head));
    }
    let kind = |kind, length| EntryHead { kind, length, ..good };
    let refused = [
        EntryHead { group: GROUP_MAX + 1, ..good },
        EntryHead { term: 0, ..good },
        EntryHead { term: TERM_LIMIT, ..good },
        EntryHead { index: 0, commit: 0, ..good },
        EntryHead { index: INDEX_LIMIT, ..good },
        EntryHead { commit: 10, ..good },
        EntryHead { stamp: INDEX_LIMIT, ..good },
        EntryHead { term: 5, ..birth },
        EntryHead { term: 5, ..node },
        EntryHead { kind: EntryKind::Empty, length: 0, ..node },
        kind(EntryKind::Empty, 1),
        kind(EntryKind::Members, 16),
        kind(EntryKind::Members, 18),
        kind(EntryKind::Void, 10),
    ];
    for head in refused {
        assert!(read(head).is_err(), "{head:?}");
    }
}

#[test]
fn bodies_that_do_not_fit_their_heads_are_refused() {
    let entry = |group, kind, body: Vec<u8>| bytes_of(&[(head(group, kind, &body), body)]);
    let records = EntryKind::Records;
    let (of_3, image) = (partition(0, 3), partition(UNPARTITIONED, 0));
    let mut long = Vec::new();
    marker().write(&mut long);
    long.push(0);
    let mut many = vec![0; 8];
    many.extend([vec![17], vec![0; 17 * 8], vec![0, 0]].concat());
    let refused = [
        entry(4, records, vec![]),
        entry(5, records, batch(of_3, 5, b"")),
        entry(0, records, batch(of_3, 5, b"")),
        entry(4, records, batch(image, 5, b"")),
        entry(4, records, batch(of_3, 6, b"")),
        entry(4, records, batch(of_3, 4, b"")),
        entry(4, records, batch(partition(2, 3), 5, b"")),
        entry(4, records, batch(LogPartition::NODE, 5, b"")),
        entry(4, records, [batch(of_3, 5, b""), vec![0]].concat()),
        entry(8, EntryKind::Void, long),
        entry(8, EntryKind::Void, many),
    ];
    for bytes in refused {
        assert!(check(&bytes, false).is_err(), "{bytes:?}");
    }
    let node = EntryHead { term: 0, ..head(NODE_GROUP, records, &batch(image, 0, b"")) };
    assert!(check(&bytes_of(&[(node, batch(image, 0, b""))]), false).is_err());
}

/// An entry of a compacted segment is merged from several, and has the index of the last of them.
#[test]
fn merged_entries_may_be_empty_and_of_several_terms() {
    let of_3 = partition(0, 3);
    let entry = |body: Vec<u8>| bytes_of(&[(head(4, EntryKind::Records, &body), body)]);
    let both = [batch(of_3, 4, b""), batch(of_3, 5, b"")].concat();
    for body in [vec![], both] {
        assert!(check(&entry(body.clone()), false).is_err());
        assert!(check(&entry(body), true).is_ok());
    }
    for epoch in [-1, 6] {
        assert!(check(&entry(batch(of_3, epoch, b"")), true).is_err());
    }
}

#[test]
fn every_beginning_of_an_entry_is_incomplete() {
    for entry in entries() {
        let bytes = bytes_of(&[entry]);
        assert_eq!(check(&bytes, false).map(|heads| heads.len()), Ok(1));
        for length in 1..bytes.len() {
            assert!(check(&bytes[..length], false).is_err(), "{length} of {}", bytes.len());
        }
    }
}

/// The checksum covers the version, too. So a block of one format is never read in the other
/// format.
#[test]
fn every_changed_bit_of_a_block_is_noticed() {
    let whole = block_of(&entries());
    for at in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        assert!(Block::read(&bytes).is_err(), "bit {at}");
    }
}

proptest! {
    /// If bytes can be read as an entry, then writing this entry produces the same bytes.
    #[test]
    fn only_written_bytes_are_read(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        kind in 0..5u8,
        is_small in any::<bool>(),
    ) {
        if is_small && bytes.len() >= SLOT_ENTRY_BYTES {
            bytes[..SLOT_ENTRY_BYTES - 4].iter_mut().for_each(|byte| *byte &= 1);
            let length = (bytes.len() - SLOT_ENTRY_BYTES) as u32;
            bytes[SLOT_ENTRY_BYTES - 4..SLOT_ENTRY_BYTES].copy_from_slice(&length.to_be_bytes());
            (bytes[2], bytes[3]) = (kind, 0);
        }
        if let Ok(entry) = SlotEntry::read(&bytes) {
            let mut written = Vec::new();
            entry.head.write(&mut written);
            written.extend(entry.body);
            prop_assert_eq!(&written[..], &bytes[..written.len()]);
            let _ = entry.check(TOPICS, SLOTS, true);
        }
        if let Ok(marker) = Marker::read(&bytes) {
            let mut written = Vec::new();
            marker.write(&mut written);
            prop_assert_eq!(written, bytes);
        }
    }
}
