//! The expected state of a shard: the state of the durable blocks in its log, read back from the
//! simulated disk. The live shard must have this state, and startup must find it.

use super::block_records::{Record, each_record};
use super::ids::compare_ids;
use super::places::Places;
use super::shares::{Shares, check_same};
use super::{Facts, Judge};
use crate::records::{RecordBytes, bytes_of};
use muster_codec::DecodeError;
use muster_codec::records::{GroupRecord, TransactionRecord};
use muster_coordinator::{Coordinator, Producer};
use muster_server::cluster::{
    BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, ClusterImage, GROUP_RESOURCE, TOPIC_RESOURCE,
};
use muster_server::config::Config;
use muster_server::placement::{CONTROLLER, Placement, Slot, TransactionsPartition};
use muster_server::shard::Inspection;
use muster_shares::States;
use muster_storage::layout::Block;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::Xxh3;

pub(super) struct Expected {
    config: muster_coordinator::Config,
    placement: Placement,
    /// The coordinators by slot.
    coordinators: BTreeMap<Slot, Coordinator>,
    /// The coordinators of transactions.
    transactions: BTreeMap<TransactionsPartition, muster_transactions::Coordinator>,
    shares: Shares,
    places: Places,
    image: ClusterImage,
    /// The position of the last applied operation.
    position: u64,
    /// The block that is being written.
    in_flight: Option<Vec<u8>>,
    /// A block that startup found, although its write was not confirmed. The next sync makes it
    /// durable.
    unsynced: Option<Vec<u8>>,
    /// The last position that the shard reported as flushed.
    flushed: u64,
}

impl Expected {
    fn new(config: &Config) -> Self {
        Self {
            config: config.coordinator(),
            placement: config.placement(1),
            coordinators: BTreeMap::new(),
            transactions: BTreeMap::new(),
            shares: Shares::default(),
            places: Places::default(),
            image: ClusterImage::new(config),
            position: 0,
            in_flight: None,
            unsynced: None,
            flushed: 0,
        }
    }

    /// The state of a shard that startup has just loaded up to this position.
    fn of((position, shard): (u64, Inspection<'_>), config: &Config) -> Self {
        let mut expected = Self::new(config);
        expected.replay_all(&shard.durable_state());
        let ids = shard.transactional_ids().unwrap_or_default();
        ids.iter().for_each(|record| expected.replay_id(record));
        expected.shares = Shares::of(shard);
        expected.places = Places::of(shard);
        expected.image = (**shard.image()).clone();
        expected.position = position;
        expected
    }

    /// Whether `flushed` has decreased. After startup a shard reports zero, which does not count.
    fn went_back(&mut self, flushed: u64) -> bool {
        if flushed != 0 && flushed < self.flushed {
            return true;
        }
        self.flushed = self.flushed.max(flushed);
        false
    }

    /// A copy, made by a replay of the records of this state.
    fn copy(&self, config: &Config) -> Self {
        let mut copy = Self::new(config);
        copy.replay_all(&self.state());
        self.ids().iter().for_each(|record| copy.replay_id(record));
        (copy.places, copy.image) = (self.places.clone(), self.image.clone());
        copy.shares = self.shares.copy();
        copy.position = self.position;
        copy
    }

    /// Applies a block if it is the next block; returns whether it is.
    fn apply(&mut self, bytes: &[u8]) -> Result<bool, DecodeError> {
        let block = Block::read(bytes)?;
        if block.header.first_position != self.position + 1 {
            return Ok(false);
        }
        each_record(&block, |record| match record {
            Record::Group(slot, producer, record) => self.replay(slot, producer, record),
            Record::End(slot, producer, outcome) => {
                self.slot(slot).replay_end_transaction(producer.id, outcome, 0);
            }
            Record::Id(record) => self.replay_id(record),
            Record::Share(record) => self.shares.replay(record),
            Record::Cluster(record) => self.image.apply(record),
        })?;
        self.places.apply(&block)?;
        self.position += u64::from(block.header.operations);
        Ok(true)
    }

    /// Compares the state that recovery found, up to the position `found`, with the expected state.
    /// If `found` is higher, the expected state includes the block that may or may not be durable.
    ///
    /// # Errors
    /// The states differ.
    fn check_found(
        &self,
        number: u32,
        (found, shard): (u64, Inspection<'_>),
        records: &[RecordBytes],
        config: &Config,
    ) -> Result<(), String> {
        if found < self.flushed {
            return Err(format!("operations up to {} were flushed", self.flushed));
        }
        let later;
        let with = if found > self.position {
            later = self.with_next_block(config)?;
            &later
        } else {
            self
        };
        if found != with.position {
            return Err(format!("the log had come to {}", with.position));
        }
        if let Some(what) = difference(&with.records(), records) {
            return Err(format!("what is recovered is not what was written: {what}"));
        }
        if let Some(ids) = shard.transactional_ids() {
            let begun = shard.ids_written_after(found).collect();
            compare_ids(with.ids(), ids, &begun)?;
        }
        with.shares.check(shard)?;
        with.places.check(found, shard)?;
        let same_image = number != CONTROLLER || is_same(&with.image, shard.image());
        if same_image { Ok(()) } else { Err("the cluster is another".to_owned()) }
    }

    /// The state with the block that is being written.
    fn with_next_block(&self, config: &Config) -> Result<Self, String> {
        let block = self.next_block().ok_or("nothing was on its way")?;
        let mut later = self.copy(config);
        later.apply(block).map_err(|error| error.to_string())?;
        Ok(later)
    }

    /// The block that may or may not be durable. There is at most one: if recovery found such a
    /// block, the shard syncs it before it begins another write.
    fn next_block(&self) -> Option<&Vec<u8>> {
        self.in_flight.as_ref().or(self.unsynced.as_ref())
    }

    /// A hash of everything that determines the expected state of a recovered shard.
    fn key(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.position.to_le_bytes());
        hash.update(&self.flushed.to_le_bytes());
        hash.update(self.next_block().map_or(&[], Vec::as_slice));
        hash.digest()
    }

    pub(super) fn share_states(&self) -> &States {
        self.shares.states()
    }

    fn records(&self) -> Vec<RecordBytes> {
        bytes_of(&self.durable_records())
    }

    /// The records of all slots, by group.
    fn durable_records(&self) -> Vec<GroupRecord<'_>> {
        let mut records: Vec<_> =
            self.coordinators.values().flat_map(Coordinator::durable_records).collect();
        records.sort_by(|one, other| one.group_id().cmp(other.group_id()));
        records
    }

