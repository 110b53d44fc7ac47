//! A log that is being compacted loses power before and after every file operation, and with only
//! some blocks of a write on disk. Replay must always produce the state of the uncompacted log.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Disk, Entry, State, compact, compacting_config, number, open, part, recover, settle};
use muster_codec::record_batch::{EndTxnMarker, Producer, TransactionOutcome};
use muster_storage::{
    CompactionConfig, CompactionNews, FileOp, LogConfig, Recovered, ShardLog, Superseded,
};
use std::collections::BTreeMap;
use std::path::Path;

const BLOCK: usize = 512;

/// The directory that keeps the files replaced by a rewrite.
const KEPT_IN: &str = "trash/kept";

/// A log under load, and the state that replay must produce after each operation.
struct World {
    config: LogConfig,
    log: ShardLog,
    disk: Disk,
    now: i64,
    states: Vec<State>,
    checks: usize,
    rounds: u32,
    /// Every n-th rename finds no file, where n is this number. If it is 0, every rename finds its
    /// file.
    loses_every: usize,
    renames: usize,
}

impl World {
    fn new(compaction: CompactionConfig) -> Self {
        let config = LogConfig { compaction: Some(compaction), ..compacting_config() };
        Self {
            log: ShardLog::new(config.clone(), Recovered::default()),
            config,
            disk: Disk::default(),
            now: 1_000,
            states: vec![State::default()],
            checks: 0,
            rounds: 0,
            loses_every: 0,
            renames: 0,
        }
    }

    /// Appends an operation of one or two records. There are few keys and many sizes, and every
    /// fifth record is a tombstone.
    fn append(&mut self) {
        self.rounds += 1;
        let round = self.rounds as usize;
        let partition = (round % 3) as i32 - 1;
        let mut state = self.states.last().unwrap().clone();
        let mut written = Vec::new();
        for nth in 0..=round % 2 {
            let key = format!("key {}", (round * 7 + nth * 3) % 11).into_bytes();
            let value = vec![round as u8; (round * 379) % 1_500];
            let value = (!(round + nth).is_multiple_of(5)).then_some(value);
            state.put(partition, &key, value.as_deref());
            written.push((key, value));
        }
        let written = written.iter().map(|(key, value)| (key.as_slice(), value.as_deref()));
        self.log.append(part(partition), self.now, written).unwrap();
        self.states.push(state);
    }

    /// Appends records of a transaction, or its end. Every third transaction stays open for a
    /// while.
    fn transact(&mut self) {
        let round = self.rounds as i64;
        let (partition, producer) = ((round % 2) as i32, round % 3);
        let (at, by) = (part(partition), Producer { id: producer, epoch: 0 });
        let mut state = self.states.last().unwrap().clone();
        if round % 4 == 1 || (producer == 0 && round % 5 > 0) {
            let key = format!("key {}", (round * 5) % 11).into_bytes();
            let value = vec![round as u8; (round as usize * 379) % 1_500];
            state.put_in_transaction(partition, producer, &key, &value);
            let written = [(key.as_slice(), Some(value.as_slice()))];
            self.log.append_in_transaction(at, self.now, by, written).unwrap();
        } else {
            let aborts = round % 7 < 3;
            let outcome =
                if aborts { TransactionOutcome::Abort } else { TransactionOutcome::Commit };
            state.end(partition, producer, outcome);
            let marker = EndTxnMarker { outcome, coordinator_epoch: 0 };
            self.log.append_marker(at, self.now, by, marker);
        }
        self.states.push(state);
    }

    /// Appends the whole state again, as a rewrite does.
    fn append_state(&mut self) {
        let before = self.states.last().unwrap().clone();
        for Entry { partition, key, producer, value } in before.entries() {
            let mut state = self.states.last().unwrap().clone();
            let (at, written) = (part(partition), [(key.as_slice(), Some(value.as_slice()))]);
            match producer {
                None => {
                    state.put(partition, &key, Some(&value));
                    self.log.append(at, self.now, written).unwrap();
                }
                Some(producer) => {
                    state.put_in_transaction(partition, producer, &key, &value);
                    let by = Producer { id: producer, epoch: 0 };
                    self.log.append_in_transaction(at, self.now, by, written).unwrap();
                }
            }
            self.states.push(state);
        }
        assert!(before == *self.states.last().unwrap(), "the same state again");
    }

