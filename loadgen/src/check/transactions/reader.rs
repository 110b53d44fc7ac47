//! The position of a reader, and the rule `read-out-of-order`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Id;
use crate::check::found::Found;
use crate::event::{Event, EventKind, Returned};
use crate::plan::{Isolation, MemberIndex, Partition};
use crate::time::Time;

pub(super) struct Reader {
    /// The group id of the reader.
    pub(super) group: Arc<str>,
    /// When the reader had its first positions.
    pub(super) began: Time,
    pub(super) isolation: Isolation,
    positions: BTreeMap<Partition, i64>,
    /// For each producer in each partition, the last record read: its transaction, and its index in
    /// the batch.
    last: HashMap<(Partition, MemberIndex), (u64, u32)>,
    /// For each producer, the highest number of a transaction that is not judged for this reader.
    /// Lower numbers are not judged, either.
    ignored: BTreeMap<MemberIndex, u64>,
}

impl Reader {
    /// `ignored` becomes the field of this name.
    pub(super) fn new(
        group: &Arc<str>,
        began: Time,
        isolation: Isolation,
        positions: &[(Partition, i64)],
        ignored: &BTreeMap<MemberIndex, u64>,
    ) -> Self {
        Self {
            group: Arc::clone(group),
            began,
            isolation,
            positions: positions.iter().copied().collect(),
            last: HashMap::new(),
            ignored: ignored.clone(),
        }
    }

    pub(super) fn is_of_committed(&self) -> bool {
        self.isolation == Isolation::ReadCommitted
    }

    /// The reader's position in a partition, if it reads the partition.
    pub(super) fn position(&self, partition: Partition) -> Option<i64> {
        self.positions.get(&partition).copied()
    }

    /// The reader has read a partition up to this offset. Returns its previous position.
    pub(super) fn moved(&mut self, partition: Partition, to: i64) -> i64 {
        match self.positions.get_mut(&partition) {
            Some(position) => std::mem::replace(position, to.max(*position)),
            None => to,
        }
    }

    pub(super) fn ignore(&mut self, (producer, number): Id) {
        let ignored = self.ignored.entry(producer).or_default();
        *ignored = (*ignored).max(number);
    }

    /// Whether these records follow those that the reader got before.
    pub(super) fn follows(&mut self, event: &Event, record: &Returned, found: &mut Found) -> bool {
        let key = (record.partition, record.producer);
        let (first, last) = ((record.number, record.first), record.last());
        let before = self.last.get(&key).copied();
        if before.is_none_or(|before| before < first) {
            self.last.insert(key, last);
            return true;
        }
        let before = before.unwrap_or_default();
        found.add("read-out-of-order", event.at, &self.group, || {
            let what = format!(
                "reader {} was returned record {} of transaction {} of producer {} at offset {} \
                 of {}, after record {} of transaction {}",
                event.member.0,
                record.first,
                record.number,
                record.producer.0,
                record.offset,
                in_words(record.partition),
                before.1,
                before.0
            );
            (what, vec![proof(event, Some(record), record.partition)])
        });
        false
    }

    /// Judges a record of a transaction that has ended and that all readers have passed. If the
    /// transaction was committed, this reader has got the record before, and then [`Self::follows`]
    /// has reported it. So the transaction was aborted, or never asked to commit.
    pub(super) fn is_of_the_past(&self, event: &Event, record: &Returned, found: &mut Found) {
        let ignored = self.ignored.get(&record.producer).is_some_and(|it| record.number <= *it);
        if ignored || !self.is_of_committed() {
            return;
        }
        found.add("aborted-read", event.at, &self.group, || {
            let what = format!(
                "reader {} was returned a record of transaction {} of producer {} at offset {} of \
                 {}: it was aborted, or never asked to commit",
                event.member.0,
                record.number,
                record.producer.0,
                record.offset,
                in_words(record.partition)
            );
            (what, vec![proof(event, Some(record), record.partition)])
        });
    }
}

impl Returned {
    fn last(&self) -> (u64, u32) {
        (self.number, self.first.saturating_add(self.count.saturating_sub(1)))
    }
}

pub(super) fn in_words(partition: Partition) -> String {
    format!("partition {} of topic {}", partition.number, partition.topic.0)
}

/// The part of a read event that concerns one partition.
pub(super) fn proof(event: &Event, record: Option<&Returned>, partition: Partition) -> Event {
    let EventKind::Read { arrived, positions, .. } = &event.kind else { return event.clone() };
    let position = positions.iter().copied().filter(|(of, _)| *of == partition);
    let kind = EventKind::Read {
        arrived: *arrived,
        records: record.copied().into_iter().collect(),
        positions: position.collect(),
    };
    Event { kind, ..event.clone() }
}
