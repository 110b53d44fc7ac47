//! The fetches that are not answered yet: by id, by deadline and by connection.

use super::fetch_state::{Fetch, Want};
use crate::config::Config;
use crate::limit_gauges::{Limit, LimitGauges};
use crate::limit_refusals::Refused;
use crate::partitions::limits::{WAITING_FETCHES_MAX, WAITING_PARTITIONS_MAX};
use crate::partitions::partition_id::PartitionId;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use muster_codec::messages::PartitionData;
use muster_coordinator::RequestId;
use muster_fairness::Holders;
use muster_faults::Fault;
use std::collections::{BTreeSet, VecDeque};

/// The memory that a waiting fetch takes for each of its partitions.
pub(crate) const PARTITION_OF_FETCH_BYTES: usize =
    size_of::<PartitionData<'_>>() + size_of::<Want>() + 64;

/// The fetches that are not answered yet, like Kafka's fetch purgatory.
#[derive(Debug)]
pub(super) struct Fetches {
    by_id: HashMap<u64, Fetch>,
    last_id: u64,
    /// The deadlines of parked fetches.
    deadlines: BTreeSet<(i64, u64)>,
    by_connection: BTreeSet<(u64, u64)>,
    /// For each partition, the parked fetches that wait for its records.
    waiting: HashMap<PartitionId, BTreeSet<u64>>,
    /// For each address, the number of its parked fetches (`parked`), and the number of partitions
    /// in all of its fetches.
    parked: Holders,
    partitions: Holders,
    partitions_max: usize,
    /// Fetches and look-ups that continue as soon as other reads are done.
    pub ready: VecDeque<u64>,
}

impl Fetches {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            by_id: HashMap::new(),
            last_id: 0,
            deadlines: BTreeSet::new(),
            by_connection: BTreeSet::new(),
            waiting: HashMap::new(),
            parked: Holders::default(),
            partitions: Holders::default(),
            partitions_max: config.of_memory(WAITING_PARTITIONS_MAX),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn add(&mut self, fetch: Fetch) -> u64 {
        let id = self.next_id();
        self.by_connection.insert((fetch.request.connection, id));
        self.partitions.take(fetch.address, fetch.partitions());
        self.by_id.insert(id, fetch);
        id
    }

    /// Checks whether a fetch may be parked.
    ///
    /// # Errors
    /// Too many fetches are parked, or too many of this address.
    pub(super) fn admit(&self, fetch: &Fetch) -> Result<(), Refused> {
        let address = fetch.address;
        let refuse = |limit| move |exceeded| Refused { limit, exceeded, address };
        let of_fetches = self.parked.admit(address, 1, WAITING_FETCHES_MAX);
        of_fetches.map_err(refuse(Limit::WaitingFetches))?;
        let of_partitions = self.partitions.admit(address, fetch.partitions(), self.partitions_max);
        of_partitions.map_err(refuse(Limit::WaitingPartitions))
    }

    /// Adds a fetch that waits for records until its deadline.
    pub(super) fn park(&mut self, fetch: Fetch) -> u64 {
        let deadline = fetch.deadline;
        self.parked.take(fetch.address, 1);
        let wants: Vec<PartitionId> = fetch.wants.iter().map(|want| want.id).collect();
        let id = self.add(fetch);
        self.deadlines.insert((deadline, id));
        for want in wants {
            self.waiting.entry(want).or_default().insert(id);
        }
        id
    }

    /// Ends the wait of a fetch.
    pub(super) fn unpark(&mut self, id: u64) {
        let Some(fetch) = self.by_id.get(&id) else { return };
        if !self.deadlines.remove(&(fetch.deadline, id)) {
            return;
        }
        self.parked.release(fetch.address, 1);
        for want in &fetch.wants {
            if let Entry::Occupied(mut waiting) = self.waiting.entry(want.id) {
                waiting.get_mut().remove(&id);
                if waiting.get().is_empty() {
                    waiting.remove();
                }
            }
        }
    }

    /// The fetches that wait for records of a partition.
    pub(super) fn waiting_for(&self, id: PartitionId) -> Vec<u64> {
        self.waiting.get(&id).into_iter().flatten().copied().collect()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Fetch> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Fetch> {
        self.by_id.get_mut(&id)
    }

    /// Removes a fetch that is answered, or whose connection is gone.
    pub(super) fn remove(&mut self, id: u64) -> Option<Fetch> {
        self.unpark(id);
        let fetch = self.by_id.remove(&id)?;
        self.by_connection.remove(&(fetch.request.connection, id));
        if !Fault::ShareKept.is_injected() {
            self.partitions.release(fetch.address, fetch.partitions());
        }
        Some(fetch)
    }

    pub(super) fn of_connection(&self, connection: u64) -> Vec<u64> {
        let ids = self.by_connection.range((connection, 0)..=(connection, u64::MAX));
        ids.map(|(_, id)| *id).collect()
    }

    /// Whether a request is a fetch that waits for records, and its deadline has not passed.
    pub(super) fn is_parked(&self, request: RequestId, now: i64) -> bool {
        let is_parked = |id: &u64| {
            self.get(*id).is_some_and(|fetch| {
                let (is_it, deadline) = (fetch.request == request, fetch.deadline);
                is_it && deadline >= now && self.deadlines.contains(&(deadline, *id))
            })
        };
        self.of_connection(request.connection).iter().any(is_parked)
    }

    /// The number of fetches of a connection that wait for records.
    pub(super) fn parked(&self, connection: u64) -> usize {
        let ids = self.of_connection(connection).into_iter();
        let is_parked = |id: &u64| {
            self.get(*id).is_some_and(|fetch| self.deadlines.contains(&(fetch.deadline, *id)))
        };
        ids.filter(is_parked).count()
    }

    /// Adds gauges that show how much of the limits on fetches is used.
    pub(super) fn add_limits(&self, gauges: &mut LimitGauges) {
        gauges.set(Limit::WaitingFetches, self.parked.total(), WAITING_FETCHES_MAX);
        gauges.set(Limit::WaitingPartitions, self.partitions.total(), self.partitions_max);
    }

    /// For checks: counts all fetches again, and returns the difference to the accounts of
    /// addresses. It is 0 unless an account is wrong.
    pub(super) fn miscounted_shares(&self) -> usize {
        let partitions = self.by_id.values().map(Fetch::partitions).sum();
        self.parked.total().abs_diff(self.deadlines.len())
            + self.partitions.total().abs_diff(partitions)
    }

    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// A parked fetch whose deadline has passed.
    pub(super) fn due(&self, now: i64) -> Option<u64> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|(_, id)| *id)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The approximate memory of all fetches that are not answered yet.
    pub(super) fn bytes_held(&self) -> usize {
        self.partitions.total() * PARTITION_OF_FETCH_BYTES + self.by_id.len() * size_of::<Fetch>()
    }
}