    fn state(&self) -> State<'_> {
        self.coordinators.values().flat_map(Coordinator::durable_state).collect()
    }

    fn replay_all(&mut self, state: &State<'_>) {
        for (producer, record) in state {
            self.replay(self.placement.group_slot(record.group_id()), *producer, record);
        }
    }

    fn replay(&mut self, slot: Slot, producer: Option<Producer>, record: &GroupRecord<'_>) {
        match producer {
            None => self.slot(slot).replay(record, 0),
            Some(producer) => self.slot(slot).replay_in_transaction(producer, record, 0),
        }
    }

    /// The records of all transactional ids, by partition.
    fn ids(&self) -> Vec<TransactionRecord<'static>> {
        self.transactions.values().flat_map(|it| it.durable_records()).collect()
    }

    fn replay_id(&mut self, record: &TransactionRecord<'_>) {
        let partition = self.placement.transactions_partition(&record.key.transactional_id);
        let new = || muster_transactions::Coordinator::new(Default::default(), 0);
        self.transactions.entry(partition).or_insert_with(new).replay(record, 0);
    }

    fn slot(&mut self, slot: Slot) -> &mut Coordinator {
        let config = &self.config;
        self.coordinators.entry(slot).or_insert_with(|| Coordinator::new(config.clone()))
    }
}

/// The durable state of groups, with the producers of pending offsets.
type State<'s> = Vec<(Option<Producer>, GroupRecord<'s>)>;

fn learn(facts: &mut Facts, bytes: &[u8], now: u64) -> Result<(), DecodeError> {
    let block = Block::read(bytes)?;
    each_record(&block, |record| learn_record(facts, &record, now))
}

/// Notes a durable record.
pub(super) fn learn_record(facts: &mut Facts, record: &Record<'_>, now: u64) {
    match record {
        // Facts include transactional offsets. Clients with transactions check whether these
        // offsets were committed.
        Record::Group(_, _, record) => facts.group_record(record, now),
        Record::Id(record) => facts.transaction_record(record),
        // Transactors check the outcome of transactions, and [`Shares`] the share states.
        Record::End(..) | Record::Share(_) => {}
        Record::Cluster(record) => facts.cluster_record(record),
    }
}

impl Judge {
    /// A hash of the expected state of a shard.
    pub(crate) fn expected_key(&self, number: u32) -> u64 {
        self.expected.get(number as usize).map_or(0, Expected::key)
    }

