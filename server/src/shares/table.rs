//! The ShareFetch and ShareAcknowledge requests of a shard that are not answered yet.

use crate::config::ListenerIndex;
use crate::net::VisibleAt;
use crate::partitions::Bounds;
use muster_codec::ErrorCode;
use muster_codec::messages::AbortedTransaction;
use muster_coordinator::RequestId;
use muster_fairness::{Address, Exceeded, Holders};
use muster_shares::partition::{AcquireMode, AcquiredRange};
use muster_shares::sessions::{FetchContext, SessionKey};
use muster_shares::{SharePartitionKey, TopicPartition};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The maximum number of requests that wait for records. If this number, or an address's share of
/// it, is used up, a request is answered at once without records, and its client has to pause.
pub(super) const SHARE_FETCHES_MAX: usize = 65_536;

/// The requests that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Table {
    by_id: HashMap<u64, Request>,
    last_id: u64,
    /// The deadlines of requests that wait for records.
    deadlines: BTreeSet<(i64, u64)>,
    /// The number of requests that wait for records, by the address of the client.
    holders: Holders,
    by_connection: BTreeSet<(u64, u64)>,
    /// Requests with acknowledgements that are in no record yet.
    unwritten: BTreeSet<u64>,
    /// The number of partitions in all requests, and the number of bytes that were read for them.
    parts: usize,
    read_bytes: usize,
}

/// The origin of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) request: RequestId,
    pub(crate) version: i16,
    pub(crate) listener: ListenerIndex,
    pub(crate) address: Address,
}

/// A ShareFetch or ShareAcknowledge.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) asked: Asked,
    pub(super) member: SessionKey,
    /// None for a ShareAcknowledge.
    pub(super) fetch: Option<FetchWants>,
    /// The partitions, in the order in which they are fetched.
    pub(super) parts: Vec<Part>,
    /// The error of the whole request.
    pub(super) error: ErrorCode,
    pub(super) deadline: i64,
    /// The number of reads under way.
    pub(super) reads: usize,
    /// The positions of the records of the request's acknowledgements.
    pub(super) visible_at: VisibleAt,
    /// Share partitions with acknowledgements that are in no record yet.
    pub(super) unwritten: BTreeSet<SharePartitionKey>,
    /// Whether the answer waits only for the records of the acknowledgements in `unwritten`.
    pub(super) is_complete: bool,
    /// `share.record.lock.duration.ms`
    pub(super) lock_ms: i64,
    /// The time that the client has to wait before its next request, because this one could not be
    /// parked.
    pub(super) throttle_ms: i64,
}

/// A session that ends once the acknowledgements of a request are flushed.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) request: RequestId,
    /// The positions of the records of the acknowledgements; None until all are in records.
    pub(super) visible_at: Option<VisibleAt>,
}

/// The limits that a ShareFetch sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchWants {
    pub(super) context: FetchContext,
    pub(super) mode: AcquireMode,
    pub(super) max_records: i64,
    pub(super) batch_size: i64,
    pub(super) max_bytes: u64,
    pub(super) min_bytes: u64,
}

/// One partition of a request.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) at: TopicPartition,
    /// Whether records of the partition are requested.
    pub(super) is_fetched: bool,
    /// The result of the partition's acknowledgements; None if there are none.
    pub(super) acknowledged: Option<ErrorCode>,
    pub(super) error: ErrorCode,
    /// The shard that leads the partition, if another shard does.
    pub(super) leader: Option<u32>,
    pub(super) read: Option<Read>,
    pub(super) records: Vec<u8>,
    pub(super) acquired: Vec<AcquiredRange>,
}

/// The batches of a partition that were read, or that are being read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) offset: i64,
    pub(super) data: Vec<u8>,
    pub(super) aborted: Vec<AbortedTransaction>,
    /// The number of the opening: if the share partition is opened again, the read is of no use.
    pub(super) opening: u64,
}

/// A partition that can be read for a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Readable {
    /// The index among the parts of the request.
    pub(super) part: usize,
    pub(super) id: crate::partitions::PartitionId,
    pub(super) offset: i64,
    /// The approximate number of bytes, and the number of records, that can be read.
    pub(super) bytes: u64,
    pub(super) records: i64,
}

