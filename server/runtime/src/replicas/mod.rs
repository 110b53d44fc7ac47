//! The raft groups of a shard, between raft, the log and the machines.
//!
//! [`Replication`] has the order of calls that the three need. Its inputs are messages of other
//! nodes, ticks, and completions of file operations. Its outputs are records in the log, messages,
//! and file operations. It has no clock and no socket.
//!
//! The order of a turn:
//! 1. Inputs. Each may change roles and commit indexes. Records go into the open block of the log.
//! 2. [`Replication::take_deposed`]: the caller answers the requests that wait in the machines of
//!    these slots, and ends the connections whose answers wait for their positions. Positions are
//!    indexes of raft, and another leader's entry may get the same one.
//! 3. [`Replication::settle`]: machines replay what is committed, or are loaded again.
//! 4. [`Replication::seal`]: a block that is due gets the open entries of the slots that are led
//!    here, as proposals. Then its write begins, and [`Replication::take_sends`] has the messages.
//!    They may leave at once: those that promise something durable come out of
//!    [`Replication::flushed`].
//!
//! - `group`: one group, and the stages of its machines.
//! - `follow`: the consequences of a call of raft.
//! - `settle`: the machines.
//! - `confirm` and `rounds`: proofs that this node still leads a slot, for reads.
//! - `load`: the machines and the replicas, while the log is read at a start.
//! - `reads` and `fetch`: entries that are read from the log, for followers and for machines.
//! - `waiting`: the entries of a group that wait for their commit.
//! - `notes`: the node's own records.
//! - `values`: the same values as the log's and as raft's.
//! - `formation`: the log with which a node of a new cluster begins.
//! - `standing`: how far the replicas of a slot are, for operators.

mod confirm;
mod fetch;
mod follow;
mod formation;
mod group;
mod load;
mod notes;
mod reads;
mod rounds;
mod settle;
mod standing;
#[cfg(test)]
mod tests;
mod values;
mod waiting;

pub use confirm::{Proof, Ticket};
pub use formation::form;
pub use group::{Leading, Serving};
pub use load::{Incomplete, ReplicatedLoad};
pub use muster_replication::{Group, Lie, NodeId, PeerMessage, Session, Tick};
pub use standing::{Standing, Voter};
pub use values::RecoveredReplicas;

use crate::injected::Injected;
use bytes::Bytes;
use group::{OfGroup, Stage};
use muster_replication::{BlockNumber, Body, Config, Output, Replicas};
use muster_storage::{EndedEntry, FileToken, LogPartition, LogSlot, ShardLog};
use notes::Notes;
use reads::Reads;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use values::{RecoveredReplica, recovered_group};

/// The config of a shard's replicas.
#[derive(Debug, Clone, Copy)]
pub struct ReplicationConfig {
    /// The number of slots. Group s + 1 is slot s.
    pub slots: u16,
    /// The bytes of entries that stay in memory for followers.
    pub cache_bytes: usize,
    /// A slot whose records of this many bytes wait for their commit accepts no more. While the
    /// machines of a slot are loaded again, about as much waits for them in memory.
    pub uncommitted_bytes_max: usize,
    /// The token of reads of entries. One is under way at a time.
    pub token: FileToken,
}

/// A slot that this node leads from now on: its machines have all committed records. Their timers
/// do not fire before [`Replication::start_timers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Led {
    pub slot: LogSlot,
    pub term: u32,
}

/// The replicas of a shard, and how far the machines of each group are.
pub struct Replication {
    replicas: Replicas,
    groups: BTreeMap<Group, OfGroup>,
    slots: u32,
    /// The groups whose machines may have something to do.
    unsettled: BTreeSet<Group>,
    /// The groups whose leader or term may have changed.
    elected: BTreeSet<Group>,
    /// The slots whose commit index has moved.
    moved: BTreeSet<LogSlot>,
    /// The groups that are to begin a round, to prove that this node leads them.
    asked: BTreeSet<Group>,
    /// Whether tickets may have been proved since [`Self::take_proved`].
    has_proved: bool,
    /// Whether this node will serve a slot soon, as [`Self::settle`] has found.
    is_loading: bool,
    sends: Vec<(NodeId, PeerMessage)>,
    notes: Notes,
    reads: Reads,
    /// The partitions of the machines.
    partitions: BTreeSet<LogPartition>,
    uncommitted_bytes_max: usize,
    /// The last block that raft knows to be durable. None until the blocks that recovery found are
    /// durable.
    persisted: Option<BlockNumber>,
}

impl fmt::Debug for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replication").field("groups", &self.groups).finish_non_exhaustive()
    }
}

