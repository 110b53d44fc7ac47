//! A node: the crate under test, its log, and a toy machine for each group.

use super::defects::Defect;
use super::disk::{Block, View, Views, Written, recover, take};
use super::judge::{Judge, Witness};
use super::moves::Placements;
use super::state::State;
use super::toy::Toy;
use crate::{
    Base, BlockNumber, Config, Entry, Group, Index, NodeId, Output, PeerMessage, Record, ReplicaId,
    Replicas, Role, Round, Session,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

pub(crate) const SLOTS: u16 = 2;

/// The bytes of records that stay in memory. They are few, so that followers often need entries
/// that have left it.
const CACHE_BYTES: usize = 200;

/// The snapshots that replicas of a node have received, by replica and index. They are durable.
pub(crate) type Files = BTreeMap<(Group, ReplicaId, Index), Toy>;

/// The remains of a process: the blocks on its disk, the block in flight if it is in the page
/// cache, and the snapshots.
pub(crate) type Left = (Vec<Block>, Option<Block>, Files);

pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) session: Session,
    pub(crate) replicas: Replicas,
    pub(crate) groups: BTreeMap<Group, State>,
    /// The log, including all that is not durable yet.
    pub(crate) log: Views,
    number: BlockNumber,
    open: Vec<(Group, Written)>,
    pub(crate) flight: Option<Block>,
    pub(crate) durable: Vec<Block>,
    /// Messages that have left.
    pub(crate) sent: Vec<(NodeId, PeerMessage)>,
    pub(crate) restores: BTreeSet<(Group, ReplicaId)>,
    pub(crate) confirmed: Vec<(Group, Round)>,
    pub(crate) files: Files,
    defect: Option<Defect>,
}

