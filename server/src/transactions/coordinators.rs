//! The coordinators of transactions of a shard, one for each partition of `__transaction_state`
//! that the shard leads. They share the shard's limits.

use super::Inputs;
use super::limits::{ID_BYTES_MAX, ID_SHARE, IDS_MAX};
use super::machine::IdsMachine;
use super::topics::TopicsOf;
use crate::config::Config;
use crate::limit_gauges::{Limit, LimitGauges};
use crate::limit_refusals::Refused;
use crate::placement::{Placement, Slot, TransactionsPartition};
use muster_codec::records::TransactionRecord;
use muster_fairness::{Address, Exceeded, Shares};
use muster_runtime::{Damage, NotWritten, Runtime, Topic};
use muster_transactions::{Admission, Context, Coordinator, Held};

/// The coordinators of the partitions that a shard leads.
#[derive(Debug)]
pub(crate) struct Coordinators {
    placement: Placement,
    machines: muster_runtime::Slots<IdsMachine>,
    shares: Shares,
}

impl Coordinators {
    /// The coordinators of a shard, without transactional ids. They all get the epoch `epoch`,
    /// which must be higher than every epoch that they had after earlier loads.
    pub(crate) fn new(config: &Config, placement: Placement, shard: u32, epoch: i32) -> Self {
        let indexes = placement.led_with_slots(shard, placement.transactions_partitions);
        let config = config.transactions();
        let new = move || IdsMachine {
            coordinator: Coordinator::new(config.clone(), epoch),
            in_snapshot: 0,
        };
        let machines = muster_runtime::Slots::new(indexes, (), new);
        Self { placement, machines, shares: Shares::new(ID_SHARE) }
    }

    /// Whether the shard leads a partition.
    pub(crate) fn has(&self, partition: TransactionsPartition) -> bool {
        self.machines.has(partition.0)
    }

    /// Adds the use of the limits on transactional ids.
    pub(crate) fn add_limits(&self, gauges: &mut LimitGauges) {
        let Held { ids, id_bytes } = self.machines.held();
        gauges.set(Limit::TransactionalIds, ids, IDS_MAX);
        gauges.set(Limit::TransactionalIdBytes, id_bytes, ID_BYTES_MAX);
    }

    /// The partitions, in order.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = TransactionsPartition> {
        self.machines.indexes().map(TransactionsPartition)
    }

    /// The partition that follows another one. For None, the first partition.
    pub(super) fn following(
        &self,
        partition: Option<TransactionsPartition>,
    ) -> Option<TransactionsPartition> {
        self.machines.next(partition.map(|it| it.0)).map(TransactionsPartition)
    }

    /// The coordinator of a partition; None if another shard leads the partition.
    pub(super) fn of(&self, partition: TransactionsPartition) -> Option<&Coordinator> {
        self.machines.get(partition.0).map(|it| &it.coordinator)
    }

    /// Damage of the snapshot that a coordinator has found.
    pub(crate) fn damage(&self) -> Option<Damage> {
        self.machines.damage()
    }

    /// The coordinators, in the order of their partitions.
    fn coordinators(&self) -> impl Iterator<Item = &Coordinator> {
        self.machines.machines().map(|it| &it.coordinator)
    }

    /// The machines of all partitions.
    pub(crate) fn topic(&mut self) -> &mut dyn Topic {
        &mut self.machines
    }

    /// Appends records of a partition, each as an operation of its own, and applies them. They need
    /// not be one operation, because each record has the whole state of an id.
    ///
    /// # Errors
    /// A record is too large for the log. This record and the following ones are not written.
    pub(super) fn append(
        &mut self,
        runtime: &mut Runtime,
        partition: TransactionsPartition,
        now: i64,
        records: &[TransactionRecord<'_>],
    ) -> Result<(), NotWritten> {
        runtime.append(&mut self.machines, partition.0, now, records.chunks(1)).map(drop)
    }

    /// Applies a record that is not in the log, for tests.
    #[cfg(test)]
    pub(super) fn apply(
        &mut self,
        partition: TransactionsPartition,
        record: &TransactionRecord<'_>,
        position: u64,
    ) {
        self.machines.on(partition.0, |it, _| it.coordinator.replay(record, position));
    }

    /// Whether all coordinators have ended the transactions that may have lost writes
    /// ([`Coordinator::lost_writes_settled_at`]).
    pub(super) fn are_settled(&self) -> bool {
        self.coordinators().all(|it| it.lost_writes_settled_at().is_some())
    }

    /// Replaces the configs.
    pub(super) fn set_config(&mut self, config: &Config) {
        let config = config.transactions();
        self.machines.each(|it| it.coordinator.set_config(config.clone()));
    }

    /// Notifies the coordinators that the shard has received producer ids.
    pub(super) fn producer_ids_arrived(&mut self) {
        self.machines.each(|it| it.coordinator.producer_ids_arrived());
    }

    /// The partition whose timer is due first, and the time of this timer.
    pub(super) fn next_deadline(&self) -> Option<(i64, TransactionsPartition)> {
        let next = self.machines.next_deadline();
        next.map(|(at, index)| (at, TransactionsPartition(index)))
    }

    /// The state of all ids by partition, as records whose replay results in this state.
    pub(crate) fn durable_records(&self) -> Vec<TransactionRecord<'static>> {
        self.coordinators().flat_map(Coordinator::durable_records).collect()
    }

    /// The ids of the producers with open transactions.
    pub(crate) fn open_producers(&self) -> impl Iterator<Item = i64> {
        self.coordinators().flat_map(Coordinator::open_producers)
    }

    /// The ids with a record after a position.
    pub(crate) fn written_after(&self, position: u64) -> impl Iterator<Item = &str> {
        self.coordinators().flat_map(move |it| it.written_after(position))
    }

    /// The number of ids that are not loaded.
    pub(crate) fn unloaded_ids(&self) -> usize {
        self.coordinators().map(Coordinator::unloaded_ids).sum()
    }

    /// The number of transactional ids.
    pub(crate) fn ids(&self) -> usize {
        self.machines.held().ids
    }

    /// The slot of a partition: the shard that leads the slot also leads the partition.
    pub(super) fn slot_of(&self, partition: TransactionsPartition) -> Slot {
        self.placement.slot_of_transactions(partition)
    }

    /// Calls the coordinator of a partition.
    pub(super) fn call<R>(
        &mut self,
        partition: TransactionsPartition,
        inputs: &mut Inputs<'_>,
        act: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> R,
    ) -> R {
        let Self { placement, machines, shares } = self;
        let topics = TopicsOf { image: inputs.image, placement: *placement };
        let (now, wall) = (inputs.times.now, inputs.times.wall);
        let position =
            inputs.runtime.next_position(placement.slot_of_transactions(partition).log_slot());
        let producer_ids = &mut *inputs.producer_ids;
        let errors = &mut *inputs.errors;
        machines.on(partition.0, |IdsMachine { coordinator, .. }, others| {
            let gate = &mut Gate { others, shares, now, refused: None };
            let topics = &topics;
            let mut context =
                Context { now, wall, position, producer_ids, topics, admission: gate };
            let result = act(coordinator, &mut context);
            gate.refused.take().into_iter().for_each(|refused| refused.log(now, errors));
            result
        })
    }
}

