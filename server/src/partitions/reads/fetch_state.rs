//! The state of a fetch that is not answered yet.

use super::fetch_answers::{error_data, unknown_topic};
use crate::partitions::effects::Call;
use crate::partitions::isolation::reads_committed;
use crate::partitions::jobs::Part;
use crate::partitions::limits::{FETCH_WAIT_MS_MAX, INTERNAL_RECORDS_BYTES_MAX};
use crate::partitions::partition::Bounds;
use crate::partitions::partition_id::PartitionId;
use muster_codec::ErrorCode;
use muster_codec::messages::{FetchPartition, FetchRequest, FetchResponse, PartitionData};
use muster_coordinator::RequestId;
use muster_fairness::Address;
use muster_storage::BatchPlace;

/// A fetch that is not answered yet.
#[derive(Debug)]
pub(super) struct Fetch {
    pub request: RequestId,
    /// The address of the client.
    pub address: Address,
    /// The response. It lacks only the data of the partitions in `wants`.
    pub response: FetchResponse<'static>,
    pub wants: Vec<Want>,
    pub deadline: i64,
    /// The smallest of the client's `max_bytes`, `fetch.max.bytes` and `FETCH_BYTES_MAX`.
    pub max_bytes: usize,
    pub min_bytes: u64,
    pub reads_committed: bool,
    /// The error for a partition whose topic is deleted while the fetch waits.
    pub deleted: ErrorCode,
    /// The number of bytes that are known to be readable. Appends raise it while the fetch is
    /// parked.
    pub available: u64,
    /// The index of the first of `wants` whose records have not been searched for.
    pub next: usize,
    /// The number of bytes that the fetch may still read from partitions of internal topics.
    pub internal_bytes: usize,
    pub reads_running: usize,
}

/// One partition of a fetch.
#[derive(Debug)]
pub(super) struct Want {
    pub id: PartitionId,
    /// The place of the partition's data in the response.
    topic: usize,
    partition: usize,
    pub offset: i64,
    pub max_bytes: usize,
    /// The place where the records begin, once it is known.
    pub place: Option<BatchPlace>,
    /// The reason why the records could not be read.
    pub failed: Option<ErrorCode>,
}

impl Fetch {
    /// The partition of a part.
    pub(super) fn wanted(&self, part: Part) -> PartitionId {
        self.wants[part.want].id
    }

    pub(super) fn new(call: Call<'_>, body: &FetchRequest<'_>) -> Self {
        Self {
            request: call.request,
            address: call.address,
            response: FetchResponse::default(),
            wants: Vec::new(),
            deadline: call.now + i64::from(body.max_wait_ms.clamp(0, FETCH_WAIT_MS_MAX)),
            max_bytes: usize::try_from(body.max_bytes).unwrap_or(0),
            min_bytes: u64::try_from(body.min_bytes).unwrap_or(0),
            reads_committed: reads_committed(body.isolation_level),
            deleted: unknown_topic(call.version),
            available: 0,
            next: 0,
            internal_bytes: INTERNAL_RECORDS_BYTES_MAX,
            reads_running: 0,
        }
    }

    /// Fills in a partition's offsets.
    pub(super) fn describe(&mut self, want: usize, bounds: Bounds) {
        let reads_committed = self.reads_committed;
        let data = self.data(want);
        data.high_watermark = bounds.high_watermark;
        data.last_stable_offset = bounds.stable;
        data.log_start_offset = bounds.log_start;
        let aborted = data.aborted_transactions.take().unwrap_or_default();
        data.aborted_transactions = reads_committed.then_some(aborted);
    }

    pub(super) fn data(&mut self, want: usize) -> &mut PartitionData<'static> {
        let Want { topic, partition, .. } = self.wants[want];
        &mut self.response.responses[topic].partitions[partition]
    }

    /// The number of partitions in the answer.
    pub(super) fn partitions(&self) -> usize {
        self.response.responses.iter().map(|topic| topic.partitions.len()).sum()
    }

    pub(super) fn fail(&mut self, want: usize, error: ErrorCode) {
        let data = self.data(want);
        *data = error_data(data.partition_index, error);
    }
}

impl Want {
    pub(super) fn new(
        id: PartitionId,
        topic: usize,
        partition: usize,
        asked: &FetchPartition,
    ) -> Self {
        let max_bytes = usize::try_from(asked.partition_max_bytes).unwrap_or(0);
        let offset = asked.fetch_offset;
        Self { id, topic, partition, offset, max_bytes, place: None, failed: None }
    }
}

/// The number of bytes that an answer has room for.
pub(super) struct Budget {
    pub bytes: usize,
    /// Whether the next batch is sent even if it is larger than the limits. True until the answer
    /// has records, so that a consumer always makes progress (KIP-74).
    pub first_whole: bool,
}

impl Budget {
    pub(super) fn limit(&self, max_bytes: usize) -> usize {
        self.bytes.min(max_bytes)
    }

    pub(super) fn took(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.first_whole &= bytes == 0;
    }
}
