//! The state of a group at a node, except its log: its toy machine, and the clients that wait.

use super::defects::Defect;
use super::disk::View;
use super::judge::Judge;
use super::toy::{Digest, Section, Toy};
use crate::{Base, BlockNumber, Group, Index, Members, NodeId, Role};
use std::collections::BTreeMap;

pub(crate) struct State {
    pub(crate) role: Role,
    pub(crate) committed: Index,
    pub(crate) members: Members,
    /// The records that the next block gets. Only a leader has some.
    pub(crate) open: Vec<u8>,
    /// The records whose clients wait, with the entry that they wait for.
    waiting: Vec<(Index, Vec<u8>)>,
    /// The reads that an entry will confirm, and whether each has seen all that was committed.
    reads: Vec<(Index, bool)>,
    /// The last entry that was passed to the toy machine. A section may be newer.
    pub(crate) applied: Index,
    toy: Toy,
    /// The digests after each entry that is not known to be committed.
    digests: BTreeMap<Index, [Digest; 2]>,
    /// The number of the block that has the record of an installed snapshot. The snapshot is loaded
    /// once the block is durable.
    pub(crate) installing: Option<BlockNumber>,
    snapshot: Option<Snapshot>,
}

/// A snapshot in progress.
struct Snapshot {
    base: Base,
    first: Section,
    /// The other section, as it was later.
    second: Option<Section>,
}

impl State {
    /// The state in which a group begins, with this log.
    pub(crate) fn of(log: &View) -> Self {
        Self {
            role: Role::Follower { leader: None },
            committed: log.commit,
            members: log.base.members.clone(),
            open: Vec::new(),
            waiting: Vec::new(),
            reads: Vec::new(),
            applied: log.base.index,
            toy: log.toy,
            digests: BTreeMap::new(),
            installing: None,
            snapshot: None,
        }
    }

    /// Loads the machine from the newest snapshot.
    pub(crate) fn load(&mut self, log: &View) {
        (self.applied, self.toy) = (log.base.index, log.toy);
        self.digests.clear();
        self.snapshot = None;
    }

    /// Records of a client, which waits until the entry that gets them is committed.
    pub(crate) fn accept(&mut self, index: Index, records: &[u8]) {
        self.open.extend(records);
        self.waiting.push((index, records.to_vec()));
    }

    /// The open entry is given up before a hand-over.
    pub(crate) fn give_up(&mut self) {
        self.open.clear();
        self.refuse_waiting();
    }

    pub(crate) fn refuse_waiting(&mut self) {
        self.waiting.clear();
        self.reads.clear();
    }

    /// Notes a read, if there is an open entry to confirm it: this entry is sealed after the read.
    pub(crate) fn read(&mut self, log: &View, had_all: bool, defect: Option<Defect>) {
        let is_sealed = log.last() > self.committed;
        if !self.open.is_empty() {
            self.reads.push((log.last().next(), had_all));
        } else if is_sealed && defect == Some(Defect::OlderEntryConfirms) {
            self.reads.push((log.last(), had_all));
        }
    }

    /// Answers all that waits for the entries up to this one.
    pub(crate) fn answer(
        &mut self,
        node: NodeId,
        group: Group,
        log: &View,
        last: Index,
        judge: &mut Judge,
    ) {
        for (index, records) in self.waiting.extract_if(.., |it| it.0 <= last) {
            judge.answered(
                group,
                index,
                log.entry(index).expect("a client waits for it"),
                &records,
            );
        }
        for (_, had_all) in self.reads.extract_if(.., |it| it.0 <= last) {
            judge.read_by_entry += 1;
            judge.answers_read(node, group, had_all);
        }
    }

    /// Applies what is in the log: a leader all of it, the others what is committed.
    pub(crate) fn apply(&mut self, node: NodeId, group: Group, log: &View, judge: &mut Judge) {
        let leads = self.role.leads().is_some();
        let last = if leads { log.last() } else { self.committed.min(log.last()) };
        while self.applied < last {
            self.applied = self.applied.next();
            self.toy.apply(log.entry(self.applied).expect("the machine follows the log"));
            // A section may already contain later entries. Then the digests are not those after
            // this entry.
            if self.toy.newest() == self.applied {
                self.digests.insert(self.applied, self.toy.digests());
            }
        }
        let unknown = self.digests.split_off(&self.committed.next());
        for (index, digests) in std::mem::replace(&mut self.digests, unknown) {
            judge.applied(node, group, index, digests);
        }
    }

    /// Does the next step of a snapshot. The steps copy the first section, later the second one,
    /// and then give the file its name. The last step waits until all that the sections contain is
    /// committed and durable.
    pub(crate) fn snapshot(
        &mut self,
        log: &View,
        durable: &View,
        may_begin: bool,
        defect: Option<Defect>,
    ) -> Option<(Base, Toy)> {
        let is_safe = |index: Index| {
            index <= self.committed
                && durable.term_of(index).is_some_and(|it| log.term_of(index) == Some(it))
        };
        let is_whole = self.installing.is_none() && self.toy.newest() == self.applied;
        match &mut self.snapshot {
            None if may_begin
                && is_whole
                && self.applied > log.base.index
                && is_safe(self.applied) =>
            {
                let (index, members) = (self.applied, self.members.clone());
                let base = Base { index, term: log.term_of(index)?, members };
                self.snapshot = Some(Snapshot { base, first: self.toy.section(0), second: None });
                None
            }
            Some(Snapshot { second: second @ None, .. }) => {
                *second = Some(self.toy.section(1));
                None
            }
            Some(Snapshot { base, first, second: Some(second) }) => {
                let toy = Toy::of([*first, *second]);
                if !is_safe(toy.newest()) {
                    return None;
                }
                let mut base = base.clone();
                if defect == Some(Defect::NewestRow) {
                    base = Base { index: toy.newest(), term: log.term_of(toy.newest())?, ..base };
                }
                self.snapshot = None;
                Some((base, toy))
            }
            None => None,
        }
    }
}
