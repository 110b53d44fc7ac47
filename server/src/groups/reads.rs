//! Reads of internal topics. Clients fetch internal topics like any other topic, but the records
//! are in the shard's log, so the partitions request them here.

use super::offset_producers::OffsetProducers;
use super::slots::Slots;
use crate::partitions::{LogBatches, LogRead};
use crate::placement::Slot;
use crate::topics::InternalTopic;
use muster_codec::messages::AbortedTransaction;
use muster_codec::record_batch;
use muster_storage::{FileDone, FileOp, FileToken, ReadPlan, ShardLog};
use std::collections::{BTreeSet, HashMap};

/// The batches of a read, or the reason why the read failed.
pub(crate) type Batches = Result<LogBatches, String>;

/// Reads of the log under way.
#[derive(Debug, Default)]
pub(super) struct LogReads {
    plans: HashMap<FileToken, (ReadPlan, LogRead)>,
}

impl LogReads {
    /// Plans a read of the log; false if there is nothing to read.
    pub(super) fn begin(
        &mut self,
        log: &mut ShardLog,
        read: LogRead,
        ops: &mut Vec<FileOp>,
    ) -> bool {
        let LogRead { token, partition, offset, max_bytes, .. } = read;
        let plan = log.read_plan(partition, offset, max_bytes, token, ops);
        plan.map(|plan| self.plans.insert(token, (plan, read))).is_some()
    }

    /// The result of a read.
    ///
    /// # Errors
    /// The completion belongs to no read of the log. It is returned.
    pub(super) fn take(
        &mut self,
        (slots, log): (&Slots, &mut ShardLog),
        done: FileDone,
    ) -> Result<(FileToken, Batches), FileDone> {
        let token = done.token();
        let is_read = matches!(done, FileDone::Read { .. } | FileDone::ReadFailed { .. });
        let plan = if is_read { self.plans.remove(&token) } else { None };
        let Some((plan, read)) = plan else { return Err(done) };
        let is_as_planned = log.end_read(&plan);
        let batches = match done {
            FileDone::Read { .. } if !is_as_planned => {
                Err("a compacted segment was gone when it was to be read".to_owned())
            }
            FileDone::Read { data, .. } => {
                let mut batches = Vec::new();
                let extracted = plan.extract(&data, &mut batches);
                let producers = slots.producers(Slot(read.partition.index));
                let batches = extracted.map(|()| as_asked(batches, read, producers));
                batches.map_err(|error| error.to_string())
            }
            FileDone::ReadFailed { reason, .. } => Err(reason),
            FileDone::Written { .. }
            | FileDone::Synced { .. }
            | FileDone::Looked { .. }
            | FileDone::NoSpace { .. }
            | FileDone::Renamed { .. }
            | FileDone::Lost { .. } => {
                unreachable!("the log is only read here")
            }
        };
        Ok((token, batches))
    }
}

/// The batches. For a read of committed records, the batches up to the last stable offset, with the
/// aborted transactions that they belong to. No other aborted transactions are named: compaction
/// may have dropped their markers, and a client skips a producer's records until it sees the
/// marker.
fn as_asked(mut bytes: Vec<u8>, read: LogRead, producers: Option<&OffsetProducers>) -> LogBatches {
    let topic = InternalTopic::of(read.partition);
    let Some(stable) = read.stable.filter(|_| topic == InternalTopic::ConsumerOffsets) else {
        return LogBatches { bytes, aborted: Vec::new() };
    };
    let (mut aborted, mut end) = (BTreeSet::new(), 0);
    let mut batches = record_batch::Batches::new(&bytes);
    while let Some(Ok(batch)) = batches.next()
        && batch.header.base_offset < stable
    {
        end = batches.consumed();
        let header = &batch.header;
        if header.is_transactional() && !header.is_control() {
            let of_batch =
                |it: &OffsetProducers| it.aborted(header.producer_id, header.base_offset);
            aborted.extend(producers.and_then(of_batch));
        }
    }
    bytes.truncate(end);
    let named = |(first_offset, producer_id)| AbortedTransaction { producer_id, first_offset };
    LogBatches { bytes, aborted: aborted.into_iter().map(named).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::record_batch::{BatchBuilder, EndTxnMarker, TransactionOutcome};
    use muster_transactions::message::{Producer, Stamp};
    use muster_transactions::partition::End;

    const SLOT: Slot = Slot(3);

    fn batch(base_offset: i64, producer: Option<Producer>) -> Vec<u8> {
        let mut builder = BatchBuilder::default();
        builder.append(0, &(&b"key"[..], Some(&b"value"[..])));
        match producer {
            Some(producer) => builder.seal_in_transaction(base_offset, -1, producer),
            None => builder.seal(base_offset, -1),
        }
        .to_vec()
    }

    fn read(stable: Option<i64>) -> LogRead {
        let (token, partition) = (FileToken(1), SLOT.log_partition());
        LogRead { token, partition, offset: 0, max_bytes: 1_000, stable }
    }

    #[test]
    fn committed_records_end_at_the_last_stable_offset_and_name_what_was_aborted() {
        let [aborted, open, dropped] = [7, 8, 9].map(|id| Producer { id, epoch: 0 });
        let outcome = TransactionOutcome::Abort;
        let mut producers = OffsetProducers::new(1);
        for (at, producer) in [(0, dropped), (1, aborted), (4, open)] {
            producers.appended(0, producer, at, Stamp::default());
        }
        for (at, producer) in [(2, aborted), (3, dropped)] {
            let end = End { producer, outcome, version: 0, coordinator_epoch: 0 };
            producers.marked(0, &end, at, None);
        }
        assert_eq!(producers.flushed(2), 0, "no marker can be read");
        assert_eq!(producers.flushed(3), 0, "one marker can be read");
        assert_eq!(producers.flushed(6), 4);
        let marker = EndTxnMarker { outcome, coordinator_epoch: 0 };
        let marker = marker.batch(aborted.id, aborted.epoch, 0);
        let stable = [batch(1, Some(aborted)), marker.to_vec()].concat();
        let all = [stable.clone(), batch(4, Some(open)), batch(5, None)].concat();
        let committed = as_asked(all.clone(), read(Some(4)), Some(&producers));
        assert_eq!(committed.bytes, stable);
        let named = committed.aborted.iter().map(|it| (it.producer_id, it.first_offset));
        assert_eq!(named.collect::<Vec<_>>(), [(7, 1)], "not those of which nothing is left");
        let any = as_asked(all.clone(), read(None), Some(&producers));
        assert_eq!((any.bytes, any.aborted.len()), (all, 0));
    }
}
