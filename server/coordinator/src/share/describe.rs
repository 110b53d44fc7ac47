//! ShareGroupDescribe for one group.

use super::ShareGroup;
use super::member::Member;
use crate::context::Topics;
use crate::modern::describe::named;
use crate::text::owned;
use muster_codec::messages::{DescribedShareGroup, DescribedShareGroupMember};
use muster_codec::{AnswerBudget, Str};

/// The name of the assignor. Share groups have only one.
const ASSIGNOR: &str = "simple";

impl ShareGroup {
    /// The description; None if it does not fit into `budget`.
    pub(crate) fn describe<'r>(
        &self,
        group_id: Str<'r>,
        topics: &dyn Topics,
        mut budget: AnswerBudget,
    ) -> Option<DescribedShareGroup<'r>> {
        let members = self.members.numbers_by_id().into_iter();
        let described = members.filter_map(|number| self.describe_member(number, topics));
        let members = described.map(|member| budget.fit(member)).collect::<Option<_>>()?;
        Some(DescribedShareGroup {
            group_id,
            group_state: Str::Borrowed(self.share_state().name()),
            group_epoch: self.epoch,
            assignment_epoch: self.target.epoch,
            assignor_name: Str::Borrowed(ASSIGNOR),
            members,
            ..Default::default()
        })
    }

    fn describe_member(
        &self,
        number: u32,
        topics: &dyn Topics,
    ) -> Option<DescribedShareGroupMember<'static>> {
        let slot = self.members.slot(number)?;
        let Member { profile, current } = slot.member.as_ref()?;
        let assigned = current.assigned.partitions().into_iter();
        Some(DescribedShareGroupMember {
            member_id: owned(&slot.id),
            rack_id: profile.rack_id.as_deref().map(owned),
            member_epoch: current.epoch,
            client_id: owned(&profile.client_id),
            client_host: owned(&profile.client_host),
            subscribed_topic_names: profile.topics.iter().map(|it| owned(it)).collect(),
            assignment: named(assigned.map(|it| (it.key, it.partitions)), topics),
        })
    }
}
