//! Requests that are answered from the image of the cluster and the config.

use crate::admin::{self, View};
use muster_codec::messages::*;
use muster_codec::{ClusterRequest, Response};

/// The response to a request about the image of the cluster or the config.
pub(crate) fn cluster_response<'r>(
    view: &View<'r>,
    version: i16,
    request: &'r ClusterRequest<'_>,
) -> Response<'r> {
    match request {
        ClusterRequest::FindCoordinator(body) => {
            admin::find_coordinator(view, version, body).into()
        }
        ClusterRequest::ApiVersions(body) => admin::api_versions(view, version, body).into(),
        ClusterRequest::DescribeConfigs(body) => admin::describe_configs(view, body).into(),
        ClusterRequest::DescribeCluster(body) => admin::describe_cluster(view, body).into(),
        ClusterRequest::DescribeAcls(body) => admin::describe_acls(view, body).into(),
        ClusterRequest::SaslHandshake(_) => admin::sasl_handshake().into(),
        ClusterRequest::SaslAuthenticate(_) => admin::sasl_authenticate().into(),
        ClusterRequest::DescribeClientQuotas(body) => {
            admin::describe_client_quotas(view, body).into()
        }
        ClusterRequest::DescribeUserScramCredentials(body) => {
            admin::describe_user_scram_credentials(view, body).into()
        }
        ClusterRequest::ElectLeaders(body) => admin::elect_leaders(view, body).into(),
        ClusterRequest::AlterPartitionReassignments(body) => {
            admin::alter_partition_reassignments(view, body).into()
        }
        ClusterRequest::UpdateFeatures(body) => admin::update_features(view, version, body).into(),
        ClusterRequest::UnregisterBroker(body) => admin::unregister_broker(view, body).into(),
        ClusterRequest::UnregisterController(body) => admin::unregister_controller(body).into(),
        ClusterRequest::ListPartitionReassignments(_) => {
            ListPartitionReassignmentsResponse { error_message: None, ..Default::default() }.into()
        }
        ClusterRequest::ListConfigResources(body) => {
            admin::list_config_resources(view, version, body).into()
        }
        ClusterRequest::DescribeTopicPartitions(body) => {
            admin::describe_topic_partitions(view, body).into()
        }
    }
}
