//! The log is compared with raft's own `MemStorage`, at random, and then in the cases that
//! `MemStorage` does not have: reads in the background, and snapshots.

use super::*;
use crate::log::{NotContiguous, Start};
use crate::{Base, BlockNumber, Change, Members, NodeId, ReplicaId, Term};
use raft::storage::MemStorage;

/// A log, and raft's own storage with the same entries.
struct Pair {
    log: Log,
    mem: MemStorage,
    term: Term,
}

impl Pair {
    /// Both storages begin with an entry, because an empty `MemStorage` forgets where it was cut.
    fn new() -> Self {
        let mut pair = Self { log: Log::default(), mem: MemStorage::new(), term: Term(1) };
        pair.append(vec![entry(1, 1, Content::Empty)]);
        pair
    }

    fn append(&mut self, entries: Vec<Entry>) {
        self.log.append(BlockNumber(1), &entries);
        let entries: Vec<RaftEntry> = entries.into_iter().map(entry_to_raft).collect();
        self.mem.wl().append(&entries).unwrap();
    }

    /// Appends entries, which may replace the last ones.
    fn append_any(&mut self, random: &mut fastrand::Rng) {
        let (base, last) = (self.log.base().index, self.log.last());
        let from = if random.u8(..3) == 0 {
            self.term.0 += 1;
            random.u64(base.0 + 1..=last.0 + 1)
        } else {
            last.0 + 1
        };
        let count = random.u64(1..5);
        let content = |random: &mut fastrand::Rng| match random.u8(..6) {
            0 => Content::Empty,
            1 => Content::Change(Change::AddLearner(replica(random.u16(1..9)))),
            _ => Content::Records(vec![random.u8(..); random.usize(1..200)].into()),
        };
        let entries = (from..from + count).map(|it| entry(it, self.term.0, content(random)));
        self.append(entries.collect());
    }

    /// Cuts the beginning of both, but not their last entry.
    fn compact_any(&mut self, random: &mut fastrand::Rng) {
        let index = Index(random.u64(self.log.base().index.0..self.log.last().0));
        let term = self.log.term_of(index).unwrap();
        self.log.compact(Base { index, term, members: Members::default() });
        self.mem.wl().compact(index.next().0).unwrap();
    }

    fn check(&self, random: &mut fastrand::Rng) {
        let (first, last) = (self.mem.first_index().unwrap(), self.mem.last_index().unwrap());
        assert_eq!(self.log.first_index().unwrap(), first);
        assert_eq!(self.log.last_index().unwrap(), last);
        for index in first..=last {
            assert_eq!(Storage::term(&self.log, index), Storage::term(&self.mem, index));
        }
        assert_eq!(Storage::term(&self.log, last + 1), Err(unavailable()));
        let low = random.u64(first..=last);
        let high = random.u64(low + 1..=last + 1);
        self.check_entries(low, high);
        self.check_bounded(low, high, random.u64(..800));
    }

    fn check_entries(&self, low: u64, high: u64) {
        let all = self.mem.entries(low, high, None, waits_not()).unwrap();
        if Index(low) >= self.log.cached_from() {
            assert_eq!(self.log.entries(low, high, None, waits()).unwrap(), all);
        }
        // Callers that cannot wait have no use for records.
        let without_data = |mut it: RaftEntry| {
            it.data = Bytes::new();
            it
        };
        let heads: Vec<RaftEntry> = all.into_iter().map(without_data).collect();
        assert_eq!(self.log.entries(low, high, None, waits_not()).unwrap(), heads);
    }

    /// The entries that fit, of which there is at least one.
    fn check_bounded(&self, low: u64, high: u64, max: u64) {
        if Index(low) < self.log.cached_from() {
            return;
        }
        let all = self.mem.entries(low, high, None, waits_not()).unwrap();
        let bounded = self.log.entries(low, high, Some(max), waits()).unwrap();
        assert_eq!(bounded[..], all[..bounded.len()]);
        let size = |it: &[RaftEntry]| it.iter().map(|it| it.data.len() as u64 + 48).sum::<u64>();
        assert!(size(&bounded) <= max || bounded.len() == 1);
        let one_more = &all[..all.len().min(bounded.len() + 1)];
        assert!(one_more.len() == bounded.len() || size(one_more) > max);
    }
}

fn replica(node: u16) -> ReplicaId {
    ReplicaId::new(1, NodeId(node))
}

fn entry(index: u64, term: u32, content: Content) -> Entry {
    Entry { index: Index(index), term: Term(term), content }
}

fn records(index: u64, term: u32) -> Entry {
    entry(index, term, Content::Records(Bytes::from(vec![index as u8; 100])))
}

fn base(index: u64, term: u32, voters: &[u16]) -> Base {
    let members = Members::of_voters(voters.iter().map(|it| replica(*it)).collect());
    Base { index: Index(index), term: Term(term), members }
}

fn waits() -> GetEntriesContext {
    GetEntriesContext::empty(true)
}

fn waits_not() -> GetEntriesContext {
    GetEntriesContext::empty(false)
}

fn unavailable() -> Error {
    Error::Store(StorageError::Unavailable)
}

#[test]
fn it_is_what_rafts_own_storage_is() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pair = Pair::new();
        for _ in 0..60 {
            match random.u8(..10) {
                0 => pair.compact_any(&mut random),
                1 => pair.log.evict(Index(random.u64(..pair.log.last().0 + 2))),
                _ => pair.append_any(&mut random),
            }
            pair.check(&mut random);
        }
    }
}

