//! A fetch in progress: it may be parked until enough bytes exist, then it reads and is answered.

use super::Reads;
use super::fetch_state::{Budget, Fetch, Want};
use crate::limit_refusals::refused_wait_ms;
use crate::partitions::disk::Disk;
use crate::partitions::effects::Effects;
use crate::partitions::internal_topics;
use crate::partitions::jobs::{Job, Part, ReadJob};
use crate::partitions::limits::{FETCH_BYTES_MAX, INTERNAL_RECORDS_BYTES_MAX};
use crate::partitions::partition::Partition;
use crate::partitions::partition_id::PartitionId;
use crate::partitions::table::Table;
use muster_codec::messages::{AbortedTransaction, FetchResponse};
use muster_codec::{Bytes, ErrorCode, Records};
use muster_runtime::LogRead;
use muster_storage::{
    BatchPlace, BatchSearch, FileRange, Find, Found, LogPartition, OpenFiles, Suspect,
};

/// The reason why a partition cannot be read from an offset.
enum Unavailable {
    /// The topic was deleted while the fetch waited.
    Deleted,
    OutOfRange,
    /// The batch at the offset cannot be read.
    Damaged,
}

impl Reads {
    /// Begins the reads of a fetch if `at_once` is set, enough bytes exist, or a partition has an
    /// error. Otherwise parks the fetch, and returns the partitions of internal topics for which it
    /// waits. If too many fetches are parked, it is answered with the records that exist. If there
    /// are none, its client is throttled.
    pub(super) fn start_or_park(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        now: i64,
        mut fetch: Fetch,
        at_once: bool,
        out: &mut Effects,
    ) -> Vec<PartitionId> {
        let mut wrong = false;
        for want in &fetch.wants {
            match available(table, want.id, want.offset, fetch.reads_committed) {
                Ok(bytes) => fetch.available += bytes.min(want.max_bytes as u64),
                Err(_) => wrong = true,
            }
        }
        let max_bytes = table.config().fetch_max_bytes.unsigned_abs() as usize;
        fetch.max_bytes = fetch.max_bytes.min(max_bytes).min(FETCH_BYTES_MAX);
        let enough = fetch.available >= fetch.min_bytes;
        let admitted =
            if at_once || wrong || enough { None } else { Some(self.fetches.admit(&fetch)) };
        if let Some(Err(refused)) = admitted {
            out.refused.push(refused);
            if fetch.available == 0 {
                let wait_ms = refused_wait_ms(fetch.deadline - now);
                out.throttle(fetch.request, FetchResponse::default(), wait_ms);
                return Vec::new();
            }
        }
        if admitted != Some(Ok(())) {
            let id = self.fetches.add(fetch);
            self.start_reads(table, disk, id, out);
            return Vec::new();
        }
        let internal = fetch.wants.iter().map(|want| want.id).filter(|id| id.is_internal());
        let internal = internal.collect();
        self.fetches.park(fetch);
        internal
    }

    /// Ends the wait of a parked fetch.
    pub(super) fn unpark(&mut self, table: &Table, disk: &mut Disk, id: u64, out: &mut Effects) {
        self.fetches.unpark(id);
        self.start_reads(table, disk, id, out);
    }

    /// Searches for the records of a fetch until the read budget is used up; the rest is searched
    /// for later. Answers if all are found without a read.
    fn start_reads(&mut self, table: &Table, disk: &mut Disk, id: u64, out: &mut Effects) {
        while let Some(fetch) = self.fetches.get_mut(id)
            && fetch.next < fetch.wants.len()
        {
            if !disk.has_read_budget() {
                return self.fetches.ready.push_back(id);
            }
            let want = fetch.next;
            fetch.next += 1;
            self.find(table, disk, Part { request: id, want }, out);
        }
        if self.fetches.get(id).is_some_and(|fetch| fetch.reads_running == 0) {
            self.answer_fetch(table, disk, id, out);
        }
    }

