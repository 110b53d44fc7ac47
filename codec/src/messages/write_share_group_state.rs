//! WriteShareGroupState (key 85), versions 0-1, flexible (KIP-932).
//!
//! Added by each version:
//! - v1: request `delivery_complete_count` (KIP-1226).

use crate::declare::message;
use crate::messages::read_share_group_state::ShareGroupStateBatch;
use crate::types::{Str, Uuid};

message! {
    pub struct WriteShareGroupStateRequest<'a> {
        group_id: Str<'a>, 0..;
        topics: Vec<WriteStateTopic>, 0..;
    }

    pub struct WriteStateTopic {
        topic_id: Uuid, 0..;
        partitions: Vec<WriteStatePartition>, 0..;
    }

    pub struct WriteStatePartition {
        partition: i32, 0..;
        state_epoch: i32, 0..;
        leader_epoch: i32, 0..;
        /// -1 if the start offset is unchanged.
        start_offset: i64, 0..;
        delivery_complete_count: i32 = -1, 1..;
        state_batches: Vec<ShareGroupStateBatch>, 0..;
    }

    pub struct WriteShareGroupStateResponse<'a> {
        results: Vec<WriteStateResult<'a>>, 0..;
    }

    pub struct WriteStateResult<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<WriteStatePartitionResult<'a>>, 0..;
    }

    pub struct WriteStatePartitionResult<'a> {
        partition: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
    }
}
