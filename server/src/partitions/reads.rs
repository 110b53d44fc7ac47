//! A fetch on its way: parked until there is enough, read, answered.

use super::fetch::{error_data, reads_committed, unknown_topic};
use super::io::{Job, Part};
use super::partition::Partition;
use super::partition_set::PartitionId;
use super::{Call, Effects, Partitions};
use muster_codec::messages::{FetchPartition, FetchRequest, FetchResponse, PartitionData};
use muster_codec::{Bytes, ErrorCode};
use muster_coordinator::RequestId;
use muster_storage::PartitionRead;

/// A fetch that was not answered yet.
#[derive(Debug)]
pub(super) struct Fetch {
    pub request: RequestId,
    /// Complete but for the data of `wants`.
    pub response: FetchResponse<'static>,
    pub wants: Vec<Want>,
    pub deadline: i64,
    /// Bytes that the answer may have, whether the client or the broker set the bound.
    max_bytes: usize,
    min_bytes: u64,
    reads_committed: bool,
    /// What is said of a partition whose topic was deleted meanwhile.
    deleted: ErrorCode,
    /// Bytes that can be read, as far as it is known: raised by appends while parked.
    available: u64,
    reads_running: usize,
}

/// One partition of a fetch.
#[derive(Debug)]
pub(super) struct Want {
    pub id: PartitionId,
    /// Where its data stand in the response.
    topic: usize,
    partition: usize,
    offset: i64,
    max_bytes: usize,
    /// Whether the first batch is given even if it is larger than the bounds, so that a consumer
    /// always makes progress (KIP-74).
    first_whole: bool,
}

impl Fetch {
    pub(super) fn new(call: Call<'_>, body: &FetchRequest<'_>) -> Self {
        Self {
            request: call.request,
            response: FetchResponse::default(),
            wants: Vec::new(),
            deadline: call.now.saturating_add(i64::from(body.max_wait_ms.max(0))),
            max_bytes: usize::try_from(body.max_bytes).unwrap_or(0),
            min_bytes: u64::try_from(body.min_bytes).unwrap_or(0),
            reads_committed: reads_committed(body),
            deleted: unknown_topic(call.version),
            available: 0,
            reads_running: 0,
        }
    }

    fn data(&mut self, want: usize) -> &mut PartitionData<'static> {
        let Want { topic, partition, .. } = self.wants[want];
        &mut self.response.responses[topic].partitions[partition]
    }

    fn fail(&mut self, want: usize, error: ErrorCode) {
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
        Self { id, topic, partition, offset, max_bytes, first_whole: false }
    }
}

impl Partitions {
    /// Reads at once if `now` or if there is enough or something wrong; else the fetch waits.
    pub(super) fn start_or_park(&mut self, mut fetch: Fetch, now: bool, out: &mut Effects) {
        let mut wrong = false;
        for want in &fetch.wants {
            match self.partitions.get(&want.id).map(|partition| partition.available(want.offset)) {
                Some(Ok(bytes)) => fetch.available += bytes.min(want.max_bytes as u64),
                Some(Err(_)) | None => wrong = true,
            }
        }
        fetch.max_bytes = fetch.max_bytes.min(self.config.fetch_max_bytes.unsigned_abs() as usize);
        let enough = fetch.available >= fetch.min_bytes;
        if now || wrong || enough || self.fetches.is_full() {
            let id = self.fetches.add(fetch);
            self.start_reads(id, out);
        } else {
            let wants: Vec<PartitionId> = fetch.wants.iter().map(|want| want.id).collect();
            let id = self.fetches.park(fetch);
            for want in wants {
                if let Some(partition) = self.partitions.get_mut(&want) {
                    partition.waiters.insert(id);
                }
            }
        }
    }

    /// The high watermark of a partition moved on by that many bytes.
    pub(super) fn wake_waiters(&mut self, id: PartitionId, bytes: u64, out: &mut Effects) {
        let Some(partition) = self.partitions.get(&id) else { return };
        let mut ready = Vec::new();
        for waiter in &partition.waiters {
            let Some(fetch) = self.fetches.get_mut(*waiter) else { continue };
            fetch.available += bytes;
            if fetch.available >= fetch.min_bytes {
                ready.push(*waiter);
            }
        }
        for fetch in ready {
            self.unpark(fetch, out);
        }
    }

