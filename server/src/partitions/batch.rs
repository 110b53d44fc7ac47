//! Is what a producer sent one good batch? The checks of Kafka's `ProduceRequest.validateRecords`,
//! `UnifiedLog.analyzeAndValidateRecords` and `LogValidator`, in their order.

use super::limits::RECORD_ERRORS_MAX;
use crate::config::TopicConfig;
use muster_codec::messages::BatchIndexAndErrorMessage;
use muster_codec::record_batch::{
    Batch, BatchHeader, Compression, NO_TIMESTAMP, TimestampType, validate,
};
use muster_codec::wire::{DecodeError, Reader};
use muster_codec::{Bytes, ErrorCode};

/// A batch that may be appended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Good<'a> {
    pub header: BatchHeader,
    pub bytes: &'a [u8],
    /// Who times the records, and the time of the newest.
    pub timestamp_type: TimestampType,
    pub max_timestamp: i64,
}

/// Why a batch is refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    pub error: ErrorCode,
    pub message: Option<String>,
    pub record_errors: Vec<BatchIndexAndErrorMessage<'static>>,
}

type Result<T> = std::result::Result<T, Refusal>;

/// The codec came with Produce v7 (KIP-110).
const ZSTD_SINCE: i16 = 7;

/// What Kafka can tell a batch by: everything up to the magic byte.
const MAGIC_AT: usize = 16;

/// The smallest length that Kafka takes for a batch of any magic.
const SMALLEST_LENGTH: i32 = 14;

/// Finds the one batch in the records of a partition.
pub(super) fn only_batch<'a>(records: Option<&'a Bytes<'_>>, version: i16) -> Result<&'a [u8]> {
    let bytes = records.map_or(&[][..], |records| &records[..]);
    let (first, rest) = split_batch(bytes)?.ok_or_else(|| {
        Refusal::invalid_record(format!(
            "Produce requests with version {version} must have at least one record batch per \
             partition"
        ))
    })?;
    if first[MAGIC_AT] != 2 {
        return Err(Refusal::invalid_record(format!(
            "Produce requests with version {version} are only allowed to contain record batches \
             with magic version 2"
        )));
    }
    let header = BatchHeader::read(first).map_err(Refusal::corrupt)?;
    if version < ZSTD_SINCE && header.compression() == Some(Compression::Zstd) {
        return Err(Refusal::of(ErrorCode::UnsupportedCompressionType));
    }
    if split_batch(rest)?.is_some() {
        return Err(Refusal::invalid_record(format!(
            "Produce requests with version {version} are only allowed to contain exactly one \
             record batch per partition"
        )));
    }
    Ok(first)
}

/// The batch at the front and what follows; None for bytes that end before a batch does, which
/// Kafka passes over (`ByteBufferLogInputStream`).
fn split_batch(bytes: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
    let mut reader = Reader::new(bytes);
    let (Ok(_), Ok(length)) = (reader.i64(), reader.i32()) else { return Ok(None) };
    if length < SMALLEST_LENGTH {
        return Err(Refusal::of(ErrorCode::CorruptMessage));
    }
    let Some(magic) = bytes.get(MAGIC_AT) else { return Ok(None) };
    if *magic > 2 {
        return Err(Refusal::of(ErrorCode::CorruptMessage));
    }
    Ok(bytes.split_at_checked(12 + length as usize))
}

/// Checks the batch against the rules of its topic.
pub(super) fn check<'a>(bytes: &'a [u8], topic: &TopicConfig, now: i64) -> Result<Good<'a>> {
    let batch = Batch::read(bytes).map_err(Refusal::corrupt)?;
    let header = batch.header;
    if header.base_offset != 0 {
        return Err(Refusal::invalid_record(format!(
            "The baseOffset of the record batch in the append should be 0, but it is {}",
            header.base_offset
        )));
    }
    if bytes.len() as u64 > u64::from(topic.max_message_bytes.unsigned_abs()) {
        return Err(Refusal::of(ErrorCode::MessageTooLarge));
    }
    validate(bytes).map_err(Refusal::corrupt)?;
    header.validate_from_client().map_err(Refusal::invalid)?;
    if header.is_transactional() {
        return Err(Refusal::of(ErrorCode::InvalidTxnState));
    }
    let newest = check_records(&batch, topic, now)?;
    let timestamp_type = topic.message_timestamp_type;
    let max_timestamp = match timestamp_type {
        TimestampType::CreateTime => newest,
        TimestampType::LogAppendTime => now,
    };
    if bytes.len() as u64 > u64::from(topic.segment_bytes.unsigned_abs()) {
        return Err(Refusal::of(ErrorCode::RecordListTooLarge));
    }
    Ok(Good { header, bytes, timestamp_type, max_timestamp })
}

