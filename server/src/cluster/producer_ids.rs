//! Producer ids are given to shards in blocks, so that one record serves many producers.

use super::ClusterImage;
use muster_codec::records::{ClusterRecord, ProducerIdsKey, ProducerIdsValue};

/// As many as Kafka gives a broker at once (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`).
const BLOCK_SIZE: i32 = 1_000;

/// Producer ids that are given out once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdBlock {
    pub first: i64,
    /// None are left if it is 0.
    pub count: i32,
}

/// The next block, and the record that takes it; it may be used once the record is durable.
pub fn allocate_producer_ids(
    image: &ClusterImage,
) -> (Vec<ClusterRecord<'static>>, ProducerIdBlock) {
    let first = image.next_producer_id();
    let Some(next) = first.checked_add(i64::from(BLOCK_SIZE)) else {
        return (Vec::new(), ProducerIdBlock { first, count: 0 });
    };
    let value = ProducerIdsValue { next_producer_id: next };
    let record = ClusterRecord::ProducerIds(ProducerIdsKey {}, Some(value));
    (vec![record], ProducerIdBlock { first, count: BLOCK_SIZE })
}
