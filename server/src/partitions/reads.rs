//! A fetch on its way: parked until there is enough, read, answered.

use super::fetch::{error_data, reads_committed, unknown_topic};
use super::io::{Job, Part};
use super::offsets_topic::{OffsetsPartition, OffsetsRead};
use super::partition::{Bounds, Partition};
use super::partition_set::PartitionId;
use super::{Call, Effects, Partitions};
use muster_codec::messages::{FetchPartition, FetchRequest, FetchResponse, PartitionData};
use muster_codec::{Bytes, ErrorCode};
use muster_coordinator::RequestId;
use muster_storage::PartitionRead;
use std::collections::{BTreeMap, BTreeSet};

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

    /// Says of a partition what the answer says of it besides the records.
    fn describe(&mut self, want: usize, bounds: Bounds) {
        let reads_committed = self.reads_committed;
        let data = self.data(want);
        data.high_watermark = bounds.high_watermark;
        // Without transactions all is stable, and nothing was aborted.
        data.last_stable_offset = bounds.high_watermark;
        data.log_start_offset = bounds.log_start;
        data.aborted_transactions = reads_committed.then(Vec::new);
    }

    pub(super) fn data(&mut self, want: usize) -> &mut PartitionData<'static> {
        let Want { topic, partition, .. } = self.wants[want];
        &mut self.response.responses[topic].partitions[partition]
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
        Self { id, topic, partition, offset, max_bytes, first_whole: false }
    }
}

/// What the reads of a fetch may still ask for.
struct Budget {
    bytes: usize,
    /// No partition has given anything yet.
    first_whole: bool,
}

impl Budget {
    /// The bound for one partition, and whether its first batch is given even if it is larger. None
    /// if there is nothing to read, or no room.
    fn take(&mut self, available: u64, max_bytes: usize) -> Option<(usize, bool)> {
        let limit = self.bytes.min(max_bytes);
        if available == 0 || (limit == 0 && !self.first_whole) {
            return None;
        }
        self.bytes -= limit.min(usize::try_from(available).unwrap_or(usize::MAX));
        Some((limit, std::mem::replace(&mut self.first_whole, false)))
    }
}

/// Why a partition cannot be read from an offset.
enum Unavailable {
    /// Its topic was deleted since the request came.
    Deleted,
    OutOfRange,
}

impl Partitions {
    /// Reads at once if `now` or if there is enough or something wrong; else the fetch waits.
    pub(super) fn start_or_park(&mut self, mut fetch: Fetch, now: bool, out: &mut Effects) {
        let mut wrong = false;
        for want in &fetch.wants {
            match self.available(want.id, want.offset) {
                Ok(bytes) => fetch.available += bytes.min(want.max_bytes as u64),
                Err(_) => wrong = true,
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
                if let Some(waiters) = waiters(&mut self.partitions, &mut self.offsets, want) {
                    waiters.insert(id);
                }
            }
        }
    }

    /// The high watermark of a partition moved on by that many bytes.
    pub(super) fn wake_waiters(&mut self, id: PartitionId, bytes: u64, out: &mut Effects) {
        let mut ready = Vec::new();
        let waiters = waiters(&mut self.partitions, &mut self.offsets, id);
        for waiter in waiters.into_iter().flat_map(|waiters| waiters.iter().copied()) {
            let Some(fetch) = self.fetches.get_mut(waiter) else { continue };
            fetch.available += bytes;
            if fetch.available >= fetch.min_bytes {
                ready.push(waiter);
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
            if let Some(waiters) = waiters(&mut self.partitions, &mut self.offsets, want.id) {
                waiters.remove(&id);
            }
        }
    }

    fn start_reads(&mut self, id: u64, out: &mut Effects) {
        if !self.io.has_room_to_read() {
            return self.fetches.ready.push_back(id);
        }
        let Some(fetch) = self.fetches.get(id) else { return };
        let mut budget = Budget { bytes: fetch.max_bytes, first_whole: true };
        for want in 0..fetch.wants.len() {
            self.start_read(Part { request: id, want }, &mut budget, out);
        }
        if self.fetches.get(id).is_some_and(|fetch| fetch.reads_running == 0) {
            self.answer_fetch(id, out);
        }
    }

    fn start_read(&mut self, part: Part, budget: &mut Budget, out: &mut Effects) {
        let Some(&Want { id, offset, max_bytes, .. }) = self.fetches.want(part) else { return };
        let (available, bounds) = (self.available(id, offset), self.bounds(id));
        let Some(fetch) = self.fetches.get_mut(part.request) else { return };
        let available = match available {
            Ok(available) => available,
            Err(Unavailable::Deleted) => return fetch.fail(part.want, fetch.deleted),
            Err(Unavailable::OutOfRange) => {
                return fetch.fail(part.want, ErrorCode::OffsetOutOfRange);
            }
        };
        fetch.describe(part.want, bounds);
        let Some((limit, first_whole)) = budget.take(available, max_bytes) else { return };
        let want = &mut fetch.wants[part.want];
        (want.max_bytes, want.first_whole) = (limit, first_whole);
        let token = self.io.token();
        if id.is_of_offsets() {
            let partition = id.index;
            out.offsets_reads.push(OffsetsRead { token, partition, offset, max_bytes: limit });
            self.io.begin_elsewhere(token, Job::Offsets(part), limit);
        } else {
            let Some(partition) = self.partitions.get_mut(&id) else { return };
            let (files, ops) = (&mut self.io.files, &mut out.ops);
            let plan = partition.log.read_plan(offset, limit, token, files, ops);
            let Some(plan) = plan else { return };
            self.io.begin(token, Job::Fetch(part, plan), &out.ops);
        }
        fetch.reads_running += 1;
    }

    fn available(&self, id: PartitionId, offset: i64) -> Result<u64, Unavailable> {
        if id.is_of_offsets() {
            let new = OffsetsPartition::default();
            let partition = self.offsets.get(&id.index).unwrap_or(&new);
            return partition.available(offset).ok_or(Unavailable::OutOfRange);
        }
        let partition = self.partitions.get(&id).ok_or(Unavailable::Deleted)?;
        partition.available(offset).ok_or(Unavailable::OutOfRange)
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
        match data.and_then(|data| records(data, plan, &fetch.wants[part.want])) {
            Some(records) => fetch.data(part.want).records = Some(Bytes::from(records)),
            None => fetch.fail(part.want, ErrorCode::KafkaStorageError),
        }
        self.read_ended(part, out);
    }

    /// One of the reads of a fetch has ended; the last one answers it.
    pub(super) fn read_ended(&mut self, part: Part, out: &mut Effects) {
        let Some(fetch) = self.fetches.get_mut(part.request) else { return };
        fetch.reads_running -= 1;
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

/// Those who wait for records of a partition.
fn waiters<'p>(
    partitions: &'p mut BTreeMap<PartitionId, Partition>,
    offsets: &'p mut BTreeMap<i32, OffsetsPartition>,
    id: PartitionId,
) -> Option<&'p mut BTreeSet<u64>> {
    if id.is_of_offsets() {
        return Some(&mut offsets.entry(id.index).or_default().waiters);
    }
    partitions.get_mut(&id).map(|partition| &mut partition.waiters)
}

/// The batches that a want asked for, out of what was read; None if they are not there. They stay
/// in the buffer that they were read to.
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
