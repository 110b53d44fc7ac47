//! The state of a look-up of offsets by time.

use crate::partitions::effects::Effects;
use crate::partitions::jobs::Part;
use crate::partitions::partition_id::PartitionId;
use crate::partitions::reader::{Reader, RecordReadEnd};
use muster_codec::messages::{ListOffsetsPartitionResponse, ListOffsetsResponse};
use muster_coordinator::RequestId;

/// A ListOffsets request that is not answered yet, or the same search on behalf of a share
/// partition.
#[derive(Debug)]
pub(super) struct Lookup {
    pub asker: Asker,
    /// Whether records from the last stable offset on are ignored.
    pub reads_committed: bool,
    /// The response. It lacks only the results of the searches in `wants`.
    pub response: ListOffsetsResponse<'static>,
    pub wants: Vec<LookupWant>,
    /// The index of the first of `wants` whose search has not begun.
    pub next: usize,
    pub running: usize,
}

/// The recipient of a look-up's result.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asker {
    Client(RequestId),
    /// A share partition, by the number of its read.
    Share(u64),
}

/// The record that is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The first record with this timestamp or a later one, in milliseconds since the epoch.
    AtOrAfter(i64),
    /// The first record with the largest timestamp.
    Newest,
}

#[derive(Debug)]
pub(super) struct LookupWant {
    pub id: PartitionId,
    pub target: Target,
    /// The place of the answer in the response.
    topic: usize,
    partition: usize,
}

impl Lookup {
    /// The partition of a part.
    pub(super) fn wanted(&self, part: Part) -> PartitionId {
        self.wants[part.want].id
    }

    pub(super) fn new(asker: Asker, reads_committed: bool) -> Self {
        let response = ListOffsetsResponse::default();
        Self { asker, reads_committed, response, wants: Vec::new(), next: 0, running: 0 }
    }

    /// Whether the look-up is for a client of this connection.
    pub(super) fn is_of(&self, connection: u64) -> bool {
        match self.asker {
            Asker::Client(request) => request.connection == connection,
            Asker::Share(_) => false,
        }
    }

    pub(super) fn end(self, out: &mut Effects) {
        match self.asker {
            Asker::Client(request) => out.send(request, self.response),
            Asker::Share(number) => {
                let partitions = self.response.topics.iter().flat_map(|topic| &topic.partitions);
                let end = partitions.map(share_end).next().unwrap_or(RecordReadEnd::Failed);
                out.end_read(Reader::Share(number), end);
            }
        }
    }

    pub(super) fn want(&mut self, id: PartitionId, target: Target, topic: usize, partition: usize) {
        self.wants.push(LookupWant { id, target, topic, partition });
    }

    pub(super) fn answer(&mut self, want: usize) -> &mut ListOffsetsPartitionResponse {
        let LookupWant { topic, partition, .. } = self.wants[want];
        &mut self.response.topics[topic].partitions[partition]
    }
}

fn share_end(found: &ListOffsetsPartitionResponse) -> RecordReadEnd {
    if found.error_code != 0 {
        return RecordReadEnd::Failed;
    }
    RecordReadEnd::Offset(Some(found.offset).filter(|it| *it >= 0))
}
