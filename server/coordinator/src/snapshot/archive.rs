//! Converts a group to two archives, its records and its offsets, and back. The archived types are
//! separate from the state's types, so that each can change without the other.

use super::index::{Section, TopicSet};
use crate::classic::ClassicGroup;
use crate::committed::Committed;
use crate::group::{Entry, Group, Kind, group_records, replay_in};
use crate::offsets::Offsets;
use crate::pending::{GroupPending, Pending, Placed, Producer, Restored};
use crate::text::Text;
use crate::timers::Timers;
use alloc::string::String;
use alloc::vec::Vec;
use muster_codec::records::GroupRecord;
use muster_codec::{Uuid, Wall};
use rkyv::api::high::to_bytes_in;
use rkyv::rancor::Failure;
use rkyv::{Archive, Serialize, access};

/// The most bytes of a section: rkyv's relative offsets have 31 bits.
const SECTION_BYTES_MAX: usize = 512 << 20;

/// The group is larger than a section may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

#[derive(Archive, Serialize)]
struct GroupArchive {
    records: Vec<RecordArchive>,
    /// The pending offsets. The pending offsets of one partition are in the order of their records.
    pending: Vec<PendingArchive>,
}

#[derive(Archive, Serialize)]
struct PendingArchive {
    producer_id: i64,
    producer_epoch: i16,
    topic: String,
    committed: CommittedArchive,
    is_superseded: bool,
}

/// A record in the form of the log.
#[derive(Archive, Serialize)]
struct RecordArchive {
    key: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Archive, Serialize)]
struct OffsetsArchive {
    /// The topics, sorted by name.
    topics: Vec<TopicArchive>,
}

#[derive(Archive, Serialize)]
struct TopicArchive {
    name: String,
    /// The partitions, sorted.
    partitions: Vec<CommittedArchive>,
}

#[derive(Archive, Serialize)]
struct CommittedArchive {
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: String,
    commit_timestamp: i64,
    expire_timestamp: i64,
    topic_id: [u8; 16],
}

/// Appends a section with a group's records and pending offsets to `out`. Returns the section, with
/// its place relative to the beginning of `out`.
///
/// # Errors
/// [`TooLong`]. The content of `out` is then undefined.
pub(crate) fn write_group(
    entry: &Entry,
    pending: Option<&GroupPending>,
    out: &mut Vec<u8>,
) -> Result<Section, TooLong> {
    let archive = group_archive(entry, pending)?;
    let start = out.len();
    *out = to_bytes_in::<_, Failure>(&archive, core::mem::take(out)).map_err(|_| TooLong)?;
    section(out, start)
}

/// Appends a section with some of a group's offsets, in order. Returns the section, like
/// [`write_group`], and the topics of these offsets.
///
/// # Errors
/// The errors of [`write_group`].
pub(crate) fn write_offsets<'o>(
    offsets: impl Iterator<Item = (&'o Text, i32, &'o Committed)>,
    out: &mut Vec<u8>,
) -> Result<(Section, TopicSet), TooLong> {
    let mut topics = TopicSet::default();
    let archive = offsets_archive(offsets, &mut topics)?;
    let start = out.len();
    *out = to_bytes_in::<_, Failure>(&archive, core::mem::take(out)).map_err(|_| TooLong)?;
    Ok((section(out, start)?, topics))
}

/// The kind of an entry's group.
pub(crate) fn kind(group: Option<&Group>) -> Kind {
    group.map_or(Kind::None, Group::kind)
}

/// Decodes a group from the section of its records.
///
/// # Errors
/// The bytes are not a group.
pub(crate) fn read_group(
    id: &Text,
    of_kind: Kind,
    bytes: &[u8],
    timers: &mut Timers,
) -> Result<Entry, &'static str> {
    let archive = access::<ArchivedGroupArchive, Failure>(bytes);
    let archive = archive.map_err(|_| "its records are not a valid archive")?;
    let mut entry = Entry::new(id.clone());
    for record in archive.records.iter() {
        let record = GroupRecord::read(&record.key, Some(record.value.as_slice()));
        let Ok(Some(record)) = record else { return Err("a record cannot be read") };
        if record.group_id() != &**id {
            return Err("a record of another group");
        }
        replay_in(&mut entry, timers, &record);
    }
    if entry.group.is_none() && of_kind == Kind::Classic {
        // A simple group has no record, and its timestamp does not matter for retention.
        entry.group = Some(Group::Classic(ClassicGroup::new(id.clone(), Wall(0))));
    }
    if kind(entry.group.as_ref()) != of_kind {
        return Err("it is a group of another kind");
    }
    match &mut entry.group {
        Some(Group::Classic(group)) => group.restored(),
        Some(Group::Consumer(_) | Group::Share(_) | Group::Streams(_)) | None => {}
    }
    Ok(entry)
}

/// The pending offsets in the section of a group's records.
///
/// # Errors
/// The bytes are not a group.
pub(crate) fn read_pending(bytes: &[u8]) -> Result<Vec<Restored>, &'static str> {
    let archive = access::<ArchivedGroupArchive, Failure>(bytes);
    let archive = archive.map_err(|_| "its pending offsets are not a valid archive")?;
    let all = archive.pending.iter().map(|it| {
        let pending = Pending {
            producer: Producer {
                id: it.producer_id.to_native(),
                epoch: it.producer_epoch.to_native(),
            },
            committed: committed(&it.committed),
        };
        Restored {
            topic: Text::from(it.topic.as_str()),
            partition: it.committed.partition.to_native(),
            placed: Placed { pending, is_superseded: it.is_superseded },
        }
    });
    Ok(all.collect())
}