    /// Keeps a block as the block in flight.
    ///
    /// # Errors
    /// The block has a marker of a transaction whose decision is not durable, or cannot be read.
    pub(crate) fn note_write(&mut self, shard: u32, block: &[u8]) -> Result<(), String> {
        self.expected[shard as usize].in_flight = Some(block.to_vec());
        let facts = &self.facts;
        let mut early = Ok(());
        let read = Block::read(block).and_then(|block| {
            each_record(&block, |record| {
                if let Record::End(_, producer, outcome) = record
                    && early.is_ok()
                {
                    early = facts.require_decision(producer, outcome);
                }
            })
        });
        read.map_err(|error| error.to_string()).and(early)
    }

    /// Applies a durable block that was read back from the disk.
    ///
    /// # Errors
    /// The block cannot be read.
    pub(crate) fn note_written(
        &mut self,
        shard: u32,
        durable: &[u8],
        now: u64,
    ) -> Result<(), DecodeError> {
        let expected = &mut self.expected[shard as usize];
        expected.in_flight = None;
        learn(&mut self.facts, durable, now)?;
        expected.apply(durable).map(|_| ())
    }

    /// Applies the block that may not have been durable when recovery found it. The shard has
    /// synced it.
    ///
    /// # Errors
    /// The block cannot be read.
    pub(crate) fn note_synced(&mut self, shard: u32, now: u64) -> Result<(), DecodeError> {
        let expected = &mut self.expected[shard as usize];
        let Some(block) = expected.unsynced.take() else { return Ok(()) };
        learn(&mut self.facts, &block, now)?;
        expected.apply(&block).map(|_| ())
    }

    /// Compares the live state of a shard with its log. To be called only while no write is in
    /// flight.
    ///
    /// # Errors
    /// The states differ.
    pub(crate) fn check_live(&self, number: u32, shard: Inspection<'_>) -> Result<(), String> {
        let expected = &self.expected[number as usize];
        let live = shard.durable_records();
        let mut log = expected.durable_records();
        let alive: BTreeSet<&str> = live.iter().map(GroupRecord::group_id).collect();
        log.retain(|record| {
            let is_offset = matches!(record, GroupRecord::OffsetCommit(..));
            let group = record.group_id();
            !shard.is_unloaded(group) || alive.contains(group) && !is_offset
        });
        let (log, live) = (bytes_of(&log), bytes_of(&live));
        if let Some(what) = difference(&log, &live) {
            return Err(format!("replay(log) is not the live state: {what}"));
        }
        let log = pending(expected.state(), &alive);
        let live = pending(shard.durable_state(), &alive);
        if log != live {
            return Err(format!("pending offsets are {live:?}, by the log {log:?}"));
        }
        expected.shares.check(shard)?;
        expected.places.check(u64::MAX, shard)?;
        let (log, live) = (expected.ids(), shard.transactional_ids());
        if let Some(live) = live.filter(|live| *live != log) {
            return Err(format!("transactional ids are {live:?}, by the log {log:?}"));
        }
        Ok(())
    }

    /// Checks that the flushed position of a shard does not decrease.
    ///
    /// # Errors
    /// The position decreased.
    pub(super) fn check_flushed(&mut self, number: u32, flushed: u64) -> Result<(), String> {
        if self.expected[number as usize].went_back(flushed) {
            return Err(format!("flushed goes back to {flushed}"));
        }
        Ok(())
    }

    /// Makes sure that this number of shards has an expected state.
    pub(crate) fn expect_shards(&mut self, shards: usize, config: &Config) {
        while self.expected.len() < shards {
            self.expected.push(Expected::new(config));
        }
    }

