//! Checks of a StreamsGroupHeartbeat that need neither group nor member, in Kafka's order.

use super::StreamsGroup;
use super::member::Profile;
use crate::allowance::Allowance;
use crate::limits::TASK_OFFSETS_MAX;
use crate::modern::static_members::LEAVE_STATIC;
use crate::modern::validate::{JOIN, profile_refusal};
use crate::modern::{Refusal, refuse};
use alloc::collections::BTreeSet;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    StreamsGroupCopartitionGroup, StreamsGroupHeartbeatRequest, StreamsGroupSubtopology,
    StreamsGroupTopology,
};

/// Checks a request without looking at its group (`GroupCoordinatorService` in Kafka).
///
/// # Errors
/// INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY. UNKNOWN_SERVER_ERROR for offsets of too many tasks.
pub(crate) fn validate(request: &StreamsGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    refuse_unsupported(request)?;
    let is_blank = |text: Option<&str>| text.is_some_and(|text| text.trim().is_empty());
    if is_blank(Some(&request.member_id)) {
        return invalid("The member id is empty.");
    }
    if is_blank(Some(&request.group_id)) {
        return invalid("The group id is empty.");
    }
    if is_blank(request.instance_id.as_deref()) || is_blank(request.rack_id.as_deref()) {
        return invalid("An instance id or rack id must not be empty.");
    }
    if request.member_epoch == JOIN {
        refuse_incomplete(request)?;
    } else if request.topology.is_some() {
        return invalid("Only a joining member may send a topology.");
    }
    if request.member_epoch == LEAVE_STATIC && request.instance_id.is_none() {
        return invalid("Only a static member may leave with this epoch.");
    }
    if request.member_epoch < LEAVE_STATIC {
        return invalid("The member epoch is invalid.");
    }
    let lists = [&request.active_tasks, &request.standby_tasks, &request.warmup_tasks];
    if lists.iter().any(|list| list.is_some() != request.active_tasks.is_some()) {
        return invalid("The lists of tasks must be sent together.");
    }
    let offsets = [&request.task_offsets, &request.task_end_offsets];
    if offsets.into_iter().flatten().any(|list| list.len() > TASK_OFFSETS_MAX) {
        return refuse(ErrorCode::UnknownServerError, "A list of offsets is too long.");
    }
    let keys = request.client_tags.iter().flatten().map(|tag| &*tag.key);
    if has_duplicates(keys) {
        return invalid("A client tag is sent twice.");
    }
    request.topology.as_ref().map_or(Ok(()), validate_topology)
}

fn invalid<T>(message: &'static str) -> Result<T, Refusal> {
    refuse(ErrorCode::InvalidRequest, message)
}

fn invalid_topology<T>(message: &'static str) -> Result<T, Refusal> {
    refuse(ErrorCode::StreamsInvalidTopology, message)
}

/// Refuses features that Kafka 4.4 does not support.
fn refuse_unsupported(request: &StreamsGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    let mut subtopologies = request.topology.iter().flat_map(|it| &it.subtopologies);
    if subtopologies.any(|it| !it.source_topic_regex.is_empty()) {
        return invalid("Regular expressions for source topics are not supported yet.");
    }
    Ok(())
}

/// Refuses a joining member that lacks a required field.
fn refuse_incomplete(request: &StreamsGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    if request.rebalance_timeout_ms == -1 {
        return invalid("A joining member must send its rebalance timeout.");
    }
    let lists = [&request.active_tasks, &request.standby_tasks, &request.warmup_tasks];
    if lists.iter().any(|list| list.as_ref().is_none_or(|tasks| !tasks.is_empty())) {
        return invalid("A joining member must send empty lists of tasks.");
    }
    let Some(topology) = &request.topology else {
        return invalid("A joining member must send its topology.");
    };
    let mut changelogs = topology.subtopologies.iter().flat_map(|it| &it.state_changelog_topics);
    if changelogs.any(|topic| topic.partitions != 0) {
        return invalid_topology("A changelog topic must not have a number of partitions.");
    }
    Ok(())
}

/// Refuses topologies for which Kafka answers UNKNOWN_SERVER_ERROR.
fn validate_topology(topology: &StreamsGroupTopology<'_>) -> Result<(), Refusal> {
    if topology.epoch < 0 {
        return invalid_topology("The epoch of the topology is negative.");
    }
    if has_duplicates(topology.subtopologies.iter().map(|it| &*it.subtopology_id)) {
        return invalid_topology("Two subtopologies have the same id.");
    }
    let mut repartition =
        topology.subtopologies.iter().flat_map(|it| &it.repartition_source_topics);
    if repartition.any(|topic| topic.partitions < 0) {
        return invalid_topology("A repartition topic has a negative number of partitions.");
    }
    if !topology.subtopologies.iter().all(has_copartitioned_topics) {
        return invalid_topology("A copartition group refers to a missing topic.");
    }
    Ok(())
}

/// Whether the copartition groups of a subtopology name only topics of the subtopology.
fn has_copartitioned_topics(of: &StreamsGroupSubtopology<'_>) -> bool {
    let lists = |group: &StreamsGroupCopartitionGroup| {
        let are_below = |indexes: &[i16], count: usize| {
            indexes.iter().all(|index| usize::try_from(*index).is_ok_and(|index| index < count))
        };
        are_below(&group.source_topics, of.source_topics.len())
            && are_below(&group.source_topic_regex, of.source_topic_regex.len())
            && are_below(&group.repartition_source_topics, of.repartition_source_topics.len())
    };
    of.copartition_groups.iter().all(lists)
}

fn has_duplicates<'n>(names: impl Iterator<Item = &'n str>) -> bool {
    let mut seen = BTreeSet::new();
    names.into_iter().any(|name| !seen.insert(name))
}

impl StreamsGroup {
    /// # Errors
    /// UNKNOWN_SERVER_ERROR if the member's profile, or the group with it, is too large.
    /// COORDINATOR_NOT_AVAILABLE if the profile exceeds the budget for the members of all groups.
    pub(super) fn refuse_if_large(
        &self,
        members: &mut Allowance,
        before: &Profile,
        after: &Profile,
    ) -> Result<(), Refusal> {
        let topology = self.own.asked.topology.as_ref().filter(|_| self.own.topology.is_none());
        let added = after.bytes() + topology.map_or(0, |it| it.bytes());
        let of_group = self.member_bytes() + added;
        let added = added.saturating_sub(before.bytes());
        profile_refusal(after.bytes(), of_group, added, members, &after.client_host)
    }
}
