//! Validation of a producer's records: the checks of Kafka's `ProduceRequest.validateRecords`,
//! `UnifiedLog.analyzeAndValidateRecords` and `LogValidator`, in their order.

use super::limits::{DECOMPRESSED_BYTES_MAX, RECORD_ERRORS_MAX};
use super::producers::Sequenced;
use crate::config::TopicConfig;
use muster_codec::messages::{BatchIndexAndErrorMessage, ProduceRequest};
use muster_codec::record_batch::{
    Batch, BatchHeader, Compression, NO_TIMESTAMP, Records, TimestampType, validate,
};
use muster_codec::wire::Reader;
use muster_codec::{Bytes, ErrorCode, Wall};
use muster_compression::{decompress, is_too_long};
use std::io;

/// A batch that may be appended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Good {
    pub header: BatchHeader,
    /// Whether the producer or the log sets the timestamps. `max_timestamp` is the largest of them.
    pub timestamp_type: TimestampType,
    pub max_timestamp: i64,
}

/// The reason why a batch is refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    pub error: ErrorCode,
    pub message: Option<String>,
    pub record_errors: Vec<BatchIndexAndErrorMessage<'static>>,
    /// Whether the batch was refused before it reached the log. If so, the answer lacks the log
    /// start offset.
    pub before_log: bool,
}

// Refusals without a message: Kafka sends a message only with errors of single records.
const INVALID_RECORD: Refusal = Refusal::of(ErrorCode::InvalidRecord);
const CORRUPT: Refusal = Refusal::of(ErrorCode::CorruptMessage);

type Result<T> = std::result::Result<T, Refusal>;

/// The refusal of a transactional batch in a request without a transactional id.
pub(super) const NOT_TRANSACTIONAL: Refusal =
    Refusal::of(ErrorCode::TransactionalIdAuthorizationFailed);

/// The refusal of a new producer's batch while there are too many producers. The error makes the
/// producer send the batch again, as it does when the budget of writes is used up.
pub(super) const TOO_MANY_PRODUCERS: Refusal = Refusal::of(ErrorCode::RequestTimedOut);

/// The refusal of a compressed batch because the batches of its request, up to this one, decompress
/// to more than [`DECOMPRESSED_BYTES_MAX`]. The producer sends it again.
const DECOMPRESSED_TOO_MUCH: Refusal = Refusal::of(ErrorCode::RequestTimedOut);

/// The first version of Produce that allows zstd (KIP-110).
pub(super) const ZSTD_SINCE: i16 = 7;

/// The byte position of the magic byte, the last byte that Kafka needs to recognise a batch.
const MAGIC_AT: usize = 16;

/// The smallest length of a batch that Kafka accepts, for all magic bytes (format versions).
const SMALLEST_LENGTH: i32 = 14;

/// Checks the first batch of each partition, up to the first batch that is transactional. Kafka,
/// too, does this before it looks up topics (`RequestUtils.hasTransactionalRecords`). One bad batch
/// makes the whole request fail.
pub(super) fn check_request(body: &ProduceRequest<'_>) -> Result<()> {
    if has_transactional(&mut all_records(body))? && body.transactional_id.is_none() {
        return Err(NOT_TRANSACTIONAL);
    }
    Ok(())
}

/// Whether a request has records of a transaction; None if the request is invalid.
pub(crate) fn is_transactional(body: &ProduceRequest<'_>) -> Option<bool> {
    has_transactional(&mut all_records(body)).ok()
}

fn all_records<'r>(body: &'r ProduceRequest<'r>) -> impl Iterator<Item = &'r Bytes<'r>> {
    let partitions = body.topic_data.iter().flat_map(|topic| &topic.partition_data);
    partitions.filter_map(|partition| partition.records.as_ref())
}

/// Checks that all transactional batches for existing partitions have the same producer; otherwise
/// the whole request is refused (`ReplicaManager.handleProduceAppend`).
pub(super) fn check_producers<'r>(batches: impl Iterator<Item = &'r [u8]>) -> Result<()> {
    let headers = batches.filter_map(|batch| BatchHeader::read(batch).ok());
    let mut producers = headers.filter_map(|it| Some(transactional(&it)?.producer()));
    let first = producers.next();
    if producers.any(|other| Some(other) != first) {
        let message = Some("Transactional records contained more than one producer ID".to_owned());
        return Err(Refusal { message, ..Refusal::of(ErrorCode::InvalidProducerIdMapping) });
    }
    Ok(())
}

