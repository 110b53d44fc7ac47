//! Compaction and the markers at which the logs of groups begin.

use super::compaction::compacting;
use super::*;

const BASE: EntryId = EntryId { index: 500, term: 7 };

/// A group that is idle, or has few entries, beside one that fills segments.
pub(super) struct Beside {
    pub(super) node: Node,
    blocks: u64,
    /// The number of replacements by compaction when the marker was written.
    swaps: u64,
}

impl Beside {
    pub(super) fn new() -> Self {
        Self { node: Node::of(compacting()), blocks: 0, swaps: 0 }
    }

    pub(super) fn begin(&mut self, base: EntryId) {
        self.node.log.write_marker(2, base, &marker(), &[]).unwrap();
        let begun = ModelGroup { base: base.index, in_headers: base.index, ..Default::default() };
        self.node.model.insert(2, begun);
        self.node.commits.insert(2, base.index);
        self.swaps = self.node.log.swaps();
        self.seal();
    }

    pub(super) fn seal(&mut self) {
        self.node.seal();
        self.node.settle_blocks();
        self.blocks += 1;
    }

    /// Another group writes until there are later segments, and needs none of them.
    pub(super) fn fill(&mut self) {
        let sealed_end = self.node.log.segments.sealed_end();
        while self.node.log.segments.sealed_end() < sealed_end + 2 {
            self.node.append(partition(0, 0), &[7; 900]);
            self.node.propose(9);
            let last = self.node.log.last_entry(1);
            self.node.commit(1, last.index);
            self.seal();
            self.node.log.compact_group(1, last);
        }
    }

    pub(super) fn compact(&mut self) {
        for _ in 0..800 {
            self.node.now += 50;
            self.node.poll();
        }
        assert!(self.node.log.swaps() > self.swaps, "nothing was compacted");
    }

    fn restart(&mut self) {
        self.node.reopen(self.blocks);
        self.node.settle_blocks();
        self.blocks = 0;
    }

    fn base_and_last(&self) -> (EntryId, EntryId) {
        (self.node.log.base_entry(2), self.node.log.last_entry(2))
    }
}

#[test]
fn an_idle_group_stays_after_its_marker_is_compacted() {
    let mut beside = Beside::new();
    beside.begin(BASE);
    beside.fill();
    beside.compact();
    beside.restart();
    assert_eq!(beside.base_and_last(), (BASE, BASE));
    assert_eq!(beside.node.log.visible_entry(2), BASE.index);
}

#[test]
fn entries_follow_a_marker_that_is_compacted() {
    let mut beside = Beside::new();
    beside.begin(BASE);
    beside.fill();
    beside.node.follow(2, 501, 8, &[(partition(0, 1), b"a")]);
    beside.seal();
    beside.compact();
    beside.restart();
    assert_eq!(beside.base_and_last(), (BASE, EntryId { index: 501, term: 8 }));
    beside.node.check_fetches();
}

/// The log of the older replica had a greater index.
#[test]
fn entries_of_an_older_replica_are_gone_when_its_successors_marker_is_compacted() {
    let mut beside = Beside::new();
    beside.begin(EntryId { index: 700, term: 3 });
    beside.node.follow(2, 701, 3, &[(partition(0, 1), b"old")]);
    beside.seal();
    beside.node.commit(2, 701);
    beside.node.log.compact_group(2, EntryId { index: 701, term: 3 });
    beside.fill();
    beside.compact();
    beside.begin(BASE);
    beside.fill();
    beside.compact();
    beside.restart();
    assert_eq!(beside.base_and_last(), (BASE, BASE));
}

/// The entry after the marker is void, and not left in the compacted segment.
#[test]
fn void_entries_behind_a_marker_are_compacted_with_it() {
    let mut beside = Beside::new();
    beside.begin(EntryId { index: 1, term: 1 });
    beside.node.follow(2, 2, 2, &[(partition(0, 1), b"void")]);
    beside.seal();
    beside.fill();
    beside.node.follow(2, 2, 3, &[(partition(0, 1), b"a")]);
    beside.seal();
    beside.fill();
    beside.compact();
    beside.restart();
    let ids = [(1, 1), (2, 3)].map(|(index, term)| EntryId { index, term });
    assert_eq!(beside.base_and_last(), (ids[0], ids[1]));
    beside.node.check_fetches();
}
