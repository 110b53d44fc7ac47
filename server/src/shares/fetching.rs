//! The fetch of a ShareFetch: waits until there are enough records, reads them, and acquires them
//! for the member (Kafka's `DelayedShareFetch`).

use super::opening::Opening;
use super::table::{Part, Read, Readable, Request};
use super::{Inputs, Shares};
use crate::limit_gauges::Limit;
use crate::limit_refusals::{Refused, refused_wait_ms};
use crate::partitions::{Reader, RecordRead, RecordReadEnd};
use muster_codec::ErrorCode;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{Batch, BatchHeader, EndTxnMarker, TransactionOutcome};
use muster_faults::Fault;
use muster_shares::SharePartitionKey;
use muster_shares::partition::{
    AbortedTransaction, Fetched, LogBatch, ReadBatch, Wanted, aborted_ranges, kept_batches,
};

/// The next step for a request.
enum Outlook {
    Read(Vec<Readable>),
    Wait,
    /// The request is answered without a read.
    End,
}

/// The time that the injected fault of endless locks adds to a lock.
const ENDLESS_MS: i64 = 3_600_000;

impl Shares {
    /// Reads records for a request, parks it, or answers it. `id` is the request's number if it was
    /// parked before.
    pub(super) fn try_fetch(
        &mut self,
        inputs: &mut Inputs<'_>,
        id: Option<u64>,
        mut request: Request,
    ) {
        match self.outlook(inputs, &mut request) {
            Outlook::Read(readable) => self.begin_reads(inputs, id, request, readable),
            Outlook::Wait => self.park(inputs, id, request),
            Outlook::End => self.complete(inputs, request),
        }
    }

    /// Lets a request wait until its deadline, or until something happens to its partitions.
    pub(super) fn park(&mut self, inputs: &mut Inputs<'_>, id: Option<u64>, request: Request) {
        let wait_ms = request.deadline - inputs.times.now;
        if wait_ms <= 0 {
            return self.complete(inputs, request);
        }
        if let Err(exceeded) = self.requests.admit(request.asked.address) {
            let (limit, address) = (Limit::ShareFetches, request.asked.address);
            self.refused.push(Refused { limit, exceeded, address });
            let throttle_ms = refused_wait_ms(wait_ms);
            return self.complete(inputs, Request { throttle_ms, ..request });
        }
        let waiting: Vec<_> = (0..request.parts.len())
            .filter(|part| request.parts[*part].waits())
            .map(|part| (request.key(part), request.parts[part].at))
            .collect();
        let id = id.unwrap_or_else(|| self.requests.next_id());
        for (key, at) in waiting {
            inputs.partitions.await_growth(super::partition_id(at));
            self.by_partition.entry(at).or_default().insert(key.group_id.clone());
            self.waiters.entry(key).or_default().insert(id);
        }
        self.requests.park(id, request);
    }

    /// Tries the requests that wait for a share partition, the oldest first. Stops when one of them
    /// reads the partition, or waits again although its `min_bytes` is at most 1.
    pub(super) fn wake(&mut self, inputs: &mut Inputs<'_>, key: &SharePartitionKey) {
        let waiters = self.waiters.remove(key).unwrap_or_default();
        let mut left = waiters.into_iter();
        for id in left.by_ref() {
            let Some(request) = self.unpark(id) else { continue };
            let is_modest = request.fetch.is_none_or(|it| it.min_bytes <= 1);
            self.try_fetch(inputs, Some(id), request);
            let is_read = self.reading.contains(key);
            if is_read || is_modest && self.requests.is_parked(id) {
                break;
            }
        }
        self.waiters.entry(key.clone()).or_default().extend(left);
        if self.waiters.get(key).is_some_and(|waiters| waiters.is_empty()) {
            self.waiters.remove(key);
        }
    }

    /// Takes a request that waits; None if it no longer waits.
    pub(super) fn unpark(&mut self, id: u64) -> Option<Request> {
        if !self.requests.is_parked(id) {
            return None;
        }
        let request = self.requests.take(id)?;
        for part in 0..request.parts.len() {
            let key = request.key(part);
            if let Some(waiters) = self.waiters.get_mut(&key) {
                waiters.remove(&id);
                if waiters.is_empty() {
                    self.waiters.remove(&key);
                }
            }
        }
        Some(request)
    }

