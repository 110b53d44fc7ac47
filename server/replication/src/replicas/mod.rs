//! All replicas of a shard: the interface of the crate.
//!
//! The caller has the log, the connections and the clock. Its duties:
//!
//! - **Blocks.** The records of an [`Output`] for the log belong to the open block. When the disk
//!   is free, the caller proposes the open entry of each slot ([`Replicas::propose`]), ends the
//!   block ([`Replicas::sealed`]), and reports when it is durable ([`Replicas::persisted`]).
//!   Before all others it reports the blocks that recovery found, once they are durable
//!   ([`BlockNumber::RECOVERED`]): a process that was killed may have left them in the page cache.
//! - **Machines.** Followers apply entries once they are committed, leaders when they accept them.
//!   [`Replicas::applied`] says how far the machines of a group are, in any role. A leader that is
//!   deposed takes its open entry out of the block, and loads the group again.
//! - **Connections.** Messages of a pair of nodes arrive in their order, or not at all. The caller
//!   reports the end of each connection ([`Replicas::lost`]), and the process at the other end of a
//!   new one ([`Replicas::connected`]). It reports the newest tick of a node's shard
//!   ([`Replicas::heard`]) before the messages that came with it.

mod cache;

use crate::heard::Heard;
use crate::output::{Output, Role};
use crate::ranks::ELECTION_TICKS;
use crate::replica::{NotNow, RecoveredGroup, Refused, Replica, Turn};
use crate::validation::Lie;
use crate::{
    Base, BlockNumber, Change, Entry, Group, Index, Members, NodeId, PeerMessage, ReplicaId, Round,
    Session, Tick,
};
use bytes::Bytes;
use cache::Cache;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The number of slots. Group s + 1 is slot s.
    pub slots: u16,
    /// The bytes of records that stay in memory for followers. Entries that are not durable stay,
    /// too, beyond this limit.
    pub cache_bytes: usize,
}

pub struct Replicas {
    config: Config,
    replicas: BTreeMap<Group, Replica>,
    open: BlockNumber,
    /// The newest known process of each node. It is kept when the connection ends.
    sessions: BTreeMap<NodeId, Session>,
    /// The newest ticks of these processes that were heard.
    heard: Heard,
    /// The nodes whose process is known to be gone.
    gone: BTreeSet<NodeId>,
    cache: Cache,
}

/// An error: by its log, this node's older replica of the group has a vote. The group has to commit
/// its removal before a new replica is created. This does not apply to a quarantined replica, which
/// does not vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StillVoter(pub ReplicaId);

impl Replicas {
    /// The replicas that recovery found. The first block is number 1.
    pub fn new(
        config: Config,
        recovered: Vec<RecoveredGroup>,
        out: &mut Output,
    ) -> Result<Self, (Group, Refused)> {
        let mut all = Self {
            config,
            replicas: BTreeMap::new(),
            open: BlockNumber(1),
            sessions: BTreeMap::new(),
            heard: Heard::default(),
            gone: BTreeSet::new(),
            cache: Cache::new(config.cache_bytes),
        };
        let before = Before::of(out);
        for it in recovered {
            let group = it.group;
            let turn = &mut Turn { open: all.open, heard: &all.heard, out };
            let replica = Replica::recovered(config.slots, it, turn);
            all.replicas.insert(group, replica.map_err(|refused| (group, refused))?);
        }
        all.end_call(before, out);
        Ok(all)
    }

    /// Group 0 has placed a new replica here. `known` has all replicas of the group that it has
    /// placed. An older replica of the group is dropped. If this very replica is here already, it
    /// stays as it is. A replica that has left the group must not be created again.
    ///
    /// A quarantined replica is dropped, too. The newer one becomes a learner, and then a voter in
    /// its place.
    pub fn create(
        &mut self,
        group: Group,
        replica: ReplicaId,
        known: &[ReplicaId],
        out: &mut Output,
    ) -> Result<(), StillVoter> {
        match self.replicas.get(&group) {
            Some(old) if old.id() == replica => return Ok(()),
            Some(old) if old.is_voter() && !old.is_quarantined() => {
                return Err(StillVoter(old.id()));
            }
            Some(_) | None => {}
        }
        let turn = &mut Turn { open: self.open, heard: &self.heard, out };
        let born = Replica::born(self.config.slots, group, replica, known, turn);
        self.replicas.insert(group, born);
        Ok(())
    }

    /// Group 0 has placed these replicas of the group.
    pub fn place(&mut self, group: Group, known: &[ReplicaId]) {
        if let Some(replica) = self.replicas.get_mut(&group) {
            replica.place(known);
        }
    }

    /// Group 0 has removed the group's replica from this node. The replica's rounds fail.
    pub fn remove(&mut self, group: Group, out: &mut Output) {
        self.of(group, out, Replica::leave);
    }

    /// The caller's machines cannot apply a committed entry of the group. Until the process ends,
    /// the replica acknowledges nothing, and does not vote.
    pub fn halt(&mut self, group: Group, out: &mut Output) {
        self.of(group, out, Replica::halt);
    }

