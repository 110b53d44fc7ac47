//! Compaction of a replicated log takes what is merged, and nothing else.

use super::random::{GROUPS, Story, found_by, run_seeds};
use super::*;
use crate::injected::Injected;
use crate::shard_log::CompactionConfig;

const STEPS: usize = 120;

pub(super) fn compacting() -> LogConfig {
    let compaction = CompactionConfig { min_dirty_ratio: 0.0, ..CompactionConfig::default() };
    LogConfig {
        compaction: Some(compaction),
        segment_bytes: 12 << 10,
        first_segment_bytes: 8 << 10,
        operation_bytes_max: 1 << 10,
        open_bytes_max: 2 << 10,
        ..config()
    }
}

/// A story whose log is compacted, up to the bases of its groups.
struct Compacting {
    story: Story,
    bases: BTreeMap<u16, u64>,
    /// The markers at which the logs of groups begin.
    begun: BTreeMap<u16, EntryId>,
}

impl Compacting {
    fn step(&mut self) {
        match self.story.random.below(13) {
            0 | 1 => self.compact(),
            2 | 3 => self.crash(),
            4 | 5 => self.move_bases(),
            6 => self.begin(),
            _ => self.write(),
        }
        self.story.node.check();
        self.story.node.check_fetches();
        self.check_kept();
    }

    fn write(&mut self) {
        let Story { node, random, term } = &mut self.story;
        let group = GROUPS[random.below(3) as usize];
        for _ in 0..random.below(4) {
            let (partition, value) = (random.partition(group), random.value());
            node.append(partition, &value);
        }
        node.append(LogPartition::NODE, &[7; 40]);
        node.open.remove(&NODE_GROUP);
        node.propose(*term);
        if random.below(4) == 0 {
            self.story.overwrite(group);
        }
        self.story.node.seal();
        self.story.node.settle_blocks();
        self.story.commit(group);
    }

    /// A replica installs a snapshot: its log begins again, after an entry before or after its last
    /// one.
    fn begin(&mut self) {
        let Story { node, random, term } = &mut self.story;
        let group = GROUPS[random.below(3) as usize];
        node.log.discard(group);
        node.open.remove(&group);
        let base = EntryId { index: 1 + random.below(40), term: *term };
        node.log.write_marker(group, base, &marker(), &[]).unwrap();
        let begun = ModelGroup { base: base.index, in_headers: base.index, ..Default::default() };
        node.model.insert(group, begun);
        node.commits.insert(group, base.index);
        self.bases.insert(group, base.index);
        self.begun.insert(group, base);
        node.seal();
        node.settle_blocks();
    }

    /// Snapshots have what is committed and durable.
    fn move_bases(&mut self) {
        for group in GROUPS {
            let log = &self.story.node.log;
            let (base, visible) = (log.base_entry(group).index, log.visible_entry(group));
            let index = base + self.story.random.below(visible + 1 - base);
            let Some(term) = self.story.node.log.kept_entry(group, index).map(|it| it.term) else {
                continue;
            };
            self.story.node.log.compact_group(group, EntryId { index, term });
            self.bases.insert(group, index);
        }
    }

    /// Lets compaction work for a while.
    fn compact(&mut self) {
        for _ in 0..self.story.random.below(200) {
            self.story.node.now += 5;
            self.story.node.poll();
        }
    }

    /// Ends the process between two file operations. All sealed blocks are durable.
    fn crash(&mut self) {
        let node = &mut self.story.node;
        node.now += 5;
        let mut ops = Vec::new();
        node.log.poll(node.now, &mut ops);
        let count = self.story.random.below(ops.len() as u64 + 1) as usize;
        node.disk.perform_all(ops.into_iter().take(count).collect());
        let blocks = node.sealed.len() as u64 - 1;
        let replayed = node.reopen(blocks);
        node.settle_blocks();
        self.story.term += 1;
        self.check_state(&replayed);
    }

    /// Replayed records must be committed, and must make the newest state of each partition.
    fn check_state(&self, replayed: &[Value]) {
        for (group, model) in &self.story.node.model {
            let committed = model.values(self.story.node.commits[group]);
            let of_group = replayed.iter().filter(|it| group_of(it.0, SLOTS) == *group);
            let mut newest = BTreeMap::new();
            for value in of_group {
                assert!(committed.contains(value), "{:?} is not committed", value.0);
                newest.insert(value.0, value);
            }
            let expected: BTreeMap<_, _> = committed.iter().map(|it| (it.0, it)).collect();
            assert_eq!(newest, expected, "the state of group {group}");
        }
    }

    /// The entries after the bases must be in the log.
    fn check_kept(&self) {
        for (group, model) in &self.story.node.model {
            let base = self.bases.get(group).copied().unwrap_or(0);
            let of_group = self.story.node.log.base_entry(*group);
            if let Some(begun) = self.begun.get(group).filter(|it| it.index >= of_group.index) {
                assert_eq!(of_group, *begun, "the base of {group}");
            }
            for index in base + 1..=model.last() {
                let log = &self.story.node.log;
                assert!(log.kept_entry(*group, index).is_some(), "entry {index} of {group}");
            }
        }
    }
}

impl Node {
    /// All sealed blocks become durable.
    pub(super) fn settle_blocks(&mut self) {
        while self.log.flushed_block() + 1 < self.sealed.len() as u64 || !self.log.is_recovered() {
            self.now += 1;
            self.poll();
        }
    }
}

fn run(seed: u64) {
    let story = Story::of(Node::of(compacting()), seed);
    let mut compacting = Compacting { story, bases: BTreeMap::new(), begun: BTreeMap::new() };
    for _ in 0..STEPS {
        compacting.step();
    }
    assert!(compacting.story.node.log.swaps() > 0 || compacting.story.node.sealed.len() < 40);
}

#[test]
fn compaction_keeps_the_state_and_the_entries_after_the_base() {
    run_seeds(30, run);
}

#[test]
fn compacted_entries_that_are_not_merged_are_found() {
    let found = found_by(Injected::UncommittedCompacted, run);
    assert!(found.is_some(), "not found");
    println!("seed {found:?}");
}
