//! TxnOffsetCommit (key 28), versions 0-6, flexible from 3.
//!
//! Added by each version:
//! - v2: request `committed_leader_epoch`.
//! - v3: request `generation_id_or_member_epoch`, `member_id`, `group_instance_id` (KIP-447).
//! - v4: the error TRANSACTION_ABORTABLE.
//! - v5: the server itself adds the group's partition to the transaction (KIP-890).
//! - v6: `topic_id` instead of the name; `generation_id_or_member_epoch` may be a member epoch
//!   (KIP-1319).

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct TxnOffsetCommitRequest<'a> {
        transactional_id: Str<'a>, 0..;
        group_id: Str<'a>, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        /// Named `generation_id` up to Kafka 4.3.
        #[cfg_attr(feature = "serde", serde(alias = "generationId"))]
        generation_id_or_member_epoch: i32 = -1, 3..;
        member_id: Str<'a>, 3..;
        group_instance_id: Option<Str<'a>>, 3..;
        topics: Vec<TxnOffsetCommitRequestTopic<'a>>, 0..;
    }

    pub struct TxnOffsetCommitRequestTopic<'a> {
        name: Str<'a>, 0..=5;
        topic_id: Uuid, 6..;
        partitions: Vec<TxnOffsetCommitRequestPartition<'a>>, 0..;
    }

    pub struct TxnOffsetCommitRequestPartition<'a> {
        partition_index: i32, 0..;
        committed_offset: i64, 0..;
        committed_leader_epoch: i32 = -1, 2..;
        committed_metadata: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }

    pub struct TxnOffsetCommitResponse<'a> {
        throttle_time_ms: i32, 0..;
        topics: Vec<TxnOffsetCommitResponseTopic<'a>>, 0..;
    }

    pub struct TxnOffsetCommitResponseTopic<'a> {
        name: Str<'a>, 0..=5;
        topic_id: Uuid, 6..;
        partitions: Vec<TxnOffsetCommitResponsePartition>, 0..;
    }

    pub struct TxnOffsetCommitResponsePartition {
        partition_index: i32, 0..;
        error_code: i16, 0..;
    }
}
