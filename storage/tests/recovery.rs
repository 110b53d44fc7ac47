//! One test for each row of the recovery table in FORMAT.md.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Disk, Replayed, compact, compacting_config, recover, settle, small_config, values};
use muster_storage::layout::{
    Block, BlockHeader, Compacted, Format, REPLICATED_COMPACTED_VERSION, SegmentHeader,
};
use muster_storage::limits::TORN_BYTES_MAX;
use muster_storage::shard_log::recovery::{Case, segment_file_name};
use muster_storage::{Corruption, LogConfig, Recovered, ShardLog};
use std::path::PathBuf;

const BLOCK: usize = 512;

/// The position of block `number` of a segment. Each block takes 512 bytes; block 0 is the header.
fn at(number: usize) -> usize {
    number * BLOCK
}

fn path(sequence: u64) -> PathBuf {
    small_config().dir.join(segment_file_name(sequence))
}

/// A disk with a log of five operations, each in its own block of segment 1. Segment 2 is prepared.
struct Story {
    disk: Disk,
}

impl Story {
    fn new() -> Self {
        let mut disk = Disk::default();
        let mut log = ShardLog::new(small_config(), Recovered::default());
        for value in 1..=5 {
            append(&mut log, &[value; 10]);
            settle(&mut log, &mut disk, 0);
        }
        Self { disk }
    }

    fn segment(&mut self, sequence: u64) -> &mut Vec<u8> {
        self.disk.live.get_mut(&path(sequence)).unwrap()
    }

    /// The bytes that a sixth operation would write. Its block takes two times 512 bytes.
    fn sixth_block(&self) -> Vec<u8> {
        let mut disk = self.disk.clone();
        let (mut log, _) = common::open(&disk, small_config());
        disk.close_all();
        append(&mut log, &[6; 700]);
        settle(&mut log, &mut disk, 0);
        disk.live[&path(1)][at(6)..at(8)].to_vec()
    }

    /// Rewrites a block's header, with a valid checksum.
    fn rewrite(&mut self, number: usize, change: impl FnOnce(&mut BlockHeader)) {
        let block = &mut self.segment(1)[at(number)..at(number + 1)];
        let mut header = Block::read(block).unwrap().header;
        change(&mut header);
        header.write(block);
    }

    fn recover(&self) -> Result<(Recovered, Vec<Replayed>), Corruption> {
        recover(&self.disk, &small_config().dir)
    }

    /// Checks that the log opens with operations 1 to `last` and takes another one, and that the
    /// next recovery finds a clean end.
    #[track_caller]
    fn opens(mut self, ends: &[Case], last: u8) {
        let (recovered, replayed) = self.recover().unwrap();
        assert_eq!(recovered.ends(), ends);
        assert_eq!(firsts(&replayed), (1..=last).collect::<Vec<_>>());
        self.disk.close_all();
        let mut log = ShardLog::new(small_config(), recovered);
        append(&mut log, &[77; 10]);
        settle(&mut log, &mut self.disk, 0);
        assert_eq!(log.progress().flushed(), u64::from(last) + 1);

        let (recovered, replayed) = self.recover().unwrap();
        assert_eq!(recovered.ends(), [Case::A, Case::A], "no cut bytes are left");
        assert_eq!(firsts(&replayed), (1..=last).chain([77]).collect::<Vec<_>>());
    }

    #[track_caller]
    fn refuses(self, case: Case, segment: u64) {
        let refused = self.recover().unwrap_err();
        assert_eq!((refused.case, refused.segment), (case, segment), "{refused}");
        assert!(refused.to_string().contains(&segment_file_name(segment)));
    }
}

fn append(log: &mut ShardLog, value: &[u8]) {
    log.append(common::part(0), 1_000, [(&b"key"[..], Some(value))]).unwrap();
}

/// The first byte of each value.
fn firsts(replayed: &[Replayed]) -> Vec<u8> {
    replayed.iter().flat_map(|batch| values(&batch.bytes)).map(|value| value[0]).collect()
}

#[test]
fn case_a_zeros_to_the_end() {
    Story::new().opens(&[Case::A, Case::A], 5);
}