/// The maximum size of a read of a partition for one request, unless its first batch is larger.
const READ_BYTES_MAX: u64 = 1 << 20;

/// The size of the wanted records is estimated, so this number of bytes is read in addition.
const READ_BYTES_MORE: u64 = 16 << 10;

impl Readable {
    /// The estimated size of the wanted records, with a reserve.
    pub(super) fn bytes_to_read(&self, max_records: i64) -> u64 {
        let wanted = max_records.clamp(0, self.records).unsigned_abs();
        let bytes = self.bytes.saturating_mul(wanted) / self.records.max(1).unsigned_abs();
        bytes.saturating_add(READ_BYTES_MORE).min(READ_BYTES_MAX)
    }
}

impl Request {
    /// A request without parts.
    pub(super) fn new(asked: Asked, member: SessionKey, deadline: i64) -> Self {
        Self {
            asked,
            member,
            fetch: None,
            parts: Vec::new(),
            error: ErrorCode::None,
            deadline,
            reads: 0,
            visible_at: VisibleAt::Now,
            unwritten: BTreeSet::new(),
            is_complete: false,
            lock_ms: 0,
            throttle_ms: 0,
        }
    }
}

impl Part {
    pub(super) fn new(at: TopicPartition, is_fetched: bool) -> Self {
        Self {
            at,
            is_fetched,
            acknowledged: None,
            error: ErrorCode::None,
            leader: None,
            read: None,
            records: Vec::new(),
            acquired: Vec::new(),
        }
    }

    /// Whether the part waits for records.
    pub(super) fn waits(&self) -> bool {
        self.is_fetched && self.error == ErrorCode::None
    }
}

impl Request {
    /// The share partition of a part of the request.
    pub(super) fn key(&self, part: usize) -> SharePartitionKey {
        let TopicPartition { topic_id, partition } = self.parts[part].at;
        SharePartitionKey::new(self.member.group_id.clone(), topic_id, partition)
    }

    /// Notes the positions of the records of the request's acknowledgements.
    pub(super) fn written(&mut self, written: &BTreeMap<SharePartitionKey, VisibleAt>) {
        let Self { unwritten, visible_at, .. } = self;
        unwritten.retain(|key| match written.get(key) {
            Some(at) => {
                visible_at.join(at.clone());
                false
            }
            None => true,
        });
    }

    /// The number of bytes that were read for the request.
    fn read_bytes(&self) -> usize {
        self.parts.iter().filter_map(|part| part.read.as_ref()).map(|read| read.data.len()).sum()
    }

    /// Notes the results of acknowledgements. Adds a part for each acknowledged partition that the
    /// request does not fetch.
    pub(super) fn acknowledged(&mut self, mut results: BTreeMap<TopicPartition, ErrorCode>) {
        for part in &mut self.parts {
            part.acknowledged = results.remove(&part.at).or(part.acknowledged);
        }
        let added = results
            .into_iter()
            .map(|(at, result)| Part { acknowledged: Some(result), ..Part::new(at, false) });
        self.parts.extend(added);
    }
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn insert(&mut self, request: Request) -> u64 {
        let id = self.next_id();
        self.put(id, request);
        id
    }

    /// Puts a request into the table, under its number.
    pub(super) fn put(&mut self, id: u64, request: Request) {
        self.by_connection.insert((request.asked.request.connection, id));
        if !request.unwritten.is_empty() {
            self.unwritten.insert(id);
        }
        self.parts += request.parts.len();
        self.read_bytes += request.read_bytes();
        self.by_id.insert(id, request);
    }

    /// Takes a request out of the table. It no longer waits.
    pub(super) fn take(&mut self, id: u64) -> Option<Request> {
        let request = self.by_id.remove(&id)?;
        if self.deadlines.remove(&(request.deadline, id)) {
            self.holders.release(request.asked.address, 1);
        }
        self.by_connection.remove(&(request.asked.request.connection, id));
        self.unwritten.remove(&id);
        self.parts -= request.parts.len();
        self.read_bytes -= request.read_bytes();
        Some(request)
    }