impl Replication {
    /// The replicas that recovery found in the log. The machines have replayed what is known to be
    /// committed, and none of their timers fires.
    ///
    /// # Errors
    /// The log has lost blocks. The text names the group.
    pub fn new(
        config: ReplicationConfig,
        found: RecoveredReplicas,
        log: &mut ShardLog,
    ) -> Result<Self, String> {
        let ReplicationConfig { slots, cache_bytes, uncommitted_bytes_max, token } = config;
        let (mut groups, mut recovered) = (BTreeMap::new(), Vec::new());
        found.gone.iter().for_each(|group| log.end_group(*group));
        for RecoveredReplica { log: of_log, uncommitted } in found.all {
            let it = recovered_group(&of_log).ok_or("a group with impossible members")?;
            groups.insert(it.group, OfGroup::new(&it, uncommitted));
            recovered.push(it);
        }
        let mut out = Output::default();
        let raft = Config { slots, cache_bytes };
        let replicas =
            Replicas::new(raft, recovered, &mut out).map_err(|(Group(group), why)| {
                format!("group {group} of the log cannot be used: {why:?}")
            })?;
        let mut all = Self {
            replicas,
            unsettled: groups.keys().copied().collect(),
            elected: groups.keys().copied().collect(),
            groups,
            slots: slots.into(),
            moved: BTreeSet::new(),
            asked: BTreeSet::new(),
            has_proved: false,
            is_loading: false,
            sends: Vec::new(),
            notes: Notes::default(),
            reads: Reads::new(token),
            partitions: found.partitions,
            uncommitted_bytes_max,
            persisted: None,
        };
        all.follow(log, out);
        for group in found.halted.into_iter().map(Group) {
            all.call(log, |replicas, out| replicas.halt(group, out));
            all.groups.get_mut(&group).into_iter().for_each(OfGroup::halt);
        }
        all.flushed(log);
        Ok(all)
    }

    /// A message of another node: see [`Replicas::step`].
    ///
    /// While a block is written, all entries of other nodes join the next block. Those for which it
    /// has no room are dropped, as if the message did not have them, or was lost with all of them.
    /// Raft sends them again.
    ///
    /// # Errors
    /// The message contradicts what a node may say, or its entries have records that the log would
    /// refuse.
    pub fn step(
        &mut self,
        log: &mut ShardLog,
        from: (NodeId, Session),
        is_fresh: bool,
        mut message: PeerMessage,
    ) -> Result<(), Lie> {
        if self.replicas.is_outdated(from, &message) {
            return self.call(log, |replicas, out| replicas.step(from, is_fresh, message, out));
        }
        values::check(&message, log, &self.partitions)?;
        if let Body::Append { entries, .. } = &mut message.body
            && !entries.is_empty()
        {
            entries.truncate(values::fitting(entries, log));
            if entries.is_empty() {
                return Ok(());
            }
        }
        self.call(log, |replicas, out| replicas.step(from, is_fresh, message, out))
    }

    /// The ticks since the last call.
    pub fn tick(&mut self, log: &mut ShardLog, ticks: u32) {
        self.call(log, |replicas, out| replicas.tick(ticks, out));
    }

    /// There is a connection with this process of a node.
    pub fn connected(&mut self, node: NodeId, session: Session) {
        self.replicas.connected(node, session);
    }

    /// The newest tick of a shard of a process: see [`Replicas::heard`].
    pub fn heard(&mut self, from: (NodeId, Session), shard: (u16, u16), tick: Tick) {
        self.replicas.heard(from, shard, tick);
    }

    /// Messages of these groups to the node were dropped: see [`Replicas::dropped`].
    pub fn dropped(&mut self, log: &mut ShardLog, node: NodeId, groups: &[Group]) {
        self.call(log, |replicas, out| replicas.dropped(node, groups, out));
    }

    /// See [`Replicas::sessions`].
    pub fn sessions(&self) -> impl Iterator<Item = (NodeId, Session)> {
        self.replicas.sessions()
    }

    /// The connection with a node has ended: see [`Replicas::lost`].
    pub fn lost(&mut self, log: &mut ShardLog, node: NodeId, refused: bool) {
        self.call(log, |replicas, out| replicas.lost(node, refused, out));
    }

    /// The slots in which this node has ceased to lead since the last call. Their machines have
    /// records that may never be committed, and are reset by the next [`Self::settle`].
    pub fn take_deposed(&mut self) -> Vec<LogSlot> {
        let mut deposed = Vec::new();
        for (group, it) in self.groups.iter_mut().filter(|(_, it)| it.stage == Stage::Deposed) {
            it.stage = Stage::Undoing;
            self.unsettled.insert(*group);
            deposed.push(LogSlot::of_group(group.0));
        }
        deposed
    }

