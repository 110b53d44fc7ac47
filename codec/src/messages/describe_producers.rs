//! DescribeProducers (key 61), version 0, flexible from 0.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct DescribeProducersRequest<'a> {
        topics: Vec<DescribeProducersTopic<'a>>, 0..;
    }

    pub struct DescribeProducersTopic<'a> {
        name: Str<'a>, 0..;
        partition_indexes: Vec<i32>, 0..;
    }

    pub struct DescribeProducersResponse<'a> {
        throttle_time_ms: i32, 0..;
        topics: Vec<DescribedProducersTopic<'a>>, 0..;
    }

    pub struct DescribedProducersTopic<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<DescribedProducersPartition<'a>>, 0..;
    }

    pub struct DescribedProducersPartition<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        active_producers: Vec<DescribedProducer>, 0..;
    }

    pub struct DescribedProducer {
        producer_id: i64, 0..;
        producer_epoch: i32, 0..;
        last_sequence: i32 = -1, 0..;
        last_timestamp: i64 = -1, 0..;
        coordinator_epoch: i32, 0..;
        current_txn_start_offset: i64 = -1, 0..;
    }
}
