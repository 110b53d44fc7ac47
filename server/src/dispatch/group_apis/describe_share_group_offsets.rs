//! DescribeShareGroupOffsets.

use super::list::{BySlot, GroupList, once_by, runs};
use super::{CoordinatorAnswer, GroupApi, NamedGroups, owned};
use crate::dispatch::authorization::{By, Verdict, take_denied, take_refused};
use crate::dispatch::extract::extract;
use crate::placement::Slot;
use crate::security::acls::Operation::Describe;
use muster_codec::messages::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic, DescribeShareGroupOffsetsResponse,
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

    /// If the request names no topics of a group, the answer leaves out denied topics.
    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        let denied = take_denied(&mut self.groups, |it| by.group(Describe, &it.group_id).is_ok());
        let mut groups: Vec<_> = denied.iter().flatten().map(denied_group).collect();
        groups.extend(self.groups.iter_mut().filter_map(|group| take_denied_topics(group, by)));
        if groups.is_empty() {
            return Verdict::Restricted;
        }
        let refused = DescribeShareGroupOffsetsResponse { groups, ..Default::default() };
        Verdict::of_parts(Some(refused), self.groups.is_empty())
    }
}

impl GroupList for DescribeShareGroupOffsetsRequest<'_> {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn name_once(&mut self) {
        once_by(&mut self.groups, |group| group.group_id.clone());
    }

    fn any(&self, is: &dyn Fn(&str) -> bool) -> bool {
        self.groups.iter().any(|group| is(&group.group_id))
    }

    fn refuse(
        &mut self,
        which: &dyn Fn(&str) -> bool,
        version: i16,
        error: ErrorCode,
    ) -> Option<Response<'static>> {
        let groups = extract(&mut self.groups, |group| which(&group.group_id))?;
        Some(Self { groups }.refused(version, error))
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

fn denied_group(
    group: &DescribeShareGroupOffsetsRequestGroup<'_>,
) -> DescribeShareGroupOffsetsResponseGroup<'static> {
    DescribeShareGroupOffsetsResponseGroup {
        group_id: owned(&group.group_id),
        error_code: ErrorCode::GroupAuthorizationFailed.code(),
        ..Default::default()
    }
}

/// Removes denied topics of a group, and refuses them; None if there are none.
fn take_denied_topics(
    group: &mut DescribeShareGroupOffsetsRequestGroup<'_>,
    by: &By<'_>,
) -> Option<DescribeShareGroupOffsetsResponseGroup<'static>> {
    let is_allowed =
        |it: &DescribeShareGroupOffsetsRequestTopic<'_>| by.topic(Describe, &it.topic_name);
    let topics = take_refused(group.topics.as_mut()?, is_allowed)?;
    let group_id = owned(&group.group_id);
    Some(DescribeShareGroupOffsetsResponseGroup { group_id, topics, ..Default::default() })
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
