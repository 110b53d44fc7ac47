//! Computes the state that Kafka's group coordinator would have after loading `__consumer_offsets`:
//! the newest record of each key. An offset in a transaction counts only if the transaction was
//! committed.

use super::kafka_dirs::KafkaDirs;
use super::kafka_partition::KafkaPartition;
use crate::damage::Damage;
use crate::decompress;
use crate::segment_file::Located;
use muster_codec::record_batch::{Batch, Record};
use muster_codec::records::GroupRecord;
use muster_server::Failure;
use muster_server::cluster::OFFSETS_TOPIC;
use muster_server::placement::Placement;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// The control record types of transaction markers (`ControlRecordType`).
const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// Counts of the imported groups and records, and of what is left out.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: usize,
    records: usize,
    /// The number of records whose type muster does not know.
    unknown: u64,
    /// The number of offsets in transactions without a marker.
    open: usize,
}

/// The newest record of a key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Live {
    pub(super) value: Vec<u8>,
    /// The record's offset in Kafka's partition.
    offset: i64,
    pub(super) timestamp: i64,
}

impl Groups {
    /// Calls `take` once for each partition, with the newest record of each key. The records are in
    /// the order of their offsets.
    ///
    /// # Errors
    /// The logs are damaged, Kafka has to recover them first, the file system fails, a group
    /// belongs to another partition, or `take` fails.
    pub(super) fn read(
        kafka: &KafkaDirs,
        placement: Placement,
        mut take: impl FnMut(u32, &[(Vec<u8>, Live)]) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mut all = Self::default();
        for (index, replicas) in kafka.of_topic(OFFSETS_TOPIC) {
            let mut load = Load::new(index as u32, placement);
            let partition = KafkaPartition::longest(replicas, kafka.may_be_torn)?;
            partition.each(|path, located| load.batch(path, located))?;
            all.unknown += load.unknown;
            all.open += load.pending.values().map(BTreeMap::len).sum::<usize>();
            let mut live: Vec<_> = load.live.into_iter().collect();
            live.sort_unstable_by_key(|(_, live)| live.offset);
            all.records += live.len();
            let groups: BTreeSet<_> = live.iter().filter_map(|(key, _)| group_id(key)).collect();
            all.groups += groups.len();
            take(index as u32, &live)?;
        }
        Ok(all)
    }

    /// Notes about skipped records.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let unknown = (self.unknown > 0)
            .then(|| format!("{} records of unknown types are left out", self.unknown));
        let open = (self.open > 0).then(|| {
            format!("{} offsets of transactions that never ended are left out", self.open)
        });
        unknown.into_iter().chain(open)
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} groups in {} records", self.groups, self.records)
    }
}

/// The group id in a record's key.
pub(super) fn group_id(key: &[u8]) -> Option<String> {
    let record = GroupRecord::read(key, None).ok().flatten()?;
    Some(record.group_id().to_owned())
}

/// The state of a partition while it is being read.
struct Load {
    partition: u32,
    placement: Placement,
    live: BTreeMap<Vec<u8>, Live>,
    /// The offsets of open transactions, by producer id.
    pending: BTreeMap<i64, BTreeMap<Vec<u8>, Live>>,
    unknown: u64,
    buffer: Vec<u8>,
}

impl Load {
    fn new(partition: u32, placement: Placement) -> Self {
        Self {
            partition,
            placement,
            live: BTreeMap::new(),
            pending: BTreeMap::new(),
            unknown: 0,
            buffer: Vec::new(),
        }
    }

    fn batch(&mut self, path: &Path, located: &Located<'_>) -> Result<(), Failure> {
        let Located { at, batch } = located;
        let mut buffer = std::mem::take(&mut self.buffer);
        let replayed = self.records(batch, &mut buffer);
        self.buffer = buffer;
        replayed.map_err(|what| Damage::new(path, *at, what).into())
    }

    fn records(&mut self, batch: &Batch<'_>, buffer: &mut Vec<u8>) -> Result<(), String> {
        for record in decompress::records(batch, buffer)? {
            let record = record.map_err(|error| error.to_string())?;
            let offset = batch.offset(&record);
            self.record(batch, &record).map_err(|what| format!("offset {offset}: {what}"))?;
        }
        Ok(())
    }

    fn record(&mut self, batch: &Batch<'_>, record: &Record<'_>) -> Result<(), String> {
        let key = record.key.ok_or("a record without a key")?;
        if batch.header.is_control() {
            self.ended(batch.header.producer_id, control_type(key)?);
            return Ok(());
        }
        let read = GroupRecord::read(key, record.value).map_err(|error| error.to_string())?;
        let Some(read) = read else {
            self.unknown += 1;
            return Ok(());
        };
        self.belongs_here(read.group_id())?;
        let producer = batch.header.is_transactional().then_some(batch.header.producer_id);
        let (offset, timestamp) = (batch.offset(record), batch.timestamp(record));
        self.replay(read, producer, offset, timestamp);
        Ok(())
    }

    fn belongs_here(&self, group: &str) -> Result<(), String> {
        let (partition, here) = (self.placement.group_slot(group).0, self.partition);
        if partition == here {
            return Ok(());
        }
        let count = self.placement.offsets_partitions;
        Err(format!(
            "group {group:?} is in partition {here}, but belongs to {partition} of {count}: give \
             Kafka's number of partitions with --offsets-partitions"
        ))
    }