    fn outlook(&mut self, inputs: &mut Inputs<'_>, request: &mut Request) -> Outlook {
        let Some(wants) = request.fetch else { return Outlook::End };
        let mut readable = Vec::new();
        for part in 0..request.parts.len() {
            if request.parts[part].waits() {
                readable.extend(self.readable(inputs, request, part));
            }
        }
        if !request.parts.iter().any(Part::waits) {
            return Outlook::End;
        }
        readable.retain(|it| it.bytes > 0);
        let share = (wants.max_bytes / (readable.len() as u64).max(1)).max(1);
        let bytes: u64 = readable.iter().map(|it| it.bytes.min(share)).sum();
        let is_enough = bytes >= wants.min_bytes.max(1);
        let is_over = request.deadline <= inputs.times.now || wants.min_bytes == 0;
        if readable.is_empty() {
            return if is_over { Outlook::End } else { Outlook::Wait };
        }
        if is_enough || is_over { Outlook::Read(readable) } else { Outlook::Wait }
    }

    /// The place from which a request can read a share partition; None if it cannot be read now. An
    /// error is noted in the request.
    fn readable(
        &mut self,
        inputs: &mut Inputs<'_>,
        request: &mut Request,
        part: usize,
    ) -> Option<Readable> {
        let key = request.key(part);
        let located = match self.open_partition(inputs, &key, request.asked.address) {
            Ok(Opening::Open(located)) => located,
            Ok(Opening::Later) => return None,
            Err((error, leader)) => {
                let part = &mut request.parts[part];
                (part.error, part.leader) = (error, leader);
                return None;
            }
        };
        if self.reading.contains(&key) {
            return None;
        }
        let config = self.config(inputs, &key.group_id);
        let (settings, reads_committed) = (config.settings, config.reads_committed);
        let (id, log_start) = (located.id, located.bounds.log_start);
        let offset = self.open.on(&key, |it| {
            let can_acquire = it.can_acquire(&settings);
            if it.next_fetch_offset() < log_start {
                it.log_starts_at(log_start);
            }
            can_acquire.then(|| it.next_fetch_offset())
        })??;
        let bytes = inputs.partitions.share_bytes(id, offset, reads_committed).unwrap_or(0);
        let records = located.bounds.high_watermark.saturating_sub(offset);
        Some(Readable { part, id, offset, bytes, records })
    }

    fn begin_reads(
        &mut self,
        inputs: &mut Inputs<'_>,
        id: Option<u64>,
        mut request: Request,
        readable: Vec<Readable>,
    ) {
        let Some(wants) = request.fetch else { return self.complete(inputs, request) };
        let id = id.unwrap_or_else(|| self.requests.next_id());
        let share = (wants.max_bytes / readable.len().max(1) as u64).max(1);
        let reads_committed = self.config(inputs, &request.member.group_id).reads_committed;
        let mut reads = Vec::with_capacity(readable.len());
        let mut records = 0i64;
        for it in readable {
            // The request has enough records, so its other partitions are not read. The next
            // request of the session begins with another partition.
            if records >= wants.max_records {
                break;
            }
            let key = request.key(it.part);
            let Some(opening) = self.open.opening(&key) else { continue };
            records = records.saturating_add(it.records);
            self.reading.insert(key);
            let (data, aborted) = Default::default();
            request.parts[it.part].read = Some(Read { offset: it.offset, data, aborted, opening });
            self.last_read += 1;
            let number = self.last_read;
            self.reads.insert(number, super::ReadFor::Request { id, part: it.part });
            reads.push(RecordRead {
                reader: Reader::Share(number),
                id: it.id,
                offset: it.offset,
                reads_committed,
                max_bytes: it.bytes_to_read(wants.max_records).min(share) as u32,
                // As in Kafka, only the first partition may exceed the requested bytes.
                first_whole: reads.is_empty(),
            });
        }
        request.reads = reads.len();
        if reads.is_empty() {
            return self.complete(inputs, request);
        }
        self.requests.put(id, request);
        for read in reads {
            inputs.partitions.read_records(read, inputs.effects);
        }
    }

    /// Handles the end of a read for a request. After the last read, the request acquires records
    /// and is answered.
    pub(super) fn read_ended(
        &mut self,
        inputs: &mut Inputs<'_>,
        id: u64,
        part: usize,
        end: RecordReadEnd,
    ) {
        let left = self.requests.on(id, |request| {
            request.reads -= 1;
            take_read(&mut request.parts[part], end);
            request.reads
        });
        if left != Some(0) {
            return;
        }
        let Some(mut request) = self.requests.take(id) else { return };
        self.acquire(inputs, &mut request);
        let keys = self.release_reads(&mut request);
        self.complete(inputs, request);
        keys.iter().for_each(|key| self.wake(inputs, key));
    }

