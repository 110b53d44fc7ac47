//! StreamsGroupDescribe for one group.

use super::StreamsGroup;
use super::configured::Ready;
use super::member::{Member, key_values};
use super::task::{assignment, target_value};
use super::task_offsets::Reports;
use super::topology::Topology;
use crate::assignors::TaskAssignor;
use crate::text::owned;
use alloc::vec::Vec;
use muster_codec::messages::{
    DescribedStreamsGroup, DescribedStreamsGroupMember, DescribedStreamsSubtopology,
    DescribedStreamsTopology, StreamsGroupTopicInfo,
};
use muster_codec::{AnswerBudget, Str};

/// The inputs of a description that are not in the group's state.
pub(crate) struct Asked {
    /// The assignor that computes the next target.
    pub(crate) assignor: TaskAssignor,
    pub(crate) includes_description: bool,
}

/// The status of a topology's description.
const NOT_REQUESTED: i8 = 0;
const NOT_STORED: i8 = 1;
const AVAILABLE: i8 = 3;

impl StreamsGroup {
    /// The description; None if it does not fit into `budget`.
    pub(crate) fn describe<'r>(
        &self,
        group_id: Str<'r>,
        asked: Asked,
        mut budget: AnswerBudget,
    ) -> Option<DescribedStreamsGroup<'r>> {
        let topology = self.own.topology.as_ref().map(|it| self.describe_topology(it));
        let description = self.own.description.as_ref().filter(|_| asked.includes_description);
        let description = description.map(|it| it.0.clone());
        let members = self.members.numbers_by_id().into_iter();
        let described = members.filter_map(|number| self.describe_member(number));
        let members = described.map(|member| budget.fit(member)).collect::<Option<_>>()?;
        Some(DescribedStreamsGroup {
            group_id,
            group_state: Str::Borrowed(self.state().name()),
            group_epoch: self.epoch,
            assignment_epoch: self.target.epoch,
            topology,
            members,
            topology_description_status: match &description {
                Some(_) => AVAILABLE,
                None if asked.includes_description => NOT_STORED,
                None => NOT_REQUESTED,
            },
            topology_description: description,
            assignor_name: Some(Str::Borrowed(asked.assignor.name())),
            ..Default::default()
        })
    }

    /// The topology. If it is ready, it has the partitions of internal topics; else it is as the
    /// member sent it.
    fn describe_topology(&self, topology: &Topology) -> DescribedStreamsTopology<'static> {
        let configured = self.own.configured.as_ref();
        let ready = configured.and_then(|it| it.outcome.as_ref().ok());
        let subtopologies = topology.in_order().into_iter().map(|it| {
            let internal = |all: &[StreamsGroupTopicInfo<'static>]| topics(all, ready);
            DescribedStreamsSubtopology {
                subtopology_id: it.subtopology_id.clone(),
                source_topics: sorted(&it.source_topics, ready),
                repartition_sink_topics: sorted(&it.repartition_sink_topics, ready),
                state_changelog_topics: internal(&it.state_changelog_topics),
                repartition_source_topics: internal(&it.repartition_source_topics),
            }
        });
        let subtopologies = Some(subtopologies.collect());
        DescribedStreamsTopology { epoch: topology.epoch(), subtopologies }
    }

    fn describe_member(&self, number: u32) -> Option<DescribedStreamsGroupMember<'static>> {
        let slot = self.members.slot(number)?;
        let Member { profile, current } = slot.member.as_ref()?;
        let reports = self.own.task_offsets.of(&slot.id);
        let [task_offsets, task_end_offsets] = reports.map(Reports::described).unwrap_or_default();
        Some(DescribedStreamsGroupMember {
            member_id: owned(&slot.id),
            member_epoch: current.epoch,
            instance_id: profile.instance_id.as_deref().map(owned),
            rack_id: profile.rack_id.as_deref().map(owned),
            client_id: owned(&profile.client_id),
            client_host: owned(&profile.client_host),
            topology_epoch: profile.topology_epoch,
            process_id: owned(&profile.process_id),
            user_endpoint: profile.endpoint.as_ref().map(|it| it.to_message()),
            client_tags: key_values(&profile.tags),
            task_offsets,
            task_end_offsets,
            assignment: assignment(&current.assigned),
            target_assignment: target_value(self.target.of(number)),
            ..Default::default()
        })
    }
}

/// Sorts names. If the topology is ready, duplicates are removed.
fn sorted(names: &[Str<'static>], ready: Option<&Ready>) -> Vec<Str<'static>> {
    let mut names = names.to_vec();
    names.sort_unstable();
    if ready.is_some() {
        names.dedup();
    }
    names
}

fn topics(
    all: &[StreamsGroupTopicInfo<'static>],
    ready: Option<&Ready>,
) -> Vec<StreamsGroupTopicInfo<'static>> {
    let count = |name: &str| ready.and_then(|ready| ready.counts.get(name).copied());
    let mut topics = all.to_vec();
    topics.sort_by(|one, other| one.name.cmp(&other.name));
    for topic in &mut topics {
        topic.partitions = count(&topic.name).unwrap_or(topic.partitions);
        topic.topic_configs.sort_by(|one, other| one.key.cmp(&other.key));
    }
    topics
}
