//! muster's own records of the state that all shards share: topics, deleted topics, configs, the
//! next producer id, SCRAM credentials, ACLs, client quotas and the cluster's id. Shard 0, the
//! controller, has them in its log.

use super::{KEY, Schema};
use crate::declare::message;
use crate::field::Field;
use crate::types::{Bytes, SecretBytes, Str, Uuid};
use crate::wire::{Reader, Result};

message! {
    /// Type 0.
    pub struct TopicKey {
        topic_id: Uuid, 0..;
    }

    /// A topic. Its number of partitions never decreases.
    pub struct TopicValue<'a> {
        name: Str<'a>, 0..;
        partitions: i32, 0..;
        /// The slot of each partition, by partition index. A partition has no slot if its value is
        /// -1 or missing. (Older servers wrote node ids here, only for assigned partitions. A node
        /// id is read as the slot with the same number.)
        slots: Vec<i32>, 1..;
    }

    /// Type 1.
    pub struct ConfigKey<'a> {
        resource_type: i8, 0..;
        resource_name: Str<'a>, 0..;
        name: Str<'a>, 0..;
    }

    /// The value of a config that differs from its default.
    pub struct ConfigValue<'a> {
        value: Str<'a>, 0..;
    }

    /// Type 2.
    pub struct ProducerIdsKey {
    }

    /// All producer ids that were ever allocated are below `next_producer_id`.
    pub struct ProducerIdsValue {
        next_producer_id: i64, 0..;
    }

    /// Type 3.
    pub struct DeletedTopicKey {
        topic_id: Uuid, 0..;
    }

    /// A deleted topic. The record stays as long as groups may have committed offsets of the topic.
    pub struct DeletedTopicValue<'a> {
        name: Str<'a>, 0..;
        /// In milliseconds since the epoch.
        deleted_at: i64, 0..;
    }

    /// Type 4.
    pub struct ScramCredentialKey<'a> {
        name: Str<'a>, 0..;
        /// Kafka's number of the mechanism.
        mechanism: i8, 0..;
    }

    /// A SCRAM credential, with the fields of Kafka's `UserScramCredentialRecord`. The server uses
    /// it to verify a client's password, which the server never learns.
    pub struct ScramCredentialValue<'a> {
        salt: Bytes<'a>, 0..;
        stored_key: SecretBytes<'a>, 0..;
        server_key: SecretBytes<'a>, 0..;
        iterations: i32, 0..;
    }

    /// Type 5. An access control list, with Kafka's numbers (`AccessControlEntryRecord`).
    pub struct AclKey<'a> {
        resource_type: i8, 0..;
        pattern_type: i8, 0..;
        resource_name: Str<'a>, 0..;
        principal: Str<'a>, 0..;
        host: Str<'a>, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }

    /// Empty: the key describes the ACL completely.
    pub struct AclValue {
    }

    /// Type 6. A client quota, with the fields of Kafka's `ClientQuotaRecord`.
    pub struct ClientQuotaKey<'a> {
        /// `user`, then `client-id`; or only `ip`.
        entity: Vec<ClientQuotaEntity<'a>>, 0..;
        quota: Str<'a>, 0..;
    }

    pub struct ClientQuotaEntity<'a> {
        entity_type: Str<'a>, 0..;
        /// None for the default entity.
        entity_name: Option<Str<'a>>, 0..;
    }

    pub struct ClientQuotaValue {
        value: f64, 0..;
    }

    /// Type 7.
    pub struct ClusterIdKey {
    }

    /// The cluster's id, which `meta.properties` contains as well.
    pub struct ClusterIdValue<'a> {
        cluster_id: Str<'a>, 0..;
    }
}

const TOPIC: Schema = Schema { record_type: 0, versions: 0..=1, flexible_from: 0 };
const CONFIG: Schema = Schema { record_type: 1, versions: 0..=0, flexible_from: 0 };
const PRODUCER_IDS: Schema = Schema { record_type: 2, versions: 0..=0, flexible_from: 0 };
const DELETED_TOPIC: Schema = Schema { record_type: 3, versions: 0..=0, flexible_from: 0 };
const SCRAM_CREDENTIAL: Schema = Schema { record_type: 4, versions: 0..=0, flexible_from: 0 };
const ACL: Schema = Schema { record_type: 5, versions: 0..=0, flexible_from: 0 };
const CLIENT_QUOTA: Schema = Schema { record_type: 6, versions: 0..=0, flexible_from: 0 };
const CLUSTER_ID: Schema = Schema { record_type: 7, versions: 0..=0, flexible_from: 0 };

