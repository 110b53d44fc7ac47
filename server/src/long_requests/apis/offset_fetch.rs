//! OffsetFetch: each item is one group with all of its offsets.

use super::{LongApi, TOO_LARGE};
use crate::dispatch::group_apis::OFFSET_FETCH_OF_GROUPS_FROM as GROUPS_FROM;
use crate::long_requests::answer::LongAnswer;
use crate::long_requests::owned::{all, text};
use crate::long_requests::rest::{ItemList, Items, Rest, Single, Whole};
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{Sizes, exceed_a_slice};
use muster_codec::Field;
use muster_codec::messages::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse, OffsetFetchResponseGroup,
};

impl LongApi for OffsetFetchRequest<'_> {
    fn is_long(&self, version: i16, sizes: &mut Sizes<'_>) -> bool {
        if version >= GROUPS_FROM {
            return exceed_a_slice(self.groups.iter().map(|group| Self::weight(group, sizes)));
        }
        let weight = match &self.topics {
            None => sizes.offsets(&self.group_id),
            Some(topics) => topics.iter().map(|it| 1 + it.partition_indexes.len()).sum(),
        };
        exceed_a_slice([weight].into_iter())
    }

    fn take_apart(self, version: i16) -> Box<dyn Rest> {
        let groups = all(self.groups, owned_group);
        let request = OffsetFetchRequest {
            group_id: text(self.group_id),
            topics: self.topics.map(|topics| all(topics, topic_of_one_group)),
            groups: Vec::new(),
            require_stable: self.require_stable,
        };
        if version >= GROUPS_FROM {
            Box::new(Items::new(request, groups))
        } else {
            Box::new(Whole(Some(request)))
        }
    }
}

/// Version 8 and later.
impl<'r> ItemList for OffsetFetchRequest<'r> {
    type Item = OffsetFetchRequestGroup<'r>;

    fn weight(group: &OffsetFetchRequestGroup<'r>, sizes: &mut Sizes<'_>) -> usize {
        match &group.topics {
            None => sizes.offsets(&group.group_id),
            Some(topics) => topics.iter().map(|it| 1 + it.partition_indexes.len()).sum(),
        }
    }

    fn held(group: &OffsetFetchRequestGroup<'r>) -> usize {
        group.held()
    }

    fn answer(&self, groups: Vec<OffsetFetchRequestGroup<'r>>, slice: &mut Slice<'_>) {
        let require_stable = self.require_stable;
        slice.add_from_groups(Self { groups, require_stable, ..Default::default() }.into());
    }
}

/// Versions up to 7.
impl Single for OffsetFetchRequest<'_> {
    fn answer(self, slice: &mut Slice<'_>) {
        slice.add_from_groups(self.into());
    }

    fn held(&self) -> usize {
        Field::held(self)
    }
}

impl<'r> LongAnswer<'r> for OffsetFetchResponse<'r> {
    type Element = OffsetFetchResponseGroup<'r>;

    fn list(&mut self) -> &mut Vec<OffsetFetchResponseGroup<'r>> {
        &mut self.groups
    }

    fn too_large(group: OffsetFetchResponseGroup<'r>) -> OffsetFetchResponseGroup<'r> {
        let group_id = group.group_id;
        OffsetFetchResponseGroup { error_code: TOO_LARGE, group_id, ..Default::default() }
    }

    fn bytes_after_list(_version: i16) -> usize {
        0
    }
}

fn topic_of_one_group(topic: OffsetFetchRequestTopic<'_>) -> OffsetFetchRequestTopic<'static> {
    OffsetFetchRequestTopic { name: text(topic.name), partition_indexes: topic.partition_indexes }
}

fn owned_group(group: OffsetFetchRequestGroup<'_>) -> OffsetFetchRequestGroup<'static> {
    let topic = |topic: OffsetFetchRequestTopics<'_>| OffsetFetchRequestTopics {
        name: text(topic.name),
        topic_id: topic.topic_id,
        partition_indexes: topic.partition_indexes,
    };
    OffsetFetchRequestGroup {
        group_id: text(group.group_id),
        member_id: group.member_id.map(text),
        member_epoch: group.member_epoch,
        topics: group.topics.map(|topics| all(topics, topic)),
    }
}
