//! Random histories of one share partition. Members fetch, acknowledge, renew and die; locks end;
//! flushes and letters end late; records are removed from the log; the server crashes. Each step is
//! compared with a simple model. The seed is printed. `MUSTER_SHARES_SEED` sets the first seed,
//! `MUSTER_SHARES_SEEDS` the number of seeds.

#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use muster_codec::records::{ShareRecord, ShareValue};
use muster_codec::{Uuid, Wall};
use muster_shares::partition::{Acknowledgement, AcquireMode, Fetched, LogBatch, Wanted};
use muster_shares::state::{Initialize, Topics};
use muster_shares::{RecordState, Settings, SharePartition, SharePartitionKey, States};
use std::collections::{BTreeMap, BTreeSet};

const MEMBERS: [&str; 4] = ["m0", "m1", "m2", "m3"];
const UPDATES_PER_SNAPSHOT: u32 = 5;

struct OneTopic;

impl Topics for OneTopic {
    fn has(&self, _: Uuid, _: i32) -> bool {
        true
    }
}

/// The lock of a member on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lock {
    member: &'static str,
    until: i64,
}

struct History {
    rng: Rng,
    key: SharePartitionKey,
    settings: Settings,
    states: States,
    partition: SharePartition,
    /// The log of share state, of which `flushed` records are flushed.
    log: Vec<ShareRecord<'static>>,
    flushed: usize,
    now: i64,
    batches: Vec<LogBatch>,
    aborted: Vec<LogBatch>,
    log_start: i64,
    end: i64,
    /// Locks on which members rely, by offset.
    locks: BTreeMap<i64, Lock>,
    /// The number of deliveries of each record since the last crash. Its delivery count is at least
    /// this number.
    deliveries: BTreeMap<i64, i16>,
    /// Records whose acknowledgement was answered, by offset.
    done: BTreeMap<i64, RecordState>,
    /// Acknowledgements that are not answered yet. The first part is the length that the flushed
    /// log must have for the answer; None if the change is in no record yet.
    unanswered: Vec<(Option<usize>, i64, RecordState)>,
    greatest_start: i64,
    /// Letters that have not ended.
    letters: Vec<(i64, i64)>,
    /// Records whose letter was taken since the last crash.
    lettered: BTreeSet<i64>,
    /// Records whose rejection was answered, and whose letter was not taken yet.
    awaited: BTreeSet<i64>,
}

