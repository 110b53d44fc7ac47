//! Allocates producer ids to shards in blocks: one record for many producers.

use super::ClusterImage;
use muster_codec::records::{ClusterRecord, ProducerIdsKey, ProducerIdsValue};

/// The size of Kafka's blocks (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`).
const BLOCK_SIZE: i32 = 1_000;

/// A range of producer ids, each used once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdBlock {
    pub first: i64,
    /// 0 if no ids are left.
    pub count: i32,
}

/// The next block, and the record that allocates it. The block may be used once the record is
/// durable.
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
