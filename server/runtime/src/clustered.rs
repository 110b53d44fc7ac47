//! The runtime of a node in a cluster.

use crate::quorum::Quorum;
use crate::replicas::{Leading, Led, Replication, Serving, Ticket};
use crate::{Damage, Runtime, TopicSet};
use muster_replication::{Group, Lie, NodeId, PeerMessage, Session, Tick};
use muster_storage::{FileDone, FileOp, FileToken, LogSlot, ShardLog};

impl Runtime {
    /// Makes the runtime that of a node in a cluster. The log is replicated.
    #[must_use]
    pub fn in_cluster(mut self, replication: Replication) -> Self {
        self.quorum = Quorum::Replicas(Box::new(replication));
        self
    }

    /// Whether this node leads a slot, so that its parts may call the slot's machines, and append.
    pub fn leads(&self, slot: LogSlot) -> bool {
        self.quorum.leads(slot)
    }

    /// Whether this node answers requests for a slot. One machine serves all slots.
    pub fn serving(&self, slot: LogSlot) -> Serving {
        match &self.quorum {
            Quorum::Alone => Serving::Here,
            Quorum::Replicas(replicas) => replicas.serving(slot),
        }
    }

    /// Whether there are slots that this node will serve soon. None on one machine.
    #[inline]
    pub fn is_loading(&self) -> bool {
        self.replication().is_some_and(Replication::is_loading)
    }

    /// The replicas of a cluster's shard; None on one machine.
    pub fn replication(&self) -> Option<&Replication> {
        match &self.quorum {
            Quorum::Alone => None,
            Quorum::Replicas(replicas) => Some(replicas),
        }
    }

    /// A message of another node: see [`Replication::step`].
    ///
    /// # Errors
    /// See [`Replication::step`].
    pub fn peer_said(
        &mut self,
        from: (NodeId, Session),
        is_fresh: bool,
        message: PeerMessage,
    ) -> Result<(), Lie> {
        self.on_replicas(|replicas, log| replicas.step(log, from, is_fresh, message))
            .unwrap_or(Ok(()))
    }

    /// The ticks since the last call: see [`Replication::tick`].
    pub fn tick(&mut self, ticks: u32) {
        self.on_replicas(|replicas, log| replicas.tick(log, ticks));
    }

    /// There is a connection with this process of a node.
    pub fn peer_connected(&mut self, node: NodeId, session: Session) {
        self.on_replicas(|replicas, _| replicas.connected(node, session));
    }

    /// The newest tick of a shard of a process: see [`Replication::heard`].
    pub fn peer_heard(&mut self, from: (NodeId, Session), shard: (u16, u16), tick: Tick) {
        self.on_replicas(|replicas, _| replicas.heard(from, shard, tick));
    }

    /// Messages of these groups to the node were dropped: see [`Replication::dropped`].
    pub fn peer_dropped(&mut self, node: NodeId, groups: &[Group]) {
        self.on_replicas(|replicas, log| replicas.dropped(log, node, groups));
    }

    /// The processes of other nodes that are known: see [`Replication::sessions`].
    pub fn peer_sessions(&self) -> Vec<(NodeId, Session)> {
        self.replication().into_iter().flat_map(Replication::sessions).collect()
    }

    /// The connection with a node has ended: see [`Replication::lost`].
    pub fn peer_lost(&mut self, node: NodeId, refused: bool) {
        self.on_replicas(|replicas, log| replicas.lost(log, node, refused));
    }

    /// See [`Replication::take_deposed`].
    pub fn take_deposed(&mut self) -> Vec<LogSlot> {
        self.on_replicas(|replicas, _| replicas.take_deposed()).unwrap_or_default()
    }

    /// See [`Replication::ask`].
    pub fn ask(&mut self, slot: LogSlot) -> Option<Ticket> {
        self.on_replicas(|replicas, _| replicas.ask(slot)).flatten()
    }

    /// See [`Replication::take_proved`].
    pub fn take_proved(&mut self) -> bool {
        self.on_replicas(|replicas, _| replicas.take_proved()).unwrap_or_default()
    }

    /// See [`Replication::take_leading`].
    pub fn take_leading(&mut self) -> Vec<Leading> {
        self.on_replicas(|replicas, _| replicas.take_leading()).unwrap_or_default()
    }

    /// See [`Replication::settle`].
    ///
    /// # Errors
    /// See [`Replication::settle`].
    pub fn settle(&mut self, topics: &mut dyn TopicSet) -> Result<Vec<Led>, Damage> {
        self.on_replicas(|replicas, log| replicas.settle(log, topics)).unwrap_or(Ok(Vec::new()))
    }

    /// See [`Replication::start_timers`].
    pub fn start_timers(&self, topics: &mut dyn TopicSet, slot: LogSlot) {
        self.replication().into_iter().for_each(|it| it.start_timers(topics, slot));
    }

    /// See [`Replication::take_sends`].
    pub fn take_sends(&mut self) -> Vec<(NodeId, PeerMessage)> {
        self.on_replicas(|replicas, _| replicas.take_sends()).unwrap_or_default()
    }

    /// Whether a file operation with this token is a read of entries.
    pub fn reads_entries(&self, token: FileToken) -> bool {
        self.replication().is_some_and(|replicas| replicas.owns(token))
    }

    /// Takes the end of a read of entries.
    ///
    /// # Errors
    /// It is the end of another operation, and is returned.
    pub fn entries_read(&mut self, done: FileDone) -> Result<(), FileDone> {
        match &mut self.quorum {
            Quorum::Replicas(replicas) if replicas.owns(done.token()) => {
                replicas.read_done(&mut self.log, done);
                self.note_moved();
                Ok(())
            }
            Quorum::Alone | Quorum::Replicas(_) => Err(done),
        }
    }

    fn on_replicas<R>(
        &mut self,
        act: impl FnOnce(&mut Replication, &mut ShardLog) -> R,
    ) -> Option<R> {
        let Self { quorum: Quorum::Replicas(replicas), log, .. } = self else { return None };
        let result = act(replicas, log);
        self.note_moved();
        Some(result)
    }

    /// Starts what is due before the log is polled: seals a block, and begins rounds and a read.
    pub(crate) fn poll_replicas(&mut self, now: i64, ops: &mut Vec<FileOp>) {
        let Self { quorum: Quorum::Replicas(replicas), log, .. } = self else { return };
        replicas.seal(log, now);
        replicas.begin_rounds(log);
        replicas.poll_reads(log, ops);
    }

    /// An operation of the log has ended. A flush of this node may be the one that the commit index
    /// of a slot waits for.
    pub(crate) fn replicas_flushed(&mut self) {
        let Self { quorum: Quorum::Replicas(replicas), log, .. } = self else { return };
        replicas.flushed(log);
        self.note_moved();
    }

    /// Adds the slots whose commit index has moved to those that have moved.
    fn note_moved(&mut self) {
        let Self { quorum: Quorum::Replicas(replicas), log, partitions, .. } = self else { return };
        let slots = replicas.take_moved();
        if slots.is_empty() {
            return;
        }
        let of_slots = partitions.iter().filter(|it| slots.contains(&log.slot_of(**it)));
        self.moved.extend(of_slots);
        self.moved_slots.extend(slots);
    }

    /// The caller has taken what has moved. Called by the caller itself in a cluster only.
    pub fn moved_taken(&mut self) {
        self.moved.clear();
        self.moved_slots.clear();
    }
}