#[test]
fn what_must_hold_holds_in_random_histories() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
    };
    let first = number("MUSTER_SHARES_SEED", 1);
    for seed in first..first + number("MUSTER_SHARES_SEEDS", 150) {
        println!("MUSTER_SHARES_SEED={seed}");
        let mut history = History::new(seed);
        for _ in 0..400 {
            history.step();
            history.check();
        }
        history.settle();
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let key = SharePartitionKey::new("g", Uuid([7; 16]), 0);
        let mut states = States::new(UPDATES_PER_SNAPSHOT);
        let request = Initialize { state_epoch: 1, start_offset: 0 };
        let record = states.initialize(&key, request, &OneTopic, Wall(0)).unwrap().unwrap();
        states.replay(&record);
        let partition = SharePartition::open(states.get(&key).unwrap(), 0).unwrap();
        let settings = Settings {
            record_lock_duration_ms: 100,
            delivery_count_limit: rng.i16(2..6),
            partition_max_record_locks: rng.i64(10..60),
            renew_acknowledge_enable: rng.bool(),
            has_dead_letters: seed.is_multiple_of(2),
        };
        Self {
            rng,
            key,
            settings,
            states,
            partition,
            log: vec![record],
            flushed: 1,
            now: 1_000,
            batches: Vec::new(),
            aborted: Vec::new(),
            log_start: 0,
            end: 0,
            locks: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            done: BTreeMap::new(),
            unanswered: Vec::new(),
            greatest_start: 0,
            letters: Vec::new(),
            lettered: BTreeSet::new(),
            awaited: BTreeSet::new(),
        }
    }

    fn step(&mut self) {
        match self.rng.u32(0..100) {
            0..15 => self.produce(),
            15..45 => self.fetch(),
            45..70 => self.acknowledge(),
            70..78 => self.advance(),
            78..82 => self.release(),
            82..90 => self.write(),
            90..94 => self.flush(),
            94..95 => self.take_letters(),
            95..96 => self.end_letter(),
            96..98 => self.move_log(),
            _ => self.crash(),
        }
    }

    fn produce(&mut self) {
        for _ in 0..self.rng.usize(1..4) {
            self.end += i64::from(self.rng.u8(0..10) == 0) * self.rng.i64(1..4);
            let count = self.rng.i64(1..9);
            let batch = LogBatch { base: self.end, last: self.end + count - 1 };
            self.end += count;
            self.batches.push(batch);
            if self.rng.u8(0..12) == 0 {
                self.aborted.push(batch);
            }
        }
    }

    fn fetch(&mut self) {
        let offset = self.partition.next_fetch_offset();
        if !self.partition.can_acquire(&self.settings) {
            return;
        }
        if offset < self.log_start {
            self.partition.log_starts_at(self.log_start);
            let start = self.log_start;
            self.locks.retain(|at, _| *at >= start);
            return;
        }
        let read = self.batches.iter().filter(|it| it.last >= offset && it.last >= self.log_start);
        let read: Vec<_> = read.take(self.rng.usize(1..6)).copied().collect();
        let aborted: Vec<_> = self.aborted.iter().filter(|it| read.contains(it)).copied().collect();
        let member = MEMBERS[self.rng.usize(0..MEMBERS.len())];
        let mode =
            if self.rng.bool() { AcquireMode::BatchOptimized } else { AcquireMode::RecordLimit };
        let (max_records, batch_size) = (self.rng.i64(1..30), self.rng.i64(1..20));
        let wanted = Wanted { member, mode, max_records, batch_size };
        let fetched = Fetched { offset, batches: &read, aborted: &aborted };
        let start = self.partition.start_offset();
        let acquired = self.partition.acquire(&wanted, &fetched, &self.settings, self.now);
        let (mut count, mut before) = (0, i64::MIN);
        for range in acquired {
            assert!(before < range.first && range.first <= range.last, "ranges are in order");
            assert!((1..=self.settings.delivery_count_limit).contains(&range.delivery_count));
            assert!(range.first >= start, "{} is before the start {start}", range.first);
            before = range.last;
            count += range.last - range.first + 1;
            for at in range.first..=range.last {
                self.delivered(at, member, range.delivery_count);
            }
        }
        assert!(mode == AcquireMode::BatchOptimized || count <= max_records, "the limit is strict");
    }

    fn delivered(&mut self, at: i64, member: &'static str, count: i16) {
        let lock = Lock { member, until: self.now + self.settings.record_lock_duration_ms };
        let before = self.locks.insert(at, lock);
        assert!(before.is_none_or(|it| it.until <= self.now), "{at} has a lock that stands");
        assert!(!self.done.contains_key(&at), "{at} was acknowledged, and the answer was given");
        let is_aborted = self.aborted.iter().any(|it| (it.base..=it.last).contains(&at));
        assert!(!is_aborted, "{at} is of an aborted transaction");
        let counted = self.deliveries.entry(at).or_insert(0);
        *counted += 1;
        assert!(count >= *counted, "{at} was delivered {counted} times, not {count}");
    }

    fn acknowledge(&mut self) {
        let member = MEMBERS[self.rng.usize(0..MEMBERS.len())];
        let held: Vec<i64> =
            self.locks.iter().filter(|(_, it)| it.member == member).map(|(at, _)| *at).collect();
        if held.is_empty() {
            return;
        }
        let first = held[self.rng.usize(0..held.len())];
        let run = held.iter().filter(|at| **at >= first).enumerate();
        let run = run.take_while(|(i, at)| **at == first + i64::try_from(*i).unwrap());
        let last = first + self.rng.i64(0..i64::try_from(run.count()).unwrap());
        let last = if self.rng.u8(0..20) == 0 { last + self.rng.i64(1..9) } else { last };
        let len = usize::try_from(last - first + 1).unwrap();
        let len = if self.rng.bool() { 1 } else { len };
        let types: Vec<i8> = (0..len).map(|_| self.rng.i8(0..5)).collect();
        let given = Acknowledgement { first, last, types: &types };
        let taken = self.partition.acknowledge(member, &[given], &self.settings, self.now);
        let start = self.partition.start_offset();
        for (i, at) in (first..=last).enumerate() {
            let kind = types[i.min(len - 1)];
            match (taken, kind) {
                (_, 4) if taken.is_err() && !self.settings.renew_acknowledge_enable => break,
                (_, 4) => self.renewed(at, member),
                (Err(_), _) => {}
                (Ok(_), _) if at < start => drop(self.locks.remove(&at)),
                (Ok(changed), _) => {
                    assert!(changed);
                    let Some(lock) = self.locks.remove(&at) else {
                        let mut runs = self.partition.in_flight();
                        assert!(!runs.any(|it| it.first <= at && at <= it.last), "{at} was free");
                        continue;
                    };
                    assert_eq!(lock.member, member);
                    let state = match kind {
                        1 => RecordState::Acknowledged,
                        2 => continue,
                        3 if self.settings.has_dead_letters => RecordState::Archiving,
                        _ => RecordState::Archived,
                    };
                    self.unanswered.push((None, at, state));
                }
            }
        }
    }

    /// Notes a renewed lock, even if the request as a whole failed: the locks that were renewed
    /// before the failure stay renewed.
    fn renewed(&mut self, at: i64, member: &'static str) {
        let run = self.partition.in_flight().find(|it| it.first <= at && at <= it.last);
        let until = run.filter(|it| it.member == Some(member)).and_then(|it| it.locked_until);
        if let (Some(until), Some(lock)) = (until, self.locks.get_mut(&at)) {
            lock.until = lock.until.max(until);
        }
    }

    fn advance(&mut self) {
        self.now += self.rng.i64(1..60);
        while self.partition.next_deadline().is_some_and(|it| it <= self.now) {
            self.partition.expire(self.now, &self.settings);
        }
        let now = self.now;
        self.locks.retain(|_, it| it.until > now);
    }

    fn release(&mut self) {
        let member = MEMBERS[self.rng.usize(0..MEMBERS.len())];
        self.partition.release(member, &self.settings);
        self.locks.retain(|_, it| it.member != member);
    }

    fn write(&mut self) {
        let Some(change) = self.partition.take_change(self.log.len() as u64 + 1) else { return };
        let wall = Wall(self.now);
        let record = self.states.change(&self.key, &change.as_write(), wall).unwrap();
        self.states.replay(&record);
        self.log.push(record);
        for (needs, ..) in &mut self.unanswered {
            needs.get_or_insert(self.log.len());
        }
    }

    fn flush(&mut self) {
        self.flushed = self.log.len();
        self.partition.flushed(self.flushed as u64);
        let flushed = self.flushed;
        let is_flushed =
            |it: &mut (Option<usize>, i64, RecordState)| it.0.is_some_and(|needs| needs <= flushed);
        for (_, at, state) in self.unanswered.extract_if(.., is_flushed) {
            if state == RecordState::Archiving {
                self.awaited.insert(at);
            }
            self.done.insert(at, state);
        }
    }

    /// Takes letters. No letter may be taken before its record is flushed, or be taken twice.
    fn take_letters(&mut self) {
        let mut durable = States::new(UPDATES_PER_SNAPSHOT);
        self.log[..self.flushed].iter().for_each(|record| durable.replay(record));
        let durable = durable.get(&self.key).unwrap();
        for letter in self.partition.take_letters(&self.settings) {
            for at in letter.first..=letter.last {
                let mut batches = durable.batches.iter();
                let known = batches.find(|it| it.first <= at && at <= it.last);
                let state = known.map(|it| (it.delivery_state, it.delivery_count));
                let is_durable = state == Some((3, letter.delivery_count));
                assert!(is_durable || at < durable.start_offset, "{at} is durably {state:?}");
                assert!(self.lettered.insert(at), "{at} has a letter already");
                self.awaited.remove(&at);
            }
            self.letters.push((letter.first, letter.last));
        }
    }

    fn end_letter(&mut self) {
        if !self.letters.is_empty() {
            let (first, last) = self.letters.swap_remove(self.rng.usize(0..self.letters.len()));
            self.partition.letter_ended(first, last);
        }
    }

    /// Deletes records at the front of the log, or compacts records away.
    fn move_log(&mut self) {
        if self.rng.bool() {
            let upto = self.rng.i64(self.log_start..=self.end.min(self.log_start + 20));
            self.log_start = upto;
        } else if self.batches.len() > 2 {
            let at = self.rng.usize(0..self.batches.len() - 1);
            let gone = self.batches.remove(at);
            self.aborted.retain(|it| *it != gone);
        }
    }

    /// Loses all unflushed records, and all volatile state.
    fn crash(&mut self) {
        self.log.truncate(self.flushed);
        self.compact();
        self.states = self.replayed();
        self.partition = SharePartition::open(self.states.get(&self.key).unwrap(), 0).unwrap();
        self.locks.clear();
        self.deliveries.clear();
        self.unanswered.clear();
        self.letters.clear();
        self.lettered.clear();
        // Records before the start offset were removed from the log, so their letters are not made.
        let start = self.partition.start_offset();
        self.awaited.retain(|at| *at >= start);
    }

    /// Compacts the log of share state: keeps the newest snapshot and the updates after it.
    fn compact(&mut self) {
        let is_snapshot = |it: &ShareRecord<'_>| matches!(it.value, ShareValue::Snapshot(_));
        let newest = self.log.iter().rposition(is_snapshot).unwrap();
        self.log.drain(..newest);
        self.flushed = self.log.len();
    }

    fn replayed(&self) -> States {
        let mut states = States::new(UPDATES_PER_SNAPSHOT);
        self.log.iter().for_each(|record| states.replay(record));
        states
    }

    fn check(&mut self) {
        self.check_replay();
        let start = self.partition.start_offset();
        assert!(start >= self.states.get(&self.key).unwrap().start_offset);
        let (mut before, mut in_flight) = (i64::MIN, 0_usize);
        for run in self.partition.in_flight() {
            let is_in_log =
                |at: &i64| self.batches.iter().any(|it| (it.base..=it.last).contains(at));
            in_flight += (run.first.max(start)..=run.last).filter(is_in_log).count();
            assert!(before < run.first && run.first <= run.last, "runs are in order");
            before = run.last;
            assert!(run.delivery_count <= self.settings.delivery_count_limit);
            for at in run.first..=run.last {
                let lock = self.locks.get(&at).filter(|it| it.until > self.now);
                let is_held = lock.is_none_or(|it| run.member == Some(it.member));
                assert!(is_held, "{at} is not with {lock:?}: {run:?}");
            }
        }
        // A whole batch of the log, with at most eight records, may be acquired beyond the limit.
        let limit = usize::try_from(self.settings.partition_max_record_locks).unwrap();
        assert!(in_flight < limit + 8, "{in_flight} in flight, not {limit}");
    }

    /// Replaying the log must produce the state, except for the number of updates. The durable
    /// start offset must never decrease.
    fn check_replay(&mut self) {
        let replayed = self.replayed();
        let (ours, again) = (self.states.get(&self.key).unwrap(), replayed.get(&self.key).unwrap());
        let mut expected = ours.clone();
        expected.updates = again.updates;
        assert_eq!(again, &expected);
        assert!(again.updates.is_none_or(|it| it <= UPDATES_PER_SNAPSHOT));
        let mut durable = States::new(UPDATES_PER_SNAPSHOT);
        self.log[..self.flushed].iter().for_each(|record| durable.replay(record));
        let start = durable.get(&self.key).unwrap().start_offset;
        assert!(start >= self.greatest_start, "the start goes back to {start}");
        self.greatest_start = start;
    }

    /// Ends all locks and flushes everything. Then all remaining records must be delivered again,
    /// and be acknowledged.
    fn settle(&mut self) {
        for _ in 0..2_000 {
            self.now += 1_000;
            self.advance();
            self.write();
            self.flush();
            self.take_letters();
            while !self.letters.is_empty() {
                self.end_letter();
            }
            if self.partition.next_fetch_offset() >= self.end {
                return self.check_lag();
            }
            self.fetch();
            let held: Vec<_> = self.locks.iter().map(|(at, lock)| (*at, lock.member)).collect();
            for (at, member) in held {
                let given = Acknowledgement { first: at, last: at, types: &[1] };
                self.partition.acknowledge(member, &[given], &self.settings, self.now).unwrap();
            }
            self.locks.clear();
        }
        panic!("records are left from {}", self.partition.next_fetch_offset());
    }

    /// When all records are done, the written state must show no lag without a further request.
    fn check_lag(&mut self) {
        while self.partition.has_changes() || self.partition.awaits_letters() {
            self.write();
            self.flush();
            self.take_letters();
            self.end_letter();
        }
        assert!(self.awaited.is_empty(), "{:?} were rejected without a letter", self.awaited);
        let state = self.states.get(&self.key).unwrap();
        let done = state.start_offset + i64::from(state.delivery_complete_count);
        assert!(done >= self.end, "{} count as lag: {state:?}", self.end - done);
    }
}
