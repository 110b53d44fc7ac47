//! Counts the records that members of classic and consumer groups got: how many in all, how many a
//! second time in their group, and how long after they were written.

use std::collections::HashMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::latency::histogram;
use crate::event::{ConsumedBatch, Event, EventKind};
use crate::plan::{GroupIndex, Partition};
use crate::report::model;

#[derive(Default)]
pub(super) struct Consumed {
    counts: model::Consumed,
    /// The offset after the last record that was delivered to a member of the group.
    next: HashMap<(GroupIndex, Partition), i64>,
    /// Times of first deliveries, until they are taken.
    times: Option<Histogram<u64>>,
}

impl Consumed {
    pub(super) fn observe(&mut self, event: &Event) {
        let EventKind::Consumed { arrived, batches } = &event.kind else { return };
        for batch in batches.iter() {
            let first = self.take(event.group, batch);
            if let Some(due) = batch.due.filter(|_| first > 0) {
                let took = arrived.since(due).max(Duration::from_micros(1));
                let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                // The histogram resizes itself, so it takes any value.
                let _ = self.times.get_or_insert_with(histogram).record_n(micros, first);
            }
        }
    }

    pub(super) fn counts(&self) -> &model::Consumed {
        &self.counts
    }

    pub(super) fn take_times(&mut self) -> Option<Histogram<u64>> {
        self.times.take()
    }

    /// Counts a batch. Returns how many of its records were delivered for the first time.
    fn take(&mut self, group: GroupIndex, batch: &ConsumedBatch) -> u64 {
        let (count, after) = (batch.count(), batch.last.saturating_add(1));
        let next = self.next.entry((group, batch.partition)).or_insert(batch.first);
        let again = u64::try_from(next.saturating_sub(batch.first)).unwrap_or(0).min(count);
        *next = (*next).max(after);
        self.counts.delivered += count;
        self.counts.redelivered += again;
        count - again
    }
}
