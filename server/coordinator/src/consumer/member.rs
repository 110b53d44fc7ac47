//! A member of a consumer group: its subscription and its assignment.

use crate::client::Client;
use crate::modern::member::MemberState;
use crate::modern::names::{self, Names, has_names, sorted};
use crate::modern::owned::{KeyPartitions, Owned, OwnedPartition, owned};
use crate::text::{Blob, TEXT_BYTES, Text, merged, owned as text, shared};
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::messages::ConsumerGroupHeartbeatRequest;
use muster_codec::records::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue, ConsumerGroupOwnedTopicPartitions, MaybeClassic,
};
use muster_codec::{Bytes, Str, Uuid};

/// A member of a consumer group.
pub(crate) type Member = crate::modern::member::Member<Profile, Uuid>;

/// The current assignment of a member of a consumer group.
pub(crate) type Current = crate::modern::member::Current<Uuid>;

/// The properties of a member that are the content of its metadata record. The member sends them,
/// except for its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile {
    /// Set for static members.
    pub(crate) instance_id: Option<Text>,
    pub(crate) rack_id: Option<Text>,
    pub(crate) client_id: Text,
    pub(crate) client_host: Text,
    pub(crate) topics: Names,
    /// The regular expression. Empty if the member has none; None in old records.
    pub(crate) regex: Option<Text>,
    /// -1 if unknown.
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) assignor: Option<Text>,
    /// Set if the member uses the classic protocol.
    pub(crate) classic: Option<Arc<Classic>>,
}

/// The properties that only a member with the classic protocol has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Classic {
    pub(crate) session_timeout_ms: i32,
    /// The names and metadata of the protocols, in the order of the member's preference.
    pub(crate) protocols: Vec<(Text, Blob)>,
}

impl Member {
    pub(crate) fn is_classic(&self) -> bool {
        self.profile.classic.is_some()
    }
}

impl Default for Profile {
    /// The profile of a member before its first heartbeat.
    fn default() -> Self {
        Self {
            instance_id: None,
            rack_id: None,
            client_id: Text::from(""),
            client_host: Text::from(""),
            topics: Arc::from([]),
            regex: Some(Text::from("")),
            rebalance_timeout_ms: -1,
            assignor: None,
            classic: None,
        }
    }
}

impl Profile {
    /// The regular expression; None if it is empty.
    pub(crate) fn regex(&self) -> Option<&Text> {
        self.regex.as_ref().filter(|regex| !regex.is_empty())
    }

