//! Records of one partition. Records are data of users, so they are shown only if `admin.records`
//! allows it. With an authorizer an ACL must allow it, too.

use super::answer::{Answer, Refused, late};
use super::bounds::bounds;
use crate::cluster::{ClusterImage, Topic, leader};
use crate::config::Config;
use crate::inquiry::{About, Finding};
use crate::operator::Query;
use crate::operator::shards::Shards;
use crate::partitions::{Bounds, PartitionId, RecordReadEnd};
use crate::security::Principal;
use crate::security::acls::{Operation, Permissions};
use muster_codec::record_batch::{
    Batch, Batches, EndTxnMarker, Record, Records, TransactionOutcome,
};
use muster_compression::uncompressed;
use serde_json::{Value, json};
use std::sync::Arc;

/// The page shows a topic's records only if the ACLs allow this principal to read them.
const READER: &str = "muster-page";

/// The maximum number of records of an answer, and the default.
const ROWS_MAX: usize = 100;
const ROWS: usize = 20;

/// The number of bytes that are read for an answer. If the first batch is longer, it alone is read.
const READ_BYTES: u32 = 2 << 20;

/// The bytes of records that are unpacked for an answer.
const UNPACKED_BYTES_MAX: usize = 8 << 20;

/// The bytes of a key or a value that are shown.
const SHOWN_BYTES: usize = 1 << 10;

pub(super) fn answer(shards: &Shards, name: &str, query: &Query) -> Result<Value, Refused> {
    if !shards.config().admin_records {
        return Err(Answer::error(403, "records are shown only with admin.records=true"));
    }
    let image = shards.image().ok_or_else(|| late(0))?;
    if !may_read(shards.config(), &image, name) {
        let words = format!("no ACL allows User:{READER} to READ the topic");
        return Err(Answer::error(403, words));
    }
    let topic = image.topic(name).ok_or_else(|| Answer::unknown("there is no such topic"))?;
    if topic.is_internal() {
        return Err(Answer::malformed("records of internal topics are not shown"));
    }
    let index = query.number("partition", 0).map_err(Answer::malformed)?;
    let rows = query.number("rows", ROWS).map_err(Answer::malformed)?;
    if rows > ROWS_MAX {
        return Err(Answer::malformed(format!("rows may be {ROWS_MAX} at most")));
    }
    if !(0..topic.partitions).contains(&index) {
        return Err(Answer::unknown("there is no such partition"));
    }
    let found = bounds(shards, [(topic, index)].into_iter())?;
    let found = found.into_values().next().flatten();
    let Bounds { log_start: start, high_watermark: end, .. } =
        found.ok_or_else(|| Answer::unavailable("the partition is offline"))?;
    let from = query.number("from", end.saturating_sub(rows as i64)).map_err(Answer::malformed)?;
    let from = from.clamp(start, end);
    let mut shown = Shown::new(from, rows);
    if from < end && rows > 0 {
        read(shards, topic, index, &mut shown)?;
    }
    Ok(json!({
        "name": &*topic.name,
        "partition": index,
        "start": start,
        "end": end,
        "from": from,
        "next": shown.next,
        "records": shown.rows,
        "note": shown.note,
    }))
}

/// Whether the ACLs allow the page to show records of a topic. The page has no login of its own.
/// All its users, whether they have the token or are on this machine, share one principal.
fn may_read(config: &Config, image: &ClusterImage, topic: &str) -> bool {
    let config = config.with_dynamic(image, 0);
    if !config.has_authorizer() {
        return true;
    }
    let rules = Arc::new(config.acl_rules());
    let reader = Principal::user(READER);
    let permissions = Permissions::new(rules, image.acls().clone(), &reader, "/127.0.0.1");
    permissions.allow_on_topic(Operation::Read, topic)
}

