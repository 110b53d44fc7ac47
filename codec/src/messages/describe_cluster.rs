//! DescribeCluster (key 60), versions 0-2, flexible from 0.
//!
//! Added by each version:
//! - v1: request `endpoint_type`; response `endpoint_type`.
//! - v2: request `include_fenced_brokers`; response `is_fenced`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct DescribeClusterRequest {
        include_cluster_authorized_operations: bool, 0..;
        endpoint_type: i8 = 1, 1..;
        include_fenced_brokers: bool, 2..;
    }

    pub struct DescribeClusterResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        endpoint_type: i8 = 1, 1..;
        cluster_id: Str<'a>, 0..;
        controller_id: i32 = -1, 0..;
        brokers: Vec<DescribeClusterBroker<'a>>, 0..;
        cluster_authorized_operations: i32 = i32::MIN, 0..;
    }

    pub struct DescribeClusterBroker<'a> {
        broker_id: i32, 0..;
        host: Str<'a>, 0..;
        port: i32, 0..;
        rack: Option<Str<'a>>, 0..;
        is_fenced: bool, 2..;
    }
}
