//! A node: the crate under test, its log, and a toy machine for each group.

use super::Defect;
use super::disk::{Block, View, Views, Written, recover, take};
use super::judge::{Digest, Judge, Witness, digest};
use super::moves::Placements;
use crate::{
    Base, BlockNumber, Config, Entry, Group, Index, Members, NodeId, Output, PeerMessage, Record,
    ReplicaId, Replicas, Role, Round, Session,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const SLOTS: u16 = 2;

/// The bytes of records in memory: few, so that followers often need older ones.
const CACHE_BYTES: usize = 200;

pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) session: Session,
    pub(crate) replicas: Replicas,
    pub(crate) groups: BTreeMap<Group, State>,
    /// The log with all that is not durable yet.
    pub(crate) log: Views,
    number: BlockNumber,
    open: Vec<(Group, Written)>,
    pub(crate) flight: Option<Block>,
    pub(crate) durable: Vec<Block>,
    /// Messages that have left.
    pub(crate) sent: Vec<(NodeId, PeerMessage)>,
    pub(crate) restores: BTreeSet<(Group, ReplicaId)>,
    pub(crate) confirmed: Vec<(Group, Round)>,
    defect: Option<Defect>,
}

/// A group at a node, beside its log.
pub(crate) struct State {
    pub(crate) role: Role,
    pub(crate) committed: Index,
    pub(crate) members: Members,
    /// The members before the last change.
    before: Members,
    /// The records that the next block gets. Only a leader has some.
    pub(crate) open: Vec<u8>,
    /// The last entry that the toy machine has applied, and its state after each entry that is not
    /// known to be committed.
    applied: Index,
    digest: Digest,
    digests: BTreeMap<Index, Digest>,
    /// The snapshot that is being installed: the machine is loaded once the marker is durable.
    installing: Option<(BlockNumber, Base)>,
}

impl State {
    fn at(base: &Base, judge: &Judge, group: Group) -> Self {
        Self {
            role: Role::Follower { leader: None },
            committed: base.index,
            members: base.members.clone(),
            before: base.members.clone(),
            open: Vec::new(),
            applied: base.index,
            digest: judge.digest_at(group, base.index),
            digests: BTreeMap::new(),
            installing: None,
        }
    }
}

impl Node {
    /// A node with this log. Its members, commit index and machines are those of recovery.
    pub(crate) fn start(
        id: NodeId,
        session: Session,
        durable: Vec<Block>,
        placed: &Placements,
        defect: Option<Defect>,
        judge: &mut Judge,
    ) -> Self {
        let log = recover(&durable);
        let mine = |(group, it): &(&Group, &View)| placed.has(**group, it.replica.unwrap());
        let known = |group: &Group| placed.of(*group);
        let groups = log.iter().filter(mine);
        let groups = groups.map(|(group, it)| it.recovered(*group, known(group))).collect();
        let mut out = Output::default();
        let config = Config { slots: SLOTS, cache_bytes: CACHE_BYTES };
        let replicas = Replicas::new(config, groups, &mut out);
        let replicas = replicas.unwrap_or_else(|it| panic!("{id:?} does not start: {it:?}"));
        let state = |(group, view): (&Group, &View)| {
            let state = State { committed: view.commit, ..State::at(&view.base, judge, *group) };
            (*group, state)
        };
        let groups = log.iter().filter(mine).map(state).collect();
        let mut node = Self {
            id,
            session,
            replicas,
            groups,
            log,
            number: BlockNumber(1),
            open: Vec::new(),
            flight: None,
            durable,
            sent: Vec::new(),
            restores: BTreeSet::new(),
            confirmed: Vec::new(),
            defect,
        };
        node.follow(out, judge);
        let groups: Vec<Group> = node.groups.keys().copied().collect();
        groups.into_iter().for_each(|it| node.apply(it, judge));
        node
    }

