//! Share state of records that were lost. After a power loss, the end of a log may be missing:
//! records that were written but not synced. They may have been delivered and acknowledged. New
//! records then get the same offsets. (Kafka relies on replicas and keeps the share state. So it
//! would skip the new records.)

use super::requests::record;
use super::{State, StateBatch, States};
use crate::{RecordState, TopicPartition};
use alloc::vec::Vec;
use muster_codec::Wall;
use muster_codec::records::{ShareRecord, ShareSnapshotValue, ShareValue};

impl States {
    /// Finds the share partitions whose state has records at or after the end of their log, or
    /// whose start offset is after this end. Returns a snapshot without these records for each.
    /// `end` returns None if the end of a log is not known.
    pub fn without_lost(
        &self,
        end: impl Fn(TopicPartition) -> Option<i64>,
        now: Wall,
    ) -> Vec<ShareRecord<'static>> {
        let shortened = self.states.iter().filter_map(|(key, state)| {
            let at = TopicPartition { topic_id: key.topic_id, partition: key.partition };
            let value = state.shortened(end(at)?, now)?;
            Some(record(key, ShareValue::Snapshot(value)))
        });
        shortened.collect()
    }
}

impl State {
    /// The state without records at or after `end`, and with a start offset of at most `end`. None
    /// if this changes nothing. The only other way to lower a start offset is
    /// InitializeShareGroupState.
    fn shortened(&self, end: i64, now: Wall) -> Option<ShareSnapshotValue> {
        let known_end = self.batches.last().map_or(0, |it| it.last.saturating_add(1));
        if self.start_offset.max(known_end) <= end {
            return None;
        }
        let left = self.batches.iter().filter(|it| it.first < end);
        let left: Vec<_> =
            left.map(|it| StateBatch { last: it.last.min(end - 1), ..*it }).collect();
        let start_offset = self.start_offset.min(end);
        let of_done = left.iter().filter(|it| is_done(**it) && it.last >= start_offset);
        let done: i64 = of_done.map(|it| it.last - it.first.max(start_offset) + 1).sum();
        Some(ShareSnapshotValue {
            start_offset,
            delivery_complete_count: i32::try_from(done).unwrap_or(i32::MAX),
            state_batches: left.into_iter().map(StateBatch::to_record).collect(),
            ..self.next_snapshot(now)
        })
    }
}

fn is_done(batch: StateBatch) -> bool {
    RecordState::of_record(batch.delivery_state).is_some_and(RecordState::is_terminal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharePartitionKey;
    use crate::limits::UPDATES_PER_SNAPSHOT_MAX;
    use muster_codec::Uuid;
    use muster_codec::records::ShareStateBatch;

    const NOW: Wall = Wall(77);

    fn batch(first: i64, last: i64, state: i8) -> ShareStateBatch {
        let (first_offset, last_offset) = (first, last);
        ShareStateBatch { first_offset, last_offset, delivery_state: state, delivery_count: 1 }
    }

    /// The start offset, the count and the batches after the state was shortened to `end`; None if
    /// the state does not change.
    fn shortened(end: i64) -> Option<(i64, i32, Vec<ShareStateBatch>)> {
        let key = SharePartitionKey::new("g", Uuid([1; 16]), 0);
        let value = ShareSnapshotValue {
            start_offset: 10,
            delivery_complete_count: 5,
            state_batches: alloc::vec![batch(10, 11, 0), batch(12, 14, 2), batch(17, 18, 4)],
            ..Default::default()
        };
        let mut states = States::new(UPDATES_PER_SNAPSHOT_MAX);
        states.replay(&record(&key, ShareValue::Snapshot(value)));
        let mut records = states.without_lost(|_| Some(end), NOW);
        let ShareValue::Snapshot(value) = records.pop()?.value else { panic!("no snapshot") };
        assert_eq!((value.snapshot_epoch, value.write_timestamp), (1, NOW.0));
        Some((value.start_offset, value.delivery_complete_count, value.state_batches))
    }

    #[test]
    fn what_lies_after_the_end_of_the_log_is_forgotten() {
        assert_eq!(shortened(19), None);
        let left = alloc::vec![batch(10, 11, 0), batch(12, 13, 2)];
        assert_eq!(shortened(14), Some((10, 2, left)));
        assert_eq!(shortened(10), Some((10, 0, Vec::new())));
        assert_eq!(shortened(4), Some((4, 0, Vec::new())), "new records begin there");
    }
}
