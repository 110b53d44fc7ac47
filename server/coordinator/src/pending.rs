//! The offsets of open transactions. They are pending until the marker of their producer commits or
//! drops them. They are not stored in the groups, because nearly all groups have none.
//!
//! If two transactions commit offsets of one partition, the later *record* wins, whichever marker
//! came first. Kafka compares the log offsets of the two records. Here the pending offsets of a
//! partition are numbered in the order of their records, and a commit supersedes all offsets up to
//! its own number. So the outcome depends only on the order of the records, which recovery,
//! snapshots and compaction keep. A committed offset need not store its place in the log.

use crate::committed::Committed;
use crate::text::Text;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use muster_codec::Str;
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::records::{GroupRecord, OffsetCommitKey};
use muster_fairness::{Address, Moves};

pub use muster_codec::record_batch::Producer;

/// An open transaction, and one group in which it has pending offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenTransaction<'p> {
    /// The producer, with the epoch of its newest pending offset.
    pub producer: Producer,
    pub group_id: &'p str,
}

/// The approximate memory of a pending offset with its map entries, without its metadata.
pub(crate) const PENDING_BYTES: usize = 256;

/// An offset of an open transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) producer: Producer,
    pub(crate) committed: Committed,
}

/// A pending offset with its place in the order of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed<P> {
    pub(crate) pending: P,
    /// Whether a later record of the partition was committed. Then this offset is dropped even if
    /// its own transaction commits.
    pub(crate) is_superseded: bool,
}

impl Pending {
    /// The offset as a record.
    pub(crate) fn to_record<'p>(
        &'p self,
        group_id: &'p str,
        topic: &'p str,
        partition: i32,
    ) -> GroupRecord<'p> {
        let (group, topic) = (Str::Borrowed(group_id), Str::Borrowed(topic));
        let key = OffsetCommitKey { group, topic, partition };
        GroupRecord::OffsetCommit(key, Some(self.committed.to_record()))
    }

    fn bytes(&self) -> usize {
        PENDING_BYTES + self.committed.metadata.len()
    }
}

/// A pending offset that a snapshot restores.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) topic: Text,
    pub(crate) partition: i32,
    pub(crate) placed: Placed<Pending>,
}

/// The pending offsets of a partition, at most one of each producer.
#[derive(Debug, Default)]
pub(crate) struct OfPartition {
    /// The pending offset of each producer id, with the number of its record.
    by_producer: BTreeMap<i64, Box<(u64, Pending)>>,
    /// The number of the newest record of the partition.
    newest: u64,
    /// All records up to this number are superseded.
    superseded: u64,
}

impl OfPartition {
    /// The number of pending offsets.
    pub(crate) fn len(&self) -> usize {
        self.by_producer.len()
    }

    /// The pending offsets, by producer.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.by_producer.values().map(|it| &it.1)
    }

    /// The pending offsets in the order of their records.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = Placed<&Pending>> {
        let mut all: Vec<_> = self.by_producer.values().map(|it| (it.0, &it.1)).collect();
        all.sort_unstable_by_key(|(record, _)| *record);
        let is_superseded = |record| record <= self.superseded;
        all.into_iter()
            .map(move |(record, pending)| Placed { pending, is_superseded: is_superseded(record) })
    }

    fn push(&mut self, added: Placed<Pending>) {
        self.newest += 1;
        if added.is_superseded {
            self.supersede();
        }
        let placed = Box::new((self.newest, added.pending));
        self.by_producer.insert(placed.1.producer.id, placed);
    }

    /// Notes that an offset was committed by a record that follows all these pending offsets.
    fn supersede(&mut self) {
        self.superseded = self.newest;
    }

    /// Removes the pending offset of a producer. If it is committed, earlier records are
    /// superseded.
    fn take(&mut self, producer_id: i64, outcome: TransactionOutcome) -> Option<Placed<Pending>> {
        let (record, pending) = *self.by_producer.remove(&producer_id)?;
        let is_superseded = record <= self.superseded;
        if outcome == TransactionOutcome::Commit {
            self.superseded = self.superseded.max(record);
        }
        Some(Placed { pending, is_superseded })
    }
}

/// The pending offsets of one group; never empty.
#[derive(Debug, Default)]
pub(crate) struct GroupPending {
    topics: BTreeMap<Text, BTreeMap<i32, OfPartition>>,
    len: usize,
}

impl GroupPending {
    /// Number of pending offsets.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn has(&self, topic: &str, partition: i32) -> bool {
        self.topics.get(topic).is_some_and(|partitions| partitions.contains_key(&partition))
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &Text> {
        self.topics.keys()
    }

