//! Writes and syncs that found no file: the file's name, and with it the content, was lost while
//! the file was closed. Records that were appended there are not acknowledged, and nothing more is
//! written to the partition before the next start, which decides what is left. Reads of the other
//! segments continue.

use super::Effects;
use super::batch::Refusal;
use super::happened::{Lost, Waiter};
use super::looks::LostFile;
use super::partition_id::PartitionId;
use super::partition_set::Partitions;
use super::produce::PendingProduce;
use super::produce_answers::{failed, place_of};
use muster_codec::{ErrorCode, Response};
use muster_storage::FileKey;
use tracing::error;

impl Partitions {
    /// Handles a write or a sync of a partition that found no file.
    pub(super) fn lost(&mut self, lost: Lost, out: &mut Effects) {
        let Lost { id, segment, reason, is_first, waiting } = lost;
        let file = LostFile { what: reason.clone(), lacks_writes: true };
        let is_new = self.note_lost((id, segment), file);
        if is_first || is_new {
            let consequence = "Produces are refused until the next start, which needs the file";
            error!(target: "damage", "{}: {reason}. {consequence}", self.table.name_of(id));
        }
        let topic = self.table.image().topic_by_id(id.topic).map(|topic| topic.name.clone());
        let topic = topic.unwrap_or_default();
        for waiter in waiting {
            match waiter {
                Waiter::Produce(number) => self.produce_lost(number, (id, &topic), out),
                Waiter::Round(number) => self.round_lost(number, out),
            }
        }
    }

    /// Ends the wait of a produce whose batches are lost in a partition.
    fn produce_lost(&mut self, produce: u64, (id, topic): (PartitionId, &str), out: &mut Effects) {
        self.produces.get_mut(&produce).into_iter().for_each(|pending| pending.lost(id, topic));
        self.part_ended(produce, out);
    }

    /// Called when a file could not be sent to a client. The next fetch reads the file, and gets
    /// the error.
    pub(crate) fn not_sent(&mut self, file: FileKey) {
        self.table.forget_places_in(file);
    }
}

impl PendingProduce {
    /// Answers that the batches for a partition are lost.
    fn lost(&mut self, id: PartitionId, topic: &str) {
        let error = ErrorCode::KafkaStorageError;
        self.error = self.error.or(Some(error));
        if let Response::Produce(response) = &mut self.response {
            let place = place_of(response, (id.topic, id.index), topic);
            place.into_iter().for_each(|it| *it = failed(id.index, Refusal::of(error)));
        } else if let Response::WriteTxnMarkers(response) = &mut self.response {
            let topics = response.markers.iter_mut().flat_map(|marker| &mut marker.topics);
            let partitions =
                topics.filter(|it| *it.name == *topic).flat_map(|it| &mut it.partitions);
            let marked = partitions.filter(|it| it.partition_index == id.index);
            marked.for_each(|it| it.error_code = error.code());
        }
    }
}