#[test]
fn case_b_a_whole_block_that_was_not_acknowledged_is_kept() {
    let mut story = Story::new();
    let block = story.sixth_block();
    story.segment(1)[at(6)..at(8)].copy_from_slice(&block);
    story.opens(&[Case::A, Case::A], 6);
}

#[test]
fn case_c_an_old_block_of_a_reused_file() {
    let mut story = Story::new();
    let stale = story.segment(1)[at(3)..at(4)].to_vec();
    story.segment(1)[at(6)..at(7)].copy_from_slice(&stale);
    story.rewrite(6, |header| (header.segment, header.first_position) = (0, 6));
    let (recovered, replayed) = story.recover().unwrap();
    assert_eq!((recovered.ends(), replayed.len()), (&[Case::C, Case::A][..], 5));

    let mut other_log = Story::new();
    other_log.segment(1)[at(6)..at(7)].copy_from_slice(&stale);
    other_log.rewrite(6, |header| (header.log_id, header.first_position) = (9, 6));
    assert_eq!(other_log.recover().unwrap().0.ends()[0], Case::C);
}

#[test]
fn case_d_a_torn_block_without_its_beginning() {
    let mut story = Story::new();
    let block = story.sixth_block();
    story.segment(1)[at(7)..at(8)].copy_from_slice(&block[BLOCK..]);
    let cut = story.recover().unwrap().0.cut().cloned().unwrap();
    assert_eq!((cut.segment, cut.at, cut.bytes.len()), (1, at(6) as u32, 2 * BLOCK));
    assert_eq!(cut.bytes[BLOCK..], block[BLOCK..]);
    story.opens(&[Case::D, Case::A], 5);
}

#[test]
fn case_e_a_torn_block_without_its_end() {
    let mut story = Story::new();
    let block = story.sixth_block();
    story.segment(1)[at(6)..at(7)].copy_from_slice(&block[..BLOCK]);
    let (recovered, _) = story.recover().unwrap();
    assert_eq!(recovered.end(), Some((1, at(6) as u32)));
    assert_eq!(recovered.cut().unwrap().bytes, block[..BLOCK]);
    story.opens(&[Case::E, Case::A], 5);
}

#[test]
fn case_e_in_a_recycled_file_is_a_cut_only_if_it_was_a_block_of_the_segment() {
    let story = |change: fn(&mut [u8])| {
        let mut story = Story::new();
        let (mut header, _) = SegmentHeader::read(story.segment(1)).unwrap();
        header.is_recycled = true;
        header.write(story.segment(1));
        let block = story.sixth_block();
        story.segment(1)[at(6)..at(8)].copy_from_slice(&block);
        change(&mut story.segment(1)[at(6)..at(8)]);
        story.recover().unwrap().0
    };
    let former = story(|block| block[..BLOCK].fill(0xaa));
    assert_eq!((former.ends()[0], former.cut()), (Case::E, None));
    let torn = story(|block| block[BLOCK..].fill(0xaa));
    assert_eq!((torn.ends()[0], torn.cut().unwrap().bytes.len()), (Case::E, 2 * BLOCK));
    assert_eq!(story(|_| {}).cut(), None);
}

#[test]
fn case_r_more_than_any_block_is_not_cut() {
    let mut disk = Disk::default();
    let LogConfig { dir, topics, .. } = small_config();
    let first_segment_bytes = LogConfig::default().segment_bytes;
    let config = LogConfig { dir, topics, first_segment_bytes, ..LogConfig::default() };
    let mut log = ShardLog::new(config.clone(), Recovered::default());
    append(&mut log, &[1; 10]);
    settle(&mut log, &mut disk, 0);
    disk.live.get_mut(&path(1)).unwrap()[2 * 4096 + TORN_BYTES_MAX - 1] = 1;
    let (recovered, _) = recover(&disk, &config.dir).unwrap();
    assert_eq!(recovered.cut().unwrap().bytes.len(), TORN_BYTES_MAX);
    disk.live.get_mut(&path(1)).unwrap()[2 * 4096 + TORN_BYTES_MAX] = 1;
    let corruption = recover(&disk, &config.dir).unwrap_err();
    assert_eq!((corruption.case, corruption.segment, corruption.at), (Case::R, 1, 2 * 4096));
}

