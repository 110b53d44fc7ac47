//! OffsetFetch: what a group committed. A group that does not exist has committed nothing, which is
//! no error in Kafka 4.3.

use super::{Committed, Offsets};
use crate::context::Topics;
use crate::text::owned;
use alloc::vec::Vec;
use muster_codec::messages::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use muster_codec::{ErrorCode, Str, Uuid};

/// The first version that names topics by their id.
const TOPIC_IDS_FROM: i16 = 10;

/// Answers for one group; `offsets` is None if there is no such group. Metadata is taken from
/// `room`, in bytes.
pub(crate) fn fetch<'r>(
    topics: &dyn Topics,
    api_version: i16,
    request: OffsetFetchRequestGroup<'r>,
    offsets: Option<&Offsets>,
    room: &mut usize,
) -> OffsetFetchResponseGroup<'r> {
    let mut fetch = Fetch { topics, by_id: api_version >= TOPIC_IDS_FROM, offsets, room };
    let topics = match request.topics {
        Some(wanted) => wanted.into_iter().map(|topic| fetch.topic(topic)).collect(),
        None => fetch.all(),
    };
    OffsetFetchResponseGroup { group_id: request.group_id, topics, ..Default::default() }
}

struct Fetch<'f> {
    topics: &'f dyn Topics,
    by_id: bool,
    offsets: Option<&'f Offsets>,
    room: &'f mut usize,
}

impl Fetch<'_> {
    fn topic<'r>(&mut self, topic: OffsetFetchRequestTopics<'r>) -> OffsetFetchResponseTopics<'r> {
        let name = match self.by_id {
            true => self.topics.name(topic.topic_id),
            false => Some(&*topic.name),
        };
        let partitions = match name {
            Some(name) => self.partitions(name, topic.topic_id, &topic.partition_indexes),
            None => unknown(&topic.partition_indexes),
        };
        OffsetFetchResponseTopics { topic_id: topic.topic_id, partitions, name: topic.name }
    }

    fn partitions(
        &mut self,
        name: &str,
        topic_id: Uuid,
        wanted: &[i32],
    ) -> Vec<OffsetFetchResponsePartitions<'static>> {
        let committed = self.offsets.and_then(|offsets| offsets.topics.get(name));
        let answers = wanted.iter().map(|partition| {
            let committed = committed.and_then(|partitions| partitions.get(partition));
            let committed = committed.filter(|it| !is_of_another_topic(it.topic_id, topic_id));
            answer(*partition, committed, self.room)
        });
        answers.collect()
    }

    /// All offsets of the group; by id, those of topics that exist.
    fn all<'r>(&mut self) -> Vec<OffsetFetchResponseTopics<'r>> {
        let by_topic = self.offsets.map(Offsets::by_topic).unwrap_or_default();
        let topics = by_topic.into_iter().filter_map(|(name, partitions)| {
            let topic_id = match self.by_id {
                true => self.topics.id(name)?,
                false => Uuid::ZERO,
            };
            let partitions =
                partitions.iter().map(|(index, it)| answer(*index, Some(it), self.room));
            let partitions = partitions.collect();
            Some(OffsetFetchResponseTopics { name: owned(name), topic_id, partitions })
        });
        topics.collect()
    }
}

/// Ids that are zero are unknown, and match any.
fn is_of_another_topic(committed: Uuid, wanted: Uuid) -> bool {
    !committed.is_zero() && !wanted.is_zero() && committed != wanted
}

fn answer(
    partition_index: i32,
    committed: Option<&Committed>,
    room: &mut usize,
) -> OffsetFetchResponsePartitions<'static> {
    let Some(committed) = committed else { return absent(partition_index, ErrorCode::None) };
    let Some(left) = room.checked_sub(committed.metadata.len()) else {
        return absent(partition_index, ErrorCode::UnknownServerError);
    };
    *room = left;
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: committed.offset,
        committed_leader_epoch: committed.leader_epoch,
        metadata: Some(owned(&committed.metadata)),
        error_code: ErrorCode::None as i16,
    }
}

fn absent(partition_index: i32, error: ErrorCode) -> OffsetFetchResponsePartitions<'static> {
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(Str::Borrowed("")),
        error_code: error as i16,
    }
}

fn unknown(wanted: &[i32]) -> Vec<OffsetFetchResponsePartitions<'static>> {
    wanted.iter().map(|partition| absent(*partition, ErrorCode::UnknownTopicId)).collect()
}
