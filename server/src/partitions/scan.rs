//! Looks up offsets by time: reads batches from where the index points until one is new enough.

use super::io::{Job, Read};
use super::limits::SCAN_BYTES;
use super::partition_set::PartitionId;
use super::records::{self, Timed};
use super::{Effects, Partitions};
use muster_codec::ErrorCode;
use muster_codec::messages::{ListOffsetsPartitionResponse, ListOffsetsResponse};
use muster_codec::record_batch::{Batch, BatchHeader};
use muster_coordinator::RequestId;

/// A ListOffsets that was not answered yet.
#[derive(Debug)]
pub(super) struct Lookup {
    request: RequestId,
    /// Complete but for what `wants` look for.
    pub response: ListOffsetsResponse<'static>,
    wants: Vec<LookupWant>,
    running: usize,
}

/// Which record is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The first of this time or a later one, in milliseconds since the epoch.
    AtOrAfter(i64),
    /// The first of those with the largest timestamp.
    Newest,
}

#[derive(Debug)]
struct LookupWant {
    id: PartitionId,
    target: Target,
    /// Where its answer stands in the response.
    topic: usize,
    partition: usize,
    /// The scan goes on from here, and ends at the high watermark that it began with.
    offset: i64,
    end_offset: i64,
}

/// What a chunk of the log says.
enum Scanned {
    Found(Timed),
    /// Not here: go on at this offset, reading at least so many bytes.
    GoOn {
        offset: i64,
        len: u32,
    },
    Failed,
}

impl Lookup {
    pub(super) fn new(request: RequestId) -> Self {
        let response = ListOffsetsResponse::default();
        Self { request, response, wants: Vec::new(), running: 0 }
    }

    pub(super) fn want(&mut self, id: PartitionId, target: Target, topic: usize, partition: usize) {
        let (offset, end_offset) = (0, 0);
        self.wants.push(LookupWant { id, target, topic, partition, offset, end_offset });
    }

    fn answer(&mut self, want: usize) -> &mut ListOffsetsPartitionResponse {
        let LookupWant { topic, partition, .. } = self.wants[want];
        &mut self.response.topics[topic].partitions[partition]
    }
}

impl Partitions {
    pub(super) fn start_lookup(&mut self, mut lookup: Lookup, out: &mut Effects) {
        let id = self.fetches.next_id();
        for index in 0..lookup.wants.len() {
            let want = &mut lookup.wants[index];
            let Some(partition) = self.partitions.get(&want.id) else { continue };
            let Some((target, offset)) = partition.scan_start(want.target) else { continue };
            want.target = Target::AtOrAfter(target);
            want.offset = offset;
            want.end_offset = partition.high_watermark();
            lookup.running += usize::from(self.scan_on(&lookup, id, index, SCAN_BYTES, out));
        }
        if lookup.running == 0 {
            out.send(lookup.request, lookup.response);
        } else {
            self.lookups.insert(id, lookup);
        }
    }

    /// Reads on; false if there is nothing more.
    fn scan_on(
        &mut self,
        lookup: &Lookup,
        id: u64,
        index: usize,
        len: u32,
        out: &mut Effects,
    ) -> bool {
        let want = &lookup.wants[index];
        if want.offset >= want.end_offset {
            return false;
        }
        let partition = self.partitions.get(&want.id);
        let plan = partition.and_then(|partition| partition.plan(want.offset, len as usize, true));
        let Some(plan) = plan else { return false };
        self.io.read(plan, Job::Lookup(Read { fetch: id, want: index }), out);
        true
    }

    /// A read of a look-up is done, or failed.
    pub(super) fn lookup_read(&mut self, read: Read, data: Option<Vec<u8>>, out: &mut Effects) {
        let Some(mut lookup) = self.lookups.remove(&read.fetch) else { return };
        let want = &mut lookup.wants[read.want];
        let scanned = data.map_or(Scanned::Failed, |data| scan(&data, want));
        let goes_on = match scanned {
            Scanned::Found(found) => {
                let answer = lookup.answer(read.want);
                (answer.timestamp, answer.offset) = (found.timestamp, found.offset);
                answer.leader_epoch = 0;
                false
            }
            Scanned::GoOn { offset, len } => {
                want.offset = offset;
                self.scan_on(&lookup, read.fetch, read.want, len, out)
            }
            Scanned::Failed => {
                lookup.answer(read.want).error_code = ErrorCode::KafkaStorageError.code();
                false
            }
        };
        lookup.running -= usize::from(!goes_on);
        if lookup.running == 0 {
            out.send(lookup.request, lookup.response);
        } else {
            self.lookups.insert(read.fetch, lookup);
        }
    }
}

fn scan(data: &[u8], want: &LookupWant) -> Scanned {
    let Target::AtOrAfter(time) = want.target else { return Scanned::Failed };
    let mut rest = data;
    let mut offset = want.offset;
    while let Ok(header) = BatchHeader::read(rest) {
        let behind = header.next_offset() <= want.offset;
        let Ok(batch) = Batch::read(rest) else {
            let len = header.total_len();
            return match u32::try_from(data.len() - rest.len() + len) {
                Ok(len) if offset < want.end_offset => {
                    Scanned::GoOn { offset, len: len.max(SCAN_BYTES) }
                }
                _ => Scanned::Failed,
            };
        };
        if header.base_offset >= want.end_offset {
            return Scanned::GoOn { offset: want.end_offset, len: 0 };
        }
        if !behind && header.max_timestamp >= time {
            match records::first_at_or_after(&batch, time, want.offset) {
                Ok(Some(found)) => return Scanned::Found(found),
                Ok(None) => {}
                Err(_) => return Scanned::Failed,
            }
        }
        offset = offset.max(header.next_offset());
        rest = &rest[batch.bytes.len()..];
    }
    let stuck = offset == want.offset && rest.len() == data.len();
    if stuck { Scanned::Failed } else { Scanned::GoOn { offset, len: SCAN_BYTES } }
}
