//! Writes and syncs that do not find their file. While the file was closed, its name was lost, and
//! with it the content. Records that were appended to such a file are not acknowledged. Nothing
//! more is written to the partition before the next start, which decides what is left. Reads of the
//! other segments continue.

use super::batch::Refusal;
use super::partition_id::PartitionId;
use super::produce_answers::{failed, place_of};
use muster_codec::{ErrorCode, Response};

/// Puts the error for a partition with lost batches into an answer: to a produce, or to a request
/// with markers.
pub(super) fn put_error(
    response: &mut Response<'static>,
    id: PartitionId,
    topic: &str,
    error: ErrorCode,
) {
    if let Response::Produce(response) = response {
        let place = place_of(response, id, topic);
        place.into_iter().for_each(|it| *it = failed(id.index, Refusal::of(error)));
    } else if let Response::WriteTxnMarkers(response) = response {
        let topics = response.markers.iter_mut().flat_map(|marker| &mut marker.topics);
        let partitions = topics.filter(|it| *it.name == *topic).flat_map(|it| &mut it.partitions);
        let marked = partitions.filter(|it| it.partition_index == id.index);
        marked.for_each(|it| it.error_code = error.code());
    }
}