    /// Searches for the records of one partition, if there are any.
    fn find(&mut self, table: &Table, disk: &mut Disk, part: Part, out: &mut Effects) {
        let Some(fetch) = self.fetches.get(part.request) else { return };
        let Want { id, offset, .. } = fetch.wants[part.want];
        if !available(table, id, offset, fetch.reads_committed).is_ok_and(|bytes| bytes > 0) {
            return;
        }
        if let Some(partition) = id.log_partition() {
            return self.read_log(table, disk, part, partition, out);
        }
        let Some(partition) = table.get(id) else { return };
        let token = disk.token();
        let (files, ops) = (&mut disk.files, &mut out.ops);
        let find = partition.log.find(offset, token, files, ops);
        let Some(fetch) = self.fetches.get_mut(part.request) else { return };
        match find {
            Some(Find::At(place)) => fetch.wants[part.want].place = Some(place),
            Some(Find::Read(search)) => {
                fetch.reads_running += 1;
                disk.begin(token, Job::Read(ReadJob::Find(part, search)), &out.ops);
            }
            Some(Find::Damaged { .. }) | None => {}
        }
    }

    /// Requests a read of the shard's log, within the budget of the answer.
    fn read_log(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        part: Part,
        partition: LogPartition,
        out: &mut Effects,
    ) {
        let Some(fetch) = self.fetches.get(part.request) else { return };
        let Want { id, offset, max_bytes, .. } = fetch.wants[part.want];
        let stable = fetch.reads_committed.then(|| table.bounds(id).stable);
        let Some(fetch) = self.fetches.get_mut(part.request) else { return };
        let limit = max_bytes.min(fetch.internal_bytes);
        if limit == 0 && fetch.internal_bytes < INTERNAL_RECORDS_BYTES_MAX {
            return;
        }
        // The read may return more than `limit`: an answer always includes the first batch.
        fetch.internal_bytes -= limit.clamp(1, fetch.internal_bytes);
        fetch.reads_running += 1;
        let token = disk.token();
        out.log_reads.push(LogRead { token, partition, offset, max_bytes: limit, stable });
        disk.begin_elsewhere(token, Job::Read(ReadJob::Log(part)), limit);
    }

    /// Handles the end of a read of batch headers for a fetch. `data` is None if the read failed.
    /// Returns the place in the log that has unreadable bytes, if there is one.
    pub(super) fn headers_read(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        part: Part,
        search: BatchSearch,
        data: Option<&[u8]>,
        out: &mut Effects,
    ) -> Option<(PartitionId, Suspect)> {
        let fetch = self.fetches.get_mut(part.request)?;
        let mut suspect = None;
        let want = &mut fetch.wants[part.want];
        match data.map(|data| search.look(data)) {
            Some(Ok(Found::Batch(place))) => want.place = Some(place),
            Some(Ok(Found::ReadOn(search))) => {
                let id = want.id;
                if find_on(table, disk, id, part, search, out) {
                    return None;
                }
            }
            Some(Err(_)) => {
                want.failed = Some(ErrorCode::CorruptMessage);
                suspect = Some((want.id, search.suspect()));
            }
            None => want.failed = Some(ErrorCode::KafkaStorageError),
        }
        self.read_ended(table, disk, part, out);
        suspect
    }

    /// Notes that a read of a fetch has ended. After the last read, the fetch is answered.
    pub(super) fn read_ended(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        part: Part,
        out: &mut Effects,
    ) {
        let Some(fetch) = self.fetches.get_mut(part.request) else { return };
        fetch.reads_running -= 1;
        if fetch.reads_running == 0 && fetch.next == fetch.wants.len() {
            self.answer_fetch(table, disk, part.request, out);
        }
    }

    fn answer_fetch(&mut self, table: &Table, disk: &mut Disk, id: u64, out: &mut Effects) {
        let Some(mut fetch) = self.fetches.remove(id) else { return };
        let mut budget = Budget { bytes: fetch.max_bytes, first_whole: true };
        let mut files = Vec::new();
        for want in 0..fetch.wants.len() {
            if let Err(error) = answer_want(table, disk, &mut fetch, want, &mut budget, &mut files)
            {
                fetch.fail(want, error);
            }
        }
        out.send_files(fetch.request, fetch.response, files);
    }

