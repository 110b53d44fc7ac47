//! A member of a share group.

use crate::client::Client;
use crate::modern::member::MemberState;
use crate::modern::names::{self, Names, has_names, sorted};
use crate::modern::owned::{KeyPartitions, Owned, owned};
use crate::text::{TEXT_BYTES, Text, merged, owned as text, shared};
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::Uuid;
use muster_codec::messages::ShareGroupHeartbeatRequest;
use muster_codec::records::{
    ConsumerGroupTargetTopicPartitions as TopicPartitions, ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
};

/// A member of a share group.
pub(crate) type Member = crate::modern::member::Member<Profile, Uuid>;

/// The current assignment of a member. Its record has no epochs of partitions, so they are 0.
pub(crate) type Current = crate::modern::member::Current<Uuid>;

/// The properties of a member that are the content of its metadata record. The member sends them,
/// except for its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) rack_id: Option<Text>,
    pub(crate) client_id: Text,
    pub(crate) client_host: Text,
    pub(crate) topics: Names,
}

impl Default for Profile {
    /// The profile of a member before its first heartbeat.
    fn default() -> Self {
        let empty = || Text::from("");
        Self { rack_id: None, client_id: empty(), client_host: empty(), topics: Arc::from([]) }
    }
}

impl Profile {
    /// The approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.own_bytes() + names::bytes(&self.topics)
    }

    /// Like [`Self::bytes`], without the names of topics, which members share.
    pub(crate) fn own_bytes(&self) -> usize {
        let texts = self.rack_id.iter().chain([&self.client_id, &self.client_host]);
        texts.map(|text| TEXT_BYTES + text.len()).sum()
    }

    pub(crate) fn names(&self, topic: &str) -> bool {
        self.topics.binary_search_by(|it| (**it).cmp(topic)).is_ok()
    }

    /// Whether a heartbeat leaves the profile unchanged.
    pub(crate) fn is_unchanged_by(
        &self,
        request: &ShareGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> bool {
        request.rack_id.as_deref().is_none_or(|sent| self.rack_id.as_deref() == Some(sent))
            && (&*self.client_id, &*self.client_host) == (client.id, client.host)
            && request.subscribed_topic_names.is_none()
    }

    /// The profile after a heartbeat. A field that the heartbeat leaves out keeps its value.
    pub(crate) fn updated(
        &self,
        request: &ShareGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> Self {
        let topics = request.subscribed_topic_names.as_deref();
        Self {
            rack_id: merged(request.rack_id.as_ref(), self.rack_id.as_ref()),
            client_id: shared(client.id, &self.client_id),
            client_host: shared(client.host, &self.client_host),
            topics: topics.map_or_else(|| self.topics.clone(), sorted),
        }
    }

    /// Reads a record. Values that are equal in `before` share the memory of `before`.
    pub(crate) fn from_record(
        value: &ShareGroupMemberMetadataValue<'_>,
        before: Option<&Self>,
    ) -> Self {
        let none = Self::default();
        let before = before.unwrap_or(&none);
        let topics = &value.subscribed_topic_names;
        let is_same = has_names(&before.topics, topics);
        Self {
            rack_id: value.rack_id.as_deref().map(Text::from),
            client_id: shared(&value.client_id, &before.client_id),
            client_host: shared(&value.client_host, &before.client_host),
            topics: if is_same { before.topics.clone() } else { sorted(topics) },
        }
    }

    pub(crate) fn to_record<'r>(&self) -> ShareGroupMemberMetadataValue<'r> {
        ShareGroupMemberMetadataValue {
            rack_id: self.rack_id.as_deref().map(text),
            client_id: text(&self.client_id),
            client_host: text(&self.client_host),
            subscribed_topic_names: self.topics.iter().map(|it| text(it)).collect(),
        }
    }
}

/// A member's current assignment, from its record.
pub(crate) fn current_from_record(value: &ShareGroupCurrentMemberAssignmentValue) -> Current {
    let assigned = value.assigned_partitions.iter().map(|topic| KeyPartitions {
        key: topic.topic_id,
        partitions: topic.partitions.iter().map(|it| owned(*it, 0)).collect(),
    });
    Current {
        epoch: value.member_epoch,
        previous_epoch: value.previous_member_epoch,
        state: MemberState::from_number(value.state),
        assigned: Owned::new(assigned.collect()),
        revoking: Owned::default(),
    }
}

pub(crate) fn current_to_record(current: &Current) -> ShareGroupCurrentMemberAssignmentValue {
    let assigned = current.assigned.by_key().iter().map(|topic| TopicPartitions {
        topic_id: topic.key,
        partitions: topic.partitions.iter().map(|it| it.partition).collect::<Vec<_>>(),
    });
    ShareGroupCurrentMemberAssignmentValue {
        member_epoch: current.epoch,
        previous_member_epoch: current.previous_epoch,
        state: current.state.number(),
        assigned_partitions: assigned.collect(),
    }
}
