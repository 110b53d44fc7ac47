//! The offsets of a share group. Administrators see them, and may alter or delete them while the
//! group is empty.

use super::state::StatePartitions;
use super::{Share, ShareGroup};
use crate::context::Topics;
use crate::modern::kind::Kind as _;
use crate::modern::{Refusal, refuse};
use crate::partition_set::PartitionSet;
use crate::request_id::RequestId;
use crate::share_state::{ByTopic, Start, StateCall, StateRequest, StateResult, Then, TopicState};
use crate::text::{Text, owned};
use crate::turn::Turn;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use muster_codec::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse, AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic, DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponseTopic,
    DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponseGroup, DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
};
use muster_codec::{ErrorCode, Str, Uuid};

const UNKNOWN_TOPIC: &str = "This server does not host this topic-partition.";
const NO_OFFSETS: &str = "There is no offset information to delete.";

/// The requested partitions; if the request names none, all partitions with share state. Their
/// offsets are added later.
pub(crate) fn described_group(
    topics: &dyn Topics,
    state: Option<&StatePartitions>,
    asked: &DescribeShareGroupOffsetsRequestGroup<'_>,
) -> DescribeShareGroupOffsetsResponseGroup<'static> {
    let described = match &asked.topics {
        Some(asked) => described_topics(topics, asked),
        None => {
            let all = state.into_iter().flat_map(|state| &state.initialized);
            all.map(|(id, it)| described_topic(&it.name, *id, it.partitions.as_slice().to_vec()))
                .collect()
        }
    };
    DescribeShareGroupOffsetsResponseGroup {
        group_id: owned(&asked.group_id),
        topics: described,
        ..Default::default()
    }
}

/// The requested topics. A topic that exists is answered once, with all its requested partitions.
fn described_topics(
    topics: &dyn Topics,
    asked: &[DescribeShareGroupOffsetsRequestTopic<'_>],
) -> Vec<DescribeShareGroupOffsetsResponseTopic<'static>> {
    let mut existing: BTreeMap<Uuid, (&str, BTreeSet<i32>)> = BTreeMap::new();
    let mut described = Vec::new();
    for topic in asked {
        let name = &*topic.topic_name;
        match topics.id(name) {
            Some(id) => {
                let of_topic = existing.entry(id).or_insert((name, BTreeSet::new()));
                of_topic.1.extend(&topic.partitions);
            }
            None => described.push(described_topic(
                name,
                Uuid::default(),
                topic.partitions.iter().copied(),
            )),
        }
    }
    let existing = existing.into_iter();
    described.extend(existing.map(|(id, (name, all))| described_topic(name, id, all)));
    described
}

fn described_topic(
    name: &str,
    topic_id: Uuid,
    partitions: impl IntoIterator<Item = i32>,
) -> DescribeShareGroupOffsetsResponseTopic<'static> {
    DescribeShareGroupOffsetsResponseTopic {
        topic_name: owned(name),
        topic_id,
        partitions: partitions.into_iter().map(undescribed).collect(),
    }
}

fn undescribed(partition_index: i32) -> DescribeShareGroupOffsetsResponsePartition<'static> {
    DescribeShareGroupOffsetsResponsePartition {
        partition_index,
        start_offset: -1,
        ..Default::default()
    }
}

/// The request that asks the leaders for the offsets of a group's partitions. None if no topic in
/// the answer about the group exists.
pub(crate) fn to_read(group: &DescribeShareGroupOffsetsResponseGroup<'_>) -> Option<StateRequest> {
    let existing = group.topics.iter().filter(|topic| topic.topic_id != Uuid::default());
    let topics = existing.map(|topic| {
        let partitions = topic.partitions.iter().map(|it| it.partition_index).collect();
        (topic.topic_id, partitions)
    });
    let topics: Vec<_> = topics.collect();
    (!topics.is_empty()).then_some(StateRequest::ReadSummary(topics))
}