#[test]
fn case_e_half_a_header_or_garbage() {
    for garbage in [&b"MBLK"[..], b"MBLK\0\x01\0\0", &[0xff; 2 * BLOCK]] {
        let mut story = Story::new();
        story.segment(1)[at(6)..at(6) + garbage.len()].copy_from_slice(garbage);
        story.opens(&[Case::E, Case::A], 5);
    }
}

#[test]
fn case_f_a_damaged_block_before_whole_ones() {
    for number in 1..5 {
        let mut story = Story::new();
        story.segment(1)[at(number) + 60] ^= 1;
        story.refuses(Case::F, 1);
        let mut story = Story::new();
        story.segment(1)[at(number)..at(number + 1)].fill(0);
        story.refuses(Case::F, 1);
    }
}

#[test]
fn case_g_a_block_is_missing() {
    let mut story = Story::new();
    story.segment(1).copy_within(at(4)..at(5), at(3));
    story.refuses(Case::G, 1);
    let mut story = Story::new();
    story.segment(1).copy_within(at(3)..at(4), at(4));
    story.refuses(Case::G, 1);
}

#[test]
fn case_g_the_end_of_a_segment_is_missing_before_another() {
    let mut story = Story::new();
    let (mut log, _) = common::open(&story.disk, small_config());
    story.disk.close_all();
    for _ in 0..100 {
        append(&mut log, &[9; 400]);
        settle(&mut log, &mut story.disk, 0);
    }
    let end = story.segment(1).len();
    story.segment(1)[end - 4 * BLOCK..].fill(0);
    story.refuses(Case::G, 2);
}

#[test]
fn case_h_a_segment_that_was_being_created() {
    for len in [0, 100, 16 << 10, 32 << 10] {
        let mut story = Story::new();
        *story.segment(2) = vec![0; len];
        story.opens(&[Case::A, Case::H], 5);
    }
}

#[test]
fn case_h_a_file_that_was_being_recycled() {
    let mut story = Story::new();
    let recycled = story.segment(1).clone();
    *story.segment(2) = recycled;
    story.opens(&[Case::A, Case::H], 5);
}

#[test]
fn case_h_a_segment_was_begun_after_one_that_is_created_again() {
    for begun in [vec![], vec![0; 100], vec![0xff; BLOCK]] {
        let mut story = Story::new();
        story.segment(2).fill(0);
        story.disk.live.insert(path(3), begun);
        let (recovered, _) = story.recover().unwrap();
        assert_eq!(recovered.ends(), [Case::A, Case::H]);
        story.disk.close_all();
        let mut log = ShardLog::new(small_config(), recovered);
        append(&mut log, &[77; 10]);
        settle(&mut log, &mut story.disk, 0);
        let (_, replayed) = story.recover().unwrap();
        assert_eq!(firsts(&replayed), [1, 2, 3, 4, 5, 77]);
    }
}

#[test]
fn case_i_a_header_is_missing() {
    let mut story = Story::new();
    story.segment(1)[..BLOCK].fill(0);
    story.refuses(Case::I, 1);
    let mut story = Story::new();
    story.segment(1).fill(0);
    story.refuses(Case::I, 1);
}

#[test]
fn case_j_a_file_is_missing() {
    let mut story = Story::new();
    story.disk.live.remove(&path(1));
    story.refuses(Case::J, 2);
    let mut story = Story::new();
    let third = story.segment(2).clone();
    story.disk.live.remove(&path(2));
    story.disk.live.insert(path(3), third);
    story.refuses(Case::J, 3);
}

#[test]
fn case_j_a_file_is_missing_after_a_segment_that_is_created_again() {
    for begun in [vec![], vec![0; 100], vec![0; 32 << 10]] {
        let mut story = Story::new();
        story.segment(2).fill(0);
        story.disk.live.insert(path(4), begun.clone());
        story.refuses(Case::J, 4);
        let mut story = Story::new();
        story.segment(2).fill(0);
        story.disk.live.insert(path(3), begun.clone());
        story.disk.live.insert(path(5), begun);
        story.refuses(Case::J, 5);
    }
}

