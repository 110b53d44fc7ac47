//! Reads of records into memory.

use super::Reads;
use super::lookup::{Asker, Lookup, Target};
use crate::partitions::disk::Disk;
use crate::partitions::effects::Effects;
use crate::partitions::jobs::{Job, ReadJob};
use crate::partitions::partition_id::PartitionId;
use crate::partitions::reader::{RecordRead, RecordReadEnd};
use crate::partitions::table::Table;
use muster_codec::messages::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use muster_storage::{BatchPlace, BatchSearch, Find, Found, Suspect};

impl Reads {
    /// Reads records into memory. The result is put into [`Effects::record_reads`]. Skips damaged
    /// parts, as it skips offsets that compaction has removed. It would not help to send a damaged
    /// part to a share consumer: Kafka's consumers reject a batch that they cannot read.
    pub(in crate::partitions) fn read_records(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        mut read: RecordRead,
        out: &mut Effects,
    ) {
        if !disk.has_read_budget() {
            return self.waiting.push_back(read);
        }
        let Some(partition) = table.get(read.id) else {
            return out.end_read(read.reader, RecordReadEnd::Nothing);
        };
        read.offset = partition.behind_damage(read.offset);
        let token = disk.token();
        let found = partition.log.find(read.offset, token, &mut disk.files, &mut out.ops);
        match found {
            Some(Find::At(place)) => self.read_batches(table, disk, read, place, out),
            Some(Find::Read(search)) => {
                disk.begin(token, Job::Read(ReadJob::FindRecords(read, search)), &out.ops);
            }
            Some(Find::Damaged { .. }) | None => {
                out.end_read(read.reader, RecordReadEnd::Nothing);
            }
        }
    }

    /// Looks up the first offset at or after a time. The result is put into
    /// [`Effects::record_reads`].
    pub(in crate::partitions) fn first_offset_since(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        number: u64,
        id: PartitionId,
        time: i64,
        out: &mut Effects,
    ) {
        let mut lookup = Lookup::new(Asker::Share(number), false);
        let partitions = vec![ListOffsetsPartitionResponse::default()];
        let topic = ListOffsetsTopicResponse { partitions, ..Default::default() };
        lookup.response.topics.push(topic);
        lookup.want(id, Target::AtOrAfter(time), 0, 0);
        self.start_lookup(table, disk, lookup, out);
    }

    /// Begins reads that waited for other reads to end.
    pub(super) fn start_record_reads(&mut self, table: &Table, disk: &mut Disk, out: &mut Effects) {
        while disk.has_read_budget()
            && let Some(read) = self.waiting.pop_front()
        {
            self.read_records(table, disk, read, out);
        }
    }

    /// Handles the end of a read of batch headers. `data` is None if the read failed. Returns the
    /// place in the log that has unreadable bytes, if there is one.
    pub(super) fn record_headers_read(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        read: RecordRead,
        search: BatchSearch,
        data: Option<&[u8]>,
        out: &mut Effects,
    ) -> Option<(PartitionId, Suspect)> {
        match data.map(|data| search.look(data)) {
            Some(Ok(Found::Batch(place))) => self.read_batches(table, disk, read, place, out),
            Some(Ok(Found::ReadOn(search))) => find_records_on(table, disk, read, search, out),
            Some(Err(_)) => {
                out.end_read(read.reader, RecordReadEnd::Failed);
                return Some((read.id, search.suspect()));
            }
            None => out.end_read(read.reader, RecordReadEnd::Failed),
        }
        None
    }

    /// Reads the batches at a place. Searches again if compaction has replaced the segment
    /// meanwhile.
    fn read_batches(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        read: RecordRead,
        place: BatchPlace,
        out: &mut Effects,
    ) {
        let RecordRead { reader, id, offset, reads_committed, max_bytes, first_whole } = read;
        let Some(partition) = table.get(id) else {
            return out.end_read(reader, RecordReadEnd::Nothing);
        };
        if !partition.log.is_current(place) {
            return self.read_records(table, disk, read, out);
        }
        let stable = partition.stable();
        let is_stable = !reads_committed || offset < stable.offset;
        let end = if reads_committed { stable.end } else { None };
        match partition.log.range(place, end, max_bytes, first_whole) {
            Ok(Some(range)) if is_stable => {
                let end = partition.log.end_offset_of(place, range.len);
                let aborted =
                    if reads_committed { partition.aborted(offset, end) } else { Vec::new() };
                let token = disk.token();
                partition.log.read(&range, token, &mut disk.files, &mut out.ops);
                disk.begin(
                    token,
                    Job::Read(ReadJob::ReadRecords { reader, id, aborted }),
                    &out.ops,
                );
            }
            Ok(_) => out.end_read(reader, RecordReadEnd::Nothing),
            Err(_) => out.end_read(reader, RecordReadEnd::Failed),
        }
    }
}

fn find_records_on(
    table: &Table,
    disk: &mut Disk,
    read: RecordRead,
    search: BatchSearch,
    out: &mut Effects,
) {
    let token = disk.token();
    let partition = table.get(read.id);
    let search =
        partition.and_then(|it| it.log.find_on(search, token, &mut disk.files, &mut out.ops));
    match search {
        Some(search) => disk.begin(token, Job::Read(ReadJob::FindRecords(read, search)), &out.ops),
        None => out.end_read(read.reader, RecordReadEnd::Nothing),
    }
}
