//! The share partitions of a shard for an operator: the start offset of each, and its lag.

use super::SlotStates;
use crate::inquiry::{ShareStart, SharesPlace};
use crate::partitions::PartitionId;
use crate::placement::Slot;
use muster_shares::{SharePartitionKey, State, States};
use std::sync::Arc;

/// The end of a partition; None if the partition is not served here.
type EndOf<'e> = dyn Fn(PartitionId) -> Option<i64> + 'e;

impl SlotStates {
    /// Returns about `count` share partitions from a place on, and the place at which to continue.
    /// If the answer has a group in a slot, it has all of the group's share partitions there.
    pub(crate) fn starts(
        &self,
        from: Option<SharesPlace>,
        count: usize,
        end: &EndOf<'_>,
    ) -> (Vec<ShareStart>, Option<SharesPlace>) {
        let (first, mut after) = from.unwrap_or_default();
        let mut rows: Vec<ShareStart> = Vec::new();
        for (slot, states) in self.from(first) {
            let after = after.take();
            let mut last = after.clone();
            for group in states.groups_after(after.as_deref()) {
                if rows.len() >= count {
                    return (rows, Some((slot, last)));
                }
                rows.extend(of_group(states, group, end));
                last = rows.last().map(|row| Arc::clone(&row.group));
            }
        }
        (rows, None)
    }

    /// The first share partitions of a group.
    pub(crate) fn starts_of(&self, group: &str, count: usize, end: &EndOf<'_>) -> Vec<ShareStart> {
        let all = self.from(Slot(0)).flat_map(|(_, states)| of_group(states, group, end));
        all.take(count).collect()
    }
}

fn of_group<'s>(
    states: &'s States,
    group: &'s str,
    end: &'s EndOf<'_>,
) -> impl Iterator<Item = ShareStart> {
    states.of_group(group).map(move |(key, state)| row(key, state, end))
}

fn row(key: &SharePartitionKey, state: &State, end: &EndOf<'_>) -> ShareStart {
    let partition = PartitionId { topic: key.topic_id, index: key.partition };
    let end = end(partition);
    let start = Some(state.start_offset).filter(|start| *start >= 0);
    let done = Some(state.delivery_complete_count).filter(|done| *done >= 0);
    let lag = |(end, (start, done)): (i64, (i64, i32))| {
        let left = end.saturating_sub(start).saturating_sub(done.into());
        left.max(0).unsigned_abs()
    };
    let lag = end.zip(start.zip(done)).map(lag);
    ShareStart { group: Arc::clone(&key.group_id), partition, start, end, lag }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::placement::Placement;
    use muster_codec::Uuid;
    use muster_codec::records::{ShareRecord, ShareSnapshotValue, ShareValue};

    const TOPIC: Uuid = Uuid([7; 16]);

    fn states(rows: &[(u32, &str, i32, i64, i32)]) -> SlotStates {
        let mut states = SlotStates::new(&Config::default(), Placement::of_equal(1, 4), 0);
        for (slot, group, partition, start_offset, delivery_complete_count) in rows {
            let key = SharePartitionKey::new(*group, TOPIC, *partition).to_record();
            let value = ShareSnapshotValue {
                start_offset: *start_offset,
                delivery_complete_count: *delivery_complete_count,
                ..Default::default()
            };
            let record = ShareRecord { key, value: ShareValue::Snapshot(value) };
            states.apply(Slot(*slot), &record);
        }
        states
    }

    fn end(partition: PartitionId) -> Option<i64> {
        (partition.index != 9).then_some(10)
    }

    #[test]
    fn pages_have_each_share_partition_once() {
        let rows = [
            (0, "a", 0, 0, 0),
            (0, "a", 4, 0, 0),
            (0, "c", 0, 0, 0),
            (2, "a", 2, 0, 0),
            (2, "b", 2, 0, 0),
            (3, "c", 3, 0, 0),
        ];
        let states = states(&rows);
        let (all, None) = states.starts(None, usize::MAX, &end) else { panic!() };
        let found: Vec<_> = all.iter().map(|it| (&*it.group, it.partition.index)).collect();
        assert_eq!(found, rows.map(|(_, group, partition, ..)| (group, partition)));
        for count in 1..=rows.len() {
            let (mut paged, mut place) = (Vec::new(), None);
            loop {
                let (page, next) = states.starts(place, count, &end);
                paged.extend(page);
                match next {
                    Some(_) => place = next,
                    None => break,
                }
            }
            assert_eq!(paged, all, "{count} in a page");
        }
        let of_a: Vec<_> = all.iter().filter(|it| &*it.group == "a").cloned().collect();
        assert_eq!(states.starts_of("a", 9, &end), of_a);
        assert_eq!(states.starts_of("a", 2, &end), of_a[..2]);
    }

    #[test]
    fn lag_is_the_records_from_the_start_on_that_are_not_done() {
        let rows = [(0, "g", 0, 4, 2), (0, "g", 4, 12, 0), (0, "g", 8, -1, 0), (0, "g", 9, 4, 0)];
        let lags = |rows: &[_]| -> Vec<_> {
            states(rows).starts_of("g", 9, &end).into_iter().map(|it| (it.start, it.lag)).collect()
        };
        let expected = [(Some(4), Some(4)), (Some(12), Some(0)), (None, None), (Some(4), None)];
        assert_eq!(lags(&rows), expected);
        assert_eq!(lags(&[(0, "g", 0, 4, -1)]), [(Some(4), None)], "their number is not known");
    }
}