#[test]
fn case_k_nothing() {
    Story { disk: Disk::default() }.opens(&[], 0);
}

#[test]
fn case_l_not_what_this_log_wrote() {
    let (header, _) = SegmentHeader::read(Story::new().segment(2)).unwrap();
    let impossible = [
        SegmentHeader { log_id: 1, ..header },
        SegmentHeader { block_bytes: 0, ..header },
        SegmentHeader { block_bytes: 700, ..header },
        SegmentHeader { segment_bytes: 1 << 20, ..header },
        SegmentHeader { segment_bytes: 0, ..header },
        SegmentHeader { segment_bytes: (32 << 10) - 100, ..header },
    ];
    for header in impossible {
        let mut story = Story::new();
        header.write(story.segment(2));
        story.refuses(Case::L, 2);
    }
    let mut newer = Story::new();
    newer.segment(1)[5] = REPLICATED_COMPACTED_VERSION as u8 + 1;
    newer.refuses(Case::L, 1);
    let mut short = Story::new();
    short.segment(1).truncate(10_000);
    short.refuses(Case::L, 1);
}

#[test]
fn case_m_a_block_that_breaks_its_rules() {
    let change = |change: fn(&mut BlockHeader)| {
        let mut story = Story::new();
        story.rewrite(3, change);
        story.refuses(Case::M, 1);
    };
    change(|header| header.batches += 1);
    change(|header| header.operations = 0);
    change(|header| header.length -= 1);
    let mut story = Story::new();
    let partition = at(3) + 48;
    story.segment(1)[partition..partition + 4].copy_from_slice(&(-2i32).to_be_bytes());
    story.rewrite_anyway(3);
    story.refuses(Case::M, 1);
    let mut story = Story::new();
    let base_offset = at(3) + 52;
    story.segment(1)[base_offset..base_offset + 8].copy_from_slice(&1i64.to_be_bytes());
    story.rewrite_anyway(3);
    story.refuses(Case::M, 1);
}

impl Story {
    /// Like [`Story::rewrite`], but works even if the block's batches were modified before.
    fn rewrite_anyway(&mut self, number: usize) {
        let log_id = small_config().log_id;
        let block = &mut self.segment(1)[at(number)..at(number + 1)];
        let length = u32::from_be_bytes(block[12..16].try_into().unwrap());
        let header = BlockHeader {
            format: Format::Alone,
            length,
            log_id,
            segment: 1,
            first_position: number as u64,
            operations: 1,
            batches: 1,
        };
        header.write(block);
    }
}

impl Story {
    /// A log of twenty operations. All segments except the active one were compacted into one. Some
    /// files of the replaced segments are kept for reuse.
    fn compacted() -> Self {
        let mut story = Self::new();
        story.disk.close_all();
        let (mut log, _) = common::open(&story.disk, compacting_config());
        let mut now = 0;
        for value in 6..=20 {
            let record = (&[value][..], Some(&[value; 4_000][..]));
            log.append(common::part(i32::from(value % 2)), 1_000, [record]).unwrap();
            compact(&mut log, &mut story.disk, &mut now);
        }
        story
    }

    fn rewrite_compacted(&mut self, change: impl FnOnce(&mut SegmentHeader, &mut Compacted)) {
        let (mut header, _) = SegmentHeader::read(self.segment(1)).unwrap();
        let mut compacted = header.compacted.unwrap();
        change(&mut header, &mut compacted);
        header.compacted = Some(compacted);
        header.write(self.segment(1));
    }

    fn last_sequence(&self) -> u64 {
        let (header, _) = SegmentHeader::read(&self.disk.live[&path(1)]).unwrap();
        header.compacted.unwrap().last_sequence
    }
}