    /// Changes a request.
    pub(super) fn on<R>(&mut self, id: u64, act: impl FnOnce(&mut Request) -> R) -> Option<R> {
        let mut request = self.by_id.remove(&id)?;
        let before = request.read_bytes();
        let result = act(&mut request);
        self.read_bytes = self.read_bytes - before + request.read_bytes();
        if request.unwritten.is_empty() {
            self.unwritten.remove(&id);
        }
        self.by_id.insert(id, request);
        Some(result)
    }

    /// The requests with acknowledgements that are in no record yet.
    pub(super) fn unwritten(&self) -> Vec<u64> {
        self.unwritten.iter().copied().collect()
    }

    /// Lets a request wait until its deadline.
    pub(super) fn park(&mut self, id: u64, request: Request) {
        self.deadlines.insert((request.deadline, id));
        self.holders.take(request.asked.address, 1);
        self.put(id, request);
    }

    /// Checks whether one more request of an address may wait.
    pub(super) fn admit(&self, address: Address) -> Result<(), Exceeded> {
        self.holders.admit(address, 1, SHARE_FETCHES_MAX)
    }

    /// Whether a request waits for records.
    pub(super) fn is_parked(&self, id: u64) -> bool {
        let deadline = self.by_id.get(&id).map(|request| request.deadline);
        deadline.is_some_and(|at| self.deadlines.contains(&(at, id)))
    }

    pub(super) fn of_connection(&self, connection: u64) -> Vec<u64> {
        let ids = self.by_connection.range((connection, 0)..=(connection, u64::MAX));
        ids.map(|(_, id)| *id).collect()
    }

    /// Whether a request waits for records, and its deadline has not passed.
    pub(super) fn is_parked_until(&self, request: RequestId, now: i64) -> bool {
        let is_parked = |id: &u64| {
            let found = self.by_id.get(id).filter(|found| found.asked.request == request);
            found.is_some_and(|found| found.deadline >= now) && self.is_parked(*id)
        };
        self.of_connection(request.connection).iter().any(is_parked)
    }

    /// The number of requests of a connection that wait for records.
    pub(super) fn parked_of(&self, connection: u64) -> usize {
        self.of_connection(connection).into_iter().filter(|id| self.is_parked(*id)).count()
    }

    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A request whose deadline has passed.
    pub(super) fn due(&self, now: i64) -> Option<u64> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    pub(super) fn parked(&self) -> usize {
        self.deadlines.len()
    }

    /// The approximate memory of all requests.
    pub(super) fn bytes(&self) -> usize {
        let parts = self.parts * (size_of::<Part>() + KEY_BYTES);
        self.by_id.len() * size_of::<Request>() + parts + self.read_bytes
    }
}

/// The approximate size of the keys by which a part of a request is found.
const KEY_BYTES: usize = 256;

/// A share partition that can be used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located {
    pub(super) id: crate::partitions::PartitionId,
    pub(super) bounds: Bounds,
    pub(super) slot: crate::placement::Slot,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parks requests until one is refused; returns the number of parked requests.
    fn fill(table: &mut Table, host: &str) -> usize {
        let address = Address::of(host);
        let request = RequestId { connection: 1, sequence: 1 };
        let asked = Asked { request, version: 1, listener: ListenerIndex::FIRST, address };
        let parked = (0..SHARE_FETCHES_MAX).take_while(|_| {
            let admitted = table.admit(address);
            let id = table.next_id();
            table.park(id, Request::new(asked, SessionKey::new("g", "m"), 500));
            admitted.is_ok() || table.take(id).is_none()
        });
        parked.count()
    }

    #[test]
    fn an_address_whose_requests_wait_leaves_an_eighth_to_others() {
        let mut table = Table::default();
        let most = SHARE_FETCHES_MAX / 8 * 7;
        assert_eq!(fill(&mut table, "/127.0.0.2"), most);
        assert_eq!(fill(&mut table, "/127.0.0.1"), SHARE_FETCHES_MAX / 16);
        while let Some(id) = table.due(500) {
            assert!(table.take(id).is_some());
        }
        assert_eq!(fill(&mut table, "/127.0.0.1"), most);
    }
}
