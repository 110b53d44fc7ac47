//! A client that reads `__consumer_offsets`, as offset monitors do. It checks that the log never
//! ends before an offset that the client has seen. The judge checks that all records it reads are
//! durable.

use super::{NextRequest, Surroundings};
use muster_codec::messages::{FetchPartition, FetchRequest, FetchTopic};
use muster_codec::record_batch::Batch;
use muster_codec::{ErrorCode, Response};
use muster_server::cluster::OFFSETS_TOPIC;
use muster_server::placement::Slot;

#[derive(Debug)]
pub(crate) struct Reader {
    partition: u32,
    /// The offset to read from next.
    next: i64,
}

/// The last version of Fetch in which a topic has its name instead of its id.
const VERSION: i16 = 12;

impl Reader {
    pub(crate) fn new(partition: u32) -> Self {
        Self { partition, next: 0 }
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        let partition = FetchPartition {
            partition: self.partition as i32,
            fetch_offset: self.next,
            partition_max_bytes: around.random.pick(&[1, 1_000, 100_000]),
            ..Default::default()
        };
        let topic = FetchTopic {
            topic: OFFSETS_TOPIC.into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = FetchRequest {
            max_wait_ms: around.random.pick(&[0, 100, 500]),
            min_bytes: around.random.pick(&[1, 1, 10_000]),
            topics: vec![topic],
            ..Default::default()
        };
        let shard = around.placement.shard_of(Slot(self.partition));
        NextRequest { shard, version: VERSION, request: request.into() }
    }

    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let Some(Response::Fetch(response)) = response else { return Ok(()) };
        for partition in response.responses.iter().flat_map(|topic| &topic.partitions) {
            match ErrorCode::from_code(partition.error_code) {
                Some(ErrorCode::None) => {}
                Some(ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError) => continue,
                other => return Err(format!("a fetch is refused with {other:?}")),
            }
            if partition.high_watermark < self.next {
                let end = partition.high_watermark;
                return Err(format!("it ends at {end}, but was seen up to {}", self.next));
            }
            let records = partition.records.as_deref().unwrap_or_default();
            each_batch(records, |batch| {
                let header = &batch.header;
                self.next = self.next.max(header.next_offset());
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Calls `each` with each of the batches in `records`.
pub(crate) fn each_batch(
    mut records: &[u8],
    mut each: impl FnMut(&Batch<'_>) -> Result<(), String>,
) -> Result<(), String> {
    while !records.is_empty() {
        let batch = Batch::read(records).map_err(|error| error.to_string())?;
        each(&batch)?;
        records = &records[batch.bytes.len()..];
    }
    Ok(())
}