/// The entries 3 to 8, of which the first four are not cached.
fn evicted() -> Log {
    let mut log = Log::at(base(2, 1, &[1, 2, 3]));
    log.append(BlockNumber(1), &(3..=8).map(|it| records(it, 2)).collect::<Vec<_>>());
    log.evict(Index(6));
    assert_eq!(log.cached_from(), Index(7));
    log
}

fn later() -> Error {
    Error::Store(StorageError::LogTemporarilyUnavailable)
}

#[test]
fn the_term_outside_the_log_is_an_error() {
    let log = evicted();
    assert_eq!(Storage::term(&log, 1), Err(Error::Store(StorageError::Compacted)));
    assert_eq!(Storage::term(&log, 2), Ok(1));
    assert_eq!(Storage::term(&log, 3), Ok(2));
    assert_eq!(Storage::term(&log, 8), Ok(2));
    assert_eq!(Storage::term(&log, 9), Err(unavailable()));
}

#[test]
fn a_range_is_read_once_for_all_followers() {
    let log = evicted();
    for _ in 0..3 {
        assert_eq!(log.entries(4, 9, Some(1 << 20), waits()), Err(later()));
        assert_eq!(log.entries(3, 9, Some(300), waits()), Err(later()));
    }
    let reads = log.wants.borrow_mut().take_reads();
    assert_eq!(reads, [Index(4)..=Index(6), Index(3)..=Index(4)]);
    // Raft asks again while the read is in progress.
    assert_eq!(log.entries(4, 9, Some(1 << 20), waits()), Err(later()));
    assert!(log.wants.borrow_mut().take_reads().is_empty());

    let read: Vec<Entry> = (4..=6).map(|it| records(it, 2)).collect();
    log.wants.borrow_mut().end_read(Index(4), read.clone());
    let taken = log.entries(4, 9, Some(1 << 20), waits()).unwrap();
    assert_eq!(taken, read.into_iter().map(entry_to_raft).collect::<Vec<_>>());
    log.wants.borrow_mut().drop_fetched();
    assert_eq!(log.entries(4, 9, Some(1 << 20), waits()), Err(later()));
    assert_eq!(log.wants.borrow_mut().take_reads(), [Index(4)..=Index(6)]);
}

#[test]
fn entries_that_were_replaced_during_the_read_are_dropped() {
    let mut log = evicted();
    assert_eq!(log.entries(4, 9, None, waits()), Err(later()));
    log.append(BlockNumber(1), &[records(6, 3)]);
    log.evict(Index(6));
    let read = (4..=6).map(|it| records(it, 2)).collect();
    log.wants.borrow_mut().end_read(Index(4), read);
    let taken = log.entries(4, 7, None, waits()).unwrap();
    assert_eq!(taken.iter().map(|it| it.index).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn a_read_that_found_nothing_is_repeated() {
    let log = evicted();
    assert_eq!(log.entries(4, 9, None, waits()), Err(later()));
    log.wants.borrow_mut().end_read(Index(4), vec![]);
    assert_eq!(log.entries(4, 9, None, waits()), Err(later()));
    assert_eq!(log.wants.borrow_mut().take_reads().len(), 2);
}

#[test]
fn a_snapshot_has_its_receiver_among_the_members() {
    let log = evicted();
    let temporarily = Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
    let to = replica(3);
    for _ in 0..3 {
        assert_eq!(Storage::snapshot(&log, 0, to.raw()), temporarily);
    }
    assert_eq!(log.wants.borrow_mut().take_snapshots(), [to]);
    let before_the_log = base(1, 1, &[1, 2, 3]);
    for useless in [base(5, 2, &[1, 2]), before_the_log] {
        log.wants.borrow_mut().offer(to, useless);
        assert_eq!(Storage::snapshot(&log, 0, to.raw()), temporarily);
        assert_eq!(log.wants.borrow_mut().take_snapshots(), [to]);
    }
    let row = base(5, 2, &[1, 2, 3]);
    log.wants.borrow_mut().offer(to, row.clone());
    assert_eq!(Storage::snapshot(&log, 0, to.raw()), Ok(base_to_raft(&row)));
    // The message left. If it is lost, the snapshot is offered again.
    assert_eq!(Storage::snapshot(&log, 0, to.raw()), temporarily);
    assert_eq!(log.wants.borrow_mut().take_snapshots(), [to]);
}

#[test]
fn recovery_refuses_a_hole() {
    let start = || Start { term: Term(4), vote: Some(replica(2)), commit: Index(3) };
    let tail = |entries: &[(u64, u32)]| {
        entries.iter().map(|(index, term)| records(*index, *term).head()).collect::<Vec<_>>()
    };
    let recovered = |entries| Log::recovered(start(), base(2, 2, &[1, 2, 3]), tail(entries));
    for refused in [&[(4, 2)][..], &[(2, 2)], &[(3, 2), (5, 2)], &[(3, 1)], &[(3, 4), (4, 3)]] {
        assert_eq!(recovered(refused).unwrap_err(), NotContiguous);
    }
    let log = recovered(&[(3, 2), (4, 4)]).unwrap();
    assert_eq!((log.last(), log.cached_from()), (Index(4), Index(5)));
    let state = log.initial_state().unwrap();
    let hard = &state.hard_state;
    assert_eq!((hard.term, hard.vote, hard.commit), (4, replica(2).raw(), 3));
    assert_eq!(state.conf_state, members_to_raft(&log.base().members));
}

#[test]
#[should_panic = "a gap in the log"]
fn an_append_that_leaves_a_gap_is_a_defect() {
    evicted().append(BlockNumber(1), &[records(10, 2)]);
}