fn read(shards: &Shards, topic: &Topic, index: i32, shown: &mut Shown) -> Result<(), Refused> {
    let shard = leader(topic, index, shards.placement());
    let id = PartitionId { topic: topic.id, index };
    let about = About::Records { id, offset: shown.next, max_bytes: READ_BYTES };
    match shards.ask(shard, about) {
        Some(Finding::Records(RecordReadEnd::Records { data, .. })) => shown.take_all(&data),
        Some(Finding::Records(RecordReadEnd::Nothing)) => {
            shown.note = Some(format!("no records are left from offset {} on", shown.next));
        }
        Some(Finding::Records(RecordReadEnd::Failed | RecordReadEnd::Offset(_))) => {
            let words = "the records cannot be read: a batch is damaged, or the disk is";
            return Err(Answer::unavailable(words));
        }
        _ => return Err(late(shard)),
    }
    Ok(())
}

/// The records of an answer.
#[derive(Debug)]
struct Shown {
    rows: Vec<Value>,
    rows_max: usize,
    /// The offset of the first record that is not shown.
    next: i64,
    /// The bytes that may still be unpacked.
    left: usize,
    /// The reason why requested records are missing.
    note: Option<String>,
}

impl Shown {
    fn new(from: i64, rows_max: usize) -> Self {
        Self { rows: Vec::new(), rows_max, next: from, left: UNPACKED_BYTES_MAX, note: None }
    }

    /// Takes the batches in `data`, except the last one if it is incomplete. The client's next
    /// request reads that batch.
    fn take_all(&mut self, data: &[u8]) {
        for batch in Batches::new(data).map_while(Result::ok) {
            if self.rows.len() >= self.rows_max {
                return;
            }
            if let Err(why) = self.take(&batch) {
                let at = batch.header.base_offset;
                self.note = Some(format!("not all of the batch at offset {at} is shown: {why}"));
                self.next = self.next.max(batch.header.next_offset());
                return;
            }
        }
    }

    fn take(&mut self, batch: &Batch<'_>) -> Result<(), String> {
        if batch.header.is_control() {
            let marker = EndTxnMarker::of_batch(batch).map_err(|error| error.to_string())?;
            self.show_marker(batch, marker);
        } else {
            let compression = batch.header.compression().ok_or("its compression is unknown")?;
            let mut buffer = Vec::new();
            let payload = uncompressed(compression, batch.payload(), self.left, &mut buffer)
                .map_err(|error| error.to_string())?;
            self.left = self.left.saturating_sub(payload.len());
            for record in Records::new(payload, batch.header.records_count) {
                let record = record.map_err(|error| error.to_string())?;
                if self.rows.len() >= self.rows_max {
                    return Ok(());
                }
                self.show(batch, &record);
            }
        }
        self.next = self.next.max(batch.header.next_offset());
        Ok(())
    }

    fn show(&mut self, batch: &Batch<'_>, record: &Record<'_>) {
        let offset = batch.offset(record);
        // The offsets in a compressed batch may be wrong: the client wrote them.
        if !(self.next..=batch.header.last_offset()).contains(&offset) {
            return;
        }
        self.next = offset.saturating_add(1);
        let producer = batch.header.is_transactional().then_some(batch.header.producer_id);
        self.rows.push(json!({
            "offset": offset,
            "at": batch.timestamp(record),
            "key": field(record.key),
            "value": field(record.value),
            "transaction_of": producer,
        }));
    }

    fn show_marker(&mut self, batch: &Batch<'_>, marker: Option<EndTxnMarker>) {
        if batch.header.base_offset < self.next {
            return;
        }
        let outcome = marker.map(|marker| match marker.outcome {
            TransactionOutcome::Abort => "abort",
            TransactionOutcome::Commit => "commit",
        });
        self.rows.push(json!({
            "offset": batch.header.base_offset,
            "at": batch.header.max_timestamp,
            "marker": outcome.unwrap_or("control"),
            "transaction_of": batch.header.producer_id,
        }));
    }
}

/// A key or a value: its length, and its beginning as text or in hexadecimal digits.
fn field(bytes: Option<&[u8]>) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    let begin = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let is_cut = begin.len() < bytes.len();
    match text(begin, is_cut) {
        Some(text) => json!({ "bytes": bytes.len(), "text": text, "cut": is_cut }),
        None => json!({ "bytes": bytes.len(), "hex": hex(begin), "cut": is_cut }),
    }
}

