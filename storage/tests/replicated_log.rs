//! The bytes of a replicated log, and what recovery refuses in it.

#![allow(clippy::unwrap_used)]

mod common;

use common::{CLUSTER, Disk, part, settle, small_config};
use muster_storage::layout::{BLOCK_HEADER_BYTES, Block, Format, SegmentHeader};
use muster_storage::shard_log::recovery::{Case, segment_file_name};
use muster_storage::{
    Corruption, EndedEntry, EntryId, EntryKind, LogConfig, LogPartition, Marker, NODE_GROUP,
    NewEntry, Recovered, RecoveredItem, Recovery, ShardLog, TopicRules,
};
use std::path::PathBuf;

const BLOCK: usize = 512;
const TERM: u32 = 5;

fn config() -> LogConfig {
    LogConfig { format: Format::Replicated, ..small_config() }
}

fn path() -> PathBuf {
    config().dir.join(segment_file_name(1))
}

fn append(log: &mut ShardLog, partition: LogPartition, value: &[u8]) {
    log.append(partition, 1_000, [(&b"key"[..], Some(value))]).unwrap();
}

fn write(log: &mut ShardLog, term: u32) {
    for EndedEntry { group, bytes } in log.end_entries(|_| term) {
        let index = log.last_entry(group).index + 1;
        let new = NewEntry { group, kind: EntryKind::Records, index, term, stamp: 3 };
        log.write_entry(new, &bytes).unwrap();
    }
}

/// A segment whose first block has entries of all kinds, and whose second block has one entry.
fn written() -> Disk {
    let mut disk = Disk::default();
    let mut log = ShardLog::new(config(), Recovered::default());
    let voters = vec![1 << 16 | 1, 1 << 16 | 2, 1 << 16 | 3];
    let marker = Marker { replica: voters[2], voters, ..Marker::default() };
    log.write_marker(8, EntryId { index: 1, term: 1 }, &marker, &[]).unwrap();
    append(&mut log, part(CLUSTER), b"image");
    append(&mut log, part(7), b"first");
    append(&mut log, LogPartition::NODE, b"vote");
    write(&mut log, TERM);
    let new = |kind, index| NewEntry { group: 3, kind, index, term: TERM, stamp: 3 };
    log.write_entry(new(EntryKind::Empty, 1), &[]).unwrap();
    log.write_entry(new(EntryKind::Members, 2), &[9; 17]).unwrap();
    log.seal_block();
    settle(&mut log, &mut disk, 2_000);
    log.commit(8, 2);
    append(&mut log, part(7), b"second");
    write(&mut log, TERM);
    log.seal_block();
    settle(&mut log, &mut disk, 2_000);
    disk
}

fn recover(disk: &Disk) -> Result<(Recovered, Vec<(u16, u64)>), Corruption> {
    let mut recovery = Recovery::new(common::TOPICS).replicated(config().slots);
    let mut replayed = Vec::new();
    recovery.items(1, &disk.live[&path()], |item| {
        if let RecoveredItem::Batch { group, index, .. } = item {
            replayed.push((group, index));
        }
    })?;
    Ok((recovery.finish(), replayed))
}

/// To accept a new format, write the file with MUSTER_GOLDEN=write.
#[test]
fn the_bytes_of_a_replicated_segment_do_not_change_unnoticed() {
    let golden = "tests/data/golden-replicated.bin";
    let bytes = written().live[&path()][..4 * BLOCK].to_vec();
    if std::env::var_os("MUSTER_GOLDEN").is_some_and(|what| what == "write") {
        std::fs::write(golden, &bytes).unwrap();
    }
    assert!(std::fs::read(golden).unwrap() == bytes, "the format of replicated logs has changed");
}

#[test]
fn the_golden_replicated_segment_is_read() {
    let mut disk = Disk::default();
    let mut segment = std::fs::read("tests/data/golden-replicated.bin").unwrap();
    segment.resize(config().segment_bytes as usize, 0);
    disk.live.insert(path(), segment);
    let (recovered, replayed) = recover(&disk).unwrap();
    assert_eq!(replayed, [(NODE_GROUP, 1), (8, 2)], "what is committed");
    let groups: Vec<_> = recovered.groups().map(|(group, it)| (group, it.last())).collect();
    let entry = |index, term| EntryId { index, term };
    let expected =
        [(0, entry(1, 5)), (3, entry(2, 5)), (8, entry(3, 5)), (NODE_GROUP, entry(1, 0))];
    assert_eq!(groups, expected);
    let (_, of_slot) = recovered.groups().find(|(group, _)| *group == 3).unwrap();
    assert_eq!(of_slot.change(2), Some(&[9; 17]));
    let kinds: Vec<_> = of_slot.kept().map(|(_, it)| it.kind).collect();
    assert_eq!(kinds, [EntryKind::Empty, EntryKind::Members]);
    assert_eq!(recovered.partitions().count(), 3);
}

/// A server that is not in a cluster refuses a replicated log.
#[test]
fn a_replicated_log_is_refused_by_others() {
    let disk = written();
    let mut recovery = Recovery::new(common::TOPICS);
    let refused = recovery.segment(1, &disk.live[&path()], |_| {}).unwrap_err();
    assert_eq!(refused.case, Case::L);
}

/// Changes a byte in the header of the second block's entry. The checksum of the block is valid.
fn forged(at: usize, change: impl Fn(u8) -> u8) -> Disk {
    let mut disk = written();
    let segment = disk.live.get_mut(&path()).unwrap();
    let blocks = (1..4).map(|number| number * BLOCK);
    let second = blocks.rev().find(|at| Block::read(&segment[*at..]).is_ok()).unwrap();
    let header = Block::read(&segment[second..]).unwrap().header;
    let byte = &mut segment[second + BLOCK_HEADER_BYTES + at];
    *byte = change(*byte);
    header.write(&mut segment[second..]);
    disk
}

#[test]
fn case_s_an_entry_that_does_not_follow() {
    assert!(recover(&forged(0, |it| it)).is_ok());
    const INDEX: usize = 15;
    assert_eq!(recover(&forged(INDEX, |it| it + 1)).unwrap_err().case, Case::S);
}

#[test]
fn a_block_whose_entries_do_not_fit_their_heads_is_refused() {
    const GROUP: usize = 1;
    const TERM: usize = 7;
    const COMMIT: usize = 23;
    for at in [GROUP, 2, 3, TERM, COMMIT, 35] {
        let refused = recover(&forged(at, |it| it + 2)).unwrap_err();
        assert_eq!(refused.case, Case::M, "byte {at}");
    }
}

/// A segment of one format has a block of the other. No crash leaves such a segment.
#[test]
fn a_block_of_another_format_than_its_segment_is_refused() {
    let mut disk = written();
    let segment = disk.live.get_mut(&path()).unwrap();
    let (header, _) = SegmentHeader::read(segment).unwrap();
    SegmentHeader { format: Format::Alone, ..header }.write(segment);
    assert_eq!(recover(&disk).unwrap_err().case, Case::M);
    let none = TopicRules::default();
    let unknown = Recovery::new(none).replicated(10).segment(1, &written().live[&path()], |_| {});
    assert_eq!(unknown.unwrap_err().case, Case::M);
}