    /// Whether this node answers requests for a slot.
    pub fn serving(&self, slot: LogSlot) -> Serving {
        self.groups.get(&Group(slot.group())).map_or(Serving::Elsewhere, OfGroup::serving)
    }

    /// The slots for which this node answers requests, each with the term in which it leads.
    pub fn led(&self) -> impl Iterator<Item = (LogSlot, u32)> {
        let serving = self.groups.iter().filter(|(_, it)| it.serving() == Serving::Here);
        serving.filter_map(|(group, it)| Some((LogSlot::of_group(group.0), it.term()?)))
    }

    /// The slots of partitions that this node serves.
    pub fn served(&self) -> impl Iterator<Item = LogSlot> {
        self.led().map(|(slot, _)| slot).filter(|it| it.place().is_some())
    }

    /// Whether there are slots that this node will serve soon.
    pub fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// The leaders of the slots in which the leader or the term may have changed since the last
    /// call. The first call returns all slots.
    pub fn take_leading(&mut self) -> Vec<Leading> {
        let leading = |group: Group| {
            let of_group = self.groups.get(&group)?;
            let (slot, term) = (LogSlot::of_group(group.0), of_group.vote.0.0);
            Some(Leading { slot, leader: of_group.leader(), term })
        };
        std::mem::take(&mut self.elected).into_iter().filter_map(leading).collect()
    }

    /// Whether the machines of a slot have all committed records, and no others that may be undone
    /// unless the node leads.
    pub fn is_settled(&self, slot: LogSlot) -> bool {
        let of_group = self.groups.get(&Group(slot.group()));
        of_group.is_some_and(|it| matches!(it.stage, Stage::Following | Stage::Leading))
    }

    /// The last committed entry of a slot. Until [`Self::take_deposed`] has the slot, the last one
    /// that was committed while the node led.
    pub fn committed(&self, slot: LogSlot) -> u64 {
        self.groups.get(&Group(slot.group())).map_or(0, |it| it.answered().0)
    }

    /// Whether too many bytes of a slot wait for other nodes. Their disks may hang while they
    /// answer heartbeats, so that this node still leads. Memory would grow without an end.
    // Not inlined: on one machine the question is asked often, and costs a branch.
    #[inline(never)]
    pub fn is_full(&self) -> bool {
        self.groups.values().any(|it| it.uncommitted_bytes() >= self.uncommitted_bytes_max)
    }

    /// Seals a block if it is due. The open entries for which it has room are proposed.
    pub fn seal(&mut self, log: &mut ShardLog, now: i64) {
        if log.may_seal() {
            self.notes.write(log);
        }
        if !log.block_is_due(now) {
            return;
        }
        let groups = &self.groups;
        let term = |group| groups.get(&Group(group)).and_then(OfGroup::term);
        let ended = log.end_entries(|group| term(group).expect("only a leader appends"));
        for EndedEntry { group, bytes } in ended {
            let records = Bytes::from(bytes);
            self.call(log, |replicas, out| replicas.propose(Group(group), records, out));
        }
        if let Some(number) = log.seal_block() {
            self.replicas.sealed(BlockNumber(number));
            if Injected::EarlyFlush.is_injected() {
                self.call(log, |replicas, out| replicas.persisted(BlockNumber(number), out));
            }
        }
    }

    /// An operation of the log has ended; it may have made a block durable, or those that recovery
    /// found.
    pub fn flushed(&mut self, log: &mut ShardLog) {
        if Injected::OwnFlushOnly.is_injected() {
            self.moved.extend(log.flushed_slots());
        }
        let flushed = log.is_recovered().then(|| BlockNumber(log.flushed_block()));
        if let Some(block) = flushed.filter(|_| flushed > self.persisted)
            && !Injected::EarlyFlush.is_injected()
        {
            self.persisted = flushed;
            self.call(log, |replicas, out| replicas.persisted(block, out));
        }
    }

    /// The messages to other nodes since the last call, in their order.
    pub fn take_sends(&mut self) -> Vec<(NodeId, PeerMessage)> {
        std::mem::take(&mut self.sends)
    }

    /// The slots whose commit index has moved since the last call.
    pub fn take_moved(&mut self) -> BTreeSet<LogSlot> {
        std::mem::take(&mut self.moved)
    }

    fn call<T>(
        &mut self,
        log: &mut ShardLog,
        call: impl FnOnce(&mut Replicas, &mut Output) -> T,
    ) -> T {
        let mut out = Output::default();
        let result = call(&mut self.replicas, &mut out);
        self.follow(log, out);
        result
    }
}