    /// A call of the crate, and all that follows from it at this node.
    pub(crate) fn call<T>(
        &mut self,
        judge: &mut Judge,
        call: impl FnOnce(&mut Replicas, &mut Output) -> T,
    ) -> T {
        let mut out = Output::default();
        let result = call(&mut self.replicas, &mut out);
        self.follow(out, judge);
        result
    }

    fn follow(&mut self, out: Output, judge: &mut Judge) {
        let mut written: Vec<Group> = out.log.iter().map(|it| it.0).collect();
        written.dedup();
        for (group, record) in out.log {
            self.write(group, record, judge);
        }
        for (group, _, members) in out.members {
            let state = self.groups.get_mut(&group).unwrap();
            state.before = std::mem::replace(&mut state.members, members);
        }
        for (group, role) in out.roles {
            self.take_role(group, role, judge);
        }
        for (group, index) in out.committed {
            self.commit(group, index, judge);
        }
        written.into_iter().for_each(|it| self.apply(it, judge));
        self.sent.extend(out.send);
        self.restores.extend(out.restore);
        self.confirmed.extend(out.confirmed);
        for group in out.gone {
            self.groups.remove(&group);
        }
        for (group, range) in out.fetch {
            let log = &self.log[&group];
            let (first, last) = range.into_inner();
            let entries = (first.0..=last.0).map_while(|it| log.entry(Index(it)).cloned());
            let entries: Vec<Entry> = entries.collect();
            self.call(judge, |replicas, out| replicas.fetched(group, first, entries, out));
        }
    }

    fn write(&mut self, group: Group, record: Record, judge: &Judge) {
        if let Record::Born(_) = record {
            self.groups.insert(group, State::at(&Base::default(), judge, group));
        }
        let state = self.groups.get_mut(&group).unwrap();
        if let Record::Installed(base) = &record {
            state.members = base.members.clone();
            state.before = base.members.clone();
            state.installing = Some((self.number, base.clone()));
        }
        let written = Written::Record(record, state.committed);
        self.log.entry(group).or_default().take(&written);
        self.open.push((group, written));
    }

    /// A leader that is deposed undoes what it has applied and is not committed.
    fn take_role(&mut self, group: Group, role: Role, judge: &mut Judge) {
        let replica = self.log[&group].replica.unwrap();
        let state = self.groups.get_mut(&group).unwrap();
        let before = std::mem::replace(&mut state.role, role);
        if let Some(term) = role.leads() {
            judge.leads(group, term, replica);
        }
        let is_deposed = before.leads().is_some() && before.leads() != role.leads();
        if is_deposed && self.defect != Some(Defect::NoUndo) {
            state.open.clear();
            let base = &self.log[&group].base;
            state.applied = base.index;
            state.digest = judge.digest_at(group, base.index);
            state.digests.clear();
        }
        self.apply(group, judge);
    }

    fn commit(&mut self, group: Group, index: Index, judge: &mut Judge) {
        let state = self.groups.get_mut(&group).unwrap();
        let from = std::mem::replace(&mut state.committed, index);
        let members = [&state.members, &state.before];
        let log = &self.log[&group];
        judge.commits(&Witness { node: self.id, group, log, members, from }, index);
        self.apply(group, judge);
    }

    /// Applies what is in the log: a leader all of it, the others what is committed.
    fn apply(&mut self, group: Group, judge: &mut Judge) {
        let (log, state) = (&self.log[&group], self.groups.get_mut(&group).unwrap());
        if state.installing.is_some() {
            return;
        }
        let leads = state.role.leads().is_some();
        let last = if leads { log.last() } else { state.committed.min(log.last()) };
        while state.applied < last {
            state.applied = state.applied.next();
            let entry = log.entry(state.applied).expect("the machine follows the log");
            state.digest = digest(state.digest, entry);
            state.digests.insert(state.applied, state.digest);
        }
        let unknown = state.digests.split_off(&state.committed.next());
        for (index, digest) in std::mem::replace(&mut state.digests, unknown) {
            judge.applied(self.id, group, index, digest);
        }
        let applied = state.applied;
        let mut out = Output::default();
        self.replicas.applied(group, applied, &mut out);
        // Nothing depends on it but elections that wait for it.
        assert!(out.log.is_empty() && out.committed.is_empty() && out.roles.is_empty());
        self.sent.extend(out.send);
    }

