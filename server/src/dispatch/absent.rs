//! Topics and partitions that do not exist, in OffsetCommit and OffsetDelete: answered here, in front of
//! the coordinator, which sees the others only.

use super::refusal::{Refused, extract, owned, refuse_commit};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Uuid};
use muster_coordinator::Topics;
use std::collections::HashMap;

/// The first version of OffsetCommit that names topics by their id.
const TOPIC_IDS_FROM: i16 = 10;

/// Takes out of a commit what names no partition. A topic of which nothing is left goes with it, so that
/// a commit of nothing else is answered whatever its group is.
pub(super) fn commit(
    body: &mut OffsetCommitRequest<'_>,
    version: i16,
    topics: &dyn Topics,
) -> Refused {
    let mut refused = Vec::new();
    body.topics.retain_mut(|topic| {
        let (count, error) = match version >= TOPIC_IDS_FROM {
            true => (partitions_of(topics, topic.topic_id), ErrorCode::UnknownTopicId),
            false => (topics.partitions(&topic.name), ErrorCode::UnknownTopicOrPartition),
        };
        let Some(count) = count else {
            refused.push(refuse_commit(topic, error));
            return false;
        };
        let is_absent = |it: &OffsetCommitRequestPartition<'_>| !has(count, it.partition_index);
        if let Some(partitions) = extract(&mut topic.partitions, is_absent) {
            let topic = OffsetCommitRequestTopic { partitions, ..unnamed(topic) };
            refused.push(refuse_commit(&topic, ErrorCode::UnknownTopicOrPartition));
        }
        !topic.partitions.is_empty()
    });
    Refused::Commit(gather(refused, Vec::new()))
}

/// Takes out of a deletion what names no partition. The group is looked at all the same, and an error of
/// it is the whole answer.
pub(super) fn offset_delete(body: &mut OffsetDeleteRequest<'_>, topics: &dyn Topics) -> Refused {
    let mut refused = Vec::new();
    body.topics.retain_mut(|topic| {
        let count = topics.partitions(&topic.name);
        let is_absent = |it: &OffsetDeleteRequestPartition| {
            !count.is_some_and(|count| has(count, it.partition_index))
        };
        let absent = extract(&mut topic.partitions, is_absent);
        if absent.is_some() || count.is_none() {
            let partitions = absent.iter().flatten().map(absent_offset).collect();
            refused.push(OffsetDeleteResponseTopic { name: owned(&topic.name), partitions });
        }
        !topic.partitions.is_empty()
    });
    Refused::OffsetDelete(gather(refused, Vec::new()))
}

fn partitions_of(topics: &dyn Topics, id: Uuid) -> Option<i32> {
    topics.partitions(topics.name(id)?)
}

fn has(count: i32, partition: i32) -> bool {
    (0..count).contains(&partition)
}

fn unnamed<'r>(topic: &OffsetCommitRequestTopic<'r>) -> OffsetCommitRequestTopic<'r> {
    OffsetCommitRequestTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        ..Default::default()
    }
}

fn absent_offset(partition: &OffsetDeleteRequestPartition) -> OffsetDeleteResponsePartition {
    OffsetDeleteResponsePartition {
        partition_index: partition.partition_index,
        error_code: ErrorCode::UnknownTopicOrPartition.code(),
    }
}

/// What an answer tells of one topic.
pub(super) trait OfTopic {
    type Partition;

    fn topic(&self) -> (Uuid, &str);
    fn partitions(&mut self) -> &mut Vec<Self::Partition>;
}

impl OfTopic for OffsetCommitResponseTopic<'_> {
    type Partition = OffsetCommitResponsePartition;

    fn topic(&self) -> (Uuid, &str) {
        (self.topic_id, &self.name)
    }

    fn partitions(&mut self) -> &mut Vec<Self::Partition> {
        &mut self.partitions
    }
}

