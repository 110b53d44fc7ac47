//! Prints the segments of shards: blocks, their batches, and Kafka's coordinator records.

use super::printer::{Printer, RecordLine};
use super::snapshot;
use crate::args::Dump;
use crate::describe::{self, Described, object};
use crate::shard_files::{End, Piece, SegmentBytes, ShardFiles};
use muster_codec::record_batch::{Batch, BatchHeader};
use muster_server::Failure;
use muster_server::data_dir::Meta;
use muster_server::topics;
use muster_storage::LogPartition;
use muster_storage::layout::{Block, Compacted, SegmentHeader};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::path::{Path, PathBuf};

pub(super) fn dump(
    data: &Path,
    meta: &Meta,
    number: u32,
    arguments: &Dump,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let files = ShardFiles::open(data, meta.shards(), number)?;
    let printer = RefCell::new(printer);
    files.each(
        |segment| {
            let name = files.name.join(segment.path.file_name().unwrap_or_default());
            Segment { segment, name, arguments }.dump(*printer.borrow_mut())
        },
        |path| {
            let text = format!("{} was removed during the dump by compaction", path.display());
            printer.borrow_mut().note(&text)
        },
    )?;
    if arguments.from == 0 {
        let printer = printer.into_inner();
        snapshot::dump(&files.directory, &files.name, meta, arguments, printer)?;
    }
    Ok(())
}

struct Segment<'a> {
    segment: &'a SegmentBytes,
    /// The path relative to the data directory.
    name: PathBuf,
    arguments: &'a Dump,
}