/// Adds the answers of the leaders. As in Kafka, the response does not show their errors.
pub(crate) fn fill(
    group: &mut DescribeShareGroupOffsetsResponseGroup<'static>,
    results: &[StateResult],
) {
    let summaries = results
        .iter()
        .filter_map(|it| Some(((it.topic_id, it.partition), it.result.as_ref().ok()?)));
    let mut summaries: Vec<_> = summaries.collect();
    summaries.sort_by_key(|(key, _)| *key);
    // Most results are in the order of the response's partitions.
    let mut next = 0;
    for topic in &mut group.topics {
        for partition in &mut topic.partitions {
            let key = (topic.topic_id, partition.partition_index);
            if summaries.get(next).is_none_or(|(found, _)| *found != key) {
                let found = summaries.binary_search_by_key(&key, |(key, _)| *key);
                let Ok(found) = found else { continue };
                next = found;
            }
            let summary = summaries[next].1;
            next += 1;
            partition.start_offset = summary.start_offset;
            partition.leader_epoch = summary.leader_epoch;
            partition.lag = summary.lag();
        }
    }
}

/// Requests that the leaders set new start offsets. The group epoch is bumped, so that requests
/// with the earlier state epoch are fenced at the leaders (KAFKA-20910).
///
/// # Errors
/// NON_EMPTY_GROUP.
pub(crate) fn alter(
    turn: &mut Turn<'_, '_>,
    group: &mut ShareGroup,
    id: RequestId,
    request: &AlterShareGroupOffsetsRequest<'_>,
) -> Result<(), Refusal> {
    refuse_if_not_empty(group)?;
    let responses = altered_topics(turn.topics, &request.topics);
    let response = AlterShareGroupOffsetsResponse { responses, ..Default::default() };
    let (topics, starts) = known(turn.topics, request);
    if topics.is_empty() {
        turn.answer(id, response);
        return Ok(());
    }
    let state_epoch = group.epoch.saturating_add(1);
    turn.write(Share::epoch_record(&group.id, state_epoch, group.metadata_hash, &()));
    group.write_state(turn, &group.own.state.with_initializing(&topics));
    let retry_ms = turn.config.group_share_initialize_retry_interval_ms;
    group.own.state.asked(topics.keys(), turn.now.saturating_add(i64::from(retry_ms)));
    let request = StateRequest::Initialize { state_epoch, topics: starts };
    call(turn, group, request, Then::Altered { topics, request: id, response });
    Ok(())
}

/// The responses for the requested topics, with errors for partitions that do not exist. A topic is
/// answered once. A topic that does not exist is answered only if partitions of it are requested.
fn altered_topics(
    topics: &dyn Topics,
    asked: &[AlterShareGroupOffsetsRequestTopic<'_>],
) -> Vec<AlterShareGroupOffsetsResponseTopic<'static>> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut answered: Vec<AlterShareGroupOffsetsResponseTopic<'static>> = Vec::new();
    for topic in asked {
        let name = &*topic.topic_name;
        let count = topics.partitions(name);
        if count.is_none() && topic.partitions.is_empty() {
            continue;
        }
        let place = *places.entry(name).or_insert(answered.len());
        if place == answered.len() {
            answered.push(AlterShareGroupOffsetsResponseTopic {
                topic_name: owned(name),
                topic_id: topics.id(name).unwrap_or_default(),
                partitions: Vec::new(),
            });
        }
        let exists = |index| (0..count.unwrap_or(0)).contains(&index);
        let indexes = topic.partitions.iter().map(|it| it.partition_index);
        let each = indexes.map(|index| altered_partition(index, exists(index)));
        answered[place].partitions.extend(each);
    }
    answered
}

fn altered_partition(
    partition_index: i32,
    exists: bool,
) -> AlterShareGroupOffsetsResponsePartition<'static> {
    if exists {
        return AlterShareGroupOffsetsResponsePartition { partition_index, ..Default::default() };
    }
    AlterShareGroupOffsetsResponsePartition {
        partition_index,
        error_code: ErrorCode::UnknownTopicOrPartition as i16,
        error_message: Some(Str::Borrowed(UNKNOWN_TOPIC)),
    }
}

