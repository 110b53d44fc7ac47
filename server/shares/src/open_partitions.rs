//! The share partitions that are open on a shard. Indexes show which of them need work: those with
//! changes that are in no record, records that are not flushed, locks with a deadline, or records
//! for a dead letter queue.

use crate::partition::{Change, Letter};
use crate::{Settings, SharePartition, SharePartitionKey};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use muster_fairness::{Address, Exceeded, Holders};

/// The number of a partition of the share state topic. This crate does not interpret it.
pub type LogNumber = u32;

/// The share partitions that are open on a shard.
#[derive(Debug, Default)]
pub struct OpenPartitions {
    open: BTreeMap<SharePartitionKey, Open>,
    /// The next deadline of each share partition that has one.
    deadlines: BTreeSet<(i64, SharePartitionKey)>,
    /// Share partitions with changes that are in no record yet.
    changed: BTreeSet<SharePartitionKey>,
    /// Share partitions with letters that the caller has not taken yet.
    lettered: BTreeSet<SharePartitionKey>,
    /// For each log, the records that are not flushed, in order.
    unflushed: BTreeMap<LogNumber, VecDeque<Unflushed>>,
    /// The number of the last change that was taken. Changes are numbered because the position of a
    /// record does not identify it: all records of a block have the same position.
    changes: u64,
    /// The number of share partitions that were ever opened, for [`Self::opening`].
    opened: u64,
    /// The number of open share partitions, by the address of the member for which each was opened.
    holders: Holders,
}

/// The letters of a share partition, for the caller.
#[derive(Debug)]
pub struct Taken {
    pub letters: Vec<Letter>,
    /// The number that the share partition got when it was opened: see [`OpenPartitions::opening`].
    pub opening: u64,
    /// The address of the member for which the share partition was opened.
    pub address: Address,
}

#[derive(Debug)]
struct Open {
    partition: SharePartition,
    log: LogNumber,
    deadline: Option<i64>,
    opening: u64,
    address: Address,
}

/// A record that is not flushed.
#[derive(Debug)]
struct Unflushed {
    position: u64,
    key: SharePartitionKey,
    /// The number of the last change, of any share partition, when this record was written. This
    /// record and the earlier ones have all changes of their share partition up to this number.
    change: u64,
}

impl OpenPartitions {
    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn get(&self, key: &SharePartitionKey) -> Option<&SharePartition> {
        self.open.get(key).map(|it| &it.partition)
    }

    /// The number that an open share partition got when it was opened. If the number has changed,
    /// the share partition was dropped and opened again. Then data that were read for it before are
    /// useless. None if it is not open.
    pub fn opening(&self, key: &SharePartitionKey) -> Option<u64> {
        self.open.get(key).map(|it| it.opening)
    }

