//! Reads of clients, of share partitions and of the admin side. Reads do not change the table.

mod fetch;
mod fetch_answers;
mod fetch_state;
mod fetches;
mod fetching;
mod list_offsets;
mod lookup;
mod lookups;
mod record_reads;

pub(crate) use fetch::{FULL_SESSION_EPOCHS, replica};
pub(crate) use fetches::PARTITION_OF_FETCH_BYTES;

use super::disk::Disk;
use super::effects::{Effects, FailedRead};
use super::happened::Grown;
use super::jobs::{Job, ReadJob};
use super::partition_id::PartitionId;
use super::reader::{Reader, RecordRead, RecordReadEnd};
use super::table::Table;
use crate::config::Config;
use crate::limit_gauges::LimitGauges;
use fetches::Fetches;
use hashbrown::HashMap;
use lookup::Lookup;
use muster_codec::ErrorCode;
use muster_codec::messages::AbortedTransaction;
use muster_coordinator::RequestId;
use muster_runtime::LogBatches;
use muster_storage::{FileToken, Suspect};
use std::collections::{BTreeSet, VecDeque};

/// The reads that are not answered yet.
#[derive(Debug)]
pub(super) struct Reads {
    fetches: Fetches,
    lookups: HashMap<u64, Lookup>,
    /// Reads of records into memory that wait until other reads have ended.
    waiting: VecDeque<RecordRead>,
    /// Partitions in which share partitions wait for further records.
    awaited: BTreeSet<PartitionId>,
}

