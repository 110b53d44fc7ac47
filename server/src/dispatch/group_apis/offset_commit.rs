//! OffsetCommit.

use super::list::extract;
use super::topics::{OfTopic, gather, has};
use super::{GroupAnswer, GroupApi, Named, Screened, owned};
use muster_codec::messages::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use muster_codec::{ErrorCode, Response, Uuid};
use muster_coordinator::Topics;

/// The first version that names topics by their id.
const TOPIC_IDS_FROM: i16 = 10;

impl GroupApi for OffsetCommitRequest<'_> {
    fn named(&mut self, _version: i16) -> Named<'_> {
        Named::One(&self.group_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        let topics = self.topics.iter().map(|topic| refused_topic(topic, error)).collect();
        OffsetCommitResponse { topics, ..Default::default() }.into()
    }

    /// A topic of which nothing remains goes with its partitions, so that a commit of nothing else
    /// is answered whatever its group is.
    fn screen_topics(&mut self, version: i16, topics: &dyn Topics) -> Screened {
        let absent = take_absent(self, version, topics);
        let is_passed = absent.is_empty() && !self.topics.is_empty();
        if is_passed {
            return Screened::Passed;
        }
        let topics = gather(absent, Vec::new());
        let response = OffsetCommitResponse { topics, ..Default::default() }.into();
        if self.topics.is_empty() {
            Screened::Refused(response)
        } else {
            Screened::InPart(response)
        }
    }
}

impl GroupAnswer for OffsetCommitResponse<'_> {
    fn merge(&mut self, refused: Self) {
        self.topics = gather(refused.topics, std::mem::take(&mut self.topics));
    }

    fn fail(&mut self, error: ErrorCode) {
        let partitions = self.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        partitions.for_each(|partition| partition.error_code = error.code());
    }
}

/// Takes out the partitions that do not exist, and the topics of which none remains.
fn take_absent(
    request: &mut OffsetCommitRequest<'_>,
    version: i16,
    topics: &dyn Topics,
) -> Vec<OffsetCommitResponseTopic<'static>> {
    let mut refused = Vec::new();
    request.topics.retain_mut(|topic| {
        let (count, error) = if version >= TOPIC_IDS_FROM {
            (partitions_of(topics, topic.topic_id), ErrorCode::UnknownTopicId)
        } else {
            (topics.partitions(&topic.name), ErrorCode::UnknownTopicOrPartition)
        };
        let Some(count) = count else {
            refused.push(refused_topic(topic, error));
            return false;
        };
        let is_absent = |it: &OffsetCommitRequestPartition<'_>| !has(count, it.partition_index);
        if let Some(partitions) = extract(&mut topic.partitions, is_absent) {
            let topic = OffsetCommitRequestTopic { partitions, ..without_partitions(topic) };
            refused.push(refused_topic(&topic, ErrorCode::UnknownTopicOrPartition));
        }
        !topic.partitions.is_empty()
    });
    refused
}

fn partitions_of(topics: &dyn Topics, id: Uuid) -> Option<i32> {
    topics.partitions(topics.name(id)?)
}

fn without_partitions<'r>(topic: &OffsetCommitRequestTopic<'r>) -> OffsetCommitRequestTopic<'r> {
    OffsetCommitRequestTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        ..Default::default()
    }
}

fn refused_topic(
    topic: &OffsetCommitRequestTopic<'_>,
    error: ErrorCode,
) -> OffsetCommitResponseTopic<'static> {
    let partition = |partition: &OffsetCommitRequestPartition<'_>| OffsetCommitResponsePartition {
        partition_index: partition.partition_index,
        error_code: error.code(),
    };
    OffsetCommitResponseTopic {
        name: owned(&topic.name),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(partition).collect(),
    }
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

#[cfg(test)]
mod tests {
    use super::super::{merge, tests::*};
    use super::*;

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

    fn outcome(topics: &[OffsetCommitResponseTopic<'_>]) -> Outcome {
        let partitions = |topic: &OffsetCommitResponseTopic<'_>| {
            topic.partitions.iter().map(|it| (it.partition_index, it.error_code)).collect()
        };
        topics.iter().map(|topic| (topic.name.to_string(), partitions(topic))).collect()
    }

    /// The answer to a commit, and what of it gets to the coordinator, which takes it all.
    fn committed(
        version: i16,
        topics: Vec<OffsetCommitRequestTopic<'static>>,
    ) -> (Outcome, Outcome) {
        let mut body = OffsetCommitRequest { topics, ..Default::default() };
        let screened = body.screen_topics(version, &image());
        let taken: Vec<_> =
            body.topics.iter().map(|topic| refused_topic(topic, ErrorCode::None)).collect();
        let seen = outcome(&taken);
        let mut response = OffsetCommitResponse { topics: taken, ..Default::default() }.into();
        let Screened::InPart(refused) = screened else { panic!("{screened:?}") };
        merge(&mut response, refused);
        let Response::OffsetCommit(response) = response else { unreachable!() };
        (outcome(&response.topics), seen)
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
        let topics = vec![of_commit("x", Uuid::ZERO, &[0]), of_commit("t", Uuid::ZERO, &[])];
        let mut body = OffsetCommitRequest { topics, ..Default::default() };
        let screened = body.screen_topics(9, &image());
        let Screened::Refused(Response::OffsetCommit(answer)) = screened else {
            panic!("{screened:?}")
        };
        assert_eq!(outcome(&answer.topics), [of("x", &[(0, UNKNOWN_PARTITION)])]);
    }

    #[test]
    fn a_commit_of_what_exists_passes() {
        let topics = vec![of_commit("t", Uuid::ZERO, &[0, 1])];
        let mut body = OffsetCommitRequest { topics, ..Default::default() };
        assert!(matches!(body.screen_topics(9, &image()), Screened::Passed));
    }

    #[test]
    fn a_commit_by_id_separates_unknown_topics_from_unknown_partitions() {
        let topics = vec![of_commit("", ID, &[0, 7]), of_commit("", UNKNOWN, &[0])];
        let (answer, seen) = committed(10, topics);
        let of_t = of("", &[(7, UNKNOWN_PARTITION), (0, NONE)]);
        assert_eq!(answer, [of_t, of("", &[(0, UNKNOWN_ID)])]);
        assert_eq!(seen, [of("", &[(0, NONE)])]);
    }
}
