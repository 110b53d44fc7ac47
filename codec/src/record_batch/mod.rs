//! RecordBatch v2: the unit in which Kafka's records are sent, checked and stored.
//!
//! The rules are those of Kafka's `DefaultRecordBatch`, `DefaultRecord` and `LogValidator`.
//! - [`header`]: fields, checks, and the fields that are patched in place.
//! - [`reader`]: the batches of a buffer and the records of a batch.
//! - [`builder`]: builds a batch out of records.
//! - [`control`]: the markers that end transactions.

mod builder;
mod control;
mod header;
mod reader;

pub use builder::{BUFFER_BYTES_KEPT, BatchBuilder, Mark, WriteRecord};
pub use control::{EndTxnMarker, MARKER_BATCH_BYTES, TransactionOutcome};
pub use header::{
    BatchHeader, Compression, TimestampType, restore_framing, set_base_offset, set_max_timestamp,
    set_partition_leader_epoch, validate,
};
pub use reader::{Batch, Batches, Record, Records};

/// The only supported magic.
pub const MAGIC: i8 = 2;

/// The id and epoch of a transactional producer, as in the header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Producer {
    pub id: i64,
    pub epoch: i16,
}

/// Stands for "no producer id" in a batch.
pub const NO_PRODUCER_ID: i64 = -1;

/// Stands for "no producer epoch" in a batch.
pub const NO_PRODUCER_EPOCH: i16 = -1;

/// Stands for "no sequence number" in a batch.
pub const NO_SEQUENCE: i32 = -1;

/// Stands for "no timestamp" in a batch.
pub const NO_TIMESTAMP: i64 = -1;
