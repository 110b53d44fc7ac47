//! DeleteShareGroupState (key 86), version 0, flexible (KIP-932).

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct DeleteShareGroupStateRequest<'a> {
        group_id: Str<'a>, 0..;
        topics: Vec<DeleteStateTopic>, 0..;
    }

    pub struct DeleteStateTopic {
        topic_id: Uuid, 0..;
        partitions: Vec<DeleteStatePartition>, 0..;
    }

    pub struct DeleteStatePartition {
        partition: i32, 0..;
    }

    pub struct DeleteShareGroupStateResponse<'a> {
        results: Vec<DeleteStateResult<'a>>, 0..;
    }

    pub struct DeleteStateResult<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<DeleteStatePartitionResult<'a>>, 0..;
    }

    pub struct DeleteStatePartitionResult<'a> {
        partition: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
    }
}
