//! The rules of a pass: which batches and records it keeps.

use super::notes::Notes;
use super::output::Fate;
use super::transactions::Place;
use crate::log_partition::LogPartition;
use crate::raw_record::RawRecord;
use crate::topic_rules::TopicRules;
use muster_codec::record_batch::BatchHeader;
use muster_faults::Fault;

/// The parameters of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) topics: TopicRules,
    pub(super) log_id: u64,
    pub(super) block_bytes: u32,
    /// The number of the pass.
    pub(super) pass: u64,
    /// The maximum size of a segment that is merged from several.
    pub(super) merged_bytes_max: usize,
    pub(super) map_bytes: usize,
    /// The wall-clock time at which the pass began.
    pub(super) now: i64,
    /// The delete horizon for tombstones that get a horizon in this pass.
    pub(super) horizon: i64,
    /// Markers after this position are kept: a snapshot of this position may have pending offsets
    /// that the markers commit or abort.
    pub(super) markers_until: u64,
}

/// The part of the log whose keys a pass compares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The first block that no earlier pass has compacted.
    pub(super) dirty_from: Place,
    /// The end of the part, if it is within the first dirty source. There the memory for keys was
    /// full, or a transaction begins that has not ended.
    pub(super) cut: Option<Place>,
}

/// The way in which the records of a batch are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Compare the records with newer records of their keys.
    Compare,
    /// Keep all records.
    Keep,
    /// Drop all records: their transaction was aborted.
    Drop,
    /// Drop the marker, because no record needs it any more: an earlier pass has handled its
    /// transaction. That pass dropped the records if they were aborted, and made them
    /// non-transactional if committed.
    DropMarker,
}

impl Part {
    /// The treatment of the batch at a place. `position` is the last position of the batch's block.
    /// The caller has chosen the cut so that all transactions that begin before the cut have ended.
    pub(super) fn treatment(
        &self,
        notes: &Notes,
        place: Place,
        position: u64,
        partition: LogPartition,
        header: &BatchHeader,
        markers_until: u64,
    ) -> Treatment {
        let is_clean = place < self.dirty_from;
        if self.cut.is_some_and(|cut| place >= cut) {
            Treatment::Keep
        } else if header.is_control() {
            let is_over = is_clean && position <= markers_until;
            if is_over { Treatment::DropMarker } else { Treatment::Keep }
        } else if !header.is_transactional() {
            Treatment::Compare
        } else if is_clean {
            Treatment::Keep
        } else if notes.is_aborted(partition, header) {
            if Fault::AbortedKept.is_injected() { Treatment::Keep } else { Treatment::Drop }
        } else {
            Treatment::Compare
        }
    }
}

/// Decides whether a record is kept (`Cleaner.shouldRetainRecord`). It is kept unless a newer
/// record of its key replaces it; a tombstone is kept until its delete horizon. Records without a
/// key are dropped, because no record could ever replace them. Updates without a value are dropped,
/// because they have no meaning.
pub(super) fn fate(
    notes: &Notes,
    rules: &Rules,
    partition: LogPartition,
    header: &BatchHeader,
    record: &RawRecord<'_>,
) -> Fate {
    let Some(key) = record.key else { return Fate::Drop };
    let offset = record.offset(header);
    let known = notes.newest_of(partition, key);
    if known.is_some_and(|known| offset < known) {
        return Fate::Drop;
    }
    let of_topic = rules.topics.of(partition.topic);
    if record.is_tombstone && of_topic.keys.is_update(key) {
        return Fate::Drop;
    }
    let is_over = |horizon| rules.now >= horizon;
    if record.is_tombstone && header.delete_horizon().is_some_and(is_over) {
        return Fate::DropMissed;
    }
    // If the key was noted, this pass drops all older records of the key. Otherwise some may
    // remain.
    let is_clean = record.is_tombstone && known == Some(offset);
    if is_clean { Fate::KeepClean } else { Fate::Keep }
}