impl Node {
    /// A node with this log. Its members, commit index and machines are those of recovery.
    pub(crate) fn start(
        id: NodeId,
        session: Session,
        (durable, cached, files): Left,
        placed: &Placements,
        defect: Option<Defect>,
        judge: &mut Judge,
    ) -> Self {
        let mut log = recover(&durable);
        // The recovered blocks are synced before the first block is written.
        let records = cached.map_or(Vec::new(), |it| it.records);
        take(&mut log, &records);
        let tail = Block { number: BlockNumber::RECOVERED, records };
        let mine = |(group, it): &(&Group, &View)| placed.has(**group, it.replica.unwrap());
        let known = |group: &Group| placed.of(*group);
        let groups = log.iter().filter(mine);
        let groups = groups.map(|(group, it)| it.recovered(*group, known(group))).collect();
        let mut out = Output::default();
        let config = Config { slots: SLOTS, cache_bytes: CACHE_BYTES };
        let replicas = Replicas::new(config, groups, &mut out);
        let replicas = replicas.unwrap_or_else(|it| panic!("{id:?} does not start: {it:?}"));
        let groups = log.iter().filter(mine);
        let groups = groups.map(|(group, view)| (*group, State::of(view))).collect();
        let mut node = Self {
            id,
            session,
            replicas,
            groups,
            log,
            number: BlockNumber(1),
            open: Vec::new(),
            flight: Some(tail),
            durable,
            sent: Vec::new(),
            restores: BTreeSet::new(),
            confirmed: Vec::new(),
            files,
            defect,
        };
        node.follow(out, judge);
        if defect == Some(Defect::EarlySync) {
            node.call(judge, |replicas, out| replicas.persisted(BlockNumber::RECOVERED, out));
        }
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
            self.write(group, record);
        }
        for (group, _, members) in out.members {
            self.groups.get_mut(&group).unwrap().members = members;
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
            self.fetch(group, range, judge);
        }
    }

    /// Reads entries for followers from the disk. The entries that the crate asks for are there: it
    /// keeps an entry in memory at least until it is on the disk.
    fn fetch(&mut self, group: Group, range: RangeInclusive<Index>, judge: &mut Judge) {
        let (first, last) = range.into_inner();
        let log = &self.log[&group];
        let disk = judge.disks.get(&self.id).and_then(|it| it.get(&group));
        let read = (first.0..=last.0).map_while(|it| disk.and_then(|disk| disk.entry(Index(it))));
        let read: Vec<Entry> = read.cloned().collect();
        if read.first().map(|it| it.term) != log.term_of(first) {
            let node = self.id;
            judge.fault(format!("{node:?} {group:?}: {first:?} is wanted and not on the disk"));
        }
        self.call(judge, |replicas, out| replicas.fetched(group, first, read, out));
    }

    fn write(&mut self, group: Group, record: Record) {
        let log = self.log.entry(group).or_default();
        let committed = self.groups.get(&group).map_or(Index(0), |it| it.committed);
        let written = if let Record::Installed(base) = record {
            let replica = log.replica.unwrap();
            let file = self.files.get(&(group, replica, base.index));
            Written::Installed(base, *file.expect("an install follows its snapshot"))
        } else {
            Written::Record(record, committed)
        };
        log.take(&written);
        match &written {
            Written::Record(Record::Born(_), _) => {
                self.groups.insert(group, State::of(log));
            }
            Written::Installed(base, _) => {
                let state = self.groups.get_mut(&group).unwrap();
                state.members = base.members.clone();
                state.installing = Some(self.number);
            }
            Written::Record(..) | Written::Row(..) => {}
        }
        self.open.push((group, written));
    }

    /// A deposed leader undoes the applied entries that are not committed. Clients that wait hear
    /// that it does not lead.
    fn take_role(&mut self, group: Group, role: Role, judge: &mut Judge) {
        let log = &self.log[&group];
        let state = self.groups.get_mut(&group).unwrap();
        let before = std::mem::replace(&mut state.role, role);
        if let Some(term) = role.leads() {
            judge.leads(group, term, log.replica.unwrap());
        }
        if before.leads().is_some() && before.leads() != role.leads() {
            state.refuse_waiting();
            if self.defect != Some(Defect::NoUndo) {
                state.open.clear();
                state.load(log);
            }
        }
        self.apply(group, judge);
    }

    fn commit(&mut self, group: Group, index: Index, judge: &mut Judge) {
        let state = self.groups.get_mut(&group).unwrap();
        let from = std::mem::replace(&mut state.committed, index);
        let log = &self.log[&group];
        judge.commits(&Witness { node: self.id, group, log, from }, index);
        state.answer(self.id, group, log, index, judge);
        self.apply(group, judge);
    }

    /// Applies what is in the log: a leader all of it, the others what is committed.
    fn apply(&mut self, group: Group, judge: &mut Judge) {
        let (log, state) = (&self.log[&group], self.groups.get_mut(&group).unwrap());
        if state.installing.is_some() {
            return;
        }
        state.apply(self.id, group, log, judge);
        let applied = state.applied;
        let mut out = Output::default();
        self.replicas.applied(group, applied, &mut out);
        // After this call, the replica may stand for election and send messages, but no more.
        assert!(out.log.is_empty() && out.committed.is_empty() && out.roles.is_empty());
        self.sent.extend(out.send);
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

    /// If the injected defect is one of the caller's disk, applies it to the block in flight.
    pub(crate) fn damage(&mut self, judge: &mut Judge) {
        let Some(block) = self.flight.as_mut() else { return };
        match self.defect {
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
            Some(_) | None => {}
        }
    }

    /// The block that is being written is durable.
    pub(crate) fn flushed(&mut self, judge: &mut Judge) {
        let Some(block) = self.flight.take() else { return };
        let number = block.number;
        take(judge.disks.entry(self.id).or_default(), &block.records);
        if !block.records.is_empty() {
            self.durable.push(block);
        }
        self.call(judge, |replicas, out| replicas.persisted(number, out));
        let groups: Vec<Group> = self.groups.keys().copied().collect();
        for group in groups {
            let state = self.groups.get_mut(&group).unwrap();
            // A snapshot whose marker is durable.
            if state.installing.take_if(|it| *it <= number).is_some() {
                state.load(&self.log[&group]);
                self.apply(group, judge);
            }
            if self.defect == Some(Defect::OwnFlushAnswers) {
                self.answer_durable(group, judge);
            }
        }
    }

    fn answer_durable(&mut self, group: Group, judge: &mut Judge) {
        let Some(durable) = judge.disks[&self.id].get(&group).map(View::last) else { return };
        let state = self.groups.get_mut(&group).unwrap();
        state.answer(self.id, group, &self.log[&group], durable, judge);
    }

    /// Does the next step of a snapshot of the group. Begins one only with `may_begin`.
    pub(crate) fn snapshot(&mut self, group: Group, may_begin: bool, judge: &Judge) {
        let Some(state) = self.groups.get_mut(&group) else { return };
        let durable = judge.disks.get(&self.id).and_then(|it| it.get(&group));
        let Some(durable) = durable else { return };
        let log = &self.log[&group];
        if let Some((base, toy)) = state.snapshot(log, durable, may_begin, self.defect) {
            self.replicas.compacted(group, base.clone());
            let row = Written::Row(base, toy);
            self.log.get_mut(&group).unwrap().take(&row);
            self.open.push((group, row));
        }
    }

    /// A snapshot of the group for another replica: the newest row.
    pub(crate) fn row(&mut self, group: Group, judge: &Judge) -> Option<(Base, Toy)> {
        (0..3).for_each(|_| self.snapshot(group, true, judge));
        self.log.get(&group).map(|it| (it.base.clone(), it.toy))
    }
}
