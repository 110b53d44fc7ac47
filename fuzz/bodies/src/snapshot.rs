//! Snapshots: the file (storage), and the groups in it (coordinator).

use crate::common::RecordBytes;
use crate::memory::within;
use crate::replay::{bytes, read, split};
use muster_codec::{Uuid, Wall};
use muster_coordinator::snapshot::{COUNT_BYTES, ENTRY_BYTES};
use muster_coordinator::{
    Budget, Config, Context, Coordinator, Ids, NoTopics, SnapshotPart, SnapshotWalk,
};
use muster_server::topics::InternalTopic::{ConsumerOffsets, ShareState, TransactionState};
use muster_server::topics::{GROUPS_SECTION, InternalTopic, PRODUCERS_SECTION, RULES};
use muster_shares::States;
use muster_shares::limits::UPDATES_PER_SNAPSHOT_MAX;
use muster_shares::state::StatesWalk;
use muster_storage::KnownSegments;
use muster_storage::snapshot::{
    SECTION_PART_AT, SECTION_ROW_BYTES, SNAPSHOT_HEADER_BYTES, SNAPSHOT_MAGIC, SNAPSHOT_VERSION,
    SectionRow, Snapshot,
};
use muster_transactions::partition::Saved;
use std::sync::Arc;

const GRANTED_PER_BYTE: usize = 2048;
const GRANTED_BYTES: usize = 4 << 20;
const EXPIRIES: usize = 16;
/// The number of sections of each kind that are checked.
const SECTIONS: usize = 16;
/// The file position of the first section.
const BODY_AT: usize = 64;

/// Uses arbitrary bytes as a snapshot file. Input: whether to repair the checksums of header and
/// parts; the bytes.
pub fn file(input: &[u8]) {
    let Some((repair, rest)) = input.split_first() else { return };
    let mut file = rest.to_vec();
    if *repair != 0 {
        repair_file(&mut file);
    }
    within(file.len() * 64 + GRANTED_BYTES, || {
        if let Ok(snapshot) = Snapshot::open(&file) {
            let _ = KnownSegments::read(&file[snapshot.log.clone()], RULES);
            let sections = |topic: InternalTopic, section| {
                snapshot.sections_of(topic.number(), section).take(SECTIONS)
            };
            for SectionRow { part: index, .. } in sections(ConsumerOffsets, GROUPS_SECTION) {
                let mut coordinator = Coordinator::new(Config::default());
                let bytes = Arc::new(file.clone());
                if coordinator.open_snapshot(bytes, index.range(), index.crc).is_ok() {
                    run_on(&mut coordinator);
                }
            }
            for SectionRow { part: index, .. } in sections(TransactionState, 0) {
                let mut ids = muster_transactions::Coordinator::new(Default::default(), 0);
                let bytes = Arc::new(file.clone());
                if ids.open_snapshot(bytes, index.range(), index.crc, 0).is_ok() {
                    ids.durable_records();
                }
            }
            for SectionRow { part: index, .. } in sections(ConsumerOffsets, PRODUCERS_SECTION) {
                let saved = index.of_file(&file).map(Saved::read);
                let all = saved.and_then(Result::ok).unwrap_or_default().transactions;
                assert!(
                    all.open().count() * 30 + all.aborted(0, i64::MAX).count() * 32 < file.len()
                );
            }
            for SectionRow { part: index, .. } in sections(ShareState, 0) {
                let mut states = States::new(UPDATES_PER_SNAPSHOT_MAX);
                let read = index.of_file(&file).map(|bytes| states.read_chunks(bytes));
                if let Some(Ok(_)) = read {
                    let (mut walk, mut again) = (StatesWalk::default(), Vec::new());
                    states.write_chunk(&mut walk, 0, usize::MAX, &mut again);
                    let mut found = States::new(UPDATES_PER_SNAPSHOT_MAX);
                    found.read_chunks(&again).unwrap();
                    assert!(found.iter().eq(states.iter()));
                }
            }
        }
    });
}

fn repair_file(file: &mut [u8]) {
    const PARTS: [usize; 2] = [48, 72];
    if file.len() < SNAPSHOT_HEADER_BYTES {
        return;
    }
    let (at, len) = (number(file, PARTS[0], 8), number(file, PARTS[0] + 8, 8));
    for row in 0..(len / SECTION_ROW_BYTES).min(4 * SECTIONS) {
        let row = at.saturating_add(row * SECTION_ROW_BYTES);
        repair_part(file, row.saturating_add(SECTION_PART_AT));
    }
    PARTS.into_iter().for_each(|part| repair_part(file, part));
    file[..4].copy_from_slice(&SNAPSHOT_MAGIC.to_be_bytes());
    file[4..6].copy_from_slice(&SNAPSHOT_VERSION.to_be_bytes());
    let crc = crc32c::crc32c(&file[12..SNAPSHOT_HEADER_BYTES]);
    file[8..12].copy_from_slice(&crc.to_be_bytes());
}

/// Corrects the checksum of a part of the file. Position `part` has three numbers: the position of
/// the part, its length and its checksum.
fn repair_part(file: &mut [u8], part: usize) {
    let (at, len) = (number(file, part, 8), number(file, part.saturating_add(8), 8));
    let crc = file.get(at..at.saturating_add(len)).map_or(0, crc32c::crc32c);
    if let Some(place) = file.get_mut(part.saturating_add(16)..part.saturating_add(20)) {
        place.copy_from_slice(&crc.to_be_bytes());
    }
}

