//! Reads for share partitions. Their records are read into memory, as the bounds of all batches are
//! needed before it is known which of them are sent.

use super::io::Job;
use super::locate::Missing;
use super::lookups::{Asker, Lookup, Target};
use super::partition::Bounds;
use super::partition_set::PartitionId;
use super::{Effects, Partitions};
use crate::cluster::Topic;
use muster_codec::messages::{
    AbortedTransaction, ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use muster_storage::{BatchPlace, BatchSearch, Find, Found};

/// A read that a share partition asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareRead {
    /// Returned with the end of the read.
    pub(crate) number: u64,
    pub(crate) id: PartitionId,
    pub(crate) offset: i64,
    pub(crate) reads_committed: bool,
    pub(crate) max_bytes: u32,
    /// Whether the first batch is read in whole, even if it is longer.
    pub(crate) first_whole: bool,
}

/// How a read for a share partition ended.
#[derive(Debug)]
pub(crate) enum ShareReadEnd {
    Records {
        /// Whole batches, but for the last one.
        data: Vec<u8>,
        /// Those that overlap the batches, for readers of committed records.
        aborted: Vec<AbortedTransaction>,
    },
    /// There is nothing to read, or the partition is gone.
    Nothing,
    /// The reason is logged.
    Failed,
    /// The first offset of a time; None if no record is so late.
    Offset(Option<i64>),
}

impl Partitions {
    /// The end of a partition's log; None if this shard does not have it.
    pub(crate) fn share_end(&self, id: PartitionId) -> Option<i64> {
        self.partitions.get(&id).map(|partition| partition.bounds().high_watermark)
    }

    /// A partition that is led here, and its bounds.
    pub(crate) fn share_partition(
        &self,
        topic: &Topic,
        index: i32,
    ) -> Result<(PartitionId, Bounds), Missing> {
        let id = self.locate(topic, index)?;
        Ok((id, self.bounds(id)))
    }

    /// About how many bytes can be read from an offset on; None outside the log.
    pub(crate) fn share_bytes(
        &self,
        id: PartitionId,
        offset: i64,
        reads_committed: bool,
    ) -> Option<u64> {
        let partition = self.partitions.get(&id)?;
        partition.available(partition.behind_damage(offset), reads_committed)
    }

    /// Reports the partition in [`Effects::grown`] once it has further records, or is gone.
    pub(crate) fn await_growth(&mut self, id: PartitionId) {
        self.awaited_by_shares.insert(id);
    }

    /// Has the records of a share partition read; [`Effects::share_reads`] has the end. A damaged
    /// part is skipped like offsets that compaction has left out: Kafka's consumers reject a batch
    /// that they cannot read, so that it is not delivered again.
    pub(crate) fn read_for_share(&mut self, mut read: ShareRead, out: &mut Effects) {
        if !self.io.has_read_budget() {
            return self.waiting_share_reads.push_back(read);
        }
        let Some(partition) = self.partitions.get(&read.id) else {
            return out.share_reads.push((read.number, ShareReadEnd::Nothing));
        };
        read.offset = partition.behind_damage(read.offset);
        let token = self.io.token();
        let found = partition.log.find(read.offset, token, &mut self.io.files, &mut out.ops);
        match found {
            Some(Find::At(place)) => self.read_batches(read, place, out),
            Some(Find::Read(search)) => {
                self.io.begin(token, Job::FindForShare(read, search), &out.ops);
            }
            Some(Find::Damaged { .. }) | None => {
                out.share_reads.push((read.number, ShareReadEnd::Nothing));
            }
        }
    }

    /// Looks up the first offset of a time; [`Effects::share_reads`] has the end.
    pub(crate) fn first_offset_since(
        &mut self,
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
        self.start_lookup(lookup, out);
    }

    /// Starts reads that waited for others to end.
    pub(super) fn start_share_reads(&mut self, out: &mut Effects) {
        while self.io.has_read_budget()
            && let Some(read) = self.waiting_share_reads.pop_front()
        {
            self.read_for_share(read, out);
        }
    }

    /// Headers of batches were read for a share partition, or the read failed.
    pub(super) fn share_headers_read(
        &mut self,
        read: ShareRead,
        search: BatchSearch,
        data: Option<&[u8]>,
        out: &mut Effects,
    ) {
        match data.map(|data| search.look(data)) {
            Some(Ok(Found::Batch(place))) => self.read_batches(read, place, out),
            Some(Ok(Found::ReadOn(search))) => self.find_on_for_share(read, search, out),
            Some(Err(_)) => {
                self.suspect(read.id, search.suspect());
                out.share_reads.push((read.number, ShareReadEnd::Failed));
            }
            None => out.share_reads.push((read.number, ShareReadEnd::Failed)),
        }
    }

    fn find_on_for_share(&mut self, read: ShareRead, search: BatchSearch, out: &mut Effects) {
        let token = self.io.token();
        let partition = self.partitions.get(&read.id);
        let search = partition
            .and_then(|it| it.log.find_on(search, token, &mut self.io.files, &mut out.ops));
        match search {
            Some(search) => self.io.begin(token, Job::FindForShare(read, search), &out.ops),
            None => out.share_reads.push((read.number, ShareReadEnd::Nothing)),
        }
    }

    /// Reads batches from a place on; searches again if the place was compacted meanwhile.
    fn read_batches(&mut self, read: ShareRead, place: BatchPlace, out: &mut Effects) {
        let ShareRead { number, id, offset, reads_committed, max_bytes, first_whole } = read;
        let Some(partition) = self.partitions.get(&id) else {
            return out.share_reads.push((number, ShareReadEnd::Nothing));
        };
        if !partition.log.is_current(place) {
            return self.read_for_share(read, out);
        }
        let stable = partition.stable();
        let is_stable = !reads_committed || offset < stable.offset;
        let end = if reads_committed { stable.end } else { None };
        match partition.log.range(place, end, max_bytes, first_whole) {
            Ok(Some(range)) if is_stable => {
                let end = partition.log.end_offset_of(place, range.len);
                let aborted =
                    if reads_committed { partition.aborted(offset, end) } else { Vec::new() };
                let token = self.io.token();
                partition.log.read(&range, token, &mut self.io.files, &mut out.ops);
                self.io.begin(token, Job::ReadForShare { number, id, aborted }, &out.ops);
            }
            Ok(_) => out.share_reads.push((number, ShareReadEnd::Nothing)),
            Err(_) => out.share_reads.push((number, ShareReadEnd::Failed)),
        }
    }

    /// Batches were read, or the read failed.
    pub(super) fn share_batches_read(
        &mut self,
        number: u64,
        aborted: Vec<AbortedTransaction>,
        data: Option<Vec<u8>>,
        out: &mut Effects,
    ) {
        self.io.counters.fetched_bytes += data.as_ref().map_or(0, |data| data.len() as u64);
        let end = match data {
            Some(data) => ShareReadEnd::Records { data, aborted },
            None => ShareReadEnd::Failed,
        };
        out.share_reads.push((number, end));
    }
}
