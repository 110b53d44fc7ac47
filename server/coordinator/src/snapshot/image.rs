//! A group as two archives, its records and its offsets, and back. The archived types mirror the
//! state, so that neither binds the other.

use super::index::{Kind, Section, TopicSet};
use crate::classic::ClassicGroup;
use crate::group::{Entry, Group};
use crate::offsets::{Committed, Offsets};
use crate::replay::{group_records, replay_in};
use crate::text::Text;
use crate::timers::Timers;
use alloc::string::String;
use alloc::vec::Vec;
use muster_codec::records::GroupRecord;
use muster_codec::{Uuid, Wall};
use rkyv::api::high::to_bytes_in;
use rkyv::rancor::Failure;
use rkyv::{Archive, Serialize, access};

/// The most bytes of the names and values of a section: offsets within it have 31 bits.
const SECTION_BYTES_MAX: usize = 512 << 20;

/// A group is larger than a section can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

#[derive(Archive, Serialize)]
struct GroupImage {
    records: Vec<RecordImage>,
}

/// A record as in the log.
#[derive(Archive, Serialize)]
struct RecordImage {
    key: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Archive, Serialize)]
struct OffsetsImage {
    /// By name.
    topics: Vec<TopicImage>,
}

#[derive(Archive, Serialize)]
struct TopicImage {
    name: String,
    /// By number.
    partitions: Vec<CommittedImage>,
}

#[derive(Archive, Serialize)]
struct CommittedImage {
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: String,
    commit_timestamp: i64,
    expire_timestamp: i64,
    topic_id: [u8; 16],
}

/// Appends the section of a group's records to `out`; its place is relative to `out`.
///
/// # Errors
/// [`TooLong`]; `out` is of no use then.
pub(super) fn write_group(entry: &Entry, out: &mut Vec<u8>) -> Result<Section, TooLong> {
    let image = group_image(entry)?;
    let start = out.len();
    *out = to_bytes_in::<_, Failure>(&image, core::mem::take(out)).map_err(|_| TooLong)?;
    section(out, start)
}

/// Like [`write_group`], for some of a group's offsets, in order; also returns their topics.
///
/// # Errors
/// Those of [`write_group`].
pub(super) fn write_offsets<'o>(
    offsets: impl Iterator<Item = (&'o Text, i32, &'o Committed)>,
    out: &mut Vec<u8>,
) -> Result<(Section, TopicSet), TooLong> {
    let mut topics = TopicSet::default();
    let image = offsets_image(offsets, &mut topics)?;
    let start = out.len();
    *out = to_bytes_in::<_, Failure>(&image, core::mem::take(out)).map_err(|_| TooLong)?;
    Ok((section(out, start)?, topics))
}

/// The kind of a group.
pub(super) fn kind(group: Option<&Group>) -> Kind {
    match group {
        None => Kind::None,
        Some(Group::Classic(_)) => Kind::Classic,
        Some(Group::Consumer(_)) => Kind::Consumer,
    }
}

/// Decodes a group from the section of its records.
///
/// # Errors
/// Bytes that are not those of a group.
pub(super) fn read_group(
    id: &Text,
    of_kind: Kind,
    bytes: &[u8],
    timers: &mut Timers,
) -> Result<Entry, &'static str> {
    let image = access::<ArchivedGroupImage, Failure>(bytes);
    let image = image.map_err(|_| "its records are not a valid archive")?;
    let mut entry = Entry::new(id.clone());
    for record in image.records.iter() {
        let record = GroupRecord::read(&record.key, Some(record.value.as_slice()));
        let Ok(Some(record)) = record else { return Err("a record cannot be read") };
        if record.group_id() != &**id {
            return Err("a record of another group");
        }
        replay_in(&mut entry, timers, &record);
    }
    if entry.group.is_none() && of_kind == Kind::Classic {
        // A simple group: it has no record of its own, and its start does not matter for retention.
        entry.group = Some(Group::Classic(ClassicGroup::new(id.clone(), Wall(0))));
    }
    if kind(entry.group.as_ref()) != of_kind {
        return Err("it is a group of another kind");
    }
    match &mut entry.group {
        Some(Group::Classic(group)) => group.restored(),
        Some(Group::Consumer(_)) | None => {}
    }
    Ok(entry)
}