    /// Ends the reads of a request, so that others may read these share partitions. Returns the
    /// partitions.
    pub(super) fn release_reads(&mut self, request: &mut Request) -> Vec<SharePartitionKey> {
        let mut keys = Vec::new();
        for part in 0..request.parts.len() {
            if request.parts[part].read.take().is_some() {
                let key = request.key(part);
                self.reading.remove(&key);
                keys.push(key);
            }
        }
        keys
    }

    /// Acquires the records that were read, one partition after the other, up to the number that
    /// the request may have.
    fn acquire(&mut self, inputs: &Inputs<'_>, request: &mut Request) {
        let Some(wants) = request.fetch else { return };
        // Another connection may have ended the session during the reads. Nothing is acquired then,
        // because no end of a session would release the records.
        if self.sessions.epoch(&request.member).is_none() {
            return;
        }
        let settings = self.config(inputs, &request.member.group_id).settings;
        let mut max_records = wants.max_records;
        for place in 0..request.parts.len() {
            let key = request.key(place);
            let part = &mut request.parts[place];
            let is_open = self.open.opening(&key);
            let is_of_use = |it: &&mut Read| !it.data.is_empty() && is_open == Some(it.opening);
            let Some(read) = part.read.as_mut().filter(is_of_use) else { continue };
            let (batches, ends) = batches(&read.data);
            let aborted: Vec<_> = read.aborted.iter().map(aborted_transaction).collect();
            let bounds: Vec<LogBatch> = batches.iter().map(|batch| batch.bounds).collect();
            let fetched = Fetched {
                offset: read.offset,
                batches: &bounds,
                aborted: &aborted_ranges(&batches, &aborted),
            };
            let wanted = Wanted {
                member: &request.member.member_id,
                mode: wants.mode,
                max_records,
                batch_size: wants.batch_size,
            };
            let mut now = inputs.times.now;
            if Fault::EndlessLock.is_injected() {
                now += ENDLESS_MS;
            }
            let acquired = self.open.on(&key, |it| it.acquire(&wanted, &fetched, &settings, now));
            part.acquired = acquired.unwrap_or_default();
            if Fault::DoubleGrant.is_injected() && read.offset % 4 == 0 {
                self.open.on(&key, |it| it.release(wanted.member, &settings));
            }
            let kept = kept_batches(&bounds, &part.acquired);
            let from = kept.start.checked_sub(1).map_or(0, |before| ends[before]);
            let upto = kept.end.checked_sub(1).map_or(0, |last| ends[last]);
            read.data.truncate(upto.max(from));
            read.data.drain(..from);
            part.records = std::mem::take(&mut read.data);
            let count = part.acquired.iter().map(|it| it.last - it.first + 1).sum::<i64>();
            max_records = max_records.saturating_sub(count);
            self.counters.acquired_records += count.unsigned_abs();
        }
    }
}

/// Takes the result of the read of a part.
fn take_read(part: &mut Part, end: RecordReadEnd) {
    match end {
        RecordReadEnd::Records { data, aborted } => {
            if let Some(read) = &mut part.read {
                (read.data, read.aborted) = (data, aborted);
            }
        }
        RecordReadEnd::Failed => part.error = ErrorCode::KafkaStorageError,
        RecordReadEnd::Nothing | RecordReadEnd::Offset(_) => {}
    }
}

/// The whole batches in bytes of the log, and the end of each batch.
fn batches(data: &[u8]) -> (Vec<ReadBatch>, Vec<usize>) {
    let (mut batches, mut ends) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(rest) = data.get(at..).filter(|it| it.len() >= RECORD_BATCH_HEADER_BYTES) {
        let Ok(header) = BatchHeader::read(rest) else { break };
        let Some(bytes) = rest.get(..header.total_len()) else { break };
        at += bytes.len();
        batches.push(read_batch(&header, bytes));
        ends.push(at);
    }
    (batches, ends)
}

fn read_batch(header: &BatchHeader, bytes: &[u8]) -> ReadBatch {
    let is_abort_marker = header.is_control() && {
        let marker = Batch::read(bytes).and_then(|batch| EndTxnMarker::of_batch(&batch));
        matches!(marker, Ok(Some(EndTxnMarker { outcome: TransactionOutcome::Abort, .. })))
    };
    ReadBatch {
        bounds: LogBatch { base: header.base_offset, last: header.last_offset() },
        producer_id: header.has_producer_id().then_some(header.producer_id),
        is_transactional: header.is_transactional(),
        is_abort_marker,
    }
}

fn aborted_transaction(it: &muster_codec::messages::AbortedTransaction) -> AbortedTransaction {
    AbortedTransaction { producer_id: it.producer_id, first_offset: it.first_offset }
}
