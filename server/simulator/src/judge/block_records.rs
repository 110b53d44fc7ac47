//! The records of a block, sorted by the kind of state that they belong to.

use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, BatchHeader, EndTxnMarker, TransactionOutcome};
use muster_codec::records::{ClusterRecord, GroupRecord, ShareRecord, TransactionRecord};
use muster_coordinator::Producer;
use muster_server::placement::Slot;
use muster_server::topics::{InternalTopic, RULES};
use muster_storage::LogPartition;
use muster_storage::layout::Block;

/// A record of a block.
pub(super) enum Record<'a> {
    /// A record of a group, in a transaction if it has a producer.
    Group(Slot, Option<Producer>, &'a GroupRecord<'a>),
    /// The marker of a producer.
    End(Slot, Producer, TransactionOutcome),
    Id(&'a TransactionRecord<'a>),
    Share(&'a ShareRecord<'a>),
    Cluster(&'a ClusterRecord<'a>),
}

/// Passes the records of a block to `each`.
///
/// # Errors
/// A record cannot be read.
pub(super) fn each_record(
    block: &Block<'_>,
    mut each: impl FnMut(Record<'_>),
) -> Result<(), DecodeError> {
    for entry in block.entries(RULES) {
        let (partition, batch) = entry?;
        each_of_batch(partition, &batch, &mut each)?;
    }
    Ok(())
}

/// Passes the records of a batch to `each`.
///
/// # Errors
/// A record cannot be read.
pub(super) fn each_of_batch(
    partition: LogPartition,
    batch: &Batch<'_>,
    mut each: impl FnMut(Record<'_>),
) -> Result<(), DecodeError> {
    let BatchHeader { producer_id: id, producer_epoch: epoch, .. } = batch.header;
    let of_batch = Producer { id, epoch };
    let producer = batch.header.is_transactional().then_some(of_batch);
    for record in batch.records()? {
        let record = record?;
        let Some(key) = record.key else { continue };
        let slot = Slot(partition.index);
        match InternalTopic::of(partition) {
            InternalTopic::ConsumerOffsets if batch.header.is_control() => {
                let marker = EndTxnMarker::of_record(&record)?;
                let end = |outcome| Record::End(slot, of_batch, outcome);
                marker.iter().for_each(|it| each(end(it.outcome)));
            }
            InternalTopic::Cluster => {
                let record = ClusterRecord::read(key, record.value)?;
                record.iter().for_each(|record| each(Record::Cluster(record)));
            }
            InternalTopic::ConsumerOffsets => {
                let record = GroupRecord::read(key, record.value)?;
                record.iter().for_each(|it| each(Record::Group(slot, producer, it)));
            }
            InternalTopic::ShareState => {
                let record = ShareRecord::read(key, record.value)?;
                record.iter().for_each(|record| each(Record::Share(record)));
            }
            InternalTopic::TransactionState => {
                let record = TransactionRecord::read(key, record.value)?;
                record.iter().for_each(|record| each(Record::Id(record)));
            }
        }
    }
    Ok(())
}
