//! Transactions in the tests: markers, and TxnOffsetCommit, which is not in the table of APIs.

use crate::forms::{Result, as_read, kafka_form, lossless_request};
use crate::transcript::Line;
use muster_codec::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::{Field, Reader, Version};
use muster_coordinator::Producer;
use serde_json::Value;

pub const NAME: &str = "TxnOffsetCommit";
/// The newest version of TxnOffsetCommit in Kafka 4.3.
pub const NEWEST: i16 = 5;
const FLEXIBLE_FROM: i16 = 3;

fn of(version: i16) -> Version {
    Version { number: version, flexible: version >= FLEXIBLE_FROM }
}

/// The bytes of a request's body; see [`crate::forms::request_bytes`].
pub fn request_bytes(version: i16, body: &Value) -> Result<Vec<u8>> {
    let request = lossless_request::<TxnOffsetCommitRequest<'static>>(body)?;
    let mut out = Vec::new();
    request.write(&mut out, of(version));
    Ok(out)
}

pub fn read_request(version: i16, bytes: &[u8]) -> Result<TxnOffsetCommitRequest<'_>> {
    Field::read(&mut Reader::new(bytes), of(version)).map_err(|error| error.to_string())
}

/// A response in the form of [`crate::forms::response_json`].
pub fn response_json(response: &TxnOffsetCommitResponse<'_>, version: i16) -> Result<Value> {
    let mut bytes = Vec::new();
    response.write(&mut bytes, of(version));
    let read: TxnOffsetCommitResponse<'_> =
        Field::read(&mut Reader::new(&bytes), of(version)).map_err(|error| error.to_string())?;
    as_read(&read)
}

/// A response in Kafka's JSON in the form of [`crate::forms::kafka_response`].
pub fn kafka_response(version: i16, body: &Value) -> Result<Value> {
    kafka_form(body, |typed| response_json(&typed, version))
}

/// The producer of a batch, or of a record in a `replay` operation.
pub fn producer(batch: &Value) -> Option<Producer> {
    let id = batch["producer_id"].as_i64()?;
    Some(Producer { id, epoch: batch["producer_epoch"].as_i64().unwrap_or_default() as i16 })
}

pub fn outcome(name: &Value) -> TransactionOutcome {
    if *name == "commit" { TransactionOutcome::Commit } else { TransactionOutcome::Abort }
}

/// Whether Kafka refused the marker of an `end_txn` operation.
pub fn is_refused(line: &Line) -> bool {
    line.output.get("error").is_some()
}