/// Writes groups and reads them again. Input: whether to repair the checksums of sections; the
/// number of changed bytes; the changes; records as in `replay`.
///
/// Property: a group that can be read equals the one that was written.
pub fn groups(input: &[u8]) {
    let Some(([repair, changes], rest)) = input.split_first_chunk() else { return };
    let Some((changes, log)) = rest.split_at_checked(usize::from(*changes) * 3) else { return };
    within(input.len() * GRANTED_PER_BYTE + GRANTED_BYTES, || {
        let mut coordinator = Coordinator::new(Config::default());
        let records = split(log).filter_map(read);
        records.for_each(|record| coordinator.replay(&record, 1));
        let Some((mut file, index)) = written(&mut coordinator) else { return };
        let durable = bytes(&coordinator);
        assert_eq!(opened(&file, &index).map(|mut it| seen(&mut it)), Some(Some(durable.clone())));
        change(&mut file, changes);
        if *repair != 0 {
            repair_sections(&mut file, &index);
        }
        let index_is_whole = crc32c::crc32c(&file[range(&index)]) == index.crc;
        let Some(mut coordinator) = opened(&file, &index) else { return };
        run_on(&mut coordinator);
        // Damage to the index is detected when the snapshot is opened.
        if index_is_whole && *repair == 0 {
            let again = opened(&file, &index).and_then(|mut it| seen(&mut it));
            assert!(again.is_none_or(|again| again == durable), "damage that is not noticed");
        }
    });
}

/// Writes a snapshot. Returns the file and the position of its index. None if a group is too large
/// for a snapshot.
fn written(coordinator: &mut Coordinator) -> Option<(Vec<u8>, SnapshotPart)> {
    let (mut walk, mut file) = (SnapshotWalk::new(BODY_AT as u64), vec![0; BODY_AT]);
    loop {
        if let Some(index) = coordinator.write_snapshot(&mut walk, 1, 1_000, &mut file).ok()? {
            return Some((file, index));
        }
    }
}

fn opened(file: &[u8], index: &SnapshotPart) -> Option<Coordinator> {
    let mut coordinator = Coordinator::new(Config::default());
    // The index may have been changed. Its checksum is computed again, so that the index is read
    // nevertheless.
    let (index, bytes) = (range(index), Arc::new(file.to_vec()));
    let crc = crc32c::crc32c(&file[index.clone()]);
    let opened = coordinator.open_snapshot(bytes, index, crc);
    opened.is_ok().then_some(coordinator)
}

fn range(index: &SnapshotPart) -> std::ops::Range<usize> {
    index.at as usize..(index.at + index.len) as usize
}

/// All records of the coordinator's state. None if damage is found.
fn seen(coordinator: &mut Coordinator) -> Option<Vec<RecordBytes>> {
    coordinator.load_all();
    coordinator.damage().is_none().then(|| bytes(coordinator))
}

/// Lets time pass, as after loading, so that timers of groups fire. Damaged groups must not lead to
/// a panic, but their state is not checked.
fn run_on(coordinator: &mut Coordinator) {
    coordinator.load_members();
    coordinator.loaded(1_000_000, Wall(1_000_000), &NoTopics);
    for position in 2..2 + EXPIRIES as u64 {
        let Some(now) = coordinator.next_deadline() else { break };
        let mut context = Context {
            now,
            wall: Wall(now),
            position,
            ids: &mut OneId,
            topics: &NoTopics,
            budget: &mut Budget::default(),
        };
        let output = coordinator.expire(&mut context);
        if coordinator.damage().is_some() {
            return;
        }
        output.records.iter().for_each(|record| coordinator.replay(record, position));
    }
    coordinator.load_all();
}

/// Changes bytes of the file. Each change is a position and a new byte.
fn change(file: &mut [u8], changes: &[u8]) {
    let (changes, _) = changes.as_chunks();
    for [high, low, byte] in changes {
        let at = usize::from(u16::from_be_bytes([*high, *low]));
        let at = BODY_AT + at % (file.len() - BODY_AT).max(1);
        file.get_mut(at).into_iter().for_each(|it| *it = *byte);
    }
}

fn repair_sections(file: &mut [u8], index: &SnapshotPart) {
    let start = index.at as usize;
    let count = number(file, start, COUNT_BYTES);
    for entry in (0..count.min(64)).map(|number| start + COUNT_BYTES + number * ENTRY_BYTES) {
        for section in [entry + 16, entry + 32] {
            if section + 16 > file.len() {
                return;
            }
            let (at, len) = (number(file, section, 8), number(file, section + 8, 4));
            let crc = file.get(at..at.saturating_add(len)).map_or(0, crc32c::crc32c);
            file[section + 12..section + 16].copy_from_slice(&crc.to_be_bytes());
        }
    }
}

/// Reads a number of `len` bytes. Missing bytes make it 0.
fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    let bytes = bytes.get(at..at.saturating_add(len)).unwrap_or_default();
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

struct OneId;

impl Ids for OneId {
    fn next_id(&mut self) -> Uuid {
        Uuid([7; 16])
    }
}