type Starts = Vec<(Uuid, Vec<(i32, Start)>)>;

/// The existing partitions of a request, and their new start offsets.
fn known(topics: &dyn Topics, request: &AlterShareGroupOffsetsRequest<'_>) -> (ByTopic, Starts) {
    let mut starts: BTreeMap<Uuid, (Text, BTreeMap<i32, Start>)> = BTreeMap::new();
    for topic in &request.topics {
        let name = &*topic.topic_name;
        let (Some(id), Some(count)) = (topics.id(name), topics.partitions(name)) else { continue };
        let of_topic = starts.entry(id).or_insert_with(|| (Text::from(name), BTreeMap::new()));
        let existing =
            topic.partitions.iter().filter(|it| (0..count).contains(&it.partition_index));
        of_topic.1.extend(existing.map(|it| (it.partition_index, Start::of(it.start_offset))));
    }
    starts.retain(|_, (_, partitions)| !partitions.is_empty());
    let by_topic = starts.iter().map(|(id, (name, partitions))| {
        let partitions = partitions.keys().copied().collect();
        (*id, TopicState { name: name.clone(), partitions })
    });
    let by_topic = by_topic.collect();
    let starts = starts.into_iter().map(|(id, (_, starts))| (id, starts.into_iter().collect()));
    (by_topic, starts.collect())
}

/// The answer after the leaders have changed the start offsets, or refused to.
pub(crate) fn altered(
    turn: &mut Turn<'_, '_>,
    group: Option<&mut ShareGroup>,
    topics: &ByTopic,
    mut response: AlterShareGroupOffsetsResponse<'static>,
    results: &[StateResult],
) -> AlterShareGroupOffsetsResponse<'static> {
    let errors: BTreeMap<_, _> = results.iter().filter_map(StateResult::error).collect();
    group.into_iter().for_each(|group| group.initialized(turn, topics, errors.is_empty()));
    for topic in &mut response.responses {
        for partition in &mut topic.partitions {
            if let Some(error) = errors.get(&(topic.topic_id, partition.partition_index)) {
                partition.error_code = *error as i16;
            }
        }
    }
    response
}

/// Requests that the leaders delete the share state of topics.
///
/// # Errors
/// NON_EMPTY_GROUP.
pub(crate) fn delete(
    turn: &mut Turn<'_, '_>,
    group: &ShareGroup,
    id: RequestId,
    request: &DeleteShareGroupOffsetsRequest<'_>,
) -> Result<(), Refusal> {
    refuse_if_not_empty(group)?;
    let mut response = DeleteShareGroupOffsetsResponse::default();
    // As in Kafka, the answer for a group that never had offsets lists no topics. If the group had
    // offsets, and all are deleted, the answer has an error for each topic.
    if !group.own.state.is_recorded {
        turn.answer(id, response);
        return Ok(());
    }
    let (mut after, mut gone) = (group.own.state.clone(), Vec::new());
    for topic in &request.topics {
        let name = &*topic.topic_name;
        match after.begin_deletion(turn.topics, name) {
            Ok(partitions) => {
                response.responses.push(deleted_topic(name, partitions.0, None));
                gone.push(partitions);
            }
            Err(message) => {
                let topic_id = Uuid::default();
                response.responses.push(deleted_topic(name, topic_id, Some(message)));
            }
        }
    }
    group.write_state(turn, &after);
    if gone.is_empty() {
        turn.answer(id, response);
        return Ok(());
    }
    let then = Then::Deleted { request: id, response };
    call(turn, group, StateRequest::Delete(gone), then);
    Ok(())
}

