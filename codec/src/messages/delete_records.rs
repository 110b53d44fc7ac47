//! DeleteRecords (key 21), versions 0-2, flexible from 2.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct DeleteRecordsRequest<'a> {
        topics: Vec<DeleteRecordsTopic<'a>>, 0..;
        timeout_ms: i32, 0..;
    }

    pub struct DeleteRecordsTopic<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<DeleteRecordsPartition>, 0..;
    }

    pub struct DeleteRecordsPartition {
        partition_index: i32, 0..;
        offset: i64, 0..;
    }

    pub struct DeleteRecordsResponse<'a> {
        throttle_time_ms: i32, 0..;
        topics: Vec<DeleteRecordsTopicResult<'a>>, 0..;
    }

    pub struct DeleteRecordsTopicResult<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<DeleteRecordsPartitionResult>, 0..;
    }

    pub struct DeleteRecordsPartitionResult {
        partition_index: i32, 0..;
        low_watermark: i64, 0..;
        error_code: i16, 0..;
    }
}