    /// The approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.own_bytes() + names::bytes(&self.topics)
    }

    /// Like [`Self::bytes`], without the names of topics, which members share.
    pub(crate) fn own_bytes(&self) -> usize {
        let optional = [&self.instance_id, &self.rack_id, &self.regex, &self.assignor];
        let optional = optional.into_iter().flatten().chain([&self.client_id, &self.client_host]);
        let protocols = self.classic.iter().flat_map(|classic| &classic.protocols);
        let protocols: usize = protocols.map(|(name, data)| name.len() + data.len()).sum();
        let texts: usize = optional.map(|text| TEXT_BYTES + text.len()).sum();
        texts + protocols
    }

    pub(crate) fn names(&self, topic: &str) -> bool {
        self.topics.binary_search_by(|it| (**it).cmp(topic)).is_ok()
    }

    /// Whether a heartbeat leaves the profile unchanged.
    pub(crate) fn is_unchanged_by(
        &self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> bool {
        is_unchanged(self.instance_id.as_ref(), request.instance_id.as_ref())
            && is_unchanged(self.rack_id.as_ref(), request.rack_id.as_ref())
            && is_unchanged(self.regex.as_ref(), request.subscribed_topic_regex.as_ref())
            && is_unchanged(self.assignor.as_ref(), request.server_assignor.as_ref())
            && [-1, self.rebalance_timeout_ms].contains(&request.rebalance_timeout_ms)
            && (&*self.client_id, &*self.client_host) == (client.id, client.host)
            && self.classic.is_none()
            && request
                .subscribed_topic_names
                .as_ref()
                .is_none_or(|names| has_names(&self.topics, names))
    }

    /// The profile after a heartbeat. A field that the heartbeat leaves out keeps its value.
    pub(crate) fn updated(
        &self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> Self {
        let topics = request.subscribed_topic_names.as_deref();
        Self {
            instance_id: merged(request.instance_id.as_ref(), self.instance_id.as_ref()),
            rack_id: merged(request.rack_id.as_ref(), self.rack_id.as_ref()),
            client_id: shared(client.id, &self.client_id),
            client_host: shared(client.host, &self.client_host),
            topics: topics.map_or_else(|| self.topics.clone(), sorted),
            regex: merged(request.subscribed_topic_regex.as_ref(), self.regex.as_ref()),
            rebalance_timeout_ms: match request.rebalance_timeout_ms {
                -1 => self.rebalance_timeout_ms,
                timeout => timeout,
            },
            assignor: merged(request.server_assignor.as_ref(), self.assignor.as_ref()),
            classic: None,
        }
    }

    /// Reads a record. Values that are equal in `before` share the memory of `before`.
    pub(crate) fn from_record(
        value: &ConsumerGroupMemberMetadataValue<'_>,
        before: Option<&Self>,
    ) -> Self {
        let none = Self::default();
        let before = before.unwrap_or(&none);
        let topics = &value.subscribed_topic_names;
        let classic = value.classic_member_metadata.0.as_ref().map(Classic::from_record);
        Self {
            instance_id: value.instance_id.as_deref().map(Text::from),
            rack_id: value.rack_id.as_deref().map(Text::from),
            client_id: shared(&value.client_id, &before.client_id),
            client_host: shared(&value.client_host, &before.client_host),
            topics: if has_names(&before.topics, topics) {
                before.topics.clone()
            } else {
                sorted(topics)
            },
            regex: value.subscribed_topic_regex.as_deref().map(Text::from),
            rebalance_timeout_ms: value.rebalance_timeout_ms,
            assignor: value.server_assignor.as_deref().map(Text::from),
            classic: match (classic, &before.classic) {
                (Some(classic), Some(before)) if classic == **before => Some(before.clone()),
                (classic, _) => classic.map(Arc::new),
            },
        }
    }

    pub(crate) fn to_record<'r>(&self) -> ConsumerGroupMemberMetadataValue<'r> {
        ConsumerGroupMemberMetadataValue {
            instance_id: self.instance_id.as_deref().map(text),
            rack_id: self.rack_id.as_deref().map(text),
            client_id: text(&self.client_id),
            client_host: text(&self.client_host),
            subscribed_topic_names: self.topics.iter().map(|it| text(it)).collect(),
            subscribed_topic_regex: self.regex.as_deref().map(text),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            server_assignor: self.assignor.as_deref().map(text),
            classic_member_metadata: MaybeClassic(self.classic.as_deref().map(Classic::to_record)),
        }
    }
}

impl Classic {
    fn from_record(value: &ClassicMemberMetadata<'_>) -> Self {
        let protocols = value.supported_protocols.iter();
        let protocols = protocols.map(|it| (Text::from(&*it.name), Blob::from(&*it.metadata)));
        Self { session_timeout_ms: value.session_timeout_ms, protocols: protocols.collect() }
    }

    fn to_record<'r>(&self) -> ClassicMemberMetadata<'r> {
        let protocols = self.protocols.iter().map(|(name, metadata)| ClassicProtocol {
            name: text(name),
            metadata: Bytes::from(metadata.to_vec()),
        });
        ClassicMemberMetadata {
            session_timeout_ms: self.session_timeout_ms,
            supported_protocols: protocols.collect(),
        }
    }
}

/// A member's current assignment, from its record.
pub(crate) fn current_from_record(value: &ConsumerGroupCurrentMemberAssignmentValue) -> Current {
    Current {
        epoch: value.member_epoch,
        previous_epoch: value.previous_member_epoch,
        state: MemberState::from_number(value.state),
        assigned: owned_from_record(&value.assigned_partitions, value.member_epoch),
        revoking: owned_from_record(&value.partitions_pending_revocation, value.member_epoch),
    }
}

pub(crate) fn current_to_record(current: &Current) -> ConsumerGroupCurrentMemberAssignmentValue {
    ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: current.epoch,
        previous_member_epoch: current.previous_epoch,
        state: current.state.number(),
        assigned_partitions: owned_to_record(&current.assigned),
        partitions_pending_revocation: owned_to_record(&current.revoking),
    }
}

/// Reads the owned partitions of a record. Records from before Kafka 4.3 lack the epochs of
/// partitions; the member epoch replaces them.
fn owned_from_record(topics: &[ConsumerGroupOwnedTopicPartitions], member_epoch: i32) -> Owned {
    let topics = topics.iter().map(|topic| {
        let epochs = topic.assignment_epochs.as_deref();
        let epochs = epochs.filter(|epochs| epochs.len() == topic.partitions.len());
        let partitions = topic.partitions.iter().enumerate().map(|(i, partition)| {
            owned(*partition, epochs.map_or(member_epoch.max(0), |epochs| epochs[i]))
        });
        KeyPartitions { key: topic.topic_id, partitions: partitions.collect() }
    });
    Owned::new(topics.collect())
}

fn owned_to_record(owned: &Owned) -> Vec<ConsumerGroupOwnedTopicPartitions> {
    let epoch = |it: &OwnedPartition| it.epoch;
    let topics = owned.by_key().iter().map(|topic| ConsumerGroupOwnedTopicPartitions {
        topic_id: topic.key,
        partitions: topic.partitions.iter().map(|it| it.partition).collect(),
        assignment_epochs: Some(topic.partitions.iter().map(epoch).collect()),
    });
    topics.collect()
}

fn is_unchanged(known: Option<&Text>, sent: Option<&Str<'_>>) -> bool {
    sent.is_none_or(|sent| known.is_some_and(|known| **known == **sent))
}