impl OfTopic for OffsetDeleteResponseTopic<'_> {
    type Partition = OffsetDeleteResponsePartition;

    fn topic(&self) -> (Uuid, &str) {
        (Uuid::ZERO, &self.name)
    }

    fn partitions(&mut self) -> &mut Vec<Self::Partition> {
        &mut self.partitions
    }
}

/// All that is told, with what is told of one topic put together where that topic comes first.
pub(super) fn gather<T: OfTopic>(refused: Vec<T>, others: Vec<T>) -> Vec<T> {
    let mut places = HashMap::with_capacity(refused.len());
    let mut gathered: Vec<T> = Vec::with_capacity(refused.len() + others.len());
    for mut topic in refused.into_iter().chain(others) {
        let (id, name) = topic.topic();
        let place = *places.entry((id, name.to_owned())).or_insert(gathered.len());
        match gathered.get_mut(place) {
            Some(first) => first.partitions().append(topic.partitions()),
            None => gathered.push(topic),
        }
    }
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterImage;
    use muster_codec::records::{ClusterRecord, TopicKey, TopicValue};
    use muster_codec::{Request, Response, Str};

    const ID: Uuid = Uuid([1; 16]);
    const UNKNOWN: Uuid = Uuid([9; 16]);
    const NONE: i16 = ErrorCode::None as i16;
    const UNKNOWN_PARTITION: i16 = ErrorCode::UnknownTopicOrPartition as i16;
    const UNKNOWN_ID: i16 = ErrorCode::UnknownTopicId as i16;

    /// The topic t with two partitions.
    fn image() -> ClusterImage {
        let mut image = ClusterImage::default();
        let value = TopicValue { name: "t".into(), partitions: 2, ..Default::default() };
        image.apply(&ClusterRecord::Topic(TopicKey { topic_id: ID }, Some(value)));
        image
    }

    fn of_commit(
        name: &'static str,
        topic_id: Uuid,
        partitions: &[i32],
    ) -> OffsetCommitRequestTopic<'static> {
        let partition = |index: &i32| OffsetCommitRequestPartition {
            partition_index: *index,
            ..Default::default()
        };
        let partitions = partitions.iter().map(partition).collect();
        OffsetCommitRequestTopic { name: name.into(), topic_id, partitions }
    }

    type Told = Vec<(String, Vec<(i32, i16)>)>;

    fn told(topics: &[OffsetCommitResponseTopic<'_>]) -> Told {
        let partitions = |topic: &OffsetCommitResponseTopic<'_>| {
            topic.partitions.iter().map(|it| (it.partition_index, it.error_code)).collect()
        };
        topics.iter().map(|topic| (topic.name.to_string(), partitions(topic))).collect()
    }

    /// What a commit is answered, and what of it the coordinator sees, which takes it all.
    fn committed(version: i16, topics: Vec<OffsetCommitRequestTopic<'static>>) -> (Told, Told) {
        let mut body = OffsetCommitRequest { topics, ..Default::default() };
        let refused = commit(&mut body, version, &image());
        let of_topic = |topic: &OffsetCommitRequestTopic<'_>| refuse_commit(topic, ErrorCode::None);
        let taken: Vec<_> = body.topics.iter().map(of_topic).collect();
        let seen = told(&taken);
        let mut response = OffsetCommitResponse { topics: taken, ..Default::default() }.into();
        refused.merge_into(&mut response);
        let Response::OffsetCommit(response) = response else { unreachable!() };
        (told(&response.topics), seen)
    }

    fn of(name: &str, partitions: &[(i32, i16)]) -> (String, Vec<(i32, i16)>) {
        (name.to_owned(), partitions.to_vec())
    }

    #[test]
    fn a_commit_to_a_partition_that_a_topic_does_not_have_is_refused() {
        let (answer, seen) = committed(9, vec![of_commit("t", Uuid::ZERO, &[-1, 0, 2, 1])]);
        let refused = [(-1, UNKNOWN_PARTITION), (2, UNKNOWN_PARTITION)];
        let all = [&refused[..], &[(0, NONE), (1, NONE)]].concat();
        assert_eq!(answer, [of("t", &all)], "what is refused comes first");
        assert_eq!(seen, [of("t", &[(0, NONE), (1, NONE)])]);
    }

    #[test]
    fn a_commit_of_nothing_that_exists_leaves_nothing_for_the_coordinator() {
        let nothing = vec![of_commit("x", Uuid::ZERO, &[0]), of_commit("t", Uuid::ZERO, &[])];
        let mut request: Request<'_> =
            OffsetCommitRequest { topics: nothing.clone(), ..Default::default() }.into();
        let Request::OffsetCommit(body) = &mut request else { unreachable!() };
        let refused = commit(body, 9, &image());
        assert!(super::super::refusal::is_empty(&request), "whatever the group is");
        let Response::OffsetCommit(answer) = refused.into_response() else { unreachable!() };
        assert_eq!(told(&answer.topics), [of("x", &[(0, UNKNOWN_PARTITION)])]);
    }

    #[test]
    fn a_commit_by_id_tells_an_unknown_topic_from_an_unknown_partition() {
        let topics = vec![of_commit("", ID, &[0, 7]), of_commit("", UNKNOWN, &[0])];
        let (answer, seen) = committed(10, topics);
        let of_t = of("", &[(7, UNKNOWN_PARTITION), (0, NONE)]);
        assert_eq!(answer, [of_t, of("", &[(0, UNKNOWN_ID)])]);
        assert_eq!(seen, [of("", &[(0, NONE)])]);
    }

    fn of_deletion(name: &'static str, partitions: &[i32]) -> OffsetDeleteRequestTopic<'static> {
        let partition = |index: &i32| OffsetDeleteRequestPartition { partition_index: *index };
        let partitions = partitions.iter().map(partition).collect();
        OffsetDeleteRequestTopic { name: name.into(), partitions }
    }

    #[test]
    fn a_deletion_of_offsets_comes_to_the_group_even_if_nothing_of_it_exists() {
        let topics = vec![of_deletion("x", &[0]), of_deletion("t", &[1, 2])];
        let mut body = OffsetDeleteRequest { topics, ..Default::default() };
        let refused = offset_delete(&mut body, &image());
        assert_eq!(body.topics, [of_deletion("t", &[1])]);
        body.topics.clear();
        let request = Request::from(body);
        assert!(!super::super::refusal::is_empty(&request));
        let not_found = ErrorCode::GroupIdNotFound.code();
        let mut response =
            OffsetDeleteResponse { error_code: not_found, ..Default::default() }.into();
        let again = Refused::OffsetDelete(Vec::new());
        refused.merge_into(&mut response);
        again.merge_into(&mut response);
        let Response::OffsetDelete(response) = response else { unreachable!() };
        assert_eq!(response.topics, [], "the error of the group stands alone");
    }

    #[test]
    fn what_a_deletion_of_offsets_refuses_comes_first() {
        let mut body = OffsetDeleteRequest {
            topics: vec![of_deletion("t", &[1, 2]), of_deletion("x", &[])],
            ..Default::default()
        };
        let refused = offset_delete(&mut body, &image());
        let deleted = OffsetDeleteResponsePartition { partition_index: 1, error_code: NONE };
        let topic = OffsetDeleteResponseTopic { name: "t".into(), partitions: vec![deleted] };
        let mut response =
            OffsetDeleteResponse { topics: vec![topic], ..Default::default() }.into();
        refused.merge_into(&mut response);
        let Response::OffsetDelete(response) = response else { unreachable!() };
        let of_topic = |topic: &OffsetDeleteResponseTopic<'_>| {
            let partitions = topic.partitions.iter();
            let partitions = partitions.map(|it| (it.partition_index, it.error_code)).collect();
            (topic.name.to_string(), partitions)
        };
        let told: Told = response.topics.iter().map(of_topic).collect();
        assert_eq!(told, [of("t", &[(2, UNKNOWN_PARTITION), (1, NONE)]), of("x", &[])]);
        assert_eq!(response.topics[1].name, Str::Borrowed("x"));
    }
}