/// Decodes the offsets of a section, and adds them to `offsets`.
///
/// # Errors
/// The bytes are not offsets.
pub(crate) fn read_offsets(bytes: &[u8], offsets: &mut Offsets) -> Result<(), &'static str> {
    let archive = access::<ArchivedOffsetsArchive, Failure>(bytes);
    let archive = archive.map_err(|_| "its offsets are not a valid archive")?;
    let mut run = Vec::new();
    for topic in archive.topics.iter() {
        run.extend(topic.partitions.iter().map(|it| (it.partition.to_native(), committed(it))));
        if run.is_empty() {
            return Err("a topic without offsets");
        }
        offsets.put_run(&topic.name, &mut run);
    }
    Ok(())
}

/// Calls `take` with the topic, the partition and the offset of each entry of a section.
///
/// # Errors
/// The bytes are not offsets.
pub(crate) fn each_offset(
    bytes: &[u8],
    mut take: impl FnMut(&str, i32, i64),
) -> Result<(), &'static str> {
    let archive = access::<ArchivedOffsetsArchive, Failure>(bytes);
    let archive = archive.map_err(|_| "its offsets are not a valid archive")?;
    for topic in archive.topics.iter() {
        for it in topic.partitions.iter() {
            take(&topic.name, it.partition.to_native(), it.offset.to_native());
        }
    }
    Ok(())
}

/// The bytes of a section, after verifying its checksum.
///
/// # Errors
/// The bytes are missing or changed.
pub(crate) fn section_bytes(file: &[u8], section: Section) -> Result<&[u8], &'static str> {
    let from = usize::try_from(section.at).ok();
    let bytes = from.and_then(|from| file.get(from..)?.get(..section.len as usize));
    let bytes = bytes.ok_or("a section is not in the file")?;
    if crc32c::crc32c(bytes) == section.crc {
        Ok(bytes)
    } else {
        Err("the checksum of a section does not match")
    }
}

pub(crate) fn section(out: &[u8], start: usize) -> Result<Section, TooLong> {
    let bytes = &out[start..];
    let len = u32::try_from(bytes.len()).map_err(|_| TooLong)?;
    Ok(Section { at: start as u64, len, crc: crc32c::crc32c(bytes) })
}

fn group_archive(entry: &Entry, pending: Option<&GroupPending>) -> Result<GroupArchive, TooLong> {
    let mut room = SECTION_BYTES_MAX;
    let mut records = Vec::new();
    for record in group_records(entry) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.write_key(&mut key);
        let has_value = record.write_value(&mut value);
        debug_assert!(has_value, "a tombstone is no state");
        let len = size_of::<ArchivedRecordArchive>() + key.len() + value.len();
        room = room.checked_sub(len).ok_or(TooLong)?;
        records.push(RecordArchive { key, value });
    }
    let pending: Vec<_> = pending.into_iter().flat_map(pending_archives).collect();
    let texts = pending.iter().map(|it| it.topic.len() + it.committed.metadata.len());
    let len = texts.sum::<usize>() + size_of::<ArchivedPendingArchive>() * pending.len();
    room.checked_sub(len).ok_or(TooLong)?;
    Ok(GroupArchive { records, pending })
}

fn pending_archives(pending: &GroupPending) -> impl Iterator<Item = PendingArchive> {
    pending.iter().flat_map(|(topic, partition, of_partition)| {
        of_partition.in_order().map(move |Placed { pending, is_superseded }| PendingArchive {
            producer_id: pending.producer.id,
            producer_epoch: pending.producer.epoch,
            topic: String::from(&**topic),
            committed: committed_archive(partition, &pending.committed),
            is_superseded,
        })
    })
}

fn offsets_archive<'o>(
    offsets: impl Iterator<Item = (&'o Text, i32, &'o Committed)>,
    names: &mut TopicSet,
) -> Result<OffsetsArchive, TooLong> {
    let mut room = SECTION_BYTES_MAX;
    let mut topics: Vec<TopicArchive> = Vec::new();
    for (topic, partition, committed) in offsets {
        let is_of_last = topics.last().is_some_and(|last| *last.name == **topic);
        let mut len = size_of::<ArchivedCommittedArchive>() + committed.metadata.len();
        if !is_of_last {
            names.insert(topic);
            len += size_of::<ArchivedTopicArchive>() + topic.len();
            topics.push(TopicArchive { name: String::from(&**topic), partitions: Vec::new() });
        }
        room = room.checked_sub(len).ok_or(TooLong)?;
        if let Some(last) = topics.last_mut() {
            last.partitions.push(committed_archive(partition, committed));
        }
    }
    Ok(OffsetsArchive { topics })
}

fn committed_archive(partition: i32, committed: &Committed) -> CommittedArchive {
    CommittedArchive {
        partition,
        offset: committed.offset,
        leader_epoch: committed.leader_epoch,
        metadata: String::from(&*committed.metadata),
        commit_timestamp: committed.commit_timestamp,
        expire_timestamp: committed.expire_timestamp,
        topic_id: committed.topic_id.0,
    }
}

fn committed(archive: &ArchivedCommittedArchive) -> Committed {
    Committed {
        offset: archive.offset.to_native(),
        leader_epoch: archive.leader_epoch.to_native(),
        metadata: archive.metadata.as_str().into(),
        commit_timestamp: archive.commit_timestamp.to_native(),
        expire_timestamp: archive.expire_timestamp.to_native(),
        topic_id: Uuid(archive.topic_id),
    }
}
