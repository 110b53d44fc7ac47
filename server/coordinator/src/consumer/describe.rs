//! ConsumerGroupDescribe for one group.

use super::ConsumerGroup;
use super::member::Member;
use crate::assignors::Assignor;
use crate::context::Topics;
use crate::modern::describe::named;
use crate::modern::owned::{Owned, Partitions};
use crate::text::owned;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_codec::messages::{
    ConsumerGroupAssignment, DescribedConsumerGroup, DescribedConsumerGroupMember,
};
use muster_codec::{AnswerBudget, Str, Uuid};

impl ConsumerGroup {
    /// The description; None if it does not fit into the answer's budget.
    pub(crate) fn describe<'r>(
        &self,
        group_id: Str<'r>,
        assignors: &[Assignor],
        topics: &dyn Topics,
        mut budget: AnswerBudget,
    ) -> Option<DescribedConsumerGroup<'r>> {
        let members = self.members.numbers_by_id().into_iter();
        let described = members.filter_map(|number| self.describe_member(number, topics));
        let members = described.map(|member| budget.fit(member)).collect::<Option<_>>()?;
        Some(DescribedConsumerGroup {
            group_id,
            group_state: Str::Borrowed(self.state().name()),
            group_epoch: self.epoch,
            assignment_epoch: self.target.epoch,
            assignor_name: Str::Borrowed(self.current_assignor(assignors).name()),
            members,
            ..Default::default()
        })
    }

    fn describe_member(
        &self,
        number: u32,
        topics: &dyn Topics,
    ) -> Option<DescribedConsumerGroupMember<'static>> {
        let slot = self.members.slot(number)?;
        let Member { profile, current } = slot.member.as_ref()?;
        Some(DescribedConsumerGroupMember {
            member_id: owned(&slot.id),
            instance_id: profile.instance_id.as_deref().map(owned),
            rack_id: profile.rack_id.as_deref().map(owned),
            member_epoch: current.epoch,
            client_id: owned(&profile.client_id),
            client_host: owned(&profile.client_host),
            subscribed_topic_names: profile.topics.iter().map(|it| owned(it)).collect(),
            subscribed_topic_regex: profile.regex.as_deref().map(owned),
            assignment: owned_now(&current.assigned, &current.revoking, topics),
            target_assignment: target(self.target.of(number), topics),
            member_type: i8::from(profile.classic.is_none()),
        })
    }
}

/// The partitions that the member owns, including those that it still has to revoke.
fn owned_now(
    assigned: &Owned,
    revoking: &Owned,
    topics: &dyn Topics,
) -> ConsumerGroupAssignment<'static> {
    let mut by_topic: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for topic in assigned.by_key().iter().chain(revoking.by_key()) {
        let partitions = topic.partitions.iter().map(|it| it.partition);
        by_topic.entry(topic.key).or_default().extend(partitions);
    }
    named(by_topic.into_iter(), topics)
}

fn target(partitions: Partitions, topics: &dyn Topics) -> ConsumerGroupAssignment<'static> {
    named(partitions.into_iter().map(|it| (it.key, it.partitions)), topics)
}
