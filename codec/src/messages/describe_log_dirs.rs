//! DescribeLogDirs (key 35), versions 1-5, flexible from 2.
//!
//! - v3: response `error_code`. v4: `total_bytes`, `usable_bytes`. v5: `is_cordoned`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct DescribeLogDirsRequest<'a> {
        /// Null for all topics.
        topics: Option<Vec<DescribableLogDirTopic<'a>>> = Some(Vec::new()), 0..;
    }

    pub struct DescribableLogDirTopic<'a> {
        topic: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct DescribeLogDirsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 3..;
        results: Vec<DescribeLogDirsResult<'a>>, 0..;
    }

    pub struct DescribeLogDirsResult<'a> {
        error_code: i16, 0..;
        log_dir: Str<'a>, 0..;
        topics: Vec<DescribeLogDirsTopic<'a>>, 0..;
        total_bytes: i64 = -1, 4..;
        usable_bytes: i64 = -1, 4..;
        is_cordoned: bool, 5..;
    }

    pub struct DescribeLogDirsTopic<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<DescribeLogDirsPartition>, 0..;
    }

    pub struct DescribeLogDirsPartition {
        partition_index: i32, 0..;
        partition_size: i64, 0..;
        offset_lag: i64, 0..;
        is_future_key: bool, 0..;
    }
}
