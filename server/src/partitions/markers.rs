//! The ends of transactions: WriteTxnMarkers, sent by an administrator, appends a marker to each
//! partition that it names. Like a produce, it is answered when all markers are written.

use super::happened::Waiter;
use super::limits::MARKERS_OF_A_REQUEST_MAX;
use super::partition_id::PartitionId;
use super::produce::PendingProduce;
use super::{Call, Effects, Partitions};
use crate::topics::InternalTopic;
use muster_codec::messages::{
    DescribedProducer, WritableTxnMarker, WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult, WritableTxnMarkerTopic, WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use muster_codec::record_batch::{MARKER_BATCH_BYTES, TransactionOutcome};
use muster_codec::{ErrorCode, Wall};
use muster_fairness::Address;
use muster_transactions::message::{Producer, Stamp};
use muster_transactions::partition::{End, Marking};

/// Transactions with offsets of groups, by the partitions of `__consumer_offsets` that this shard
/// leads.
pub trait OffsetTransactions {
    /// Ends a transaction. When the marker is durable, the implementation must have
    /// [`Partitions::offsets_marked`] called with the number of the request.
    ///
    /// # Errors
    /// The producer or the coordinator is fenced.
    fn mark(&mut self, now: i64, partition: i32, end: &End, number: u64) -> Result<(), ErrorCode>;

    /// The producers of a partition.
    fn describe(&self, partition: i32) -> Vec<DescribedProducer>;
}

/// A WriteTxnMarkers request while its markers are appended.
struct AppendingMarkers<'r> {
    call: Call<'r>,
    offsets: &'r mut dyn OffsetTransactions,
    number: u64,
    /// The number of partitions that must be written before the answer.
    writes: usize,
    /// The number of further markers that the request may write.
    left: usize,
}

impl Partitions {
    /// WriteTxnMarkers v1 and v2.
    pub fn write_txn_markers(
        &mut self,
        call: Call<'_>,
        body: &WriteTxnMarkersRequest<'_>,
        offsets: &mut dyn OffsetTransactions,
        out: &mut Effects,
    ) {
        self.last_request += 1;
        let (number, left) = (self.last_request, MARKERS_OF_A_REQUEST_MAX);
        let mut round = AppendingMarkers { call, offsets, number, writes: 0, left };
        let mut markers = Vec::with_capacity(body.markers.len());
        for marker in &body.markers {
            let of_topic = |topic| self.mark_topic(&mut round, marker, topic, out);
            let topics = marker.topics.iter().map(of_topic).collect();
            markers.push(WritableTxnMarkerResult { producer_id: marker.producer_id, topics });
        }
        let response = WriteTxnMarkersResponse { markers };
        let pending = PendingProduce::of(call.request, response, round.writes);
        self.end_or_await(number, pending, out);
    }

    fn mark_topic(
        &mut self,
        round: &mut AppendingMarkers<'_>,
        marker: &WritableTxnMarker<'_>,
        topic: &WritableTxnMarkerTopic<'_>,
        out: &mut Effects,
    ) -> WritableTxnMarkerTopicResult<'static> {
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for partition_index in topic.partition_indexes.iter().copied() {
            let marked = self.mark_named(round, marker, (&topic.name, partition_index), out);
            let error_code = marked.err().unwrap_or(ErrorCode::None).code();
            partitions.push(WritableTxnMarkerPartitionResult { partition_index, error_code });
        }
        let name = topic.name.clone().into_owned().into();
        WritableTxnMarkerTopicResult { name, partitions }
    }

    fn mark_named(
        &mut self,
        round: &mut AppendingMarkers<'_>,
        marker: &WritableTxnMarker<'_>,
        (topic, index): (&str, i32),
        out: &mut Effects,
    ) -> Result<(), ErrorCode> {
        round.left = round.left.checked_sub(1).ok_or(ErrorCode::InvalidRequest)?;
        let id = self.table.locate_named(round.call.image, topic, index)?;
        let end = end_of(marker);
        if InternalTopic::of_id(id.topic) == Some(InternalTopic::ConsumerOffsets) {
            round.offsets.mark(round.call.now, id.index, &end, round.number)?;
            round.writes += 1;
            return Ok(());
        }
        let waits =
            self.mark(round.call.wall, id, &end, None, Waiter::Produce(round.number), out)?;
        round.writes += usize::from(waits);
        Ok(())
    }

    /// Notes that a marker of [`OffsetTransactions::mark`] is durable.
    pub(crate) fn offsets_marked(&mut self, number: u64, out: &mut Effects) {
        self.part_ended(number, out);
    }

    /// Ends a transaction in a partition. Returns whether the waiter has to wait for the write.
    /// `stamp` is None for a marker that an administrator sends.
    ///
    /// # Errors
    /// The partition does not exist, the producer or the coordinator is fenced, or the budget of
    /// unwritten bytes is used up.
    pub(super) fn mark(
        &mut self,
        wall: Wall,
        id: PartitionId,
        end: &End,
        stamp: Option<Stamp>,
        waiter: Waiter,
        out: &mut Effects,
    ) -> Result<bool, ErrorCode> {
        let has_budget =
            self.disk.fits_write_budget(Address::default(), MARKER_BATCH_BYTES).is_ok();
        let partition = self.table.get(id);
        let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        match partition.producers.transactions.may_mark(end, stamp) {
            Marking::Stale => return Ok(false),
            Marking::Refuse(error) => return Err(error),
            Marking::Write if !has_budget => return Err(ErrorCode::RequestTimedOut),
            Marking::Write => {}
        }
        let marked = self.table.mark((wall, id), end, stamp, &mut self.disk, out)?;
        Ok(self.table.await_write(id, &marked, waiter))
    }
}

fn end_of(marker: &WritableTxnMarker<'_>) -> End {
    let producer = Producer { id: marker.producer_id, epoch: marker.producer_epoch };
    let outcome = if marker.transaction_result {
        TransactionOutcome::Commit
    } else {
        TransactionOutcome::Abort
    };
    let (version, coordinator_epoch) = (marker.transaction_version, marker.coordinator_epoch);
    End { producer, outcome, version, coordinator_epoch }
}