/// Adds the offsets of a section to others.
///
/// # Errors
/// Bytes that are not those of offsets.
pub(super) fn read_offsets(bytes: &[u8], offsets: &mut Offsets) -> Result<(), &'static str> {
    let image = access::<ArchivedOffsetsImage, Failure>(bytes);
    let image = image.map_err(|_| "its offsets are not a valid archive")?;
    let mut run = Vec::new();
    for topic in image.topics.iter() {
        run.extend(topic.partitions.iter().map(|it| (it.partition.to_native(), committed(it))));
        if run.is_empty() {
            return Err("a topic without offsets");
        }
        offsets.put_run(&topic.name, &mut run);
    }
    Ok(())
}

/// The bytes of a section, verified with its checksum.
///
/// # Errors
/// Missing or changed bytes.
pub(super) fn section_bytes(file: &[u8], section: Section) -> Result<&[u8], &'static str> {
    let from = usize::try_from(section.at).ok();
    let bytes = from.and_then(|from| file.get(from..)?.get(..section.len as usize));
    let bytes = bytes.ok_or("a section is not in the file")?;
    match crc32c::crc32c(bytes) == section.crc {
        true => Ok(bytes),
        false => Err("the checksum of a section does not match"),
    }
}

pub(super) fn section(out: &[u8], start: usize) -> Result<Section, TooLong> {
    let bytes = &out[start..];
    let len = u32::try_from(bytes.len()).map_err(|_| TooLong)?;
    Ok(Section { at: start as u64, len, crc: crc32c::crc32c(bytes) })
}

fn group_image(entry: &Entry) -> Result<GroupImage, TooLong> {
    let mut room = SECTION_BYTES_MAX;
    let mut records = Vec::new();
    for record in group_records(entry) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.write_key(&mut key);
        let has_value = record.write_value(&mut value);
        debug_assert!(has_value, "a tombstone is no state");
        let len = size_of::<ArchivedRecordImage>() + key.len() + value.len();
        room = room.checked_sub(len).ok_or(TooLong)?;
        records.push(RecordImage { key, value });
    }
    Ok(GroupImage { records })
}

fn offsets_image<'o>(
    offsets: impl Iterator<Item = (&'o Text, i32, &'o Committed)>,
    names: &mut TopicSet,
) -> Result<OffsetsImage, TooLong> {
    let mut room = SECTION_BYTES_MAX;
    let mut topics: Vec<TopicImage> = Vec::new();
    for (topic, partition, committed) in offsets {
        let is_of_last = topics.last().is_some_and(|last| *last.name == **topic);
        let mut len = size_of::<ArchivedCommittedImage>() + committed.metadata.len();
        if !is_of_last {
            names.insert(topic);
            len += size_of::<ArchivedTopicImage>() + topic.len();
            topics.push(TopicImage { name: String::from(&**topic), partitions: Vec::new() });
        }
        room = room.checked_sub(len).ok_or(TooLong)?;
        if let Some(last) = topics.last_mut() {
            last.partitions.push(committed_image(partition, committed));
        }
    }
    Ok(OffsetsImage { topics })
}

fn committed_image(partition: i32, committed: &Committed) -> CommittedImage {
    CommittedImage {
        partition,
        offset: committed.offset,
        leader_epoch: committed.leader_epoch,
        metadata: String::from(&*committed.metadata),
        commit_timestamp: committed.commit_timestamp,
        expire_timestamp: committed.expire_timestamp,
        topic_id: committed.topic_id.0,
    }
}

fn committed(image: &ArchivedCommittedImage) -> Committed {
    Committed {
        offset: image.offset.to_native(),
        leader_epoch: image.leader_epoch.to_native(),
        metadata: image.metadata.as_str().into(),
        commit_timestamp: image.commit_timestamp.to_native(),
        expire_timestamp: image.expire_timestamp.to_native(),
        topic_id: Uuid(image.topic_id),
    }
}