    /// Advances the clock by the ticks since the last call. A longer time than three election
    /// timeouts counts as three.
    pub fn tick(&mut self, ticks: u32, out: &mut Output) {
        let gone = std::mem::take(&mut self.gone);
        for _ in 0..ticks.min(3 * ELECTION_TICKS) {
            self.each(out, |replica, turn| replica.tick(&gone, turn));
        }
        self.gone = gone;
    }

    /// The node is connected, and `session` is its process. From now on, messages of its older
    /// processes are dropped. If the node's replicas need snapshots, the caller is asked for these
    /// again. So it may forget snapshots that it could not send or whose arrival is unknown.
    pub fn connected(&mut self, node: NodeId, session: Session) {
        self.gone.remove(&node);
        let is_new = self.sessions.insert(node, session) != Some(session);
        if is_new {
            self.heard.forget(node);
        }
        self.replicas.values_mut().for_each(|it| it.connected(node, is_new));
    }

    /// A shard of a process of a node says its newest tick. From now on, the messages to this node
    /// echo it in the groups that the shard has. An older process is not heard. `shard` is the
    /// number of the shard, and that of all shards of the node.
    ///
    /// # Panics
    ///
    /// If the node has no such shard.
    pub fn heard(&mut self, (node, session): (NodeId, Session), shard: (u16, u16), tick: Tick) {
        if self.sessions.get(&node) == Some(&session) {
            self.heard.add(node, shard, tick);
        }
    }

    /// The newest known process of each node. Replicas that are loaded again in the same process
    /// have to hear of each of them ([`Self::connected`]): the connections have not ended.
    pub fn sessions(&self) -> impl Iterator<Item = (NodeId, Session)> {
        self.sessions.iter().map(|(node, session)| (*node, *session))
    }

    /// Whether the message would be dropped without a look at its records: an older process of the
    /// node has sent it, it is to an older replica of this node, or it is of an older term.
    pub fn is_outdated(&self, (node, session): (NodeId, Session), message: &PeerMessage) -> bool {
        let is_of = |it: &Replica| it.id() == message.to && it.term() <= message.term;
        self.sessions.get(&node) != Some(&session)
            || !self.replicas.get(&message.group).is_some_and(is_of)
    }

    /// The connection with a node has ended. `refused`: the node's port refused a new connection,
    /// so its process is gone. Elections do not wait for such a node until it is heard again.
    pub fn lost(&mut self, node: NodeId, refused: bool, out: &mut Output) {
        if refused {
            self.gone.insert(node);
        }
        self.each(out, |replica, turn| replica.lost(node, turn));
    }

    /// Messages of these groups to a node were dropped, as its connection was full.
    pub fn dropped(&mut self, node: NodeId, groups: &[Group], out: &mut Output) {
        for group in groups {
            self.of(*group, out, |replica, turn| replica.lost(node, turn));
        }
    }

    /// A message of a node. The message is not `fresh` if the node had heard nothing of this node
    /// for an election timeout when it sent the message. Then it does not count as contact.
    pub fn step(
        &mut self,
        (node, session): (NodeId, Session),
        fresh: bool,
        message: PeerMessage,
        out: &mut Output,
    ) -> Result<(), Lie> {
        if self.sessions.get(&node) != Some(&session) {
            return Ok(());
        }
        if message.from.node() != node {
            return Err(Lie::Peer("a message of another node"));
        }
        self.gone.remove(&node);
        let group = message.group;
        let stepped = self.of(group, out, |replica, turn| replica.step(message, fresh, turn));
        stepped.unwrap_or(Ok(()))
    }

    /// Whether the group accepts a proposal: its replica leads, and hands over to no other.
    pub fn is_open(&self, group: Group) -> bool {
        self.replicas.get(&group).is_some_and(Replica::is_open)
    }

    /// The index that the next proposal to the group will get, unless a change of members is
    /// appended first. None if there is no replica of the group.
    pub fn next_index(&self, group: Group) -> Option<Index> {
        self.replicas.get(&group).map(Replica::next_index)
    }

    /// Appends an entry to the open block, just before it is sealed. The entry's records are
    /// applied already, so this cannot fail.
    ///
    /// # Panics
    ///
    /// If the group is not open, or if there are no records.
    pub fn propose(&mut self, group: Group, records: Bytes, out: &mut Output) -> Index {
        let index = self.of(group, out, |replica, turn| replica.propose(records, turn));
        index.expect("a proposal to a group that is open")
    }

    /// The open block has ended. The next one is open.
    pub fn sealed(&mut self, block: BlockNumber) {
        assert_eq!(block, self.open, "blocks are sealed in their order");
        self.open = BlockNumber(block.0 + 1);
    }

    /// The block is durable, and all before it.
    pub fn persisted(&mut self, block: BlockNumber, out: &mut Output) {
        assert!(block < self.open, "a block is sealed before it is durable");
        self.each(out, |replica, turn| replica.persisted(block, turn));
        while let Some(evicted) = self.cache.pop(block) {
            if let Some(replica) = self.replicas.get_mut(&evicted.group) {
                replica.evict(evicted.block, evicted.index);
            }
        }
    }

