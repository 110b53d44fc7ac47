//! A member of a streams group: a thread of an application.

use super::task::{Role, TaskKey};
use crate::client::Client;
use crate::modern::member::MemberState;
use crate::modern::owned::{KeyPartitions, Owned, OwnedPartition, owned};
use crate::modern::validate::JOIN;
use crate::text::{TEXT_BYTES, Text, merged, owned as text, shared};
use alloc::vec::Vec;
use muster_codec::messages::{
    StreamsGroupEndpoint, StreamsGroupHeartbeatRequest, StreamsGroupKeyValue,
};
use muster_codec::records::{
    StreamsGroupCurrentMemberAssignmentValue as CurrentValue, StreamsGroupMemberMetadataValue,
    StreamsGroupOwnedTaskIds as OwnedTaskIds,
};

pub(crate) type Member = crate::modern::member::Member<Profile, TaskKey>;

/// The current assignment of a member. Only active tasks have epochs; other tasks have epoch 0.
pub(crate) type Current = crate::modern::member::Current<TaskKey>;

/// The properties of a member that are the content of its metadata record. The member sends them,
/// except for its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) instance_id: Option<Text>,
    pub(crate) rack_id: Option<Text>,
    pub(crate) client_id: Text,
    pub(crate) client_host: Text,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) topology_epoch: i32,
    pub(crate) process_id: Text,
    pub(crate) endpoint: Option<Endpoint>,
    /// The client tags: keys and values, sorted by key.
    pub(crate) tags: Vec<(Text, Text)>,
}

/// The address at which a member answers interactive queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) host: Text,
    pub(crate) port: u16,
}

impl Default for Profile {
    /// The profile of a member before its first heartbeat.
    fn default() -> Self {
        let empty = || Text::from("");
        Self {
            instance_id: None,
            rack_id: None,
            client_id: empty(),
            client_host: empty(),
            rebalance_timeout_ms: -1,
            topology_epoch: -1,
            process_id: empty(),
            endpoint: None,
            tags: Vec::new(),
        }
    }
}

impl Endpoint {
    fn read(sent: &StreamsGroupEndpoint<'_>) -> Self {
        Self { host: Text::from(&*sent.host), port: sent.port }
    }

    pub(crate) fn to_message(&self) -> StreamsGroupEndpoint<'static> {
        StreamsGroupEndpoint { host: text(&self.host), port: self.port }
    }
}