    /// Checks the state that startup found: no flushed operation is missing, and no operation is
    /// applied only in part.
    ///
    /// # Errors
    /// Startup found another state.
    pub(crate) fn check_recovered(
        &mut self,
        number: u32,
        (found, shard): (u64, Inspection<'_>),
        records: &[RecordBytes],
        config: &Config,
    ) -> Result<(), String> {
        let expected = &mut self.expected[number as usize];
        expected.check_found(number, (found, shard), records, config)?;
        let block = expected.in_flight.take().or(expected.unsynced.take());
        expected.unsynced = block.filter(|_| found > expected.position);
        Ok(())
    }

    /// Like [`Judge::check_recovered`], for a shard that was started from a crash image, outside
    /// the run. Changes no state.
    ///
    /// # Errors
    /// The shard found another state.
    pub(crate) fn check_image(
        &self,
        number: u32,
        (found, shard): (u64, Inspection<'_>),
        records: &[RecordBytes],
        config: &Config,
    ) -> Result<(), String> {
        let expected = self.expected.get(number as usize).ok_or("a shard that was not there")?;
        expected.check_found(number, (found, shard), records, config)
    }

    /// Applies the last block of each old log if it may or may not be durable. It is durable now:
    /// the logs were rewritten for another number of shards, and the new logs were synced.
    pub(crate) fn note_copied(&mut self, now: u64) {
        for expected in &mut self.expected {
            let Some(block) = expected.unsynced.take() else { continue };
            let learned = learn(&mut self.facts, &block, now);
            let applied = learned.and_then(|()| expected.apply(&block));
            assert!(applied.is_ok(), "it was applied to a copy before");
        }
    }

    /// Replaces the expected states with the states of these shards. The number of shards has
    /// changed.
    ///
    /// # Errors
    /// The new shards together have another state than the previous shards had together.
    pub(crate) fn check_resharded<'a>(
        &mut self,
        shards: impl Iterator<Item = (u64, Inspection<'a>)>,
        config: &Config,
    ) -> Result<(), String> {
        let mut begun = BTreeSet::new();
        let of = |(found, shard): (u64, Inspection<'a>)| {
            begun.extend(shard.ids_written_after(found).map(str::to_owned));
            Expected::of((found, shard), config)
        };
        let all: Vec<Expected> = shards.map(of).collect();
        let before = std::mem::replace(&mut self.expected, all);
        if let Some(what) = difference(&sorted_records(&before), &sorted_records(&self.expected)) {
            return Err(what);
        }
        let begun = begun.iter().map(String::as_str).collect();
        compare_ids(sorted_ids(&before), sorted_ids(&self.expected), &begun)?;
        let (old, new) = (before.iter(), self.expected.iter());
        check_same(old.map(|it| &it.shares), new.map(|it| &it.shares))?;
        match (before.first(), self.expected.first()) {
            (Some(old), Some(new)) if is_same(&old.image, &new.image) => Ok(()),
            _ => Err("the cluster is another".to_owned()),
        }
    }
}

/// The pending offsets of some groups, as text.
fn pending(state: State<'_>, groups: &BTreeSet<&str>) -> Vec<String> {
    let is_pending = |(producer, record): &(Option<Producer>, GroupRecord<'_>)| {
        producer.is_some() && groups.contains(record.group_id())
    };
    let pending = state.into_iter().filter(is_pending);
    let mut pending: Vec<_> = pending.map(|pending| format!("{pending:?}")).collect();
    pending.sort_unstable();
    pending
}

fn sorted_records(all: &[Expected]) -> Vec<RecordBytes> {
    let mut records: Vec<_> = all.iter().flat_map(Expected::records).collect();
    records.sort_unstable();
    records
}

fn sorted_ids(all: &[Expected]) -> Vec<TransactionRecord<'static>> {
    let mut ids: Vec<_> = all.iter().flat_map(Expected::ids).collect();
    ids.sort_by(|one, other| one.key.transactional_id.cmp(&other.key.transactional_id));
    ids
}

/// Whether two images describe the same cluster. The number of changes is not compared, because a
/// compacted log has fewer changes.
fn is_same(one: &ClusterImage, other: &ClusterImage) -> bool {
    let configs = |image: &ClusterImage| {
        let of = |kind: i8| {
            let name =
                move |name: &str| (kind, name.to_owned(), image.configs(kind, name).cloned());
            image.configured(kind, "").map(name).collect::<Vec<_>>()
        };
        [TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE, CLIENT_METRICS_RESOURCE].map(of)
    };
    one.topics().eq(other.topics())
        && configs(one) == configs(other)
        && one.next_producer_id() == other.next_producer_id()
}

/// Describes the first record in which the two states differ.
fn difference(expected: &[RecordBytes], found: &[RecordBytes]) -> Option<String> {
    if expected == found {
        return None;
    }
    let at = expected.iter().zip(found).position(|(one, other)| one != other);
    let at = at.unwrap_or(expected.len().min(found.len()));
    let (expected, found) = (expected.get(at).map(text), found.get(at).map(text));
    Some(format!("record {at} is to be {expected:?}, and is {found:?}"))
}

fn text((key, value): &RecordBytes) -> String {
    format!("{:?}", GroupRecord::read(key, value.as_deref()))
}