fn has_transactional<'r>(all: &mut impl Iterator<Item = &'r Bytes<'r>>) -> Result<bool> {
    for records in all {
        let first = split_batch(records).map_err(|refusal| {
            let message = "The records of a partition do not begin with a batch";
            Refusal { message: Some(message.to_owned()), ..refusal }
        })?;
        let header = first.and_then(|(first, _)| BatchHeader::read(first).ok());
        if header.is_some_and(|header| header.is_transactional()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The batch, if it is part of a transaction. None if it has no producer, even if its attributes
/// call it transactional.
pub(super) fn transactional(header: &BatchHeader) -> Option<Sequenced> {
    Sequenced::of(header).filter(|batch| batch.is_transactional)
}

/// Finds the one batch in the records of a partition.
pub(super) fn only_batch<'a>(records: Option<&'a Bytes<'_>>, version: i16) -> Result<&'a [u8]> {
    let bytes = records.map_or(&[][..], |records| &records[..]);
    let (first, rest) = split_batch(bytes)?.ok_or(INVALID_RECORD)?;
    if first[MAGIC_AT] != 2 {
        return Err(INVALID_RECORD);
    }
    let header = BatchHeader::read(first).map_err(|_| CORRUPT)?;
    if version < ZSTD_SINCE && header.compression() == Some(Compression::Zstd) {
        return Err(Refusal::of(ErrorCode::UnsupportedCompressionType));
    }
    if split_batch(rest)?.is_some() {
        return Err(INVALID_RECORD);
    }
    Ok(first)
}

/// Whether the records begin with a batch of an unknown codec.
pub(super) fn has_unknown_codec(records: Option<&Bytes<'_>>) -> bool {
    let first = records.and_then(|records| split_batch(records).ok().flatten());
    let first = first.filter(|(first, _)| first[MAGIC_AT] == 2);
    let header = first.and_then(|(first, _)| BatchHeader::read(first).ok());
    header.is_some_and(|header| header.compression().is_none())
}

/// The batch at the front and the bytes after it. None if the bytes end within the batch; Kafka
/// ignores such bytes (`ByteBufferLogInputStream`).
fn split_batch(bytes: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
    let mut reader = Reader::new(bytes);
    let (Ok(_), Ok(length)) = (reader.i64(), reader.i32()) else { return Ok(None) };
    if length < SMALLEST_LENGTH {
        return Err(CORRUPT);
    }
    let Some(magic) = bytes.get(MAGIC_AT) else { return Ok(None) };
    if *magic > 2 {
        return Err(CORRUPT);
    }
    Ok(bytes.split_at_checked(12 + length as usize))
}

/// Checks a batch by the rules of its topic. `left` is how many bytes may still be decompressed for
/// its request, and is reduced by the bytes of this batch.
pub(super) fn check(
    bytes: &[u8],
    topic: &TopicConfig,
    wall: Wall,
    left: &mut usize,
) -> Result<Good> {
    let batch = Batch::read(bytes).map_err(|_| CORRUPT)?;
    let header = batch.header;
    if header.base_offset != 0 {
        return Err(INVALID_RECORD);
    }
    if bytes.len() as u64 > u64::from(topic.max_message_bytes.unsigned_abs()) {
        return Err(Refusal::of(ErrorCode::MessageTooLarge));
    }
    validate(bytes).map_err(|_| CORRUPT)?;
    if header.compression().is_none() {
        return Err(Refusal::of(ErrorCode::UnknownServerError));
    }
    header.validate_from_client().map_err(|_| INVALID_RECORD)?;
    let newest = check_records(&batch, topic, wall, left)?;
    let timestamp_type = topic.message_timestamp_type;
    let max_timestamp = match timestamp_type {
        TimestampType::CreateTime => newest,
        TimestampType::LogAppendTime => wall.0,
    };
    if bytes.len() as u64 > u64::from(topic.segment_bytes.unsigned_abs()) {
        return Err(Refusal::of(ErrorCode::RecordListTooLarge));
    }
    Ok(Good { header, timestamp_type, max_timestamp })
}

/// Checks the records, and returns their largest timestamp. A compressed batch is decompressed only
/// if its topic limits the size of decompressed records. Otherwise only the timestamps in its
/// header are checked.
fn check_records(
    batch: &Batch<'_>,
    topic: &TopicConfig,
    wall: Wall,
    left: &mut usize,
) -> Result<i64> {
    let header = &batch.header;
    let window = Window::new(topic, header, wall);
    if header.compression() == Some(Compression::None) {
        let records = batch.records().map_err(|_| INVALID_RECORD)?;
        return check_each(batch, records, &INVALID_RECORD, topic, &window);
    }
    if let Some(max) = topic.decompressed_record_bytes_max() {
        let content = decompressed(batch, left)?;
        let records = Records::new(&content, header.records_count);
        let longest = records.clone().longest().map_err(|_| INVALID_RECORD)?;
        if longest > max {
            return Err(INVALID_RECORD);
        }
        // If the offsets do not count up, Kafka tries to renumber the records, which fails.
        let misnumbered = Refusal::of(ErrorCode::UnknownServerError);
        return check_each(batch, records, &misnumbered, topic, &window);
    }
    let times = [header.base_timestamp, header.max_timestamp];
    if times.into_iter().all(|time| window.holds(time)) {
        Ok(header.max_timestamp)
    } else {
        Err(Refusal::invalid_timestamp(Vec::new()))
    }
}

/// Decompresses the records of a batch. As in Kafka, the error is INVALID_RECORD if they end too
/// early, and UNKNOWN_SERVER_ERROR if the codec cannot read them.
fn decompressed(batch: &Batch<'_>, left: &mut usize) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let codec = batch.header.compression().unwrap_or(Compression::None);
    let max = *left;
    if max == 0 {
        return Err(DECOMPRESSED_TOO_MUCH);
    }
    let result = decompress(codec, batch.payload(), max, &mut content);
    *left = max.saturating_sub(content.len());
    match result {
        Ok(()) if !content.is_empty() => Ok(content),
        Err(error) if is_too_long(&error) => {
            *left = 0;
            let is_first = max == DECOMPRESSED_BYTES_MAX;
            Err(if is_first { INVALID_RECORD } else { DECOMPRESSED_TOO_MUCH })
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !content.is_empty() => {
            Err(INVALID_RECORD)
        }
        _ => Err(Refusal::of(ErrorCode::UnknownServerError)),
    }
}

/// Checks each record, and returns the largest timestamp. `misnumbered` is the error if the offsets
/// of the records do not count up. The records of a compressed batch are checked only if
/// [`check_records`] decompresses it.
#[inline]
fn check_each(
    batch: &Batch<'_>,
    records: Records<'_>,
    misnumbered: &Refusal,
    topic: &TopicConfig,
    window: &Window,
) -> Result<i64> {
    let mut newest = NO_TIMESTAMP;
    let mut late = Vec::new();
    let mut keyless = Vec::new();
    for (index, record) in (0..).zip(records) {
        let record = record.map_err(|_| INVALID_RECORD)?;
        if record.offset_delta != index {
            return Err(misnumbered.clone());
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
    refuse_records(window, &late, &keyless)?;
    Ok(newest)
}

/// Refuses the batch if some records are invalid. As in Kafka, the refusal lists these records
/// (KIP-467), but here at most [`RECORD_ERRORS_MAX`]. As in Kafka, the error is INVALID_TIMESTAMP
/// if a single timestamp is bad.
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
    Err(Refusal { message: Some(message), record_errors: errors, ..INVALID_RECORD })
}

fn record_error(batch_index: i32, message: String) -> BatchIndexAndErrorMessage<'static> {
    BatchIndexAndErrorMessage { batch_index, batch_index_error_message: Some(message.into()) }
}

/// The timestamps that a topic accepts: `message.timestamp.before.max.ms` and `.after.max.ms`.
struct Window {
    first: i64,
    last: i64,
    /// Whether the topic uses the producer's timestamps.
    checked: bool,
    /// Whether the batch says that the log sets the timestamps (LogAppendTime). Producers may not
    /// say this.
    by_log: bool,
}

impl Window {
    fn new(topic: &TopicConfig, header: &BatchHeader, wall: Wall) -> Self {
        Self {
            first: wall.0.saturating_sub(topic.message_timestamp_before_max_ms),
            last: wall.plus(topic.message_timestamp_after_max_ms),
            checked: topic.message_timestamp_type == TimestampType::CreateTime,
            by_log: header.timestamp_type() == TimestampType::LogAppendTime,
        }
    }

    /// `LogValidator.validateTimestamp`.
    fn holds(&self, time: i64) -> bool {
        if self.checked && time != NO_TIMESTAMP {
            (self.first..=self.last).contains(&time)
        } else {
            !self.by_log
        }
    }

    fn error(&self, index: i32, time: i64) -> String {
        if self.by_log {
            return "Invalid timestamp type in message. Producer should not set timestamp type to \
                    LogAppendTime."
                .to_owned();
        }
        format!(
            "Timestamp {time} of message with offset {index} is out of range. The timestamp should \
             be within [{}, {}]",
            self.first, self.last
        )
    }
}

impl Refusal {
    pub(super) const fn of(error: ErrorCode) -> Self {
        Self { error, message: None, record_errors: Vec::new(), before_log: false }
    }

    /// The refusal of a batch because the transaction coordinator does not confirm its transaction.
    pub(super) fn unverified(error: ErrorCode) -> Self {
        let message = if error == ErrorCode::InvalidTxnState {
            Some("Partition was not added to the transaction")
        } else if error == ErrorCode::NotEnoughReplicas {
            Some("Unable to verify the partition has been added to the transaction")
        } else {
            None
        };
        Self { message: message.map(str::to_owned), before_log: true, ..Self::of(error) }
    }

    fn invalid_timestamp(record_errors: Vec<BatchIndexAndErrorMessage<'static>>) -> Self {
        let message = "One or more records have been rejected due to invalid timestamp";
        Self {
            message: Some(message.to_owned()),
            record_errors,
            ..Self::of(ErrorCode::InvalidTimestamp)
        }
    }
}