    /// Whether the node accepts records of the group.
    pub(crate) fn is_open(&self, group: Group) -> bool {
        self.replicas.is_open(group)
    }

    /// Ends the open block, unless one is being written.
    pub(crate) fn seal(&mut self, judge: &mut Judge) -> bool {
        if self.flight.is_some() {
            return false;
        }
        let groups: Vec<Group> = self.groups.keys().copied().collect();
        for group in groups {
            self.propose(group, judge);
        }
        if self.open.is_empty() {
            return false;
        }
        let block = Block { number: self.number, records: std::mem::take(&mut self.open) };
        self.replicas.sealed(self.number);
        self.number = BlockNumber(self.number.0 + 1);
        self.flight = Some(block);
        true
    }

    /// The open entry of a group goes to the open block.
    pub(crate) fn propose(&mut self, group: Group, judge: &mut Judge) {
        let is_open = self.replicas.is_open(group);
        let Some(state) = self.groups.get_mut(&group) else { return };
        if is_open && !state.open.is_empty() {
            let records = Bytes::from(std::mem::take(&mut state.open));
            self.call(judge, |replicas, out| replicas.propose(group, records, out));
        }
    }

    /// Does to the block in flight what a defect of the caller would.
    pub(crate) fn damage(&mut self, judge: &mut Judge) {
        let Some(block) = self.flight.as_mut() else { return };
        match self.defect {
            None | Some(Defect::NoUndo | Defect::KeptSession) => {}
            Some(Defect::EarlyFlush) => {
                let number = block.number;
                self.call(judge, |replicas, out| replicas.persisted(number, out));
            }
            Some(Defect::LostVotes) => {
                for (_, written) in &mut block.records {
                    if let Written::Record(Record::Vote(_, vote), _) = written {
                        *vote = None;
                    }
                }
            }
            Some(Defect::LostTerms) => {
                block.records.retain(|(_, it)| !matches!(it, Written::Record(Record::Vote(..), _)))
            }
        }
    }

    /// The block that is being written is durable.
    pub(crate) fn flushed(&mut self, judge: &mut Judge) {
        let Some(block) = self.flight.take() else { return };
        let number = block.number;
        take(judge.disks.entry(self.id).or_default(), &block.records);
        self.durable.push(block);
        self.call(judge, |replicas, out| replicas.persisted(number, out));
        let groups: Vec<Group> = self.groups.keys().copied().collect();
        for group in groups {
            self.load(group, number, judge);
        }
    }

    /// Loads a snapshot whose marker is durable.
    fn load(&mut self, group: Group, durable: BlockNumber, judge: &mut Judge) {
        let state = self.groups.get_mut(&group).unwrap();
        if let Some((_, base)) = state.installing.take_if(|it| it.0 <= durable) {
            state.applied = base.index;
            state.digest = judge.digest_at(group, base.index);
            state.digests.clear();
            self.apply(group, judge);
        }
    }

    /// Writes a row for a group: a snapshot has what is applied, committed and durable.
    pub(crate) fn compact(&mut self, group: Group, judge: &Judge) {
        let Some(state) = self.groups.get(&group) else { return };
        let durable = judge.disks.get(&self.id).and_then(|it| it.get(&group));
        let Some(durable) = durable else { return };
        let index = state.applied.min(state.committed).min(durable.last());
        let log = &self.log[&group];
        let is_flushed = durable.term_of(index) == log.term_of(index);
        if state.installing.is_none() && is_flushed && index > log.base.index {
            let term = log.term_of(index).unwrap();
            let base = Base { index, term, members: state.members.clone() };
            self.replicas.compacted(group, base.clone());
            let row = Written::Row(base);
            self.log.get_mut(&group).unwrap().take(&row);
            self.open.push((group, row));
        }
    }
}
