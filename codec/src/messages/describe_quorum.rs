//! DescribeQuorum (key 55), versions 0-2, all flexible.
//!
//! - v1: response `last_fetch_timestamp`, `last_caught_up_timestamp`.
//! - v2: response `error_message` (of the request and of each partition), `replica_directory_id`,
//!   `nodes`.

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct DescribeQuorumRequest<'a> {
        topics: Vec<DescribeQuorumTopic<'a>>, 0..;
    }

    pub struct DescribeQuorumTopic<'a> {
        topic_name: Str<'a>, 0..;
        partitions: Vec<DescribeQuorumPartition>, 0..;
    }

    pub struct DescribeQuorumPartition {
        partition_index: i32, 0..;
    }

    pub struct DescribeQuorumResponse<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 2..;
        topics: Vec<DescribedQuorumTopic<'a>>, 0..;
        nodes: Vec<QuorumNode<'a>>, 2..;
    }

    pub struct DescribedQuorumTopic<'a> {
        topic_name: Str<'a>, 0..;
        partitions: Vec<DescribedQuorumPartition<'a>>, 0..;
    }

    pub struct DescribedQuorumPartition<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 2..;
        leader_id: i32, 0..;
        leader_epoch: i32, 0..;
        high_watermark: i64, 0..;
        current_voters: Vec<QuorumReplica>, 0..;
        observers: Vec<QuorumReplica>, 0..;
    }

    pub struct QuorumReplica {
        replica_id: i32, 0..;
        replica_directory_id: Uuid, 2..;
        log_end_offset: i64, 0..;
        last_fetch_timestamp: i64 = -1, 1..;
        last_caught_up_timestamp: i64 = -1, 1..;
    }

    pub struct QuorumNode<'a> {
        node_id: i32, 0..;
        listeners: Vec<QuorumListener<'a>>, 0..;
    }

    pub struct QuorumListener<'a> {
        name: Str<'a>, 0..;
        host: Str<'a>, 0..;
        port: u16, 0..;
    }
}
