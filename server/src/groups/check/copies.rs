//! The check copy of a partition, and the live state that it is compared with: groups of a slot,
//! transactional ids of a partition, or share states of a slot, by group.

use super::shares_copy::{SharesCopy, digest_of_group};
use crate::groups::{ShareStates, Slots, TransactionCoordinators};
use crate::placement::{Slot, TransactionsPartition};
use crate::topics::InternalTopic;
use muster_codec::DecodeError;
use muster_codec::record_batch::{BatchHeader, Record};
use muster_codec::records::{TransactionLogKey, TransactionRecord};
use muster_coordinator::check_copy::{CHECK_COPY_BYTES_MAX, REPLICA_GROUP_ITEMS_MAX};
use muster_coordinator::{CheckCopy, Divergence, GroupDigest, NextGroup, Sample};
use muster_storage::LogPartition;
use muster_transactions::Coordinator;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The live state of a shard.
pub(super) struct Live<'l> {
    pub(super) slots: &'l mut Slots,
    pub(super) transactions: &'l dyn TransactionCoordinators,
    pub(super) shares: &'l dyn ShareStates,
}

/// A copy that is replayed from a partition of the log.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, in a round")]
pub(super) enum PartitionCopy {
    Groups(Slot, CheckCopy),
    Ids(TransactionsPartition, IdsCopy),
    Shares(Slot, SharesCopy),
    /// Records of the cluster, which are read and not compared.
    Cluster(Sample),
}

impl PartitionCopy {
    /// An empty copy.
    pub(super) fn new(
        partition: LogPartition,
        config: muster_coordinator::Config,
        sample: Sample,
    ) -> Self {
        let index = partition.index;
        match InternalTopic::of(partition) {
            InternalTopic::ConsumerOffsets => {
                let copy = CheckCopy::new(config, sample, CHECK_COPY_BYTES_MAX);
                Self::Groups(Slot(index), copy)
            }
            InternalTopic::TransactionState => {
                Self::Ids(TransactionsPartition(index), IdsCopy::new(sample, CHECK_COPY_BYTES_MAX))
            }
            InternalTopic::ShareState => {
                Self::Shares(Slot(index), SharesCopy::new(sample, CHECK_COPY_BYTES_MAX))
            }
            InternalTopic::Cluster => Self::Cluster(sample),
        }
    }

    pub(super) fn sample(&self) -> Sample {
        match self {
            Self::Groups(_, copy) => copy.sample(),
            Self::Ids(_, copy) => copy.sample,
            Self::Shares(_, copy) => copy.sample(),
            Self::Cluster(sample) => *sample,
        }
    }

    pub(super) fn has(&self, id: &str) -> bool {
        match self {
            Self::Groups(_, copy) => copy.has(id),
            Self::Ids(_, copy) => copy.sample.has(id),
            Self::Shares(_, copy) => copy.sample().has(id),
            Self::Cluster(_) => false,
        }
    }

