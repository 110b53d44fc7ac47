//! ReadShareGroupState (key 84), version 0, flexible (KIP-932).

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct ReadShareGroupStateRequest<'a> {
        group_id: Str<'a>, 0..;
        topics: Vec<ReadStateTopic>, 0..;
    }

    pub struct ReadStateTopic {
        topic_id: Uuid, 0..;
        partitions: Vec<ReadStatePartition>, 0..;
    }

    pub struct ReadStatePartition {
        partition: i32, 0..;
        leader_epoch: i32, 0..;
    }

    pub struct ReadShareGroupStateResponse<'a> {
        results: Vec<ReadStateResult<'a>>, 0..;
    }

    pub struct ReadStateResult<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<ReadStatePartitionResult<'a>>, 0..;
    }

    pub struct ReadStatePartitionResult<'a> {
        partition: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        state_epoch: i32, 0..;
        start_offset: i64, 0..;
        state_batches: Vec<ShareGroupStateBatch>, 0..;
    }

    pub struct ShareGroupStateBatch {
        first_offset: i64, 0..;
        last_offset: i64, 0..;
        /// The delivery state as a number, the same as in the records of `__share_group_state`.
        delivery_state: i8, 0..;
        delivery_count: i16, 0..;
    }
}
