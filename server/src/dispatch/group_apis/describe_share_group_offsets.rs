//! DescribeShareGroupOffsets.

use super::list::{BySlot, GroupList, extract, once_by, runs};
use super::{CoordinatorAnswer, GroupApi, NamedGroups, ScreenContext, owned};
use crate::placement::Slot;
use muster_codec::messages::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup, DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
};
use muster_codec::{ErrorCode, Response};

impl GroupApi for DescribeShareGroupOffsetsRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::Each(self)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        let groups = self.groups.iter().map(|group| DescribeShareGroupOffsetsResponseGroup {
            group_id: owned(&group.group_id),
            error_code: error.code(),
            ..Default::default()
        });
        DescribeShareGroupOffsetsResponse { groups: groups.collect(), ..Default::default() }.into()
    }
}

impl GroupList for DescribeShareGroupOffsetsRequest<'_> {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn name_once(&mut self) {
        once_by(&mut self.groups, |group| group.group_id.clone());
    }

    fn refuse_foreign(&mut self, context: &ScreenContext<'_>) -> Option<Response<'static>> {
        let groups = extract(&mut self.groups, |group| context.is_foreign(&group.group_id))?;
        Some(Self { groups }.refused(context.version, ErrorCode::NotCoordinator))
    }
}

impl BySlot for DescribeShareGroupOffsetsRequest<'_> {
    fn by_slot(self, slot_of: &dyn Fn(&str) -> Slot) -> Vec<(Slot, Self)> {
        let runs = runs(self.groups, |it| slot_of(&it.group_id));
        runs.map(|(slot, groups)| (slot, Self { groups })).collect()
    }
}

impl CoordinatorAnswer for DescribeShareGroupOffsetsResponse<'_> {
    fn merge(&mut self, refused: Self) {
        self.groups.extend(refused.groups);
    }

    /// DescribeShareGroupOffsets writes no records.
    fn fail(&mut self, _error: ErrorCode) {}
}

/// A copy of the response that does not borrow from the request.
pub(super) fn detached(
    response: DescribeShareGroupOffsetsResponse<'_>,
) -> DescribeShareGroupOffsetsResponse<'static> {
    let groups = response.groups.into_iter().map(|group| DescribeShareGroupOffsetsResponseGroup {
        group_id: owned(&group.group_id),
        topics: group.topics.into_iter().map(detached_topic).collect(),
        error_code: group.error_code,
        error_message: group.error_message.as_ref().map(owned),
    });
    DescribeShareGroupOffsetsResponse { groups: groups.collect(), ..Default::default() }
}

fn detached_topic(
    topic: DescribeShareGroupOffsetsResponseTopic<'_>,
) -> DescribeShareGroupOffsetsResponseTopic<'static> {
    let partitions =
        topic.partitions.into_iter().map(|it| DescribeShareGroupOffsetsResponsePartition {
            partition_index: it.partition_index,
            start_offset: it.start_offset,
            leader_epoch: it.leader_epoch,
            lag: it.lag,
            error_code: it.error_code,
            error_message: it.error_message.as_ref().map(owned),
        });
    DescribeShareGroupOffsetsResponseTopic {
        topic_name: owned(&topic.topic_name),
        topic_id: topic.topic_id,
        partitions: partitions.collect(),
    }
}
