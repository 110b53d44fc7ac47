//! Searches for offsets by time. The log says which place to read, and then whether to read on. The
//! reads are small. As many run at the same time as the read budget allows.

use super::Reads;
use super::lookup::{Lookup, LookupWant, Target};
use crate::partitions::disk::Disk;
use crate::partitions::effects::Effects;
use crate::partitions::jobs::{Job, Part, ReadJob};
use crate::partitions::partition_id::PartitionId;
use crate::partitions::table::Table;
use muster_codec::ErrorCode;
use muster_storage::{Searched, Suspect, TimestampSearch};

impl Reads {
    pub(super) fn start_lookup(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        lookup: Lookup,
        out: &mut Effects,
    ) {
        let id = self.fetches.next_id();
        self.lookups.insert(id, lookup);
        self.continue_lookup(table, disk, id, out);
    }

    /// Begins searches until the read budget is used up. Answers when all searches have ended.
    pub(super) fn continue_lookup(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        id: u64,
        out: &mut Effects,
    ) {
        let Some(mut lookup) = self.lookups.remove(&id) else { return };
        while lookup.next < lookup.wants.len() && disk.has_read_budget() {
            let part = Part { request: id, want: lookup.next };
            lookup.next += 1;
            let search = search(table, &lookup.wants[part.want]);
            lookup.running += usize::from(search.is_some_and(|it| {
                let LookupWant { id, .. } = lookup.wants[part.want];
                search_on(table, disk, id, part, it, out)
            }));
        }
        if lookup.next < lookup.wants.len() {
            self.fetches.ready.push_back(id);
        } else if lookup.running == 0 {
            return lookup.end(out);
        }
        self.lookups.insert(id, lookup);
    }

    /// Handles the end of a read for a look-up. `data` is None if the read failed. Returns the
    /// place in the log that has unreadable bytes, if there is one.
    pub(super) fn lookup_read(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        part: Part,
        mut search: TimestampSearch,
        data: Option<&[u8]>,
        out: &mut Effects,
    ) -> Option<(PartitionId, Suspect)> {
        let lookup = self.lookups.get_mut(&part.request)?;
        let mut suspect = None;
        let LookupWant { id, .. } = lookup.wants[part.want];
        let stable = table.get(id).filter(|_| lookup.reads_committed);
        let end = stable.map_or(i64::MAX, |partition| partition.stable().offset);
        let answer = lookup.answer(part.want);
        match data.map(|data| search.look(data)) {
            Some(Ok(Searched::Record { offset, .. })) if offset >= end => {}
            Some(Ok(Searched::Record { offset, timestamp })) => {
                (answer.offset, answer.timestamp, answer.leader_epoch) = (offset, timestamp, 0);
            }
            Some(Ok(Searched::ReadOn)) => {
                if search_on(table, disk, id, part, search, out) {
                    return None;
                }
            }
            Some(Err(_)) => {
                answer.error_code = ErrorCode::CorruptMessage.code();
                suspect = search.suspect().map(|suspect| (id, suspect));
            }
            None => answer.error_code = ErrorCode::KafkaStorageError.code(),
        }
        self.search_ended(part.request, out);
        suspect
    }

    /// Notes that a search of a look-up has ended. After the last search, the look-up is answered.
    fn search_ended(&mut self, id: u64, out: &mut Effects) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        lookup.running -= 1;
        let is_last = lookup.running == 0 && lookup.next == lookup.wants.len();
        if is_last && let Some(lookup) = self.lookups.remove(&id) {
            lookup.end(out);
        }
    }
}

fn search(table: &Table, want: &LookupWant) -> Option<TimestampSearch> {
    let log = &table.get(want.id)?.log;
    let time = match want.target {
        Target::AtOrAfter(time) => Some(time),
        Target::Newest => log.max_timestamp(),
    };
    time.map(|time| log.search(time))
}

/// Reads the next place where the searched record may be. Returns false if there is no such place.
fn search_on(
    table: &Table,
    disk: &mut Disk,
    id: PartitionId,
    part: Part,
    mut search: TimestampSearch,
    out: &mut Effects,
) -> bool {
    let Some(partition) = table.get(id) else { return false };
    let token = disk.token();
    let (files, ops) = (&mut disk.files, &mut out.ops);
    let reads = partition.log.search_read(&mut search, token, files, ops);
    if reads {
        disk.begin(token, Job::Read(ReadJob::Lookup(part, search)), &out.ops);
    }
    reads
}
