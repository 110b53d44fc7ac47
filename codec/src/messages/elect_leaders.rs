//! ElectLeaders (key 43), versions 0-2, flexible from 2.
//!
//! - v1: request `election_type`; response `error_code`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct ElectLeadersRequest<'a> {
        /// 0 for the preferred leader, 1 for an unclean election.
        election_type: i8, 1..;
        /// Null for all partitions.
        topic_partitions: Option<Vec<TopicPartitionsToElect<'a>>> = Some(Vec::new()), 0..;
        timeout_ms: i32 = 60_000, 0..;
    }

    pub struct TopicPartitionsToElect<'a> {
        topic: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct ElectLeadersResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 1..;
        replica_election_results: Vec<ReplicaElectionResult<'a>>, 0..;
    }

    pub struct ReplicaElectionResult<'a> {
        topic: Str<'a>, 0..;
        partition_result: Vec<PartitionElectionResult<'a>>, 0..;
    }

    pub struct PartitionElectionResult<'a> {
        partition_id: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }
}
