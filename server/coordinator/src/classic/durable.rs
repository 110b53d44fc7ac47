//! The durable state of a classic group: its last GroupMetadata record.

use super::member::{Identity, Member};
use super::members::Members;
use crate::text::{Blob, Text, owned};
use alloc::vec::Vec;
use muster_codec::records::{GroupMetadataKey, GroupMetadataValue, GroupRecord, MemberMetadata};
use muster_codec::{Bytes, Str};

/// The durable state of a group. Only records change it, and a snapshot of the group consists of
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Durable {
    pub(crate) protocol_type: Option<Text>,
    pub(crate) generation: i32,
    pub(crate) protocol: Option<Text>,
    pub(crate) leader: Option<Text>,
    /// When the group entered its state; -1 if the record is too old to contain it.
    pub(crate) state_timestamp: i64,
    pub(crate) members: Vec<DurableMember>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DurableMember {
    pub(crate) identity: Identity,
    /// The member's metadata for the chosen protocol.
    pub(crate) subscription: Blob,
    pub(crate) assignment: Blob,
}

impl Durable {
    /// Reads a record. Texts and bytes that equal those of a live member share the member's memory.
    pub(crate) fn from_record(value: &GroupMetadataValue<'_>, live: &Members) -> Self {
        let protocol = value.protocol.as_deref();
        let members = value.members.iter().map(|member| {
            DurableMember::from_record(member, protocol, live.get(&member.member_id))
        });
        Self {
            protocol_type: Some(&*value.protocol_type).filter(|it| !it.is_empty()).map(Text::from),
            generation: value.generation,
            protocol: protocol.map(Text::from),
            leader: value.leader.as_deref().map(Text::from),
            state_timestamp: value.current_state_timestamp,
            members: members.collect(),
        }
    }

    /// The state as a record.
    pub(crate) fn to_record<'a>(&'a self, group_id: &'a str) -> GroupRecord<'a> {
        let key = GroupMetadataKey { group: Str::Borrowed(group_id) };
        let members = self.members.iter().map(DurableMember::to_record).collect();
        let value = GroupMetadataValue {
            protocol_type: Str::Borrowed(self.protocol_type.as_deref().unwrap_or_default()),
            generation: self.generation,
            protocol: self.protocol.as_deref().map(Str::Borrowed),
            leader: self.leader.as_deref().map(Str::Borrowed),
            current_state_timestamp: self.state_timestamp,
            members,
        };
        GroupRecord::GroupMetadata(key, Some(value))
    }
}

impl DurableMember {
    fn from_record(
        record: &MemberMetadata<'_>,
        protocol: Option<&str>,
        live: Option<&Member>,
    ) -> Self {
        let identity = live.map(|it| &it.identity);
        let metadata = protocol.and_then(|protocol| live?.metadata(protocol));
        let rebalance_timeout_ms = match record.rebalance_timeout {
            -1 => record.session_timeout,
            timeout => timeout,
        };
        Self {
            identity: Identity {
                member_id: share(&record.member_id, identity.map(|it| &it.member_id)),
                instance_id: record.group_instance_id.as_deref().map(|instance_id| {
                    share(instance_id, identity.and_then(|it| it.instance_id.as_ref()))
                }),
                client_id: share(&record.client_id, identity.map(|it| &it.client_id)),
                client_host: share(&record.client_host, identity.map(|it| &it.client_host)),
                rebalance_timeout_ms,
                session_timeout_ms: record.session_timeout,
            },
            subscription: share_bytes(&record.subscription, metadata),
            assignment: share_bytes(&record.assignment, live.map(|it| &it.assignment)),
        }
    }

    fn to_record(&self) -> MemberMetadata<'_> {
        MemberMetadata {
            member_id: Str::Borrowed(&self.identity.member_id),
            group_instance_id: self.identity.instance_id.as_deref().map(Str::Borrowed),
            client_id: Str::Borrowed(&self.identity.client_id),
            client_host: Str::Borrowed(&self.identity.client_host),
            rebalance_timeout: self.identity.rebalance_timeout_ms,
            session_timeout: self.identity.session_timeout_ms,
            subscription: Bytes::borrowed(&self.subscription),
            assignment: Bytes::borrowed(&self.assignment),
        }
    }
}

fn share(record: &str, live: Option<&Text>) -> Text {
    live.filter(|live| ***live == *record).cloned().unwrap_or_else(|| Text::from(record))
}

fn share_bytes(record: &[u8], live: Option<&Blob>) -> Blob {
    live.filter(|live| ***live == *record).cloned().unwrap_or_else(|| Blob::from(record))
}

/// The record that removes a classic group.
pub(crate) fn tombstone(group_id: &str) -> GroupRecord<'static> {
    GroupRecord::GroupMetadata(GroupMetadataKey { group: owned(group_id) }, None)
}
