//! Prints a snapshot: its header, its sections, and its groups. A group is printed as records; a
//! replay of these would build the group.

use super::printer::{Printer, RecordLine};
use crate::args::Dump;
use crate::cluster;
use crate::describe::{self, Described, object};
use muster_codec::records::GroupRecord;
use muster_coordinator::{Coordinator, Producer, SnapshotBytes};
use muster_server::Failure;
use muster_server::data_dir::Meta;
use muster_server::topics::{GROUPS_SECTION, InternalTopic};
use muster_storage::snapshot::{SNAPSHOT_FILE_NAME, SectionRow, Snapshot, SnapshotRefusal};
use serde_json::json;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Prints the snapshot in a shard's directory, if there is one. `name` is the path of this
/// directory relative to the data directory.
pub(super) fn dump(
    directory: &Path,
    name: &Path,
    meta: &Meta,
    arguments: &Dump,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let path = directory.join(SNAPSHOT_FILE_NAME);
    let name = name.join(SNAPSHOT_FILE_NAME);
    let bytes = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| format!("could not read {}: {error}", path.display()))?,
    };
    let snapshot = match Snapshot::open(&bytes) {
        Ok(snapshot) => snapshot,
        Err(refusal @ SnapshotRefusal::Version(_)) => {
            return printer.note(&format!("{}: {refusal}", name.display()));
        }
        Err(refusal) => return printer.damage(&name, 0, &refusal.to_string()),
    };
    let header = &snapshot.header;
    let text = format!(
        "a snapshot of {} bytes of log {:016x}: complete up to position {}, sections up to {}",
        bytes.len(),
        header.log_id,
        header.from,
        header.newest
    );
    let fields = object([
        ("state", json!("snapshot")),
        ("bytes", json!(bytes.len())),
        ("logId", json!(format!("{:016x}", header.log_id))),
        ("from", json!(header.from)),
        ("newest", json!(header.newest)),
    ]);
    printer.segment(&name, fields, &text)?;
    for row in &snapshot.sections {
        print_section(row, printer)?;
    }
    let config = cluster::common(meta)?.config.coordinator();
    let bytes: SnapshotBytes = Arc::new(bytes);
    let groups = snapshot.sections_of(InternalTopic::ConsumerOffsets.number(), GROUPS_SECTION);
    for SectionRow { part, .. } in groups {
        let mut coordinator = Coordinator::new(config.clone());
        let opened = coordinator.open_snapshot(Arc::clone(&bytes), part.range(), part.crc);
        if let Err(damage) = opened {
            return printer.damage(&name, 0, &damage.to_string());
        }
        coordinator.load_all();
        for (producer, record) in coordinator.durable_state() {
            print(producer, &record, &name, arguments, printer)?;
        }
        if let Some(damage) = coordinator.damage() {
            return printer.damage(&name, 0, &damage.to_string());
        }
    }
    Ok(())
}

/// Prints a row of the table of sections.
fn print_section(row: &SectionRow, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let SectionRow { topic, section, index, from, newest, part, .. } = *row;
    let known = InternalTopic::of_number(topic).map(InternalTopic::row);
    let name = known.and_then(|row| row.sections.get(usize::from(section)));
    let name = name.map_or_else(|| format!("section {section}"), |name| (*name).to_owned());
    let topic = known.map_or_else(|| format!("topic {topic}"), |row| row.name.to_owned());
    let fields = object([
        ("topic", json!(topic)),
        ("partition", json!(index)),
        ("section", json!(name)),
        ("from", json!(from)),
        ("newest", json!(newest)),
        ("bytes", json!(part.len)),
    ]);
    let text = format!(
        "{topic}-{index}: {name}, {} bytes, from position {from}, up to {newest}",
        part.len
    );
    printer.part("section", fields, 1, text)
}

/// Prints a record. `producer` is set if the record belongs to an open transaction.
fn print(
    producer: Option<Producer>,
    record: &GroupRecord<'_>,
    name: &Path,
    arguments: &Dump,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    if arguments.group.as_deref().is_some_and(|group| group != record.group_id()) {
        return Ok(());
    }
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.write_key(&mut key);
    let value = record.write_value(&mut value).then_some(&*value);
    let Described { name: record_name, key, value, .. } = describe::group_record(&key, value);
    let mut place = object([("file", json!(name.display().to_string()))]);
    place.extend(producer.into_iter().flat_map(|Producer { id, epoch }| {
        object([("producerId", json!(id)), ("producerEpoch", json!(epoch))])
    }));
    let (at, record_name) = (None, Some(&*record_name));
    printer.record(RecordLine { place, at, name: record_name, key, value }, 1)
}
