//! Committed offsets, and the deletion of groups.

use std::collections::BTreeMap;

use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, GroupId, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::Bug;
use super::broker::{Broker, Group};
use super::reply::Reply;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const UNKNOWN_MEMBER_ID: i16 = 25;
const NON_EMPTY_GROUP: i16 = 68;
const GROUP_ID_NOT_FOUND: i16 = 69;
const NO_OFFSET: i64 = -1;
/// [`Bug::ForgetsCommits`] keeps this number of commits of each partition, and loses later ones.
const COMMITS_KEPT: usize = 2;

/// For each partition, the newest committed offset and the one before it.
#[derive(Default)]
pub(super) struct Offsets {
    committed: BTreeMap<(StrBytes, i32), Committed>,
}

#[derive(Default)]
struct Committed {
    commits: usize,
    newest: Option<i64>,
    before: Option<i64>,
    reads: u32,
}

impl Broker {
    pub(super) fn offset_commit(
        &mut self,
        (request, reply): (OffsetCommitRequest, Reply<OffsetCommitRequest>),
    ) {
        let group = self.groups.entry(request.group_id.0).or_default();
        let epoch = request.generation_id_or_member_epoch;
        let error = group.check_commit(&request.member_id, epoch);
        let bug = self.config.bug;
        let mut take = |topic: &TopicName, partition: &OffsetCommitRequestPartition| {
            let number = partition.partition_index;
            let exists = self.topics.has(&topic.0, number);
            let error = if exists { error } else { UNKNOWN_TOPIC_OR_PARTITION };
            if error == 0 {
                let key = (topic.0.clone(), number);
                let committed = group.offsets.committed.entry(key).or_default();
                committed.take(partition.committed_offset, bug);
            }
            OffsetCommitResponsePartition::default()
                .with_partition_index(number)
                .with_error_code(error)
        };
        let mut commit = |topic: OffsetCommitRequestTopic| {
            let partitions = topic.partitions.iter().map(|one| take(&topic.name, one)).collect();
            OffsetCommitResponseTopic::default().with_name(topic.name).with_partitions(partitions)
        };
        let topics = request.topics.into_iter().map(&mut commit).collect();
        reply.send(OffsetCommitResponse::default().with_topics(topics));
    }

    pub(super) fn offset_fetch(
        &mut self,
        (request, reply): (OffsetFetchRequest, Reply<OffsetFetchRequest>),
    ) {
        let groups = request.groups.into_iter().map(|group| self.fetch(group)).collect();
        reply.send(OffsetFetchResponse::default().with_groups(groups));
    }

    fn fetch(&mut self, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup {
        let group = self.groups.get_mut(&request.group_id.0);
        let mut committed = group.map(|group| &mut group.offsets.committed);
        let bug = self.config.bug;
        let mut read = |name: &TopicName, number| {
            let committed = committed.as_mut()?.get_mut(&(name.0.clone(), number))?;
            committed.read(bug)
        };
        let topic = |topic: OffsetFetchRequestTopics| {
            let partition = |number: i32| {
                OffsetFetchResponsePartitions::default()
                    .with_partition_index(number)
                    .with_committed_offset(read(&topic.name, number).unwrap_or(NO_OFFSET))
            };
            let partitions = topic.partition_indexes.into_iter().map(partition).collect();
            OffsetFetchResponseTopics::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions)
        };
        let topics = request.topics.unwrap_or_default().into_iter().map(topic).collect();
        OffsetFetchResponseGroup::default().with_group_id(request.group_id).with_topics(topics)
    }

    pub(super) fn delete_groups(
        &mut self,
        (request, reply): (DeleteGroupsRequest, Reply<DeleteGroupsRequest>),
    ) {
        let delete = |id: GroupId| {
            let error = self.delete_group(&id.0);
            DeletableGroupResult::default().with_group_id(id).with_error_code(error)
        };
        let results = request.groups_names.into_iter().map(delete).collect();
        reply.send(DeleteGroupsResponse::default().with_results(results));
    }

    fn delete_group(&mut self, id: &StrBytes) -> i16 {
        match self.groups.get(id) {
            None => GROUP_ID_NOT_FOUND,
            Some(group) if !group.is_empty() => NON_EMPTY_GROUP,
            Some(_) if self.config.bug == Some(Bug::KeepsDeletedGroups) => 0,
            Some(_) => {
                self.groups.remove(id);
                0
            }
        }
    }
}

impl Group {
    fn is_empty(&self) -> bool {
        let classic = self.classic.as_ref().is_none_or(|classic| classic.is_empty());
        classic && self.consumer.as_ref().is_none_or(|consumer| consumer.is_empty())
    }

    /// The error code of a commit, or 0. Clients that do not claim to be members may commit while
    /// the group has no members.
    fn check_commit(&self, member: &StrBytes, epoch: i32) -> i16 {
        match (&self.consumer, &self.classic) {
            (Some(consumer), None) => consumer.check_commit(member, epoch),
            (_, Some(classic)) => classic.check_commit(member, epoch),
            (None, None) if epoch < 0 => 0,
            (None, None) => UNKNOWN_MEMBER_ID,
        }
    }
}

impl Committed {
    fn take(&mut self, offset: i64, bug: Option<Bug>) {
        self.commits += 1;
        if bug == Some(Bug::ForgetsCommits) && self.commits > COMMITS_KEPT {
            return;
        }
        self.before = self.newest.replace(offset);
        self.reads = 0;
    }

    fn read(&mut self, bug: Option<Bug>) -> Option<i64> {
        self.reads += 1;
        if bug == Some(Bug::RollsBack) && self.reads > 1 {
            self.before.or(self.newest)
        } else {
            self.newest
        }
    }
}
