//! Prints the segments of user topics: batches, and records with keys and values as text or hex.

use super::printer::{Printer, RecordLine};
use crate::args::Dump;
use crate::damage::Damage;
use crate::decompress;
use crate::describe::{bytes, object};
use crate::segment_file::{Located, SegmentFile, names};
use muster_codec::record_batch::BatchHeader;
use muster_server::Failure;
use muster_server::cluster::ClusterImage;
use muster_server::partitions::layout::{TOPICS, parse_directory};
use muster_server::partitions::{partition_files, recovered, recovery_points};
use muster_storage::partition_log::{START_OFFSET_FILE, read_start_offset};
use serde_json::json;
use std::path::Path;

pub(super) fn dump(
    data: &Path,
    image: &ClusterImage,
    arguments: &Dump,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let topics = data.join(TOPICS);
    let wanted = arguments.topic.as_deref();
    if wanted.is_some_and(|name| image.topic(name).is_none()) {
        return Err(format!("there is no topic {}", wanted.unwrap_or_default()).into());
    }
    let points = recovery_points(data)?;
    for name in names(&topics)? {
        let Some(id) = parse_directory(&name) else { continue };
        let topic = image.topic_by_id(id.topic).map(|topic| &*topic.name);
        if wanted.is_some() && wanted != topic {
            continue;
        }
        let partition = match topic {
            Some(topic) => format!("{topic}-{}", id.index),
            None => "an unknown topic".to_owned(),
        };
        let directory = topics.join(&name);
        start_offset(&directory, &partition, printer)?;
        let recovered = recovered(&directory, points.get(&id).copied());
        let may_be_torn = recovered.is_ok_and(|it| it.torn().is_some());
        for (_, file) in partition_files(&directory)?.segments {
            let path = Path::new(TOPICS).join(&name).join(&file);
            let file = SegmentFile::open(directory.join(file))?;
            segment(file, &path, &partition, may_be_torn, printer)?;
        }
    }
    Ok(())
}

fn start_offset(
    directory: &Path,
    partition: &str,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let Ok(file) = std::fs::read(directory.join(START_OFFSET_FILE)) else { return Ok(()) };
    match read_start_offset(&file) {
        Some(offset) => printer.note(&format!("{partition} begins at offset {offset}")),
        None => printer.note(&format!("{partition}: {START_OFFSET_FILE} has no valid offset")),
    }
}

fn segment(
    mut file: SegmentFile,
    path: &Path,
    partition: &str,
    may_be_torn: bool,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let fields = object([("bytes", json!(file.len())), ("partition", json!(partition))]);
    printer.segment(path, fields, &format!("{} bytes of {partition}", file.len()))?;
    loop {
        match file.next() {
            Ok(Some(located)) => batch(&located, path, partition, printer)?,
            Ok(None) => return Ok(()),
            Err(failure) => match failure.downcast_ref::<Damage>() {
                Some(damage) if may_be_torn => {
                    let text = format!("{damage}: torn, startup cuts the log here");
                    return printer.note(&text);
                }
                Some(damage) => return printer.damage(path, damage.at, &damage.what),
                None => return Err(failure),
            },
        }
    }
}

fn batch(
    located: &Located<'_>,
    path: &Path,
    partition: &str,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let Located { at, batch } = located;
    let header = batch.header;
    let place = object([
        ("file", json!(path.display().to_string())),
        ("byte", json!(at)),
        ("partition", json!(partition)),
    ]);
    let (first, last) = (header.base_offset, header.last_offset());
    let mut fields = place.clone();
    fields.extend(object([
        ("offsets", json!([first, last])),
        ("records", json!(header.records_count)),
        ("compression", json!(format!("{:?}", header.compression()))),
        ("producerId", json!(header.producer_id)),
        ("producerEpoch", json!(header.producer_epoch)),
        ("baseSequence", json!(header.base_sequence)),
    ]));
    printer.part("batch", fields, 1, text(*at, &header))?;
    let mut buffer = Vec::new();
    let records = match decompress::records(batch, &mut buffer) {
        Ok(records) => records,
        Err(error) => return printer.damage(path, *at, &error),
    };
    for record in records {
        let record = match record {
            Ok(record) => record,
            Err(error) => return printer.damage(path, *at, &error.to_string()),
        };
        let at = Some((batch.offset(&record), batch.timestamp(&record)));
        let (key, value) = (bytes(record.key), bytes(record.value));
        let line = RecordLine { place: place.clone(), at, name: None, key, value };
        printer.record(line, 2)?;
    }
    Ok(())
}

fn text(at: u64, header: &BatchHeader) -> String {
    let (first, last) = (header.base_offset, header.last_offset());
    let mut text =
        format!("byte {at}: offsets {first} to {last}, {} records", header.records_count);
    if let Some(compression) = header.compression() {
        text += &format!(", compression {compression:?}").to_lowercase();
    }
    if header.has_producer_id() {
        let BatchHeader { producer_id, producer_epoch, base_sequence, .. } = header;
        text += &format!(", producer {producer_id} epoch {producer_epoch} from {base_sequence}");
    }
    text
}