/// The bytes as text, if they are text without control characters. A cut may have divided the last
/// character, which is then left out.
fn text(bytes: &[u8], is_cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_shown = |it: char| !it.is_control() || matches!(it, '\n' | '\r' | '\t');
    text.chars().all(is_shown).then_some(text)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::record_batch::BatchBuilder;

    fn batch(base_offset: i64, values: &[&str]) -> Vec<u8> {
        let mut builder = BatchBuilder::default();
        for value in values {
            builder.append(7, &(&b"k"[..], Some(value.as_bytes())));
        }
        builder.seal(base_offset, 0).to_vec()
    }

    fn shown(data: &[u8], from: i64, rows: usize) -> (Vec<(i64, Value)>, i64, Option<String>) {
        let mut shown = Shown::new(from, rows);
        shown.take_all(data);
        let value = |it: &Value| {
            if it["marker"].is_null() { it["value"]["text"].clone() } else { it["marker"].clone() }
        };
        let rows = shown.rows.iter().map(|it| (it["offset"].as_i64().unwrap(), value(it)));
        (rows.collect(), shown.next, shown.note)
    }

    #[test]
    fn records_come_from_an_offset_on_up_to_a_number() {
        let mut data = batch(10, &["a", "b", "c"]);
        data.extend(batch(13, &["d"]));
        let row = |offset, text: &str| (offset, json!(text));
        let all = [row(10, "a"), row(11, "b"), row(12, "c"), row(13, "d")];
        assert_eq!(shown(&data, 10, 9), (all.to_vec(), 14, None));
        assert_eq!(shown(&data, 11, 2), (all[1..3].to_vec(), 13, None));
        assert_eq!(shown(&data, 12, 1), (all[2..3].to_vec(), 13, None));
        data.pop();
        assert_eq!(shown(&data, 10, 9), (all[..3].to_vec(), 13, None), "a batch that was cut");
    }

    #[test]
    fn markers_are_shown_and_what_cannot_be_read_is_named() {
        let marker = EndTxnMarker { outcome: TransactionOutcome::Abort, coordinator_epoch: 1 };
        let mut data = marker.batch(5, 0, 7).to_vec();
        muster_codec::record_batch::set_base_offset(&mut data, 3);
        assert_eq!(shown(&data, 3, 9), (vec![(3, json!("abort"))], 4, None));
        let mut broken = batch(4, &["a"]);
        let last = broken.len() - 1;
        broken[last] = 0x7f;
        data.extend(broken);
        let (rows, next, note) = shown(&data, 3, 9);
        assert_eq!((rows.len(), next), (1, 5), "the next answer begins after it");
        assert!(note.unwrap().starts_with("not all of the batch at offset 4 is shown: "));
    }

    fn whole(kind: &str, shown: &str, bytes: usize) -> Value {
        json!({ "bytes": bytes, kind: shown, "cut": false })
    }

    #[test]
    fn text_is_shown_as_text_and_all_else_as_digits() {
        assert_eq!(field(None), Value::Null);
        assert_eq!(field(Some(b"")), whole("text", "", 0));
        assert_eq!(field(Some(b"{\"a\":1}\n")), whole("text", "{\"a\":1}\n", 8));
        assert_eq!(field(Some(&[0, 255])), whole("hex", "00ff", 2));
        assert_eq!(field(Some(b"a\x1b[2J")), whole("hex", "611b5b324a", 5));
        assert_eq!(field(Some(b"ab\xc3")), whole("hex", "6162c3", 3), "whole, and no text");
        // The cut falls between two characters in the first case, and within a character in the
        // second.
        for (begin, left) in [("", SHOWN_BYTES / 2), ("x", SHOWN_BYTES / 2 - 1)] {
            let long = format!("{begin}{}", "ü".repeat(SHOWN_BYTES));
            let shown = format!("{begin}{}", "ü".repeat(left));
            let cut = json!({ "bytes": long.len(), "text": shown, "cut": true });
            assert_eq!(field(Some(long.as_bytes())), cut);
        }
    }
}
