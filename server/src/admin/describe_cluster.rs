//! DescribeCluster (KIP-700, KIP-919).

use super::{NO_CONTROLLER, View, operations};
use crate::security::acls::ResourceType;
use muster_codec::messages::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};
use muster_codec::{ErrorCode, Str};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// The brokers, which are the shards. There are no separate controller listeners to describe.
pub fn describe_cluster<'r>(
    view: &View<'r>,
    request: &DescribeClusterRequest,
) -> DescribeClusterResponse<'r> {
    match request.endpoint_type {
        BROKERS => {}
        CONTROLLERS => {
            let words = "The request was sent to an endpoint of type BROKER, but we wanted an \
                         endpoint of type CONTROLLER";
            return refused(ErrorCode::MismatchedEndpointType, words.into());
        }
        other => {
            let words = format!("Unsupported endpoint type {other}");
            return refused(ErrorCode::UnsupportedEndpointType, words.into());
        }
    }
    let broker = |(broker_id, endpoint): (i32, &'r super::Endpoint)| DescribeClusterBroker {
        broker_id,
        host: Str::Borrowed(&endpoint.host),
        port: endpoint.port.into(),
        ..Default::default()
    };
    let asked = request.include_cluster_authorized_operations;
    DescribeClusterResponse {
        cluster_id: view.cluster_id.into(),
        controller_id: view.brokers.controller().unwrap_or(NO_CONTROLLER),
        brokers: view.brokers.all().map(broker).collect(),
        cluster_authorized_operations: operations(asked, ResourceType::Cluster.operations()),
        ..Default::default()
    }
}

fn refused(error: ErrorCode, words: Str<'static>) -> DescribeClusterResponse<'static> {
    let error_message = Some(words);
    DescribeClusterResponse { error_code: error.code(), error_message, ..Default::default() }
}