    /// Each partition that has pending offsets, with these offsets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Text, i32, &OfPartition)> {
        self.topics.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(partition, all)| (topic, *partition, all))
        })
    }

    /// Each partition of a topic that has pending offsets, with these offsets.
    pub(crate) fn of_topic(&self, topic: &str) -> impl Iterator<Item = (i32, &OfPartition)> {
        let partitions = self.topics.get(topic).into_iter().flatten();
        partitions.map(|(partition, all)| (*partition, all))
    }

    fn partition(&mut self, topic: &str, partition: i32) -> Option<&mut OfPartition> {
        self.topics.get_mut(topic)?.get_mut(&partition)
    }

    fn remove_if_empty(&mut self, topic: &str, partition: i32) {
        let Some(partitions) = self.topics.get_mut(topic) else { return };
        if partitions.get(&partition).is_some_and(|all| all.len() == 0) {
            partitions.remove(&partition);
        }
        if partitions.is_empty() {
            self.topics.remove(topic);
        }
    }
}

/// The pending offsets of an open transaction, by group.
#[derive(Debug)]
struct Open {
    epoch: i16,
    /// The address against which the offsets are counted: the last that added some. Unknown after
    /// a load.
    payer: Address,
    bytes: usize,
    groups: BTreeMap<Text, BTreeSet<(Text, i32)>>,
}

/// The pending offsets of all groups of a slot.
#[derive(Debug, Default)]
pub(crate) struct PendingOffsets {
    groups: BTreeMap<Text, GroupPending>,
    producers: BTreeMap<i64, Open>,
    len: usize,
    bytes: usize,
    /// The producer whose offsets the current request adds, and the address of its client.
    adds: Option<(i64, Address)>,
    /// The bytes that each address took or released since the last report to the budget.
    pub(crate) moves: Moves,
}

impl PendingOffsets {
    /// Begins a request of a client that adds offsets of a producer.
    pub(crate) fn begin(&mut self, producer_id: i64, address: Address) {
        self.adds = Some((producer_id, address));
    }

