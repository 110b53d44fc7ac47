//! The state that all shards share: topics, configs, producer ids, credentials, ACLs, client
//! quotas. It is one immutable image. Shard 0 changes it through its log, and sends it to the other
//! shards.
//!
//! Functions here only decide: they turn a request and a [`View`] into a [`Change`]. The caller
//! writes the records to the log, applies them to its image, and answers once they are durable.

mod acls;
mod addresses;
mod alter_acls;
mod alter_client_quotas;
mod alter_configs;
mod alter_user_scram_credentials;
mod brokers;
mod certificates;
mod change;
mod client_metrics;
mod client_quotas;
mod config_operations;
mod configs;
mod create_missing;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod describe_quorum;
mod endpoints;
mod failure;
mod image;
pub mod limits;
mod metric_names;
mod mutation_quota;
mod offline;
mod producer_ids;
mod reset;
mod scram_credentials;
mod topic_name;
mod use_of_limits;
mod view;

#[cfg(test)]
mod tests;

pub use crate::config::{
    BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, LOGGER_RESOURCE, Overrides,
    TOPIC_RESOURCE,
};
pub(crate) use acls::acl_of;
pub use addresses::{ListenerAddress, endpoints_of, write_addresses};
pub use alter_acls::{create_acls, delete_acls};
pub use alter_client_quotas::alter_client_quotas;
pub use alter_configs::{alter_configs, incremental_alter_configs, set_without_effect};
pub use alter_user_scram_credentials::alter_user_scram_credentials;
pub use brokers::{Brokers, BrokersOfCluster, Leaders, Node, Nodes, Replicas};
pub use change::{Change, Creator, config_record};
pub use create_missing::create_missing;
pub use create_partitions::create_partitions;
pub use create_topics::{auto_create, create_topics};
pub use delete_topics::delete_topics;
pub use describe_quorum::{describe_quorum, describe_slots, is_about_slots};
pub use endpoints::{Endpoint, Endpoints};
pub use image::{ClusterImage, DeletedTopic, Topic};
pub use muster_codec::records::OFFSETS_TOPIC;
pub use mutation_quota::MutationQuota;
pub use offline::{OfflineList, OfflinePartitions};
pub use producer_ids::{ProducerIdBlock, allocate_producer_ids};
pub use topic_name::{check_topic_name, is_reserved};
pub use view::{View, is_hosted, leader, state_slot, transaction_slot};

pub(crate) use certificates::{certificates_of, listener_left_with_certificates};
pub(crate) use change::{Refused, is_timed_out};
#[cfg(test)]
pub(crate) use client_quotas::record as client_quota_record;
pub(crate) use create_topics::only_replica;
pub(crate) use delete_topics::named_once;
pub(crate) use failure::fail;
pub(crate) use image::{cluster_id_record, deleted_topic_record};
