//! An open share partition: the members that hold its records, and until when.
//!
//! - **Acquire**: [`SharePartition::next_fetch_offset`] is the offset to read.
//!   [`SharePartition::acquire`] takes the bounds of the batches that were read. It writes nothing.
//! - **Changes** come from acknowledgements, and from sessions, locks and letters that ended. They
//!   also come from records that turn out to be removed or aborted: by a read, or because the log
//!   begins later. Before a flush, the caller takes all changes as one with
//!   [`SharePartition::take_change`], and passes it to [`crate::States::change`]. After the flush,
//!   [`SharePartition::flushed`] makes them final. Only then may requests be answered, released
//!   records be acquired again, and the start offset pass the changed records.
//! - **Time**: at [`SharePartition::next_deadline`] the caller calls [`SharePartition::expire`].
//! - **Letters**: [`SharePartition::take_letters`] returns the records for the dead letter queue.
//!   Each letter ends with [`SharePartition::letter_ended`].
//!
//! An open share partition is volatile: it is opened from its [`State`], and dropped when its group
//! has no session left on the shard.

mod aborted;
mod acknowledge;
mod acquire;
mod advance;
mod cause;
mod change;
mod in_flight;
mod letters;
mod log_moves;
mod members;
mod new_batches;
mod open;
mod release;
mod settings;
mod status;
mod throttle;

pub use aborted::{AbortedTransaction, ReadBatch, aborted_ranges, kept_batches};
pub use acknowledge::{Acknowledgement, NotAcknowledged, are_well_formed};
pub use acquire::{AcquireMode, AcquiredRange, Fetched, LogBatch, Wanted};
pub use cause::Cause;
pub use change::Change;
pub use letters::Letter;
pub use open::UnknownState;
pub use settings::Settings;

use crate::{RecordState, State};
use alloc::vec::Vec;
use in_flight::Batch;
use members::Members;

/// An open share partition.
#[derive(Debug)]
pub struct SharePartition {
    /// The start offset. All records before it are done, or were removed from the log.
    start: i64,
    /// The last offset that is or was in flight. If nothing is in flight, it equals `start`.
    end: i64,
    /// The batches in flight, by offset. Offsets between them have no records, or are in a hole.
    batches: Vec<Batch>,
    holes: Option<Holes>,
    members: Members,
    /// Whether a record may be available, or a hole may be open. False saves a search for them.
    may_be_available: bool,
    /// The earliest time at which a lock may end.
    next_lock: Option<i64>,
    has_unwritten: bool,
    /// Whether a record may need a dead letter.
    has_letters: bool,
}

/// A share partition was opened from its state, and the state has no batch for some offsets before
/// its last one: these are holes. They are read again, as their records were perhaps never
/// acknowledged. This is the range from the first hole to the last offset of the state. It is
/// closed, and no longer counts, when the end of the share partition has moved past that offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holes {
    first: i64,
    end: i64,
}

/// Records in flight, for administrators and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight<'p> {
    pub first: i64,
    pub last: i64,
    pub state: RecordState,
    pub delivery_count: i16,
    /// None unless the record is acquired.
    pub member: Option<&'p str>,
    pub locked_until: Option<i64>,
    /// Whether the change to this state may still be lost: no record with it is flushed yet.
    pub is_changing: bool,
}

impl SharePartition {
    pub fn start_offset(&self) -> i64 {
        self.start
    }

    pub fn end_offset(&self) -> i64 {
        self.end
    }

    /// The runs of records in flight, in order.
    pub fn in_flight(&self) -> impl Iterator<Item = InFlight<'_>> {
        self.batches.iter().flat_map(Batch::runs).map(|run| InFlight {
            first: run.first,
            last: run.last,
            state: run.status.state,
            delivery_count: run.status.count,
            member: self.members.name(run.status.member),
            locked_until: run.status.locked_until(),
            is_changing: run.status.is_changing(),
        })
    }

    /// The number of offsets from the start to the end, including records that are done.
    pub fn in_flight_count(&self) -> i64 {
        if self.batches.is_empty() { 0 } else { self.end - self.start + 1 }
    }

    /// Whether there are changes for [`Self::take_change`].
    pub fn has_changes(&self) -> bool {
        self.has_unwritten
    }

    /// The time at which [`Self::expire`] must be called.
    pub fn next_deadline(&self) -> Option<i64> {
        self.next_lock
    }

    /// Whether a fetch may acquire records: some in flight are available, or the limit is not
    /// reached.
    pub fn can_acquire(&mut self, settings: &Settings) -> bool {
        if self.next_fetch_offset() != self.end + 1 {
            return true;
        }
        let limit = settings.partition_max_record_locks;
        if self.in_flight_count() >= limit {
            self.make_room();
        }
        self.in_flight_count() < limit
    }

    /// Moves the start offset past all records that are done. Kafka does this only after a change
    /// was written. Even if a hole was filled, Kafka passes it only after the end has moved on. So
    /// in Kafka, if aborted or compacted records use up the limit, the start offset never moves
    /// again.
    fn make_room(&mut self) {
        if let Some(holes) = self.open_holes() {
            self.holes_begin_at(self.first_missing(holes.first));
        }
        self.advance();
    }

    /// The next offset to read: of an available record, in an open hole, or after the end.
    pub fn next_fetch_offset(&mut self) -> i64 {
        let Some(last) = self.batches.last().filter(|it| self.start <= it.last) else {
            self.may_be_available = false;
            return self.end;
        };
        debug_assert!(last.last <= self.end);
        if self.may_be_available {
            if let Some(offset) = self.first_available() {
                return offset;
            }
            self.may_be_available = false;
        }
        self.end + 1
    }

    fn first_available(&self) -> Option<i64> {
        let mut hole = self.open_holes().map(|it| it.first);
        for batch in &self.batches {
            if let Some(first) = hole {
                if batch.first > first {
                    return Some(first);
                }
                hole = Some(first.max(batch.last + 1));
            }
            let mut available = batch.runs().filter(|run| run.status.is_available());
            if let Some(run) = available.next() {
                return Some(run.first);
            }
        }
        None
    }

    /// The holes, unless the end has moved on.
    fn open_holes(&self) -> Option<Holes> {
        self.holes.filter(|it| it.end == self.end)
    }

    /// The index of the last batch that begins at or before an offset.
    fn floor(&self, offset: i64) -> Option<usize> {
        self.batches.partition_point(|it| it.first <= offset).checked_sub(1)
    }

    /// The batches whose first offset is from `first` to `last`.
    fn between(&self, first: i64, last: i64) -> core::ops::Range<usize> {
        let from = self.batches.partition_point(|it| it.first < first);
        from..self.batches.partition_point(|it| it.first <= last).max(from)
    }

    fn lock_ends_at(&mut self, until: i64) {
        self.next_lock = Some(self.next_lock.map_or(until, |it| it.min(until)));
    }
}