    /// Begins a rewrite as soon as possible, while clients append.
    fn begin_rewrite(&mut self) -> Superseded {
        loop {
            if let Some(superseded) = self.log.begin_rewrite() {
                return superseded;
            }
            self.append();
            self.turn();
        }
    }

    /// Rewrites the log, while clients append. Returns the last position that was replaced.
    fn rewrite(&mut self) -> u64 {
        let superseded = self.begin_rewrite();
        self.append();
        self.transact();
        self.append_state();
        let until = self.log.progress().accepted();
        while self.log.progress().flushed() < until {
            self.turn();
        }
        self.log.end_rewrite(superseded, KEPT_IN.into());
        let replaced = self.log.progress().submitted();
        loop {
            self.append();
            self.transact();
            self.turn();
            if let Some(CompactionNews::Rewritten { position }) = self.log.take_compaction_news() {
                assert!(position < until && replaced >= until);
                return position;
            }
        }
    }

    /// Runs one turn of the loop, and checks every disk image that a crash may leave.
    fn turn(&mut self) {
        let mut ops = Vec::new();
        self.log.poll(self.now, &mut ops);
        for op in ops {
            if let FileOp::Rename { from, .. } = &op {
                self.renames += 1;
                if self.loses_every > 0 && self.renames.is_multiple_of(self.loses_every) {
                    self.disk.live.remove(from).unwrap();
                    self.disk.durable.remove(from).unwrap();
                }
            }
            self.check_images(&op);
            if let Some(done) = self.disk.perform(op) {
                self.log.done(done);
            }
        }
        self.now += 1;
    }

    fn check_images(&mut self, op: &FileOp) {
        let FileOp::Write { data, .. } = op else {
            if !matches!(op, FileOp::Read { .. }) {
                self.check(self.disk.clone());
            }
            return;
        };
        let blocks = data.len() / BLOCK;
        // A torn write of zeros to unused space hardly matters, so only one way of tearing is
        // checked.
        let is_zero = data.iter().all(|byte| *byte == 0);
        let cuts = [0, 1, blocks / 2, blocks];
        for cut in &cuts[..if is_zero { 1 } else { cuts.len() }] {
            for keeps_beginning in [true, false] {
                let mut disk = self.disk.clone();
                disk.tear(op, BLOCK, |block| (block < *cut) == keeps_beginning);
                self.check(disk);
            }
        }
    }

    fn check(&mut self, mut disk: Disk) {
        self.checks += 1;
        disk.crash();
        let recovered = recover(&disk, &self.config.dir);
        let (recovered, replayed) = recovered.unwrap_or_else(|error| panic!("{error}"));
        let (position, progress) = (recovered.position(), self.log.progress());
        assert!((progress.flushed()..=progress.accepted()).contains(&position), "{position}");
        let expected = &self.states[position as usize];
        assert!(State::of(&replayed) == *expected, "another state at {position}");
        // The continuation is checked only after some crashes, because the check takes long.
        if self.checks.is_multiple_of(23) {
            self.check_continuation(disk, recovered, expected.clone());
        }
    }

    /// Checks that the log can continue after the crash, be compacted, and survive another crash.
    fn check_continuation(&self, mut disk: Disk, recovered: Recovered, mut expected: State) {
        let ends = recovered.partitions().map(|(partition, end)| (number(partition), end));
        let ends: BTreeMap<i32, i64> = ends.collect();
        let mut log = ShardLog::new(self.config.clone(), recovered);
        let mut now = self.now + 100;
        for round in 0..40u8 {
            log.append(part(0), now, [(&b"after"[..], Some(&[round; 1_000][..]))]).unwrap();
            settle(&mut log, &mut disk, now);
        }
        compact(&mut log, &mut disk, &mut now);
        disk.crash();
        let (log, replayed) = open(&disk, self.config.clone());
        expected.put(0, b"after", Some(&[39; 1_000]));
        assert!(State::of(&replayed) == expected, "another state after the crash");
        let written = |partition| if partition == 0 { 40 } else { 0 };
        for (partition, end) in ends {
            assert_eq!(log.log_end_offset(part(partition)), end + written(partition));
        }
    }
}