impl Segment<'_> {
    fn dump(&self, printer: &mut Printer<'_>) -> Result<(), Failure> {
        let (fields, text) = self.describe();
        printer.segment(&self.name, fields, &text)?;
        if self.segment.header.is_none() && self.segment.replaced_by.is_none() {
            let is_empty = self.segment.bytes.iter().all(|byte| *byte == 0);
            return if is_empty {
                Ok(())
            } else {
                printer.damage(&self.name, 0, "its header cannot be read")
            };
        }
        for piece in self.segment.pieces() {
            match piece {
                Piece::Block { at, block } => self.block(at, &block, printer)?,
                Piece::Unreadable { at, until } => {
                    let what = format!("not a block, but blocks follow from byte {until} on");
                    printer.damage(&self.name, at as u64, &what)?;
                }
                Piece::End { at, end } => self.end(at, end, printer)?,
            }
        }
        Ok(())
    }

    fn describe(&self) -> (Map<String, Value>, String) {
        let SegmentBytes { bytes, header, replaced_by, .. } = self.segment;
        let mut fields = object([("bytes", json!(bytes.len()))]);
        let Some(header) = header else {
            fields.insert("state".to_owned(), json!("unfinished"));
            return (fields, format!("{} bytes, without a header", bytes.len()));
        };
        let SegmentHeader { block_bytes, segment_bytes, log_id, is_recycled, .. } = *header;
        let (state, is) = match (replaced_by, header.compacted) {
            (Some(by), _) => ("replaced", format!("replaced by segment {by}")),
            (None, Some(compacted)) => ("compacted", compacted_text(header, &compacted)),
            (None, None) => ("log", "not compacted".to_owned()),
        };
        fields.extend(object([
            ("state", json!(state)),
            ("sequence", json!(header.sequence)),
            ("blockBytes", json!(block_bytes)),
            ("segmentBytes", json!(segment_bytes)),
            ("logId", json!(format!("{log_id:016x}"))),
            ("recycled", json!(is_recycled)),
        ]));
        fields.extend(header.compacted.map(|it| ("compacted".to_owned(), compacted_fields(&it))));
        let again = if is_recycled { ", in the recycled file of an earlier segment" } else { "" };
        let text = format!(
            "{segment_bytes} bytes, blocks of {block_bytes}, log {log_id:016x}, {is}{again}"
        );
        (fields, text)
    }

    fn block(
        &self,
        at: usize,
        block: &Block<'_>,
        printer: &mut Printer<'_>,
    ) -> Result<(), Failure> {
        let header = block.header;
        let (first, last) = (header.first_position, header.last_position());
        if last < self.arguments.from || first > self.arguments.to {
            return Ok(());
        }
        let mut place = object([
            ("file", json!(self.name.display().to_string())),
            ("byte", json!(at)),
            ("positions", json!([first, last])),
        ]);
        let mut fields = place.clone();
        fields
            .extend(object([("length", json!(header.length)), ("batches", json!(header.batches))]));
        let text = format!(
            "byte {at}: positions {first} to {last}, {} bytes, {} batches",
            header.length, header.batches
        );
        printer.part("block", fields, 1, text)?;
        for entry in block.entries(topics::RULES) {
            let (partition, batch) = match entry {
                Ok(entry) => entry,
                Err(error) => return printer.damage(&self.name, at as u64, &error.to_string()),
            };
            place.insert("partition".to_owned(), json!(topics::name_of(partition)));
            self.batch(at, partition, &batch, &place, printer)?;
        }
        Ok(())
    }

    fn batch(
        &self,
        at: usize,
        partition: LogPartition,
        batch: &Batch<'_>,
        place: &Map<String, Value>,
        printer: &mut Printer<'_>,
    ) -> Result<(), Failure> {
        let (first, last) = (batch.header.base_offset, batch.header.last_offset());
        let horizon = batch.header.delete_horizon();
        let horizon = horizon.map_or(String::new(), |at| format!(", delete horizon {at}"));
        let count = batch.header.records_count;
        let mut fields = place.clone();
        fields.extend(object([("offsets", json!([first, last])), ("records", json!(count))]));
        let of = of_transaction(&batch.header, &mut fields);
        let partition_name = topics::name_of(partition);
        let text =
            format!("{partition_name}: offsets {first} to {last}, {count} records{of}{horizon}");
        printer.part("batch", fields, 2, text)?;
        let records = match batch.records() {
            Ok(records) => records,
            Err(error) => return printer.damage(&self.name, at as u64, &error.to_string()),
        };
        for record in records {
            let record = match record {
                Ok(record) => record,
                Err(error) => return printer.damage(&self.name, at as u64, &error.to_string()),
            };
            let described = if batch.header.is_control() {
                describe::control_record(&record)
            } else {
                describe::record(partition, record.key.unwrap_or_default(), record.value)
            };
            let Described { name, group, key, value, error } = described;
            if self.arguments.group.is_some() && group != self.arguments.group {
                continue;
            }
            let (offset, timestamp) = (batch.offset(&record), batch.timestamp(&record));
            let (place, at_record, name) = (place.clone(), Some((offset, timestamp)), Some(&*name));
            printer.record(RecordLine { place, at: at_record, name, key, value }, 3)?;
            if let Some(error) = error {
                let what = format!("the record at offset {offset} cannot be read: {error}");
                printer.damage(&self.name, at as u64, &what)?;
            }
        }
        Ok(())
    }

    fn end(&self, at: usize, end: End, printer: &mut Printer<'_>) -> Result<(), Failure> {
        let (state, text) = match end {
            End::Full => ("full", "the end of the segment"),
            End::Zeros => ("zeros", "the end of the blocks"),
            End::Former => {
                ("former", "the end of the blocks; blocks of the recycled segment follow")
            }
            End::Torn => ("torn", "a torn block: it was being written when the server stopped"),
        };
        let file = json!(self.name.display().to_string());
        let fields = object([("file", file), ("byte", json!(at)), ("end", json!(state))]);
        printer.part("end", fields, 1, format!("byte {at}: {text}"))
    }
}

/// If a batch is part of a transaction, or ends one, adds its producer to `fields` under Kafka's
/// field names, and describes it.
fn of_transaction(header: &BatchHeader, fields: &mut Map<String, Value>) -> String {
    if !header.is_transactional() {
        return String::new();
    }
    let BatchHeader { producer_id, producer_epoch, base_sequence, .. } = *header;
    fields.extend(object([
        ("producerId", json!(producer_id)),
        ("producerEpoch", json!(producer_epoch)),
        ("baseSequence", json!(base_sequence)),
        ("isTransactional", json!(true)),
        ("isControl", json!(header.is_control())),
    ]));
    let what = if header.is_control() { "the end of" } else { "in" };
    format!(", {what} a transaction of producer {producer_id} epoch {producer_epoch}")
}

fn compacted_text(header: &SegmentHeader, compacted: &Compacted) -> String {
    let Compacted { last_sequence, first_position, last_position, dropped_position, .. } =
        *compacted;
    format!(
        "compacted: replaces segments {} to {last_sequence}, positions {first_position} to \
         {last_position}, tombstones dropped up to {dropped_position}, dirty from byte {}",
        header.sequence, compacted.dirty_from
    )
}

fn compacted_fields(compacted: &Compacted) -> Value {
    json!({
        "lastSequence": compacted.last_sequence,
        "firstPosition": compacted.first_position,
        "lastPosition": compacted.last_position,
        "droppedPosition": compacted.dropped_position,
        "dirtyFrom": compacted.dirty_from,
    })
}
