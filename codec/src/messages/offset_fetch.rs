//! OffsetFetch (key 9), versions 1-10, flexible from 6.
//!
//! Added by each version:
//! - v2: response `error_code`.
//! - v3: response `throttle_time_ms`.
//! - v5: response `committed_leader_epoch`.
//! - v7: request `require_stable`.
//! - v8: request `groups`; response `groups`.
//! - v9: request `member_id`, `member_epoch`.
//! - v10: request `topic_id`; response `topic_id`.

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct OffsetFetchRequest<'a> {
        group_id: Str<'a>, 0..=7;
        topics: Option<Vec<OffsetFetchRequestTopic<'a>>> = Some(Vec::new()), 0..=7, nullable 2..=7;
        groups: Vec<OffsetFetchRequestGroup<'a>>, 8..;
        require_stable: bool, 7..;
    }

    pub struct OffsetFetchRequestTopic<'a> {
        name: Str<'a>, 0..=7;
        partition_indexes: Vec<i32>, 0..=7;
    }

    pub struct OffsetFetchRequestGroup<'a> {
        group_id: Str<'a>, 8..;
        member_id: Option<Str<'a>>, 9..;
        member_epoch: i32 = -1, 9..;
        topics: Option<Vec<OffsetFetchRequestTopics<'a>>> = Some(Vec::new()), 8..;
    }

    pub struct OffsetFetchRequestTopics<'a> {
        name: Str<'a>, 8..=9;
        topic_id: Uuid, 10..;
        partition_indexes: Vec<i32>, 8..;
    }

    pub struct OffsetFetchResponse<'a> {
        throttle_time_ms: i32, 3..;
        topics: Vec<OffsetFetchResponseTopic<'a>>, 0..=7;
        error_code: i16, 2..=7;
        groups: Vec<OffsetFetchResponseGroup<'a>>, 8..;
    }

    pub struct OffsetFetchResponseTopic<'a> {
        name: Str<'a>, 0..=7;
        partitions: Vec<OffsetFetchResponsePartition<'a>>, 0..=7;
    }

    pub struct OffsetFetchResponsePartition<'a> {
        partition_index: i32, 0..=7;
        committed_offset: i64, 0..=7;
        committed_leader_epoch: i32 = -1, 5..=7;
        metadata: Option<Str<'a>> = Some(Str::Borrowed("")), 0..=7;
        error_code: i16, 0..=7;
    }

    pub struct OffsetFetchResponseGroup<'a> {
        group_id: Str<'a>, 8..;
        topics: Vec<OffsetFetchResponseTopics<'a>>, 8..;
        error_code: i16, 8..;
    }

    pub struct OffsetFetchResponseTopics<'a> {
        name: Str<'a>, 8..=9;
        topic_id: Uuid, 10..;
        partitions: Vec<OffsetFetchResponsePartitions<'a>>, 8..;
    }

    pub struct OffsetFetchResponsePartitions<'a> {
        partition_index: i32, 8..;
        committed_offset: i64, 8..;
        committed_leader_epoch: i32 = -1, 8..;
        metadata: Option<Str<'a>> = Some(Str::Borrowed("")), 8..;
        error_code: i16, 8..;
    }
}