    /// The bytes of the transaction to which the request adds, if they are so far counted against
    /// another address than the client's.
    pub(crate) fn bytes_taken_over(&self) -> usize {
        let Some((producer_id, address)) = self.adds else { return 0 };
        let open = self.producers.get(&producer_id).filter(|open| open.payer != address);
        open.map_or(0, |open| open.bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of pending offsets.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number of pending offsets, counted again over all groups. Checks compare it with
    /// [`Self::len`].
    pub(crate) fn recounted(&self) -> usize {
        let of_groups = self.groups.values().flat_map(GroupPending::iter);
        of_groups.map(|(.., of_partition)| of_partition.len()).sum()
    }

    /// The approximate memory of all pending offsets.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pending offsets of a group; None if it has none.
    pub(crate) fn of(&self, group_id: &str) -> Option<&GroupPending> {
        self.groups.get(group_id)
    }

    /// The open transactions, by producer and group.
    pub(crate) fn open(&self) -> impl Iterator<Item = OpenTransaction<'_>> {
        self.producers.iter().flat_map(|(id, open)| {
            let producer = Producer { id: *id, epoch: open.epoch };
            open.groups.keys().map(move |group_id| OpenTransaction { producer, group_id })
        })
    }

    /// The groups in which a producer has pending offsets.
    pub(crate) fn groups_of(&self, producer_id: i64) -> Vec<Text> {
        let open = self.producers.get(&producer_id);
        open.into_iter().flat_map(|open| open.groups.keys().cloned()).collect()
    }

    /// Adds a pending offset. It replaces the producer's earlier pending offset of the partition.
    pub(crate) fn add(&mut self, group_id: &str, topic: &str, partition: i32, added: Pending) {
        let added = Placed { pending: added, is_superseded: false };
        self.place(group_id, topic, partition, added);
    }

    /// Like [`Self::add`], for an offset from a snapshot. The caller adds the offsets of a
    /// partition in the order of their records.
    pub(crate) fn restore(&mut self, group_id: &str, restored: Restored) {
        let Restored { topic, partition, placed } = restored;
        self.place(group_id, &topic, partition, placed);
    }

    /// Marks all pending offsets of a partition as superseded: a later record committed an offset.
    pub(crate) fn supersede(&mut self, group_id: &str, topic: &str, partition: i32) {
        let of_partition =
            self.groups.get_mut(group_id).and_then(|group| group.partition(topic, partition));
        of_partition.into_iter().for_each(OfPartition::supersede);
    }

    /// Drops the pending offsets of a partition whose committed offset is deleted.
    pub(crate) fn remove(&mut self, group_id: &str, topic: &str, partition: i32) {
        let group = self.groups.get_mut(group_id);
        let of_partition = group.and_then(|group| group.partition(topic, partition));
        let of_partition = of_partition.into_iter().flat_map(|all| all.by_producer.keys());
        let producers: Vec<_> = of_partition.copied().collect();
        for producer_id in producers {
            self.take(group_id, topic, partition, producer_id, TransactionOutcome::Abort);
        }
    }

    /// Drops all pending offsets of a group.
    pub(crate) fn forget(&mut self, group_id: &str) {
        let of_group: Vec<_> = self.of(group_id).into_iter().flat_map(GroupPending::iter).collect();
        let partitions: Vec<_> =
            of_group.into_iter().map(|(topic, partition, _)| (topic.clone(), partition)).collect();
        for (topic, partition) in partitions {
            self.remove(group_id, &topic, partition);
        }
    }

    /// Ends a producer's transaction in a group. Returns the offsets that it commits.
    pub(crate) fn end(
        &mut self,
        group_id: &str,
        producer_id: i64,
        outcome: TransactionOutcome,
    ) -> Vec<(Text, i32, Committed)> {
        let of_group = self.producers.get(&producer_id).and_then(|open| open.groups.get(group_id));
        let partitions: Vec<_> = of_group.into_iter().flatten().cloned().collect();
        let mut committed = Vec::new();
        for (topic, partition) in partitions {
            let ended = self.take(group_id, &topic, partition, producer_id, outcome);
            let ended =
                ended.filter(|it| outcome == TransactionOutcome::Commit && !it.is_superseded);
            committed.extend(ended.map(|it| (topic, partition, it.pending.committed)));
        }
        committed
    }

    fn place(&mut self, group_id: &str, topic: &str, partition: i32, added: Placed<Pending>) {
        let Producer { id, epoch } = added.pending.producer;
        self.take(group_id, topic, partition, id, TransactionOutcome::Abort);
        let group_id = shared(&self.groups, group_id);
        let group = self.groups.entry(group_id.clone()).or_default();
        let topic = shared(&group.topics, topic);
        (group.len, self.len) = (group.len + 1, self.len + 1);
        let bytes = added.pending.bytes();
        self.bytes += bytes;
        group.topics.entry(topic.clone()).or_default().entry(partition).or_default().push(added);
        let new = || Open { epoch, payer: Address::default(), bytes: 0, groups: BTreeMap::new() };
        let open = self.producers.entry(id).or_insert_with(new);
        open.epoch = epoch;
        if let Some((_, payer)) = self.adds.filter(|(adds, _)| *adds == id)
            && payer != open.payer
        {
            self.moves.release(open.payer, open.bytes);
            self.moves.take(payer, open.bytes);
            open.payer = payer;
        }
        open.bytes += bytes;
        self.moves.take(open.payer, bytes);
        open.groups.entry(group_id).or_default().insert((topic, partition));
    }

    fn take(
        &mut self,
        group_id: &str,
        topic: &str,
        partition: i32,
        producer_id: i64,
        outcome: TransactionOutcome,
    ) -> Option<Placed<Pending>> {
        let group = self.groups.get_mut(group_id)?;
        let taken = group.partition(topic, partition)?.take(producer_id, outcome)?;
        group.remove_if_empty(topic, partition);
        group.len -= 1;
        if group.len == 0 {
            self.groups.remove(group_id);
        }
        self.len -= 1;
        let bytes = taken.pending.bytes();
        self.bytes -= bytes;
        if let Some(open) = self.producers.get_mut(&producer_id) {
            open.bytes -= bytes;
            self.moves.release(open.payer, bytes);
        }
        self.close(group_id, topic, partition, producer_id);
        Some(taken)
    }

    /// Removes a partition from a transaction.
    fn close(&mut self, group_id: &str, topic: &str, partition: i32, producer_id: i64) {
        let Some(open) = self.producers.get_mut(&producer_id) else { return };
        if let Some(of_group) = open.groups.get_mut(group_id) {
            of_group.remove(&(Text::from(topic), partition));
            if of_group.is_empty() {
                open.groups.remove(group_id);
            }
        }
        if open.groups.is_empty() {
            self.producers.remove(&producer_id);
        }
    }
}

/// The key of the map that is equal to `key`, so that equal names share memory. If there is none, a
/// new text.
fn shared<V>(map: &BTreeMap<Text, V>, key: &str) -> Text {
    map.get_key_value(key).map_or_else(|| Text::from(key), |(known, _)| known.clone())
}