    /// The open share partitions, in the order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (&SharePartitionKey, &SharePartition)> {
        self.open.iter().map(|(key, it)| (key, &it.partition))
    }

    /// Whether a record of a share partition's state is not flushed. Until all of them are flushed,
    /// the share partition must not be opened again, because its state contains changes that a
    /// crash may lose.
    pub fn is_unflushed(&self, key: &SharePartitionKey, log: LogNumber) -> bool {
        let of_log = self.unflushed.get(&log).into_iter().flatten();
        of_log.into_iter().any(|it| it.key == *key)
    }

    /// Checks whether one more share partition may be opened for members at an address.
    ///
    /// # Errors
    /// The limit is reached, or the part of it that one address may use.
    pub fn admit(&self, address: Address, limit: usize) -> Result<(), Exceeded> {
        self.holders.admit(address, 1, limit)
    }

    /// Adds a share partition that a member at an address fetches. The records of its state are in
    /// the partition `log` of the log of share state.
    pub fn insert(
        &mut self,
        key: SharePartitionKey,
        log: LogNumber,
        partition: SharePartition,
        address: Address,
    ) {
        self.remove(&key);
        self.opened += 1;
        self.holders.take(address, 1);
        let open = Open { partition, log, deadline: None, opening: self.opened, address };
        self.open.insert(key.clone(), open);
        self.on(&key, |_| ());
    }

    /// Drops a share partition, with its locks and with changes that are in no record.
    pub fn remove(&mut self, key: &SharePartitionKey) -> Option<SharePartition> {
        let open = self.open.remove(key)?;
        self.holders.release(open.address, 1);
        self.changed.remove(key);
        self.lettered.remove(key);
        if let Some(at) = open.deadline {
            self.deadlines.remove(&(at, key.clone()));
        }
        Some(open.partition)
    }

    /// Calls `act` with a share partition, and updates the indexes. None if it is not open.
    pub fn on<R>(
        &mut self,
        key: &SharePartitionKey,
        act: impl FnOnce(&mut SharePartition) -> R,
    ) -> Option<R> {
        let open = self.open.get_mut(key)?;
        let result = act(&mut open.partition);
        if open.partition.has_changes() {
            self.changed.insert(key.clone());
        }
        if open.partition.has_letters() {
            self.lettered.insert(key.clone());
        }
        let next = open.partition.next_deadline();
        if next != open.deadline {
            if let Some(at) = core::mem::replace(&mut open.deadline, next) {
                self.deadlines.remove(&(at, key.clone()));
            }
            self.deadlines.extend(next.map(|at| (at, key.clone())));
        }
        Some(result)
    }

    /// The open share partitions of a group.
    pub fn of_group(&self, group_id: &str) -> Vec<SharePartitionKey> {
        let first = SharePartitionKey::first_of(group_id);
        let from = self.open.range(first..).map(|(key, _)| key);
        from.take_while(|key| &*key.group_id == group_id).cloned().collect()
    }

    /// Whether any changes are in no record yet.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// A share partition with changes that are in no record yet, and its log.
    pub fn next_changed(&self) -> Option<(SharePartitionKey, LogNumber)> {
        let key = self.changed.first()?;
        Some((key.clone(), self.open.get(key)?.log))
    }

    /// Takes the changes of a share partition, for the next record. None if there are none.
    pub fn take_change(&mut self, key: &SharePartitionKey) -> Option<Change> {
        self.changed.remove(key);
        let open = self.open.get_mut(key)?;
        self.changes += 1;
        open.partition.take_change(self.changes)
    }

    /// A share partition with letters that the caller has not taken yet.
    pub fn next_lettered(&self) -> Option<SharePartitionKey> {
        self.lettered.first().cloned()
    }

    /// Takes the letters of a share partition. None if it is not open.
    pub fn take_letters(&mut self, key: &SharePartitionKey, settings: &Settings) -> Option<Taken> {
        self.lettered.remove(key);
        let Open { partition, opening, address, .. } = self.open.get_mut(key)?;
        let letters = partition.take_letters(settings);
        Some(Taken { letters, opening: *opening, address: *address })
    }

    /// Notes that a record of a share partition was written. The share partition may be closed.
    pub fn written(&mut self, key: &SharePartitionKey, log: LogNumber, position: u64) {
        let record = Unflushed { position, key: key.clone(), change: self.changes };
        self.unflushed.entry(log).or_default().push_back(record);
    }

    /// Whether a log has records that are not flushed.
    pub fn awaits_flush(&self, log: LogNumber) -> bool {
        self.unflushed.contains_key(&log)
    }

    /// Notes that a log is flushed up to a position. Returns the share partitions that have records
    /// up to there. Fetches that wait for them should be tried again.
    pub fn flushed(&mut self, log: LogNumber, position: u64) -> Vec<SharePartitionKey> {
        let Some(unflushed) = self.unflushed.get_mut(&log) else { return Vec::new() };
        let count = unflushed.partition_point(|it| it.position <= position);
        // The last record of each share partition.
        let flushed: BTreeMap<_, _> =
            unflushed.drain(..count).map(|it| (it.key, it.change)).collect();
        if unflushed.is_empty() {
            self.unflushed.remove(&log);
        }
        for (key, change) in &flushed {
            self.on(key, |partition| partition.flushed(*change));
        }
        flushed.into_keys().collect()
    }

    /// The time at which the next lock may end.
    pub fn next_deadline(&self) -> Option<i64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A share partition with a lock that may end at `now` or earlier.
    pub fn due(&self, now: i64) -> Option<SharePartitionKey> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, key)| key.clone())
    }
}
