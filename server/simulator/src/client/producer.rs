//! A client that produces to topics that other clients create, grow and delete: writes to the page
//! cache, and syncs after them. The records that a power loss may take are checked at the next
//! startup: a partition that lacks records before its recovery point is offline.

use super::{NextRequest, Surroundings};
use muster_codec::messages::{PartitionProduceData, ProduceRequest, TopicProduceData};
use muster_codec::record_batch::BatchBuilder;
use muster_codec::{Bytes, ErrorCode, Response};

#[derive(Debug)]
pub(crate) struct Producer {
    topics: Vec<String>,
}

/// The last version of Produce in which a topic has its name instead of its id.
const VERSION: i16 = 12;

/// Topics may have fewer partitions: some requests name one that does not exist.
const PARTITIONS: u64 = 4;

/// Days before the beginning of a run, so that it is not in the future however the wall clock is
/// set.
const TIMESTAMP: i64 = 1_749_700_000_000;

impl Producer {
    pub(crate) fn new(topics: Vec<String>) -> Self {
        Self { topics }
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        let random = &mut *around.random;
        let mut batch = BatchBuilder::default();
        let length = random.pick(&[10, 100, 20_000]);
        let value = random.bytes(length);
        batch.append(TIMESTAMP, &(&b"key"[..], Some(&value[..])));
        let records = Some(Bytes::from(batch.seal(0, -1).to_vec()));
        let topic = random.below(self.topics.len() as u64) as usize;
        let index = random.below(PARTITIONS) as i32;
        let topic = TopicProduceData {
            name: self.topics[topic].clone().into(),
            partition_data: vec![PartitionProduceData { index, records }],
            ..Default::default()
        };
        let (acks, topic_data) = (random.pick(&[1, -1]), vec![topic]);
        let request = ProduceRequest { acks, timeout_ms: 1_000, topic_data, ..Default::default() };
        let shard = random.below(u64::from(around.placement.shards)) as u32;
        NextRequest { shard, version: VERSION, request: request.into() }
    }

    pub(super) fn answered(response: Option<&Response<'_>>) -> Result<(), String> {
        let Some(Response::Produce(response)) = response else { return Ok(()) };
        let mut partitions = response.responses.iter().flat_map(|it| &it.partition_responses);
        let refused = partitions.find_map(|it| match ErrorCode::from_code(it.error_code) {
            Some(
                ErrorCode::None
                | ErrorCode::UnknownTopicOrPartition
                | ErrorCode::NotLeaderOrFollower,
            ) => None,
            other => Some(other),
        });
        refused.map_or(Ok(()), |code| Err(format!("a batch is refused with {code:?}")))
    }
}