    /// Applies a batch of the log.
    ///
    /// # Errors
    /// The batch contains a record that cannot be read.
    pub(super) fn replay<'a>(
        &mut self,
        header: &BatchHeader,
        mut records: impl Iterator<Item = Result<Record<'a>, DecodeError>>,
    ) -> Result<(), DecodeError> {
        match self {
            Self::Groups(_, copy) => copy.replay(header, records),
            Self::Ids(_, copy) => copy.replay(records),
            Self::Shares(_, copy) => copy.replay(records),
            Self::Cluster(_) => records.try_for_each(|record| record.map(drop)),
        }
    }

    /// The digest of a group or transactional id in the copy.
    pub(super) fn digest(&mut self, id: &str) -> GroupDigest {
        match self {
            Self::Groups(_, copy) => copy.digest(id),
            Self::Ids(_, copy) => digest(copy.ids.record(id, usize::MAX)).unwrap_or_default(),
            Self::Shares(_, copy) => copy.digest(id),
            Self::Cluster(_) => GroupDigest::default(),
        }
    }

    /// The digest of the live state; None if it is too large. Loads nothing.
    pub(super) fn digest_live(&self, live: &mut Live<'_>, id: &str) -> Option<GroupDigest> {
        match self {
            Self::Groups(slot, _) => live
                .slots
                .on(*slot, |coordinator, _| coordinator.digest(id, REPLICA_GROUP_ITEMS_MAX)),
            Self::Ids(partition, _) => digest(
                live.transactions.coordinator(*partition)?.record(id, REPLICA_GROUP_ITEMS_MAX),
            ),
            Self::Shares(slot, _) => {
                digest_of_group(live.shares.states(*slot)?, id, REPLICA_GROUP_ITEMS_MAX)
            }
            Self::Cluster(_) => None,
        }
    }

    /// The next group or transactional id of the copy that follows `after`.
    pub(super) fn next(&self, after: Option<&Arc<str>>) -> Option<Arc<str>> {
        match self {
            Self::Groups(_, copy) => copy.next_group(after),
            Self::Ids(_, copy) => copy.ids.ids_after(after.map(|it| &**it)).next().map(Arc::from),
            Self::Shares(_, copy) => copy.next(after.map(|it| &**it)).map(Arc::from),
            Self::Cluster(_) => None,
        }
    }

    /// The first wanted group or transactional id after `after` in the live state. Visits at most
    /// `visits` groups or ids.
    pub(super) fn next_live(
        &self,
        live: &mut Live<'_>,
        after: Option<&Arc<str>>,
        visits: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> NextGroup {
        match self {
            Self::Groups(slot, _) => live
                .slots
                .on(*slot, |coordinator, _| coordinator.next_group(after, visits, is_wanted)),
            Self::Ids(partition, _) => {
                let coordinator = live.transactions.coordinator(*partition).into_iter();
                let ids = coordinator.flat_map(|it| it.ids_after(after.map(|it| &**it)));
                next_of(ids, after, visits, is_wanted)
            }
            Self::Shares(slot, _) => {
                let states = live.shares.states(*slot).into_iter();
                let groups = states.flat_map(|it| it.groups_after(after.map(|it| &**it)));
                next_of(groups, after, visits, is_wanted)
            }
            Self::Cluster(_) => NextGroup::End,
        }
    }

    /// A description of a difference.
    pub(super) fn name(&self, divergence: &Divergence) -> String {
        match self {
            Self::Groups(..) | Self::Cluster(_) => divergence.to_string(),
            Self::Ids(..) => differs("transactional id", divergence),
            Self::Shares(..) => differs("the share state of group", divergence),
        }
    }
}

fn differs(what: &str, divergence: &Divergence) -> String {
    let Divergence { group_id, live, replayed } = divergence;
    format!("{what} {group_id:?} is {live:016x}, but its records make {replayed:016x}")
}

/// The first wanted id, among at most `visits`.
fn next_of<'i>(
    ids: impl Iterator<Item = &'i str>,
    after: Option<&Arc<str>>,
    visits: usize,
    is_wanted: impl Fn(&str) -> bool,
) -> NextGroup {
    let (mut visited, mut last) = (0, None);
    for id in ids.take(visits) {
        if is_wanted(id) {
            return NextGroup::Wanted(id.into());
        }
        (visited, last) = (visited + 1, Some(id));
    }
    match last.map(Arc::from).or_else(|| after.cloned()) {
        Some(last) if visited == visits => NextGroup::Unwanted(last),
        Some(_) | None => NextGroup::End,
    }
}

fn digest(record: Result<Option<TransactionRecord<'_>>, usize>) -> Option<GroupDigest> {
    let record = record.ok()?;
    let items = record.iter().map(|_| 1).sum();
    let fingerprint = record.map(|record| {
        let mut value = Vec::new();
        record.write_value(&mut value);
        xxh3_64(&value)
    });
    Some(GroupDigest { fingerprint, items })
}

/// The transactional ids of a sample, as the log produces them.
#[derive(Debug)]
pub(super) struct IdsCopy {
    ids: Coordinator,
    sample: Sample,
    bytes_max: usize,
}

impl IdsCopy {
    fn new(sample: Sample, bytes_max: usize) -> Self {
        Self { ids: Coordinator::new(muster_transactions::Config::default(), 0), sample, bytes_max }
    }

    fn replay<'a>(
        &mut self,
        records: impl Iterator<Item = Result<Record<'a>, DecodeError>>,
    ) -> Result<(), DecodeError> {
        for record in records {
            let record = record?;
            let read = record.key.map(|key| TransactionRecord::read(key, record.value));
            if let Some(record) = read.transpose()?.flatten()
                && self.sample.has(&record.key.transactional_id)
            {
                self.ids.replay(&record, 0);
            }
        }
        while self.ids.bytes() > self.bytes_max && self.sample.halvings < u64::BITS {
            self.halve();
        }
        Ok(())
    }

    /// Continues with half of the ids.
    fn halve(&mut self) {
        self.sample.halvings += 1;
        let gone = self.ids.ids_after(None).filter(|id| !self.sample.has(id));
        let gone: Vec<String> = gone.map(str::to_owned).collect();
        for id in gone {
            let key = TransactionLogKey { transactional_id: id.into() };
            self.ids.replay(&TransactionRecord { key, value: None }, 0);
        }
    }
}