/// The largest timestamp of records that are all well. Compressed ones are not looked into: there
/// the header has the word.
fn check_records(batch: &Batch<'_>, topic: &TopicConfig, now: i64) -> Result<i64> {
    let header = &batch.header;
    let window = Window::new(topic, now);
    if header.timestamp_type() == TimestampType::LogAppendTime {
        return Err(Refusal::invalid_timestamp(Vec::new()));
    }
    if header.compression() != Some(Compression::None) {
        let times = [header.base_timestamp, header.max_timestamp];
        return match times.into_iter().all(|time| window.holds(time)) {
            true => Ok(header.max_timestamp),
            false => Err(Refusal::invalid_timestamp(Vec::new())),
        };
    }
    let mut newest = NO_TIMESTAMP;
    let mut late = Vec::new();
    let mut keyless = Vec::new();
    for (index, record) in (0..).zip(batch.records().map_err(Refusal::invalid)?) {
        let record = record.map_err(Refusal::invalid)?;
        if record.offset_delta != index {
            return Err(Refusal::invalid(DecodeError::InvalidBatch("offsets do not count up")));
        }
        let time = batch.timestamp(&record);
        newest = newest.max(time);
        if topic.cleanup_policy.compact && record.key.is_none() {
            keyless.push(index);
        } else if !window.holds(time) {
            late.push((index, time));
        }
        if late.len() + keyless.len() == RECORD_ERRORS_MAX {
            break;
        }
    }
    refuse_records(&window, &late, &keyless)?;
    Ok(newest)
}

/// Kafka names every record that is wrong (KIP-467); one of a bad time makes it INVALID_TIMESTAMP.
fn refuse_records(window: &Window, late: &[(i32, i64)], keyless: &[i32]) -> Result<()> {
    if late.is_empty() && keyless.is_empty() {
        return Ok(());
    }
    let late_errors =
        late.iter().map(|(index, time)| record_error(*index, window.error(*index, *time)));
    let keyless_errors = keyless.iter().map(|index| {
        record_error(*index, "Compacted topic cannot accept message without key".to_owned())
    });
    let mut errors: Vec<_> = late_errors.chain(keyless_errors).collect();
    errors.sort_by_key(|error| error.batch_index);
    if !late.is_empty() {
        return Err(Refusal::invalid_timestamp(errors));
    }
    let message = format!(
        "One or more records have been rejected due to {} record errors in total",
        errors.len()
    );
    Err(Refusal { record_errors: errors, ..Refusal::invalid_record(message) })
}

fn record_error(batch_index: i32, message: String) -> BatchIndexAndErrorMessage<'static> {
    BatchIndexAndErrorMessage { batch_index, batch_index_error_message: Some(message.into()) }
}

/// The times that a topic takes: `message.timestamp.before.max.ms` and `.after.max.ms`.
struct Window {
    first: i64,
    last: i64,
    /// With LogAppendTime the producer's times do not matter.
    open: bool,
}

impl Window {
    fn new(topic: &TopicConfig, now: i64) -> Self {
        Self {
            first: now.saturating_sub(topic.message_timestamp_before_max_ms),
            last: now.saturating_add(topic.message_timestamp_after_max_ms),
            open: topic.message_timestamp_type == TimestampType::LogAppendTime,
        }
    }

    fn holds(&self, time: i64) -> bool {
        self.open || time == NO_TIMESTAMP || (self.first..=self.last).contains(&time)
    }

    fn error(&self, index: i32, time: i64) -> String {
        format!(
            "Timestamp {time} of message with offset {index} is out of range. The timestamp should \
             be within [{}, {}]",
            self.first, self.last
        )
    }
}

impl Refusal {
    pub(super) fn of(error: ErrorCode) -> Self {
        Self { error, message: None, record_errors: Vec::new() }
    }

    fn corrupt(_: DecodeError) -> Self {
        Self::of(ErrorCode::CorruptMessage)
    }

    fn invalid(error: DecodeError) -> Self {
        Self::invalid_record(error.to_string())
    }

    fn invalid_record(message: String) -> Self {
        Self { message: Some(message), ..Self::of(ErrorCode::InvalidRecord) }
    }

    fn invalid_timestamp(record_errors: Vec<BatchIndexAndErrorMessage<'static>>) -> Self {
        let message = "One or more records have been rejected due to invalid timestamp";
        Self {
            error: ErrorCode::InvalidTimestamp,
            message: Some(message.to_owned()),
            record_errors,
        }
    }
}
