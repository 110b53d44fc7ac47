//! OffsetCommit and TxnOffsetCommit.

use super::topics::{OfTopic, gather, has};
use super::{CoordinatorAnswer, GroupApi, NamedGroups, ScreenedTopics, owned, without_group};
use crate::dispatch::authorization::{By, Verdict, take_denied};
use crate::dispatch::extract::extract;
use crate::security::acls::Operation::{Read, Write};
use muster_codec::messages::*;
use muster_codec::{ApiKey, ErrorCode, Response, Uuid};
use muster_coordinator::Topics;

/// A topic in a commit.
trait CommitTopic {
    type Answer: OfTopic;

    /// The answer that refuses all partitions of the topic.
    fn refused(&self, error: ErrorCode) -> Self::Answer;

    /// Removes partitions that do not exist, given that the topic has `count` partitions. Returns
    /// the answer that refuses them, or None if there are none.
    fn take_absent(&mut self, count: i32) -> Option<Self::Answer>;
}

/// Removes partitions that do not exist, and topics without remaining partitions. `count` returns
/// the number of partitions of a topic, or the error for a topic that does not exist.
fn take_absent<T: CommitTopic>(
    requested: &mut Vec<T>,
    count: impl Fn(&T) -> Result<i32, ErrorCode>,
    is_empty: impl Fn(&T) -> bool,
) -> Vec<T::Answer> {
    let mut refused = Vec::new();
    requested.retain_mut(|topic| match count(topic) {
        Ok(count) => {
            refused.extend(topic.take_absent(count));
            !is_empty(topic)
        }
        Err(error) => {
            refused.push(topic.refused(error));
            false
        }
    });
    refused
}

fn partitions_of(topics: &dyn Topics, id: Uuid) -> Option<i32> {
    topics.partitions(topics.name(id)?)
}