impl Reads {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            fetches: Fetches::new(config),
            lookups: HashMap::new(),
            waiting: VecDeque::new(),
            awaited: BTreeSet::new(),
        }
    }

    /// Called when more bytes of a partition have become readable. Continues the parked fetches for
    /// which enough bytes exist now.
    pub(super) fn wake(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        id: PartitionId,
        grown: Grown,
        out: &mut Effects,
    ) {
        let mut ready = Vec::new();
        for waiter in self.fetches.waiting_for(id) {
            let Some(fetch) = self.fetches.get_mut(waiter) else { continue };
            fetch.available += if fetch.reads_committed { grown.stable_bytes } else { grown.bytes };
            if fetch.available >= fetch.min_bytes {
                ready.push(waiter);
            }
        }
        for fetch in ready {
            self.unpark(table, disk, fetch, out);
        }
    }

    /// Continues the reads that wait for a partition, of which more can be read now.
    pub(super) fn grown(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        id: PartitionId,
        grown: Grown,
        out: &mut Effects,
    ) {
        if grown.bytes > 0 {
            self.wake(table, disk, id, grown, out);
            out.grown.extend(self.awaited.take(&id));
        }
    }

    /// Ends the waits for a partition that was removed.
    pub(super) fn removed(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        id: PartitionId,
        out: &mut Effects,
    ) {
        for fetch in self.fetches.waiting_for(id) {
            self.unpark(table, disk, fetch, out);
        }
        out.grown.extend(self.awaited.take(&id));
    }

    /// Waits until a partition has more records or is gone. Then it is listed in
    /// [`Effects::grown`].
    pub(super) fn await_growth(&mut self, id: PartitionId) {
        self.awaited.insert(id);
    }

    /// The partition that a job reads. None if the request that needed the read no longer exists.
    pub(super) fn read_by(&self, job: &ReadJob) -> Option<PartitionId> {
        match job {
            ReadJob::Find(part, _) | ReadJob::Log(part) => {
                Some(self.fetches.get(part.request)?.wanted(*part))
            }
            ReadJob::Lookup(part, _) => Some(self.lookups.get(&part.request)?.wanted(*part)),
            ReadJob::FindRecords(read, _) => Some(read.id),
            ReadJob::ReadRecords { id, .. } => Some(*id),
        }
    }

    /// Handles the end of a read. `data` is None if the read failed. Returns the place in the log
    /// that has unreadable bytes, if there is one.
    pub(super) fn job_done(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        job: ReadJob,
        data: Option<Vec<u8>>,
        out: &mut Effects,
    ) -> Option<(PartitionId, Suspect)> {
        match job {
            ReadJob::Find(part, search) => {
                self.headers_read(table, disk, part, search, data.as_deref(), out)
            }
            ReadJob::Lookup(part, search) => {
                self.lookup_read(table, disk, part, search, data.as_deref(), out)
            }
            ReadJob::FindRecords(read, search) => {
                self.record_headers_read(table, disk, read, search, data.as_deref(), out)
            }
            ReadJob::ReadRecords { reader, aborted, .. } => {
                records_read(disk, reader, aborted, data, out);
                None
            }
            // A read of an internal topic does not end here: `log_read` gets its result.
            ReadJob::Log(_) => None,
        }
    }

    /// Takes the result of a [`LogRead`](muster_runtime::LogRead): its batches, or none if there
    /// was nothing to read. An error says why the batches could not be read.
    pub(super) fn log_read(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        token: FileToken,
        batches: Result<LogBatches, String>,
        out: &mut Effects,
    ) {
        let Some(Job::Read(ReadJob::Log(part))) = disk.end(token) else { return };
        if let Some(fetch) = self.fetches.get_mut(part.request) {
            let of = Some(fetch.wanted(part));
            match batches {
                Ok(LogBatches { bytes, aborted }) => {
                    let data = fetch.data(part.want);
                    data.records = Some(bytes.into());
                    data.aborted_transactions = Some(aborted);
                }
                Err(reason) => {
                    disk.counters.failed_reads += 1;
                    out.failed_reads.push(FailedRead { of, reason });
                    fetch.wants[part.want].failed = Some(ErrorCode::KafkaStorageError);
                }
            }
            self.read_ended(table, disk, part, out);
        }
        self.start_ready(table, disk, out);
    }

    /// Continues the reads that waited for other reads to end.
    pub(super) fn resume(&mut self, table: &Table, disk: &mut Disk, out: &mut Effects) {
        self.start_ready(table, disk, out);
        self.start_record_reads(table, disk, out);
    }

    /// Answers the fetches whose deadlines have passed.
    pub(super) fn expire(&mut self, table: &Table, disk: &mut Disk, now: i64, out: &mut Effects) {
        while let Some(fetch) = self.fetches.due(now) {
            self.unpark(table, disk, fetch, out);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.fetches.next_deadline()
    }

    /// Forgets the fetches and look-ups of a closed connection.
    pub(super) fn connection_closed(&mut self, connection: u64) {
        self.lookups.retain(|_, lookup| !lookup.is_of(connection));
        for fetch in self.fetches.of_connection(connection) {
            self.fetches.remove(fetch);
        }
    }

    /// Whether a request is a fetch that waits for records, and its deadline has not passed.
    pub(super) fn is_parked(&self, request: RequestId, now: i64) -> bool {
        self.fetches.is_parked(request, now)
    }

    /// The number of fetches that are not answered yet.
    pub(super) fn waiting_fetches(&self) -> usize {
        self.fetches.len()
    }

    /// The number of fetches of a connection that wait for records.
    pub(super) fn parked_fetches(&self, connection: u64) -> usize {
        self.fetches.parked(connection)
    }

    /// The approximate size of the fetches that are not answered yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.fetches.bytes_held()
    }

    /// The number of look-ups that are not answered yet.
    #[cfg(test)]
    pub(super) fn waiting_lookups(&self) -> usize {
        self.lookups.len()
    }

    /// Adds gauges that show how much of the limits on fetches is used.
    pub(super) fn add_limits(&self, gauges: &mut LimitGauges) {
        self.fetches.add_limits(gauges);
    }

    /// For checks: counts all fetches again, and returns the difference to the accounts of
    /// addresses. It is 0 unless an account is wrong.
    pub(super) fn miscounted_shares(&self) -> usize {
        self.fetches.miscounted_shares()
    }
}

/// Handles the end of a read of batches. The data is None if the read failed.
fn records_read(
    disk: &mut Disk,
    reader: Reader,
    aborted: Vec<AbortedTransaction>,
    data: Option<Vec<u8>>,
    out: &mut Effects,
) {
    disk.counters.fetched_bytes += data.as_ref().map_or(0, |data| data.len() as u64);
    let end = match data {
        Some(data) => RecordReadEnd::Records { data, aborted },
        None => RecordReadEnd::Failed,
    };
    out.end_read(reader, end);
}
