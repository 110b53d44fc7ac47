//! CreateTopics (key 19), versions 2-7, flexible from 5.
//!
//! Added by each version:
//! - v5: response `topic_config_error_code`, `num_partitions`, `replication_factor`, `configs`.
//! - v7: response `topic_id`.

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct CreateTopicsRequest<'a> {
        topics: Vec<CreatableTopic<'a>>, 0..;
        timeout_ms: i32 = 60000, 0..;
        validate_only: bool, 1..;
    }

    pub struct CreatableTopic<'a> {
        name: Str<'a>, 0..;
        num_partitions: i32, 0..;
        replication_factor: i16, 0..;
        assignments: Vec<CreatableReplicaAssignment>, 0..;
        configs: Vec<CreatableTopicConfig<'a>>, 0..;
    }

    pub struct CreatableReplicaAssignment {
        partition_index: i32, 0..;
        broker_ids: Vec<i32>, 0..;
    }

    pub struct CreatableTopicConfig<'a> {
        name: Str<'a>, 0..;
        value: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }

    pub struct CreateTopicsResponse<'a> {
        throttle_time_ms: i32, 2..;
        topics: Vec<CreatableTopicResult<'a>>, 0..;
    }

    pub struct CreatableTopicResult<'a> {
        name: Str<'a>, 0..;
        topic_id: Uuid, 7..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 1..;
        num_partitions: i32 = -1, 5..;
        replication_factor: i16 = -1, 5..;
        configs: Option<Vec<CreatableTopicConfigs<'a>>> = Some(Vec::new()), 5..;
        topic_config_error_code: i16, 5.., tag 0;
    }

    pub struct CreatableTopicConfigs<'a> {
        name: Str<'a>, 5..;
        value: Option<Str<'a>> = Some(Str::Borrowed("")), 5..;
        read_only: bool, 5..;
        config_source: i8 = -1, 5..;
        is_sensitive: bool, 5..;
    }
}
