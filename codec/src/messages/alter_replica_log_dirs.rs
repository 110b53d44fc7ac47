//! AlterReplicaLogDirs (key 34), versions 1-2, flexible from 2.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct AlterReplicaLogDirsRequest<'a> {
        dirs: Vec<AlterReplicaLogDir<'a>>, 0..;
    }

    pub struct AlterReplicaLogDir<'a> {
        path: Str<'a>, 0..;
        topics: Vec<AlterReplicaLogDirTopic<'a>>, 0..;
    }

    pub struct AlterReplicaLogDirTopic<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct AlterReplicaLogDirsResponse<'a> {
        throttle_time_ms: i32, 0..;
        results: Vec<AlterReplicaLogDirTopicResult<'a>>, 0..;
    }

    pub struct AlterReplicaLogDirTopicResult<'a> {
        topic_name: Str<'a>, 0..;
        partitions: Vec<AlterReplicaLogDirPartitionResult>, 0..;
    }

    pub struct AlterReplicaLogDirPartitionResult {
        partition_index: i32, 0..;
        error_code: i16, 0..;
    }
}