/// Implements both APIs, whose messages have the same fields. In brackets, a transactional API
/// names the check of the group's name, and the field of the transactional id. (Offsets that are
/// committed outside of a transaction may belong to the group with the empty name.)
macro_rules! commits {
    ($(
        $api:ident $(($invalid:ident, $id:ident))?: $request:ident, $topic:ident, $partition:ident
            => $response:ident, $answer:ident, $outcome:ident;
    )*) => {$(
        impl GroupApi for $request<'_> {
            fn named(&mut self, _version: i16) -> NamedGroups<'_> {
                NamedGroups::One(&self.group_id)
            }

            fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
                let topics = self.topics.iter().map(|topic| topic.refused(error)).collect();
                $response { topics, ..Default::default() }.into()
            }

            fn authorize(&mut self, by: &By<'_>) -> Verdict {
                let allowed = Ok(());
                $(let allowed = allowed.and_then(|()| by.transactional_id(Write, &self.$id));)?
                let allowed = allowed.and_then(|()| by.group(Read, &self.group_id));
                let whole = Verdict::whole(allowed, |error| self.refused(by.version, error));
                whole.then(|| {
                    let is_allowed = |it: &$topic<'_>| {
                        by.named_topic(Read, (&it.name, it.topic_id), ApiKey::$api)
                    };
                    let denied = take_denied(&mut self.topics, is_allowed);
                    let refused = denied.map(|denied| {
                        let refused =
                            denied.iter().map(|it| it.refused(ErrorCode::TopicAuthorizationFailed));
                        let topics = gather(refused.collect(), Vec::new());
                        $response { topics, ..Default::default() }
                    });
                    Verdict::of_parts(refused, self.topics.is_empty())
                })
            }

            $(
                fn invalid(&self, _version: i16) -> Option<ErrorCode> {
                    $invalid(&self.group_id)
                }
            )?

            /// Also removes topics of which no partition remains. If no topic remains, the commit
            /// is answered here, even if another shard owns its group.
            fn screen_topics(&mut self, version: i16, topics: &dyn Topics) -> ScreenedTopics {
                let count = |topic: &$topic<'_>| {
                    if ApiKey::$api.has_topic_ids(version) {
                        let count = partitions_of(topics, topic.topic_id);
                        return count.ok_or(ErrorCode::UnknownTopicId);
                    }
                    let count = topics.partitions(&topic.name);
                    count.ok_or(ErrorCode::UnknownTopicOrPartition)
                };
                let is_empty = |topic: &$topic<'_>| topic.partitions.is_empty();
                let absent = take_absent(&mut self.topics, count, is_empty);
                if absent.is_empty() && !self.topics.is_empty() {
                    return ScreenedTopics::Passed;
                }
                let topics = gather(absent, Vec::new());
                let response = $response { topics, ..Default::default() }.into();
                if self.topics.is_empty() {
                    ScreenedTopics::Refused(response)
                } else {
                    ScreenedTopics::InPart(response)
                }
            }
        }

        impl CommitTopic for $topic<'_> {
            type Answer = $answer<'static>;

            fn refused(&self, error: ErrorCode) -> Self::Answer {
                let outcome = |partition: &$partition<'_>| $outcome {
                    partition_index: partition.partition_index,
                    error_code: error.code(),
                };
                $answer {
                    name: owned(&self.name),
                    topic_id: self.topic_id,
                    partitions: self.partitions.iter().map(outcome).collect(),
                }
            }

            fn take_absent(&mut self, count: i32) -> Option<Self::Answer> {
                let is_absent = |it: &$partition<'_>| !has(count, it.partition_index);
                let partitions = extract(&mut self.partitions, is_absent)?;
                let (name, topic_id) = (self.name.clone(), self.topic_id);
                let absent = $topic { name, topic_id, partitions };
                Some(absent.refused(ErrorCode::UnknownTopicOrPartition))
            }
        }

        impl CoordinatorAnswer for $response<'_> {
            fn merge(&mut self, refused: Self) {
                self.topics = gather(refused.topics, std::mem::take(&mut self.topics));
            }

            fn fail(&mut self, error: ErrorCode) {
                let partitions = self.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
                partitions.for_each(|partition| partition.error_code = error.code());
            }
        }

        impl OfTopic for $answer<'_> {
            type Partition = $outcome;

            fn topic(&self) -> (Uuid, &str) {
                (self.topic_id, &self.name)
            }

            fn partitions(&mut self) -> &mut Vec<Self::Partition> {
                &mut self.partitions
            }
        }
    )*};
}

commits! {
    OffsetCommit: OffsetCommitRequest, OffsetCommitRequestTopic, OffsetCommitRequestPartition
        => OffsetCommitResponse, OffsetCommitResponseTopic, OffsetCommitResponsePartition;
    TxnOffsetCommit (without_group, transactional_id): TxnOffsetCommitRequest,
        TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition
        => TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition;
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

    /// Returns the answer to a commit if the coordinator accepts all that it gets, and the part of
    /// the commit that the coordinator gets.
    fn committed(
        version: i16,
        topics: Vec<OffsetCommitRequestTopic<'static>>,
    ) -> (Outcome, Outcome) {
        let mut body = OffsetCommitRequest { topics, ..Default::default() };
        let screened = body.screen_topics(version, &image());
        let taken: Vec<_> =
            body.topics.iter().map(|topic| topic.refused(ErrorCode::None)).collect();
        let seen = outcome(&taken);
        let mut response = OffsetCommitResponse { topics: taken, ..Default::default() }.into();
        let ScreenedTopics::InPart(refused) = screened else { panic!("{screened:?}") };
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
        let ScreenedTopics::Refused(Response::OffsetCommit(answer)) = screened else {
            panic!("{screened:?}")
        };
        assert_eq!(outcome(&answer.topics), [of("x", &[(0, UNKNOWN_PARTITION)])]);
    }

    #[test]
    fn a_commit_of_what_exists_passes() {
        let topics = vec![of_commit("t", Uuid::ZERO, &[0, 1])];
        let mut body = OffsetCommitRequest { topics, ..Default::default() };
        assert!(matches!(body.screen_topics(9, &image()), ScreenedTopics::Passed));
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