fn crash_at_every_operation(compaction: CompactionConfig, rounds: usize) {
    let mut world = World::new(compaction);
    for round in 0..rounds {
        for _ in 0..round % 3 {
            world.append();
            world.transact();
        }
        // Simulates an occasional snapshot.
        if round.is_multiple_of(20) {
            world.log.keep_markers_after(world.log.progress().flushed());
        }
        world.turn();
    }
    println!("{} images", world.checks);
    let files = world.disk.dir(&world.config.dir).len();
    assert!(files < 14, "{files} files, though it was compacted all the time");
}

#[test]
fn a_compacted_log_survives_a_crash_at_every_operation() {
    let rules = compacting_config().compaction.unwrap();
    crash_at_every_operation(CompactionConfig { delete_retention_ms: 30, ..rules }, 260);
}

#[test]
fn a_rewrite_survives_a_crash_at_every_operation() {
    let rules = compacting_config().compaction.unwrap();
    let mut world = World::new(CompactionConfig { delete_retention_ms: 30, ..rules });
    for _ in 0..8 {
        for _ in 0..12 {
            world.append();
            world.transact();
            world.turn();
        }
        let old = world.disk.clone();
        let ends = |world: &World| (-1..3).map(|at| world.log.log_end_offset(part(at))).collect();
        let before: Vec<i64> = ends(&world);
        let position = world.rewrite();
        // The old segments must have been replaced, even those that compaction has rewritten
        // meanwhile.
        let first = |disk: &Disk| disk.live.first_key_value().unwrap().1.clone();
        assert!(first(&world.disk) != first(&old), "the first segment is another one");
        let kept = format!("{KEPT_IN}/00000000000000000001.log");
        assert!(world.disk.live[Path::new(&kept)] == first(&old), "it is kept");
        assert!(ends(&world).iter().zip(&before).all(|(now, then)| now >= then));
        assert_eq!(world.log.dropped_position(), position);
    }
    println!("{} images", world.checks);
}

#[test]
fn a_log_that_is_compacted_all_the_time_without_tombstones_survives_a_crash_at_every_operation() {
    let rules = compacting_config().compaction.unwrap();
    let rules = CompactionConfig { delete_retention_ms: 0, min_dirty_ratio: 0.0, ..rules };
    crash_at_every_operation(rules, 160);
}

/// The files of new segments, and those kept for reuse, are missing when they are to be renamed.
#[test]
fn a_log_whose_files_are_gone_when_they_are_renamed_survives_a_crash_at_every_operation() {
    let rules = compacting_config().compaction.unwrap();
    let mut world = World::new(CompactionConfig { backoff_ms: 20, ..rules });
    let (mut gone, mut spares_gone, mut done) = (0, 0, 0);
    for loses_every in [2, 3, 4] {
        world.loses_every = loses_every;
        for _ in 0..150 {
            world.append();
            world.transact();
            world.turn();
            match world.log.take_compaction_news() {
                Some(CompactionNews::Gone { .. }) => gone += 1,
                Some(CompactionNews::SpareGone { .. }) => spares_gone += 1,
                Some(CompactionNews::Done { .. }) => done += 1,
                None => {}
                other => panic!("{other:?}"),
            }
        }
        world.rewrite();
    }
    let checks = world.checks;
    println!(
        "{checks} images; gone: {gone} new segments, {spares_gone} spare files; {done} passes"
    );
    assert!(gone > 2 && done > 2 && spares_gone > 2);
}