#[test]
fn case_n_a_compacted_segment_has_gaps() {
    let story = Story::compacted();
    let (recovered, replayed) = story.recover().unwrap();
    assert_eq!(recovered.position(), 20);
    assert_eq!(recovered.ends()[0], Case::N);
    assert_eq!(firsts(&replayed), (5..=20).collect::<Vec<_>>(), "1 to 5 had the same key");
    assert!(story.last_sequence() > 1);
}

#[test]
fn case_o_a_segment_that_another_stands_for() {
    let whole = Story::compacted();
    let left = (2..=whole.last_sequence()).find(|it| whole.disk.live.contains_key(&path(*it)));
    let (left, expected) = (left.unwrap(), firsts(&whole.recover().unwrap().1));
    let opens = |story: &Story| {
        let (recovered, replayed) = story.recover().unwrap();
        assert_eq!((recovered.position(), firsts(&replayed)), (20, expected.clone()));
    };
    opens(&whole);
    let mut garbage = Story::compacted();
    garbage.segment(left).fill(7);
    opens(&garbage);
    let mut empty = Story::compacted();
    empty.segment(left).clear();
    opens(&empty);
    empty.disk.close_all();
    let (mut log, _) = common::open(&empty.disk, small_config());
    settle(&mut log, &mut empty.disk, 0);
    assert!(!empty.disk.live.contains_key(&path(left)), "it cannot be reused, and is removed");
    let mut older = Story::compacted();
    let bytes = older.segment(1).clone();
    *older.segment(left) = bytes;
    let (mut header, _) = SegmentHeader::read(older.segment(left)).unwrap();
    header.sequence = left;
    header.write(older.segment(left));
    opens(&older);
}

#[test]
fn case_p_two_segments_stand_for_a_third() {
    let mut story = Story::compacted();
    let last = story.last_sequence();
    let left = (2..=last).find(|it| story.disk.live.contains_key(&path(*it))).unwrap();
    let (mut header, _) = SegmentHeader::read(story.segment(1)).unwrap();
    let compacted = header.compacted.unwrap();
    header.sequence = left;
    header.compacted = Some(Compacted { last_sequence: last + 1, ..compacted });
    header.write(story.segment(left));
    story.refuses(Case::P, left);
}

#[test]
fn case_q_a_compacted_segment_that_contradicts_its_header() {
    for at in [BLOCK, BLOCK + 30, BLOCK + 5_000, 20_000] {
        let mut story = Story::compacted();
        story.segment(1)[at] ^= 1;
        story.refuses(Case::Q, 1);
    }
    let refuses = |case, change: fn(&mut SegmentHeader, &mut Compacted)| {
        let mut story = Story::compacted();
        story.rewrite_compacted(change);
        story.refuses(case, 1);
    };
    refuses(Case::Q, |_, compacted| compacted.last_sequence = 0);
    refuses(Case::Q, |_, compacted| compacted.last_position = 3);
    refuses(Case::Q, |_, compacted| compacted.last_position = u64::MAX);
    refuses(Case::Q, |_, compacted| compacted.dirty_from = 0);
    refuses(Case::Q, |_, compacted| compacted.dirty_from = u32::MAX);
    refuses(Case::Q, |header, compacted| {
        header.segment_bytes -= 512;
        compacted.dirty_from -= 512;
    });
    refuses(Case::G, |_, compacted| compacted.first_position = 2);
    refuses(Case::L, |header, _| header.segment_bytes += 512);
    refuses(Case::Q, |header, _| header.log_id = 9);
    let mut story = Story::compacted();
    story.segment(1)[20] ^= 1;
    assert_eq!(story.recover().unwrap_err().case, Case::I);
}

#[test]
fn a_bit_flipped_anywhere_is_never_replayed() {
    let mut story = Story::new();
    let whole = firsts(&story.recover().unwrap().1);
    for bit in (0..at(6) * 8).step_by(7) {
        story.segment(1)[bit / 8] ^= 1 << (bit % 8);
        if let Ok((_, replayed)) = story.recover() {
            let found = firsts(&replayed);
            assert!(whole.starts_with(&found), "bit {bit}");
            assert!(found.len() >= 4, "bit {bit}: only the last block can seem torn");
        }
        story.segment(1)[bit / 8] ^= 1 << (bit % 8);
    }
}