/// The version in which a topic is written. Version 0 cannot hold slots; version 1 is written only
/// if there are any.
fn topic_version(value: &TopicValue<'_>) -> i16 {
    i16::from(!value.slots.is_empty())
}

/// A record of the state that all shards share. It is a tombstone if its value is None.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum ClusterRecord<'a> {
    Topic(TopicKey, Option<TopicValue<'a>>),
    Config(ConfigKey<'a>, Option<ConfigValue<'a>>),
    ProducerIds(ProducerIdsKey, Option<ProducerIdsValue>),
    DeletedTopic(DeletedTopicKey, Option<DeletedTopicValue<'a>>),
    ScramCredential(ScramCredentialKey<'a>, Option<ScramCredentialValue<'a>>),
    Acl(AclKey<'a>, Option<AclValue>),
    ClientQuota(ClientQuotaKey<'a>, Option<ClientQuotaValue>),
    ClusterId(ClusterIdKey, Option<ClusterIdValue<'a>>),
}

impl<'a> ClusterRecord<'a> {
    /// Reads a record; None if its type is unknown.
    ///
    /// # Errors
    /// The key or the value cannot be read, or the value has an unknown version.
    pub fn read(key: &'a [u8], value: Option<&'a [u8]>) -> Result<Option<Self>> {
        let mut reader = Reader::new(key);
        Ok(Some(match reader.i16()? {
            0 => Self::Topic(Field::read(&mut reader, KEY)?, TOPIC.read_value(value)?),
            1 => Self::Config(Field::read(&mut reader, KEY)?, CONFIG.read_value(value)?),
            2 => Self::ProducerIds(Field::read(&mut reader, KEY)?, PRODUCER_IDS.read_value(value)?),
            3 => {
                Self::DeletedTopic(Field::read(&mut reader, KEY)?, DELETED_TOPIC.read_value(value)?)
            }
            4 => {
                let key = Field::read(&mut reader, KEY)?;
                Self::ScramCredential(key, SCRAM_CREDENTIAL.read_value(value)?)
            }
            5 => Self::Acl(Field::read(&mut reader, KEY)?, ACL.read_value(value)?),
            6 => Self::ClientQuota(Field::read(&mut reader, KEY)?, CLIENT_QUOTA.read_value(value)?),
            7 => Self::ClusterId(Field::read(&mut reader, KEY)?, CLUSTER_ID.read_value(value)?),
            _ => return Ok(None),
        }))
    }

    /// Appends the key.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        match self {
            Self::Topic(key, _) => TOPIC.write_key(key, out),
            Self::Config(key, _) => CONFIG.write_key(key, out),
            Self::ProducerIds(key, _) => PRODUCER_IDS.write_key(key, out),
            Self::DeletedTopic(key, _) => DELETED_TOPIC.write_key(key, out),
            Self::ScramCredential(key, _) => SCRAM_CREDENTIAL.write_key(key, out),
            Self::Acl(key, _) => ACL.write_key(key, out),
            Self::ClientQuota(key, _) => CLIENT_QUOTA.write_key(key, out),
            Self::ClusterId(key, _) => CLUSTER_ID.write_key(key, out),
        }
    }

    /// Appends the value and returns true. For a tombstone, appends nothing and returns false.
    pub fn write_value(&self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Topic(_, Some(value)) => TOPIC.write_value(value, topic_version(value), out),
            Self::Config(_, Some(value)) => CONFIG.write_value(value, 0, out),
            Self::ProducerIds(_, Some(value)) => PRODUCER_IDS.write_value(value, 0, out),
            Self::DeletedTopic(_, Some(value)) => DELETED_TOPIC.write_value(value, 0, out),
            Self::ScramCredential(_, Some(value)) => SCRAM_CREDENTIAL.write_value(value, 0, out),
            Self::Acl(_, Some(value)) => ACL.write_value(value, 0, out),
            Self::ClientQuota(_, Some(value)) => CLIENT_QUOTA.write_value(value, 0, out),
            Self::ClusterId(_, Some(value)) => CLUSTER_ID.write_value(value, 0, out),
            Self::Topic(_, None)
            | Self::Config(_, None)
            | Self::ProducerIds(_, None)
            | Self::DeletedTopic(_, None)
            | Self::ScramCredential(_, None)
            | Self::Acl(_, None)
            | Self::ClientQuota(_, None)
            | Self::ClusterId(_, None) => return false,
        }
        true
    }
}