fn deleted_topic(
    name: &str,
    topic_id: Uuid,
    refusal: Option<&'static str>,
) -> DeleteShareGroupOffsetsResponseTopic<'static> {
    let error = refusal.map_or(ErrorCode::None, |_| ErrorCode::UnknownTopicOrPartition);
    DeleteShareGroupOffsetsResponseTopic {
        topic_name: owned(name),
        topic_id,
        error_code: error as i16,
        error_message: refusal.map(Str::Borrowed),
    }
}

impl StatePartitions {
    /// Moves a topic to the topics whose share state is being deleted. Returns its partitions.
    fn begin_deletion(
        &mut self,
        topics: &dyn Topics,
        name: &str,
    ) -> Result<(Uuid, Vec<i32>), &'static str> {
        let (Some(id), Some(count)) = (topics.id(name), topics.partitions(name)) else {
            return Err(UNKNOWN_TOPIC);
        };
        if let Some(state) = self.initialized.remove(&id) {
            self.deleting.insert(id, state.name);
            return Ok((id, state.partitions.into_vec()));
        }
        if self.deleting.contains_key(&id) {
            return Ok((id, (0..count).collect()));
        }
        Err(NO_OFFSETS)
    }
}

impl ShareGroup {
    /// Begins to delete the share state of all topics, before the group is deleted. Returns the
    /// request to the leaders; None if there is no share state.
    pub(crate) fn begin_deletion(&self, turn: &mut Turn<'_, '_>) -> Option<StateRequest> {
        if !self.own.state.is_recorded {
            return None;
        }
        let mut after = self.own.state.clone();
        let mut gone: BTreeMap<Uuid, PartitionSet> = BTreeMap::new();
        for (id, name) in &after.deleting {
            let count = turn.topics.partitions(name).filter(|_| turn.topics.id(name) == Some(*id));
            gone.entry(*id).or_default().add(&PartitionSet::first(count.unwrap_or(0)));
        }
        let initializing = core::mem::take(&mut after.initializing);
        let initialized = core::mem::take(&mut after.initialized);
        for (id, topic) in initializing.into_iter().chain(initialized) {
            gone.entry(id).or_default().add(&topic.partitions);
            after.deleting.insert(id, topic.name);
        }
        gone.retain(|_, partitions| !partitions.is_empty());
        self.write_state(turn, &after);
        if gone.is_empty() {
            return None;
        }
        let gone = gone.into_iter().map(|(id, all)| (id, all.into_vec()));
        Some(StateRequest::Delete(gone.collect()))
    }
}

/// The answer after the leaders have deleted the share state, or refused to.
pub(crate) fn deleted(
    turn: &mut Turn<'_, '_>,
    group: Option<&mut ShareGroup>,
    mut response: DeleteShareGroupOffsetsResponse<'static>,
    results: &[StateResult],
) -> DeleteShareGroupOffsetsResponse<'static> {
    let errors = results.iter().filter_map(StateResult::error);
    let errors: BTreeMap<Uuid, ErrorCode> = errors.map(|((id, _), error)| (id, error)).collect();
    for topic in &mut response.responses {
        if let Some(error) = errors.get(&topic.topic_id) {
            topic.error_code = *error as i16;
        }
    }
    if let Some(group) = group {
        let mut after = group.own.state.clone();
        let gone = response.responses.iter().filter(|topic| topic.error_code == 0);
        gone.for_each(|topic| drop(after.deleting.remove(&topic.topic_id)));
        group.write_state(turn, &after);
    }
    response
}

fn refuse_if_not_empty(group: &ShareGroup) -> Result<(), Refusal> {
    if group.is_empty() {
        return Ok(());
    }
    refuse(ErrorCode::NonEmptyGroup, "The group is not empty.")
}

/// Adds a request to the leaders. It is sent when the records of this call are durable.
pub(super) fn call(turn: &mut Turn<'_, '_>, group: &ShareGroup, request: StateRequest, then: Then) {
    let (group_id, visible_at) = (group.id.clone(), turn.position);
    turn.output.state_calls.push(StateCall { group_id, request, visible_at, then });
}