impl Profile {
    /// The approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.rack_id.iter().chain(&self.instance_id);
        let texts = texts.chain([&self.client_id, &self.client_host, &self.process_id]);
        let texts = texts.chain(self.endpoint.as_ref().map(|it| &it.host));
        let texts = texts.chain(self.tags.iter().flat_map(|(key, value)| [key, value]));
        texts.map(|text| TEXT_BYTES + text.len()).sum()
    }

    /// Whether a change from this profile to the other may change the member's tasks.
    pub(crate) fn has_other_place(&self, other: &Self) -> bool {
        self.topology_epoch != other.topology_epoch
            || self.rack_id != other.rack_id
            || self.process_id != other.process_id
            || self.tags != other.tags
    }

    /// Whether a heartbeat leaves the profile unchanged.
    pub(crate) fn is_unchanged_by(
        &self,
        request: &StreamsGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> bool {
        let is_small = request.rack_id.is_none()
            && request.topology.is_none()
            && request.process_id.is_none()
            && request.user_endpoint.is_none()
            && request.client_tags.is_none();
        let timeout_ms = request.rebalance_timeout_ms;
        is_small
            && (timeout_ms == -1 || timeout_ms == self.rebalance_timeout_ms)
            && (&*self.client_id, &*self.client_host) == (client.id, client.host)
    }

    /// The profile after a heartbeat. A field that the heartbeat leaves out keeps its value, except
    /// that the endpoint is removed when the member joins again without one.
    pub(crate) fn updated(
        &self,
        request: &StreamsGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> Self {
        let timeout_ms = request.rebalance_timeout_ms;
        let joins = request.member_epoch == JOIN;
        let endpoint = request.user_endpoint.as_ref().map(Endpoint::read);
        let process_id = request.process_id.as_deref();
        Self {
            instance_id: merged(request.instance_id.as_ref(), self.instance_id.as_ref()),
            rack_id: merged(request.rack_id.as_ref(), self.rack_id.as_ref()),
            client_id: shared(client.id, &self.client_id),
            client_host: shared(client.host, &self.client_host),
            rebalance_timeout_ms: if timeout_ms == -1 {
                self.rebalance_timeout_ms
            } else {
                timeout_ms
            },
            topology_epoch: request.topology.as_ref().map_or(self.topology_epoch, |it| it.epoch),
            process_id: process_id
                .map_or_else(|| self.process_id.clone(), |it| shared(it, &self.process_id)),
            endpoint: endpoint.or_else(|| self.endpoint.clone().filter(|_| !joins)),
            tags: request.client_tags.as_deref().map_or_else(|| self.tags.clone(), tags),
        }
    }

    /// Reads a record. Values that equal those of `before` share its memory.
    pub(crate) fn from_record(
        value: &StreamsGroupMemberMetadataValue<'_>,
        before: Option<&Self>,
    ) -> Self {
        let none = Self::default();
        let before = before.unwrap_or(&none);
        Self {
            instance_id: value.instance_id.as_deref().map(Text::from),
            rack_id: value.rack_id.as_deref().map(Text::from),
            client_id: shared(&value.client_id, &before.client_id),
            client_host: shared(&value.client_host, &before.client_host),
            rebalance_timeout_ms: value.rebalance_timeout_ms,
            topology_epoch: value.topology_epoch,
            process_id: shared(&value.process_id, &before.process_id),
            endpoint: value.user_endpoint.as_ref().map(Endpoint::read),
            tags: tags(&value.client_tags),
        }
    }

    pub(crate) fn to_record<'r>(&self) -> StreamsGroupMemberMetadataValue<'r> {
        StreamsGroupMemberMetadataValue {
            instance_id: self.instance_id.as_deref().map(text),
            rack_id: self.rack_id.as_deref().map(text),
            client_id: text(&self.client_id),
            client_host: text(&self.client_host),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            topology_epoch: self.topology_epoch,
            process_id: text(&self.process_id),
            user_endpoint: self.endpoint.as_ref().map(Endpoint::to_message),
            client_tags: key_values(&self.tags),
        }
    }
}

/// Client tags, sorted by key.
pub(super) fn tags(sent: &[StreamsGroupKeyValue<'_>]) -> Vec<(Text, Text)> {
    let tags = sent.iter().map(|it| (Text::from(&*it.key), Text::from(&*it.value)));
    let mut tags: Vec<_> = tags.collect();
    tags.sort_by(|one, other| one.0.cmp(&other.0));
    tags
}

pub(super) fn key_values(tags: &[(Text, Text)]) -> Vec<StreamsGroupKeyValue<'static>> {
    let of =
        |(key, value): &(Text, Text)| StreamsGroupKeyValue { key: text(key), value: text(value) };
    tags.iter().map(of).collect()
}

/// The states of members, each with the number that records of streams groups have for it.
const STATES: [(i8, MemberState); 3] = [
    (1, MemberState::Stable),
    (2, MemberState::UnrevokedPartitions),
    (3, MemberState::UnreleasedPartitions),
];
const UNKNOWN_STATE: i8 = 127;

/// A member's current assignment, from its record.
pub(crate) fn current_from_record(value: &CurrentValue<'_>) -> Current {
    let epoch = value.member_epoch;
    let state = STATES.iter().find(|(number, _)| *number == value.state);
    let assigned = [&value.active_tasks, &value.standby_tasks, &value.warmup_tasks];
    let revoking = [
        &value.active_tasks_pending_revocation,
        &value.standby_tasks_pending_revocation,
        &value.warmup_tasks_pending_revocation,
    ];
    Current {
        epoch,
        previous_epoch: value.previous_member_epoch,
        state: state.map_or(MemberState::Unknown, |(_, state)| *state),
        assigned: tasks(assigned, epoch),
        revoking: tasks(revoking, epoch),
    }
}

fn tasks(lists: [&Vec<OwnedTaskIds<'_>>; 3], member_epoch: i32) -> Owned<TaskKey> {
    let roles = [Role::Active, Role::Standby, Role::Warmup].into_iter().zip(lists);
    let keys = roles.flat_map(|(role, list)| {
        list.iter().map(move |it| KeyPartitions {
            key: TaskKey { role, subtopology: Text::from(&*it.subtopology_id) },
            partitions: with_epochs(it, role, member_epoch),
        })
    });
    Owned::new(keys.collect())
}

/// The partitions of a record with their epochs. If the record does not have one epoch for each
/// partition, the member epoch is used for all.
fn with_epochs(of: &OwnedTaskIds<'_>, role: Role, member_epoch: i32) -> Vec<OwnedPartition> {
    let whole = |epochs: &&Vec<i32>| epochs.len() == of.partitions.len();
    let epochs = of.assignment_epochs.as_ref().filter(whole);
    let epoch = |at: usize| match role {
        Role::Active => epochs.map_or(member_epoch, |epochs| epochs[at]),
        Role::Standby | Role::Warmup => 0,
    };
    of.partitions.iter().enumerate().map(|(at, it)| owned(*it, epoch(at))).collect()
}

pub(crate) fn current_to_record(current: &Current) -> CurrentValue<'static> {
    let state = STATES.iter().find(|(_, state)| *state == current.state);
    let assigned = |role| owned_task_ids(&current.assigned, role);
    let revoking = |role| owned_task_ids(&current.revoking, role);
    CurrentValue {
        member_epoch: current.epoch,
        previous_member_epoch: current.previous_epoch,
        state: state.map_or(UNKNOWN_STATE, |(number, _)| *number),
        active_tasks: assigned(Role::Active),
        standby_tasks: assigned(Role::Standby),
        warmup_tasks: assigned(Role::Warmup),
        active_tasks_pending_revocation: revoking(Role::Active),
        standby_tasks_pending_revocation: revoking(Role::Standby),
        warmup_tasks_pending_revocation: revoking(Role::Warmup),
    }
}

fn owned_task_ids(tasks: &Owned<TaskKey>, role: Role) -> Vec<OwnedTaskIds<'static>> {
    let of_role = tasks.by_key().iter().filter(|it| it.key.role == role);
    let of_role = of_role.map(|it| OwnedTaskIds {
        subtopology_id: text(&it.key.subtopology),
        partitions: it.partitions.iter().map(|it| it.partition).collect(),
        assignment_epochs: match role {
            Role::Active => Some(it.partitions.iter().map(|it| it.epoch).collect()),
            Role::Standby | Role::Warmup => None,
        },
    });
    of_role.collect()
}