/// Checks the limits that all coordinators of a shard share, during a call of one coordinator.
struct Gate<'g> {
    /// How much of the limits all other coordinators together use.
    others: Held,
    shares: &'g mut Shares,
    now: i64,
    /// The last client whose request for a new id was refused.
    refused: Option<Refused>,
}

impl Admission for Gate<'_> {
    fn admits(&mut self, held: Held, client_host: &str) -> bool {
        let Held { ids, id_bytes } = self.others + held;
        let is_short = ids >= IDS_MAX / 2 || id_bytes >= ID_BYTES_MAX / 2;
        let is_full = ids >= IDS_MAX || id_bytes >= ID_BYTES_MAX;
        let is_admitted = !is_full && self.shares.admits(self.now, client_host, is_short);
        if !is_admitted {
            let exceeded = if is_full { Exceeded::Limit } else { Exceeded::Share };
            let is_of_bytes = id_bytes >= ID_BYTES_MAX / 2 && ids < IDS_MAX / 2;
            let limit =
                if is_of_bytes { Limit::TransactionalIdBytes } else { Limit::TransactionalIds };
            self.refused = Some(Refused { limit, exceeded, address: Address::of(client_host) });
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_has_half_of_the_ids_may_create_its_share_of_the_rest() {
        let mut shares = Shares::new(ID_SHARE);
        let mut gate = |held: Held, host: &str| {
            let shares = &mut shares;
            let mut gate = Gate { others: held, shares, now: 0, refused: None };
            let admitted = (0..=ID_SHARE.burst).take_while(|_| gate.admits(Held::default(), host));
            (admitted.count() as u32, gate.refused)
        };
        let refused =
            |limit, exceeded, host| Some(Refused { limit, exceeded, address: Address::of(host) });
        let (hog, other) = ("/127.0.0.2", "/127.0.0.1");
        let of_ids = Held { ids: IDS_MAX / 2, id_bytes: 0 };
        let of_bytes = Held { ids: 0, id_bytes: ID_BYTES_MAX / 2 };
        let by_share = |limit, host| (ID_SHARE.burst, refused(limit, Exceeded::Share, host));
        assert_eq!(gate(of_ids, hog), by_share(Limit::TransactionalIds, hog));
        assert_eq!(gate(of_ids, hog).0, 0);
        assert_eq!(gate(of_bytes, other), by_share(Limit::TransactionalIdBytes, other));
        let full = Held { ids: IDS_MAX, id_bytes: 0 };
        let is_full = refused(Limit::TransactionalIds, Exceeded::Limit, "/127.0.0.3");
        assert_eq!(gate(full, "/127.0.0.3"), (0, is_full));
    }
}
