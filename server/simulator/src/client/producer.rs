//! A client that produces to topics that other clients create, extend and delete. Its records are
//! written to the page cache and synced later, so a power loss may take them. At the next startup
//! the server checks which records are left. If a partition lacks records before its recovery
//! point, it is offline. A batch that was written only in part is not given to readers. Now and
//! then the client fetches all partitions at once, so that a shard has to read more files than it
//! keeps open.

use super::{NextRequest, Surroundings};
use muster_codec::messages::{
    FetchPartition, FetchRequest, FetchTopic, PartitionProduceData, ProduceRequest,
    TopicProduceData,
};
use muster_codec::record_batch::BatchBuilder;
use muster_codec::{Bytes, ErrorCode, Response};

#[derive(Debug)]
pub(crate) struct Producer {
    topics: Vec<String>,
}

/// The last version of Produce, and of Fetch, in which a topic has its name instead of its id.
const VERSION: i16 = 12;

/// One in this number of requests fetches all partitions.
const FETCH_EVERY: u64 = 4;

/// The number of partitions that requests name. Topics may have fewer, so some requests name a
/// partition that does not exist.
const PARTITIONS: u64 = 4;

/// A timestamp in ms, some days before the beginning of a run. So it is never in the future, even
/// if the wall clock is set back.
const TIMESTAMP: i64 = 1_749_700_000_000;

impl Producer {
    pub(crate) fn new(topics: Vec<String>) -> Self {
        Self { topics }
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        let shard = around.random.below(u64::from(around.placement.shards)) as u32;
        if around.random.below(FETCH_EVERY) == 0 {
            return NextRequest { shard, version: VERSION, request: self.fetch_all().into() };
        }
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
        NextRequest { shard, version: VERSION, request: request.into() }
    }

    /// A fetch of all partitions from the first record on, which does not wait for records.
    fn fetch_all(&self) -> FetchRequest<'static> {
        let partition = |partition| FetchPartition {
            partition,
            partition_max_bytes: 100_000,
            ..Default::default()
        };
        let topic = |name: &String| FetchTopic {
            topic: name.clone().into(),
            partitions: (0..PARTITIONS as i32).map(partition).collect(),
            ..Default::default()
        };
        let topics = self.topics.iter().map(topic).collect();
        FetchRequest { max_bytes: 10_000_000, topics, ..Default::default() }
    }

    pub(super) fn answered(response: Option<&Response<'_>>) -> Result<(), String> {
        use ErrorCode::{
            CorruptMessage, KafkaStorageError, NotLeaderOrFollower, OffsetOutOfRange,
            UnknownTopicOrPartition,
        };
        let (codes, may_be): (Vec<i16>, &[ErrorCode]) = match response {
            Some(Response::Produce(body)) => {
                let partitions = body.responses.iter().flat_map(|it| &it.partition_responses);
                let codes = partitions.map(|it| it.error_code).collect();
                (codes, &[UnknownTopicOrPartition, NotLeaderOrFollower, KafkaStorageError])
            }
            Some(Response::Fetch(body)) => {
                let partitions = body.responses.iter().flat_map(|it| &it.partitions);
                let may_be = &[
                    UnknownTopicOrPartition,
                    NotLeaderOrFollower,
                    KafkaStorageError,
                    OffsetOutOfRange,
                    CorruptMessage,
                ];
                (partitions.map(|it| it.error_code).collect(), may_be)
            }
            _ => return Ok(()),
        };
        let is_refused = |code: &i16| {
            let error = ErrorCode::from_code(*code);
            error.is_none_or(|it| it != ErrorCode::None && !may_be.contains(&it))
        };
        match codes.into_iter().find(is_refused) {
            Some(code) => Err(format!("a batch or fetch is refused with {code}")),
            None => Ok(()),
        }
    }
}