    /// Continues requests that waited for other reads to end.
    pub(super) fn start_ready(&mut self, table: &Table, disk: &mut Disk, out: &mut Effects) {
        while disk.has_read_budget()
            && let Some(id) = self.fetches.ready.pop_front()
        {
            if self.lookups.contains_key(&id) {
                self.continue_lookup(table, disk, id, out);
            } else {
                self.start_reads(table, disk, id, out)
            }
        }
    }
}

fn available(
    table: &Table,
    id: PartitionId,
    offset: i64,
    reads_committed: bool,
) -> Result<u64, Unavailable> {
    if id.is_internal() {
        let bounds = table.internal(id).unwrap_or_default();
        let bytes = internal_topics::available(bounds, offset, reads_committed);
        return bytes.ok_or(Unavailable::OutOfRange);
    }
    let partition = table.get(id).ok_or(Unavailable::Deleted)?;
    let bytes = partition.available(offset, reads_committed).ok_or(Unavailable::OutOfRange)?;
    let is_damaged = partition.log.damage_at(offset).is_some();
    if is_damaged { Err(Unavailable::Damaged) } else { Ok(bytes) }
}

/// Reads the headers that follow, to continue a search. Returns false if there are none.
fn find_on(
    table: &Table,
    disk: &mut Disk,
    id: PartitionId,
    part: Part,
    search: BatchSearch,
    out: &mut Effects,
) -> bool {
    let Some(partition) = table.get(id) else { return false };
    let token = disk.token();
    let (files, ops) = (&mut disk.files, &mut out.ops);
    let Some(search) = partition.log.find_on(search, token, files, ops) else { return false };
    disk.begin(token, Job::Read(ReadJob::Find(part, search)), &out.ops);
    true
}

/// Fills in one partition of the answer, from the present state of the partition.
fn answer_want(
    table: &Table,
    disk: &mut Disk,
    fetch: &mut Fetch,
    want: usize,
    budget: &mut Budget,
    files: &mut Vec<FileRange>,
) -> Result<(), ErrorCode> {
    let Want { id, offset, max_bytes, place, failed, .. } = fetch.wants[want];
    let reads_committed = fetch.reads_committed;
    available(table, id, offset, reads_committed).map_err(|it| match it {
        Unavailable::Deleted => fetch.deleted,
        Unavailable::OutOfRange => ErrorCode::OffsetOutOfRange,
        Unavailable::Damaged => ErrorCode::CorruptMessage,
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    fetch.describe(want, table.bounds(id));
    let limit = budget.limit(max_bytes);
    let data = fetch.data(want);
    if let Some(place) = place {
        let (range, aborted) = match table.get(id) {
            Some(partition) => {
                let (files, first_whole) = (&mut disk.files, budget.first_whole);
                range(partition, files, offset, place, reads_committed, limit, first_whole)?
            }
            None => (None, Vec::new()),
        };
        data.aborted_transactions = reads_committed.then_some(aborted);
        disk.counters.fetched_bytes += range.map_or(0, |range| u64::from(range.len));
        data.records = range.map(|range| Records::elsewhere(range.len)).or(data.records.take());
        budget.took(range.map_or(0, |range| range.len as usize));
        files.extend(range);
    } else if let Some(Records::Here(records)) = &mut data.records {
        if records.len() > limit && !budget.first_whole {
            *records = Bytes::default();
        }
        disk.counters.fetched_bytes += records.len() as u64;
        budget.took(records.len());
    }
    Ok(())
}

/// The part of a file that has the records for a partition's answer, and the aborted transactions
/// in this part. The file stays open until the part is released.
fn range(
    partition: &Partition,
    files: &mut OpenFiles,
    offset: i64,
    place: BatchPlace,
    reads_committed: bool,
    limit: usize,
    first_whole: bool,
) -> Result<(Option<FileRange>, Vec<AbortedTransaction>), ErrorCode> {
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let end = if reads_committed { partition.stable().end } else { None };
    let range = partition.log.range(place, end, limit, first_whole);
    let range = range.map_err(|_| ErrorCode::CorruptMessage)?;
    let Some(range) = range else { return Ok((None, Vec::new())) };
    partition.log.hold(&range, files);
    let aborted = if reads_committed {
        partition.aborted(offset, partition.log.end_offset_of(place, range.len))
    } else {
        Vec::new()
    };
    Ok((Some(range), aborted))
}
