//! Requests that any shard answers by itself, from the image of the cluster and the configs.
//! Requests that change the cluster are in [`cluster`](crate::cluster).

mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod api_versions;
mod delegation_tokens;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_topic_partitions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod find_coordinator;
mod list_config_resources;
mod metadata;
mod sasl;
mod unregister_broker;
mod unregister_controller;
mod update_features;

#[cfg(test)]
mod tests;

pub use crate::cluster::{Endpoint, View};
pub use alter_partition_reassignments::{
    alter_partition_reassignments, refused as refused_reassignments,
};
pub use alter_replica_log_dirs::{alter_replica_log_dirs, refused as refused_log_dirs};
pub use api_versions::{api_version, api_versions};
pub use delegation_tokens::{
    create_delegation_token, describe_delegation_token, expire_delegation_token,
    renew_delegation_token,
};
pub use describe_acls::describe_acls;
pub use describe_client_quotas::describe_client_quotas;
pub use describe_cluster::describe_cluster;
pub use describe_configs::{describe_configs, describe_configs_of, unknown_type};
pub use describe_topic_partitions::describe_topic_partitions;
pub use describe_user_scram_credentials::describe_user_scram_credentials;
pub use elect_leaders::{elect_leaders, refused as refused_elections};
pub use find_coordinator::find_coordinator;
pub use list_config_resources::{ResourceList, list_config_resources};
pub use metadata::{asks_for_all, metadata, refusal_of_metadata};
pub use sasl::{sasl_authenticate, sasl_handshake};
pub use unregister_broker::{refused as refused_unregistration, unregister_broker};
pub use unregister_controller::{
    refused as refused_controller_unregistration, unregister_controller,
};
pub use update_features::{refused as refused_features, update_features};

pub(crate) use crate::cluster::is_timed_out;

/// The leader id of a partition that is offline, or whose leader is not known.
const NO_LEADER: i32 = -1;

/// The broker id of a controller that is not known.
const NO_CONTROLLER: i32 = -1;

/// The authorized operations, if the request asks for them; else the protocol's value for "not
/// asked".
fn operations(asked: bool, operations: i32) -> i32 {
    if asked { operations } else { i32::MIN }
}
