//! Members whose plan differs from the table of their group, because a phase changed their
//! subscription, assignor or protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::run_plan::RunPlan;
use crate::plan::{GroupIndex, GroupPlan, MemberIndex, TopicIndex};

/// The plans of members that phases changed.
#[derive(Default, Debug)]
pub(super) struct Changes {
    plans: BTreeMap<MemberIndex, Arc<GroupPlan>>,
    /// For each group, all topics to which a change has subscribed members.
    topics: BTreeMap<GroupIndex, BTreeSet<TopicIndex>>,
}

impl Changes {
    pub(super) fn set(&mut self, member: MemberIndex, plan: Arc<GroupPlan>) {
        let topics = self.topics.entry(plan.index).or_default();
        topics.extend(plan.subscription.topics().iter());
        self.plans.insert(member, plan);
    }

    pub(super) fn of<'a>(
        &'a self,
        plan: &'a RunPlan,
        group: GroupIndex,
        member: MemberIndex,
    ) -> &'a Arc<GroupPlan> {
        self.plans.get(&member).unwrap_or_else(|| plan.group(group))
    }

    /// All topics to which a member of the group has subscribed so far.
    pub(super) fn topics_ever(&self, plan: &RunPlan, group: GroupIndex) -> BTreeSet<TopicIndex> {
        let first = plan.group(group).subscription.topics().iter().copied();
        first.chain(self.topics.get(&group).into_iter().flatten().copied()).collect()
    }

    /// The groups in which members may have different subscriptions.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupIndex> {
        self.topics.keys().copied()
    }
}
