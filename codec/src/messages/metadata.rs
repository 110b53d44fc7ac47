//! Metadata (key 3), versions 0-13, flexible from 9.
//!
//! Added by each version:
//! - v1: response `rack`, `controller_id`, `is_internal`.
//! - v2: response `cluster_id`.
//! - v3: response `throttle_time_ms`.
//! - v4: request `allow_auto_topic_creation`.
//! - v5: response `offline_replicas`.
//! - v7: response `leader_epoch`.
//! - v8: request `include_cluster_authorized_operations`,
//!   `include_topic_authorized_operations`; response `topic_authorized_operations`,
//!   `cluster_authorized_operations`.
//! - v10: request `topic_id`; response `topic_id`.
//! - v13: response `error_code`.

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct MetadataRequest<'a> {
        topics: Option<Vec<MetadataRequestTopic<'a>>> = Some(Vec::new()), 0.., nullable 1..;
        allow_auto_topic_creation: bool = true, 4..;
        include_cluster_authorized_operations: bool, 8..=10;
        include_topic_authorized_operations: bool, 8..;
    }

    pub struct MetadataRequestTopic<'a> {
        topic_id: Uuid, 10..;
        name: Option<Str<'a>> = Some(Str::Borrowed("")), 0.., nullable 10..;
    }

    pub struct MetadataResponse<'a> {
        throttle_time_ms: i32, 3..;
        brokers: Vec<MetadataResponseBroker<'a>>, 0..;
        cluster_id: Option<Str<'a>>, 2..;
        controller_id: i32 = -1, 1..;
        topics: Vec<MetadataResponseTopic<'a>>, 0..;
        cluster_authorized_operations: i32 = i32::MIN, 8..=10;
        error_code: i16, 13..;
    }

    pub struct MetadataResponseBroker<'a> {
        node_id: i32, 0..;
        host: Str<'a>, 0..;
        port: i32, 0..;
        rack: Option<Str<'a>>, 1..;
    }

    pub struct MetadataResponseTopic<'a> {
        error_code: i16, 0..;
        name: Option<Str<'a>> = Some(Str::Borrowed("")), 0.., nullable 12..;
        topic_id: Uuid, 10..;
        is_internal: bool, 1..;
        partitions: Vec<MetadataResponsePartition>, 0..;
        topic_authorized_operations: i32 = i32::MIN, 8..;
    }

    pub struct MetadataResponsePartition {
        error_code: i16, 0..;
        partition_index: i32, 0..;
        leader_id: i32, 0..;
        leader_epoch: i32 = -1, 7..;
        replica_nodes: Vec<i32>, 0..;
        isr_nodes: Vec<i32>, 0..;
        offline_replicas: Vec<i32>, 5..;
    }
}