    /// Applies a record, like `OffsetMetadataManager.replay` and `GroupMetadataManager.replay`.
    fn replay(
        &mut self,
        mut record: GroupRecord<'_>,
        producer: Option<i64>,
        offset: i64,
        timestamp: i64,
    ) {
        if let GroupRecord::OffsetCommit(_, Some(value)) = &mut record {
            // In muster, all records have the leader epoch 0, whatever they had in Kafka.
            value.leader_epoch = value.leader_epoch.min(0);
        }
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.write_key(&mut key);
        if !record.write_value(&mut value) {
            self.live.remove(&key);
            self.pending.values_mut().for_each(|offsets| drop(offsets.remove(&key)));
            return;
        }
        let live = Live { value, offset, timestamp };
        let target = match producer {
            Some(producer) => self.pending.entry(producer).or_default(),
            None => &mut self.live,
        };
        target.insert(key, live);
    }

    /// Ends a transaction, like `OffsetMetadataManager.replayEndTransactionMarker`. If it commits,
    /// its records replace the records of the same keys, except those with a higher offset.
    fn ended(&mut self, producer: i64, marker: i16) {
        if !is_marker(marker) {
            return;
        }
        let offsets = self.pending.remove(&producer).unwrap_or_default();
        for (key, live) in offsets.into_iter().filter(|_| marker == COMMIT) {
            if self.live.get(&key).is_none_or(|before| before.offset < live.offset) {
                self.live.insert(key, live);
            }
        }
    }
}

/// The type of a control record. It follows the version.
pub(super) fn control_type(key: &[u8]) -> Result<i16, String> {
    let bytes = key.get(2..4).and_then(<[u8]>::first_chunk);
    bytes.map(|bytes| i16::from_be_bytes(*bytes)).ok_or("a control record without a type".into())
}

/// Whether a control record of this type is a transaction marker.
pub(super) fn is_marker(control_type: i16) -> bool {
    matches!(control_type, ABORT | COMMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::records::{OffsetCommitKey, OffsetCommitValue};

    /// An event in a partition's log. Each takes the next offset.
    enum Event {
        Commit(&'static str, i64),
        Pending(&'static str, i64, i64),
        Tombstone(&'static str),
        End(i64, i16),
    }
    use Event::{Commit, End, Pending, Tombstone};

    fn record(topic: &'static str, offset: Option<i64>) -> GroupRecord<'static> {
        let key = OffsetCommitKey { group: "g".into(), topic: topic.into(), partition: 0 };
        let value = |offset| OffsetCommitValue { offset, leader_epoch: 7, ..Default::default() };
        GroupRecord::OffsetCommit(key, offset.map(value))
    }

    /// The loaded offsets: topic, offset, leader epoch.
    fn loaded(events: &[Event]) -> Vec<(String, i64, i32)> {
        let mut load = Load::new(0, Placement::of_equal(1, 1));
        for (at, event) in (0..).zip(events) {
            match *event {
                Commit(topic, offset) => load.replay(record(topic, Some(offset)), None, at, 0),
                Pending(topic, producer, offset) => {
                    load.replay(record(topic, Some(offset)), Some(producer), at, 0);
                }
                Tombstone(topic) => load.replay(record(topic, None), None, at, 0),
                End(producer, marker) => load.ended(producer, marker),
            }
        }
        let read = |(key, live): (&Vec<u8>, &Live)| match GroupRecord::read(key, Some(&live.value))
        {
            Ok(Some(GroupRecord::OffsetCommit(key, Some(value)))) => {
                (key.topic.to_string(), value.offset, value.leader_epoch)
            }
            other => panic!("{other:?}"),
        };
        load.live.iter().map(read).collect()
    }

    #[test]
    fn the_newest_commit_of_each_key_is_kept_without_kafkas_epochs() {
        let events = [Commit("a", 1), Commit("b", 2), Commit("a", 3), Tombstone("b")];
        assert_eq!(loaded(&events), [("a".to_owned(), 3, 0)]);
    }

    #[test]
    fn offsets_of_a_transaction_count_once_it_is_committed() {
        let a = |offset| vec![("a".to_owned(), offset, 0)];
        assert_eq!(loaded(&[Pending("a", 1, 5)]), []);
        assert_eq!(loaded(&[Pending("a", 1, 5), End(2, COMMIT)]), []);
        assert_eq!(loaded(&[Pending("a", 1, 5), End(1, ABORT), End(1, COMMIT)]), []);
        assert_eq!(loaded(&[Pending("a", 1, 5), End(1, COMMIT)]), a(5));
        assert_eq!(loaded(&[Commit("a", 4), Pending("a", 1, 5), End(1, COMMIT)]), a(5));
        assert_eq!(loaded(&[Pending("a", 1, 5), End(1, 2), End(1, COMMIT)]), a(5));
    }

    #[test]
    fn a_commit_after_an_offset_of_a_transaction_wins() {
        let events = [Pending("a", 1, 5), Commit("a", 6), End(1, COMMIT)];
        assert_eq!(loaded(&events), [("a".to_owned(), 6, 0)]);
        assert_eq!(loaded(&[Pending("a", 1, 5), Tombstone("a"), End(1, COMMIT)]), []);
    }
}
