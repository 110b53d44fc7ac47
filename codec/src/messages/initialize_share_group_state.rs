//! InitializeShareGroupState (key 83), version 0, flexible (KIP-932).

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct InitializeShareGroupStateRequest<'a> {
        group_id: Str<'a>, 0..;
        topics: Vec<InitializeStateTopic>, 0..;
    }

    pub struct InitializeStateTopic {
        topic_id: Uuid, 0..;
        partitions: Vec<InitializeStatePartition>, 0..;
    }

    pub struct InitializeStatePartition {
        partition: i32, 0..;
        state_epoch: i32, 0..;
        /// The start offset of the share partition. -1 leaves the decision to the partition's
        /// leader, which decides when it first reads the state.
        start_offset: i64, 0..;
    }

    pub struct InitializeShareGroupStateResponse<'a> {
        results: Vec<InitializeStateResult<'a>>, 0..;
    }

    pub struct InitializeStateResult<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<InitializeStatePartitionResult<'a>>, 0..;
    }

    pub struct InitializeStatePartitionResult<'a> {
        partition: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
    }
}
