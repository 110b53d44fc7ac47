//! Offsets by time: the log says where to read, and whether to read on.

use super::io::{Job, Part};
use super::partition_set::PartitionId;
use super::{Effects, Partitions};
use muster_codec::ErrorCode;
use muster_codec::messages::{ListOffsetsPartitionResponse, ListOffsetsResponse};
use muster_coordinator::RequestId;
use muster_storage::{TimestampFound, TimestampRead};

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
}

impl Lookup {
    pub(super) fn new(request: RequestId) -> Self {
        let response = ListOffsetsResponse::default();
        Self { request, response, wants: Vec::new(), running: 0 }
    }

    pub(super) fn want(&mut self, id: PartitionId, target: Target, topic: usize, partition: usize) {
        self.wants.push(LookupWant { id, target, topic, partition });
    }

    fn answer(&mut self, want: usize) -> &mut ListOffsetsPartitionResponse {
        let LookupWant { topic, partition, .. } = self.wants[want];
        &mut self.response.topics[topic].partitions[partition]
    }
}

impl Partitions {
    pub(super) fn start_lookup(&mut self, mut lookup: Lookup, out: &mut Effects) {
        let request = self.fetches.next_id();
        for want in 0..lookup.wants.len() {
            let running = self.read_for(&lookup, Part { request, want }, 0, out);
            lookup.running += usize::from(running);
        }
        self.go_on(request, lookup, out);
    }

    fn go_on(&mut self, id: u64, lookup: Lookup, out: &mut Effects) {
        if lookup.running == 0 {
            out.send(lookup.request, lookup.response);
        } else {
            self.lookups.insert(id, lookup);
        }
    }

    /// Reads where the record may be, from an offset on; false if there is none.
    fn read_for(&mut self, lookup: &Lookup, part: Part, from: i64, out: &mut Effects) -> bool {
        let LookupWant { id, target, .. } = lookup.wants[part.want];
        let Some(partition) = self.partitions.get_mut(&id) else { return false };
        let time = match target {
            Target::AtOrAfter(time) => Some(time),
            Target::Newest => partition.log.max_timestamp(),
        };
        let token = self.io.token();
        let (files, ops) = (&mut self.io.files, &mut out.ops);
        let plan =
            time.and_then(|time| partition.log.timestamp_plan(time, from, token, files, ops));
        let Some(plan) = plan else { return false };
        self.io.begin(token, Job::Lookup(part, plan), &out.ops);
        true
    }

    /// A read of a look-up is done, or failed.
    pub(super) fn lookup_read(
        &mut self,
        part: Part,
        plan: &TimestampRead,
        data: Option<&[u8]>,
        out: &mut Effects,
    ) {
        let Some(mut lookup) = self.lookups.remove(&part.request) else { return };
        let answer = lookup.answer(part.want);
        let running = match data.and_then(|data| plan.find(data).ok()) {
            Some(TimestampFound::Record { offset, timestamp }) => {
                (answer.offset, answer.timestamp, answer.leader_epoch) = (offset, timestamp, 0);
                false
            }
            Some(TimestampFound::ReadOn { from_offset }) => {
                self.read_for(&lookup, part, from_offset, out)
            }
            None => {
                answer.error_code = ErrorCode::KafkaStorageError.code();
                false
            }
        };
        lookup.running -= usize::from(!running);
        self.go_on(part.request, lookup, out);
    }
}