    /// The machines of the group have applied the entries up to this one.
    pub fn applied(&mut self, group: Group, index: Index, out: &mut Output) {
        self.of(group, out, |replica, turn| replica.applied(index, turn));
    }

    /// A snapshot file with its final name has the entries of the group up to the base.
    ///
    /// # Panics
    ///
    /// If they are not all applied, committed and durable.
    pub fn compacted(&mut self, group: Group, base: Base) {
        if let Some(replica) = self.replicas.get_mut(&group) {
            replica.compacted(base);
        }
    }

    /// The answer to the [`Output::fetch`] that begins with `first`. It has fewer entries, or none,
    /// if the log does not have them any more.
    pub fn fetched(&mut self, group: Group, first: Index, entries: Vec<Entry>, out: &mut Output) {
        self.of(group, out, |replica, turn| replica.fetched(first, entries, turn));
    }

    /// The entries of an [`Output::fetch`] that begins with `first` could not be read. They are
    /// asked for again after an election timeout at the earliest. The caller reports the damage.
    pub fn fetch_failed(&mut self, group: Group, first: Index) {
        if let Some(replica) = self.replicas.get_mut(&group) {
            replica.fetch_failed(first);
        }
    }

    /// A replica of [`Output::restore`] has a snapshot with this base, and it is durable there.
    pub fn offer(&mut self, group: Group, to: ReplicaId, base: Base, out: &mut Output) {
        self.of(group, out, |replica, turn| replica.offer(to, base, turn));
    }

    /// Begins a round, which shows whether the replica leads after this call. None if it does not
    /// lead now. A round ends in [`Output::confirmed`] or [`Output::failed`].
    pub fn confirm(&mut self, group: Group, out: &mut Output) -> Option<Round> {
        self.of(group, out, Replica::confirm).flatten()
    }

    /// Hands the group over to the voter of this node. It is closed until the end of the attempt,
    /// which takes at most an election timeout.
    pub fn transfer(&mut self, group: Group, to: NodeId, out: &mut Output) -> Result<(), NotNow> {
        let begun = self.of(group, out, |replica, turn| replica.transfer(to, turn));
        begun.unwrap_or(Err(NotNow::NotLeader))
    }

    /// Appends a change of members. The caller has proposed the open entry of the slot before.
    pub fn change(
        &mut self,
        group: Group,
        change: Change,
        out: &mut Output,
    ) -> Result<Index, NotNow> {
        let proposed = self.of(group, out, |replica, turn| replica.change(change, turn));
        proposed.unwrap_or(Err(NotNow::NotLeader))
    }

    /// The last entry that another replica of the group has acknowledged to this leader. None if
    /// this one does not lead, or the other is no member.
    pub fn acknowledged(&self, group: Group, by: ReplicaId) -> Option<Index> {
        self.replicas.get(&group)?.acknowledged(by)
    }

    /// Whether another replica of the group was heard within the last election timeout. None if
    /// this one does not lead, or the other is no member.
    pub fn hears(&self, group: Group, other: ReplicaId) -> Option<bool> {
        self.replicas.get(&group)?.hears(other)
    }

    /// The replicas of a group, as this node knows them, and its own one. None if there is no
    /// replica of the group here.
    pub fn members(&self, group: Group) -> Option<(ReplicaId, &Members)> {
        self.replicas.get(&group).map(|it| (it.id(), it.members()))
    }

    /// None if there is no replica of the group.
    pub fn role(&self, group: Group) -> Option<Role> {
        self.replicas.get(&group).map(Replica::role)
    }

    /// Calls the replica of a group, if there is one.
    fn of<T>(
        &mut self,
        group: Group,
        out: &mut Output,
        call: impl FnOnce(&mut Replica, &mut Turn<'_>) -> T,
    ) -> Option<T> {
        let before = Before::of(out);
        let replica = self.replicas.get_mut(&group)?;
        let turn = &mut Turn { open: self.open, heard: &self.heard, out };
        let result = call(replica, turn);
        self.end_call(before, out);
        Some(result)
    }

    /// Calls each replica.
    fn each(&mut self, out: &mut Output, mut call: impl FnMut(&mut Replica, &mut Turn<'_>)) {
        let before = Before::of(out);
        for replica in self.replicas.values_mut() {
            call(replica, &mut Turn { open: self.open, heard: &self.heard, out });
        }
        self.end_call(before, out);
    }

    /// Counts the new records in memory, and drops the replicas that have left their groups.
    fn end_call(&mut self, before: Before, out: &Output) {
        self.cache.add(self.open, &out.log[before.log..]);
        for group in &out.gone[before.gone..] {
            self.replicas.remove(group);
        }
    }
}

/// The lengths of an output's lists before a call of replicas.
struct Before {
    log: usize,
    gone: usize,
}

impl Before {
    fn of(out: &Output) -> Self {
        Self { log: out.log.len(), gone: out.gone.len() }
    }
}

#[cfg(test)]
mod tests;
