//! WriteTxnMarkers, with which an administrator ends transactions. It appends a marker to each
//! partition that it names. Like a produce, it is answered when all markers are written.

use super::disk::Disk;
use super::effects::{Call, Effects};
use super::happened::Waiter;
use super::limits::MARKERS_OF_A_REQUEST_MAX;
use super::produces::{PendingProduce, Produces};
use super::table::{NewMarker, Table};
use crate::topics::InternalTopic;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    DescribedProducer, WritableTxnMarker, WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult, WritableTxnMarkerTopic, WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use muster_codec::record_batch::TransactionOutcome;
use muster_transactions::message::Producer;
use muster_transactions::partition::End;

/// Transactions with offsets of groups. They are in partitions of `__consumer_offsets` that this
/// shard leads.
pub trait OffsetTransactions {
    /// Ends a transaction. The implementation must see to it that
    /// [`Partitions::offsets_marked`](super::Partitions::offsets_marked) is called with the
    /// request's `number` when the marker is durable.
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
    /// The number of partitions whose writes the answer waits for.
    writes: usize,
    /// The number of further markers that the request may write.
    left: usize,
}

impl Produces {
    /// WriteTxnMarkers v1 and v2.
    pub(super) fn write_txn_markers(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        call: Call<'_>,
        body: &WriteTxnMarkersRequest<'_>,
        offsets: &mut dyn OffsetTransactions,
        out: &mut Effects,
    ) {
        let (number, left) = (self.next(), MARKERS_OF_A_REQUEST_MAX);
        let mut round = AppendingMarkers { call, offsets, number, writes: 0, left };
        let mut markers = Vec::with_capacity(body.markers.len());
        for marker in &body.markers {
            let of_topic = |topic| round.mark_topic(table, disk, marker, topic, out);
            let topics = marker.topics.iter().map(of_topic).collect();
            markers.push(WritableTxnMarkerResult { producer_id: marker.producer_id, topics });
        }
        let response = WriteTxnMarkersResponse { markers };
        let pending = PendingProduce::of(call.request, response, round.writes);
        self.end_or_await(number, pending, out);
    }
}

impl AppendingMarkers<'_> {
    fn mark_topic(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        marker: &WritableTxnMarker<'_>,
        topic: &WritableTxnMarkerTopic<'_>,
        out: &mut Effects,
    ) -> WritableTxnMarkerTopicResult<'static> {
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for partition_index in topic.partition_indexes.iter().copied() {
            let marked = self.mark_named(table, disk, marker, &topic.name, partition_index, out);
            let error_code = marked.err().unwrap_or(ErrorCode::None).code();
            partitions.push(WritableTxnMarkerPartitionResult { partition_index, error_code });
        }
        let name = topic.name.clone().into_owned().into();
        WritableTxnMarkerTopicResult { name, partitions }
    }

    fn mark_named(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        marker: &WritableTxnMarker<'_>,
        topic: &str,
        index: i32,
        out: &mut Effects,
    ) -> Result<(), ErrorCode> {
        self.left = self.left.checked_sub(1).ok_or(ErrorCode::InvalidRequest)?;
        let id = table.locate_named(self.call.image, topic, index)?;
        let end = end_of(marker);
        if InternalTopic::of_id(id.topic) == Some(InternalTopic::ConsumerOffsets) {
            self.offsets.mark(self.call.now, id.index, &end, self.number)?;
            self.writes += 1;
            return Ok(());
        }
        let marker = NewMarker { wall: self.call.wall, end, stamp: None };
        let waits = table.mark(id, &marker, Waiter::Produce(self.number), disk, out)?;
        self.writes += usize::from(waits);
        Ok(())
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