    /// Ends the wait of a parked fetch.
    pub(super) fn unpark(&mut self, id: u64, out: &mut Effects) {
        self.forget_waiter(id);
        self.start_reads(id, out);
    }

    /// Takes a fetch off the lists of those who wait.
    pub(super) fn forget_waiter(&mut self, id: u64) {
        self.fetches.unpark(id);
        let Some(fetch) = self.fetches.get(id) else { return };
        for want in &fetch.wants {
            if let Some(partition) = self.partitions.get_mut(&want.id) {
                partition.waiters.remove(&id);
            }
        }
    }

    fn start_reads(&mut self, id: u64, out: &mut Effects) {
        if !self.io.has_room_to_read() {
            return self.fetches.ready.push_back(id);
        }
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let mut budget = fetch.max_bytes;
        let mut first_whole = true;
        for want in 0..fetch.wants.len() {
            let Some(partition) = self.partitions.get_mut(&fetch.wants[want].id) else {
                fetch.fail(want, fetch.deleted);
                continue;
            };
            if let Err(error) = describe(fetch, want, partition) {
                fetch.fail(want, error);
                continue;
            }
            let wanted = &mut fetch.wants[want];
            wanted.max_bytes = wanted.max_bytes.min(budget);
            wanted.first_whole = first_whole;
            if wanted.max_bytes == 0 && !first_whole {
                continue;
            }
            let token = self.io.token();
            let (offset, limit) = (wanted.offset, wanted.max_bytes);
            let (files, ops) = (&mut self.io.files, &mut out.ops);
            let Some(plan) = partition.log.read_plan(offset, limit, token, files, ops) else {
                continue;
            };
            let readable = usize::try_from(partition.log.readable_bytes(offset));
            budget = budget.saturating_sub(limit.min(readable.unwrap_or(usize::MAX)));
            first_whole = false;
            fetch.reads_running += 1;
            self.io.begin(token, Job::Fetch(Part { request: id, want }, plan), &out.ops);
        }
        if fetch.reads_running == 0 {
            self.answer_fetch(id, out);
        }
    }

    /// A read of a fetch is done, or failed.
    pub(super) fn fetch_read(
        &mut self,
        part: Part,
        plan: &PartitionRead,
        data: Option<Vec<u8>>,
        out: &mut Effects,
    ) {
        let Some(fetch) = self.fetches.get_mut(part.request) else { return };
        fetch.reads_running -= 1;
        match data.and_then(|data| records(data, plan, &fetch.wants[part.want])) {
            Some(records) => fetch.data(part.want).records = Some(Bytes::from(records)),
            None => fetch.fail(part.want, ErrorCode::KafkaStorageError),
        }
        if fetch.reads_running == 0 {
            self.answer_fetch(part.request, out);
        }
    }

    fn answer_fetch(&mut self, id: u64, out: &mut Effects) {
        if let Some(fetch) = self.fetches.remove(id) {
            out.send(fetch.request, fetch.response);
        }
    }

    /// Starts what waited for reads of others to end.
    pub(super) fn start_ready(&mut self, out: &mut Effects) {
        while self.io.has_room_to_read()
            && let Some(id) = self.fetches.ready.pop_front()
        {
            self.start_reads(id, out);
        }
    }
}

/// Says of a partition what the answer says of it besides the records.
fn describe(fetch: &mut Fetch, want: usize, partition: &Partition) -> Result<(), ErrorCode> {
    let high_watermark = partition.log.high_watermark();
    partition.available(fetch.wants[want].offset)?;
    let reads_committed = fetch.reads_committed;
    let data = fetch.data(want);
    data.high_watermark = high_watermark;
    // Without transactions all is stable, and nothing was aborted.
    data.last_stable_offset = high_watermark;
    data.log_start_offset = partition.log.log_start_offset();
    data.aborted_transactions = reads_committed.then(Vec::new);
    Ok(())
}

/// The batches that a want asked for, out of what was read; None if they are not there. They stay in
/// the buffer that they were read to.
fn records(mut data: Vec<u8>, plan: &PartitionRead, want: &Want) -> Option<Vec<u8>> {
    let wanted = plan.extract(&data).ok()?;
    let len = wanted.len();
    if len > want.max_bytes && !want.first_whole {
        return Some(Vec::new());
    }
    let start = wanted.as_ptr().addr() - data.as_ptr().addr();
    data.truncate(start + len);
    data.drain(..start);
    Some(data)
}
