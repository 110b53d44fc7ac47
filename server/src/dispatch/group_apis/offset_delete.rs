//! OffsetDelete.

use super::topics::{OfTopic, gather, has};
use super::{CoordinatorAnswer, GroupApi, NamedGroups, ScreenedTopics, owned, without_group};
use crate::dispatch::authorization::{By, Verdict, take_refused};
use crate::dispatch::extract::extract;
use crate::security::acls::Operation::{Delete, Read};
use muster_codec::messages::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteResponse,
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use muster_codec::{ErrorCode, Response, Uuid};
use muster_coordinator::Topics;

impl GroupApi for OffsetDeleteRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::One(&self.group_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        OffsetDeleteResponse { error_code: error.code(), ..Default::default() }.into()
    }

    /// The group is checked even if no topic remains.
    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        let whole = by.group(Delete, &self.group_id);
        let whole = Verdict::whole(whole, |error| self.refused(by.version, error));
        whole.then(|| {
            let denied = take_refused(&mut self.topics, |it| by.topic(Read, &it.name));
            let Some(topics) = denied else { return Verdict::Passed };
            Verdict::InPart(OffsetDeleteResponse { topics, ..Default::default() }.into())
        })
    }

    fn invalid(&self, _version: i16) -> Option<ErrorCode> {
        without_group(&self.group_id)
    }

    /// Passes the request on even if no topic remains, so that the coordinator checks the group.
    fn screen_topics(&mut self, _version: i16, topics: &dyn Topics) -> ScreenedTopics {
        let absent = take_absent(self, topics);
        if absent.is_empty() {
            return ScreenedTopics::Passed;
        }
        let topics = gather(absent, Vec::new());
        ScreenedTopics::InPart(OffsetDeleteResponse { topics, ..Default::default() }.into())
    }
}

impl CoordinatorAnswer for OffsetDeleteResponse<'_> {
    /// Adds the refusals. If the answer has an error for the whole group, they are dropped.
    fn merge(&mut self, refused: Self) {
        if self.error_code == ErrorCode::None.code() {
            self.topics = gather(refused.topics, std::mem::take(&mut self.topics));
        }
    }

    fn fail(&mut self, error: ErrorCode) {
        self.error_code = error.code();
    }
}

/// Removes partitions that do not exist, and topics without remaining partitions.
fn take_absent(
    request: &mut OffsetDeleteRequest<'_>,
    topics: &dyn Topics,
) -> Vec<OffsetDeleteResponseTopic<'static>> {
    let mut refused = Vec::new();
    request.topics.retain_mut(|topic| {
        let count = topics.partitions(&topic.name);
        let is_absent = |it: &OffsetDeleteRequestPartition| {
            !count.is_some_and(|count| has(count, it.partition_index))
        };
        let absent = extract(&mut topic.partitions, is_absent);
        if absent.is_some() || count.is_none() {
            let partitions = absent.iter().flatten().map(refused_partition).collect();
            refused.push(OffsetDeleteResponseTopic { name: owned(&topic.name), partitions });
        }
        !topic.partitions.is_empty()
    });
    refused
}

fn refused_partition(partition: &OffsetDeleteRequestPartition) -> OffsetDeleteResponsePartition {
    OffsetDeleteResponsePartition {
        partition_index: partition.partition_index,
        error_code: ErrorCode::UnknownTopicOrPartition.code(),
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

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use muster_codec::messages::OffsetDeleteRequestTopic;

    fn of_deletion(name: &'static str, partitions: &[i32]) -> OffsetDeleteRequestTopic<'static> {
        let partition = |index: &i32| OffsetDeleteRequestPartition { partition_index: *index };
        let partitions = partitions.iter().map(partition).collect();
        OffsetDeleteRequestTopic { name: name.into(), partitions }
    }

    /// The remaining request, and the refusal of the removed parts.
    fn screened(
        topics: Vec<OffsetDeleteRequestTopic<'static>>,
    ) -> (Vec<OffsetDeleteRequestTopic<'static>>, OffsetDeleteResponse<'static>) {
        let mut body = OffsetDeleteRequest { topics, ..Default::default() };
        match body.screen_topics(0, &image()) {
            ScreenedTopics::InPart(Response::OffsetDelete(refused)) => (body.topics, refused),
            screened => panic!("{screened:?}"),
        }
    }

    #[test]
    fn a_deletion_of_offsets_gets_to_the_group_even_if_nothing_of_it_exists() {
        let (left, refused) = screened(vec![of_deletion("x", &[0])]);
        assert_eq!(left, []);
        let error_code = ErrorCode::GroupIdNotFound.code();
        let mut response = OffsetDeleteResponse { error_code, ..Default::default() };
        response.merge(refused);
        assert_eq!(response.topics, [], "the error of the group stands alone");
    }

    #[test]
    fn refused_parts_of_a_deletion_of_offsets_come_first() {
        let (left, refused) = screened(vec![of_deletion("t", &[1, 2]), of_deletion("x", &[])]);
        assert_eq!(left, [of_deletion("t", &[1])]);
        let deleted = OffsetDeleteResponsePartition { partition_index: 1, error_code: NONE };
        let topic = OffsetDeleteResponseTopic { name: "t".into(), partitions: vec![deleted] };
        let mut response = OffsetDeleteResponse { topics: vec![topic], ..Default::default() };
        response.merge(refused);
        let of_topic = |topic: &OffsetDeleteResponseTopic<'_>| {
            let partitions = topic.partitions.iter();
            let partitions = partitions.map(|it| (it.partition_index, it.error_code)).collect();
            (topic.name.to_string(), partitions)
        };
        let outcome: Outcome = response.topics.iter().map(of_topic).collect();
        assert_eq!(outcome, [of("t", &[(2, UNKNOWN_PARTITION), (1, NONE)]), of("x", &[])]);
    }
}
