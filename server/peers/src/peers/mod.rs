//! All connections of one shard with the shards of other nodes. The caller has the sockets, the
//! clock and raft.
//!
//! The order of a turn:
//! 1. [`Peers::advance`] with the time, and the newest tick of raft's clock.
//! 2. Events of sockets: [`Peers::accepted`], [`Peers::dialled`], [`Peers::dial_failed`],
//!    [`Peers::received`], [`Peers::closed`]. Raft gets what the output says.
//! 3. [`Peers::say`] with the messages of raft.
//! 4. [`Peers::end_turn`], which ends the frames of the turn, and dials what is due. Then
//!    [`Peers::to_send`] has the bytes for each connection, and [`Peers::sent`] takes off those
//!    that were sent.
//!
//! - `dialled`: connections that this shard dials. It sends on them.
//! - `accepted`: connections that the shards of other nodes have dialled. They send on them.

mod accepted;
mod dialled;

use crate::hello::{Hello, Identity, SHARDS_MAX};
use crate::incoming::{Caller, Incoming};
use crate::limits::PAUSE_MS;
use crate::noticed::Noticed;
use crate::outgoing::Outgoing;
use crate::output::{Connection, Notice, Output, PeerEvent};
use crate::process::{Denied, Mark, Process};
use crate::refusal::Refusal;
use bytes::Bytes;
use muster_codec::Uuid;
use muster_replication::{NodeId, Session, Tick};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Peers {
    own: Identity,
    nodes: BTreeMap<NodeId, Node>,
    /// The shards to which connections were dialled.
    dialled: BTreeMap<Connection, (NodeId, u16)>,
    accepted: BTreeMap<Connection, Incoming>,
    last: Connection,
    answers: u64,
    /// Notices about processes that are no known nodes.
    strangers: Noticed,
    now: i64,
    tick: Tick,
}

/// Another node.
#[derive(Debug, Default)]
struct Node {
    /// Known from the records of the cluster, or from the first exchange.
    directory: Option<Uuid>,
    /// The number of its shards, as its hello says. None before that, and again after a connection
    /// has failed: then shard 0 is asked, which each node has.
    shards: Option<u16>,
    process: Process,
    /// The last description that raft's side was given.
    described: Option<Description>,
    links: BTreeMap<u16, Outgoing>,
    /// The connections that failed since the last one that lasted.
    failures: u32,
    noticed: Noticed,
}

/// A node's description of itself for the clients of other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Description {
    shards: u16,
    clients: Bytes,
}

impl Peers {
    /// The connections of a shard with these nodes. A directory is given if the records of the
    /// cluster have it.
    ///
    /// # Panics
    /// If the tick is 0, which is no tick, or if the node has no such shard.
    pub fn new(
        own: Identity,
        nodes: impl IntoIterator<Item = (NodeId, Option<Uuid>)>,
        now: i64,
        tick: Tick,
    ) -> Self {
        assert!(tick > Tick::NONE, "a process counts its ticks from 1");
        let is_shard = own.shard < own.shards && own.shards <= SHARDS_MAX;
        assert!(is_shard, "shard {} of {}", own.shard, own.shards);
        let others = nodes.into_iter().filter(|it| it.0 != own.node);
        let nodes = others.map(|(id, directory)| (id, Node { directory, ..Node::default() }));
        let mut peers = Self {
            nodes: nodes.collect(),
            own,
            dialled: BTreeMap::new(),
            accepted: BTreeMap::new(),
            last: Connection(0),
            answers: 0,
            strangers: Noticed::default(),
            now,
            tick,
        };
        let ids: Vec<NodeId> = peers.nodes.keys().copied().collect();
        ids.into_iter().for_each(|it| peers.plan(it, &mut Output::default()));
        peers
    }

    /// The time in milliseconds, and the newest tick of raft's clock.
    ///
    /// A process counts its ticks once, from its start, and not again when a shard is loaded again:
    /// other nodes remember the newest one.
    ///
    /// If this process stood still, all deadlines of the others are that much later: what they have
    /// sent may not be read yet.
    ///
    /// # Panics
    /// If the tick is less than before.
    pub fn advance(&mut self, now: i64, tick: Tick) {
        assert!(tick >= self.tick, "a process counts its ticks once: {tick:?}, {:?}", self.tick);
        let pause = now - self.now - PAUSE_MS;
        if pause > 0 {
            self.accepted.values_mut().for_each(|it| it.deadline += pause);
            let links = self.nodes.values_mut().flat_map(|it| it.links.values_mut());
            links.for_each(|it| it.postpone(pause));
        }
        (self.now, self.tick) = (now, tick);
    }

    /// Bytes have arrived on a connection.
    pub fn received(&mut self, connection: Connection, bytes: &[u8], out: &mut Output) {
        if let Some((node, shard)) = self.dialled.get(&connection) {
            self.received_answer(*node, *shard, bytes, out);
        } else {
            self.received_call(connection, bytes, out);
        }
    }

    /// A connection has ended, or was reset.
    pub fn closed(&mut self, connection: Connection, out: &mut Output) {
        if let Some((node, shard)) = self.dialled.remove(&connection) {
            let is_answered = self.link(node, shard).up().is_some();
            let notice = (!is_answered).then_some(Notice::NoAnswer(node));
            self.lose(node, shard, notice, out);
        } else {
            self.accepted.remove(&connection);
        }
    }

    /// Ends the frames of the turn, closes what is overdue, and dials what is due.
    pub fn end_turn(&mut self, out: &mut Output) {
        self.expire_accepted(out);
        self.expire_dialled(out);
        self.dial(out);
        for (node, it) in &mut self.nodes {
            for link in it.links.values_mut() {
                let groups = link.end_turn(self.now, self.tick);
                if !groups.is_empty() {
                    out.events.push(PeerEvent::Dropped { node: *node, groups });
                }
            }
        }
    }

    /// The time at which [`Peers::end_turn`] has to be called.
    pub fn deadline(&self) -> Option<i64> {
        let links = self.nodes.values().flat_map(|it| it.links.values());
        let links = links.filter_map(Outgoing::deadline);
        let first = self.accepted.values().map(|it| it.deadline).chain(links).min();
        first.map(|it| it.min(self.now + PAUSE_MS / 2))
    }

    /// The connections with unsent bytes, and the bytes in pieces for a vectored write.
    pub fn to_send(&self) -> impl Iterator<Item = (Connection, impl Iterator<Item = &Bytes>)> {
        let links = self.nodes.values().flat_map(|it| it.links.values());
        let dialled = links.filter_map(|it| Some((it.connection()?, &it.unsent)));
        let accepted = self.accepted.iter().map(|(connection, it)| (*connection, &it.unsent));
        let all = dialled.chain(accepted).filter(|(_, unsent)| unsent.bytes() > 0);
        all.map(|(connection, unsent)| (connection, unsent.pieces()))
    }

    /// The first unsent bytes of a connection were sent.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn sent(&mut self, connection: Connection, bytes: usize) {
        if let Some((node, shard)) = self.dialled.get(&connection) {
            let now = self.now;
            self.link(*node, *shard).sent(bytes, now);
        } else if let Some(it) = self.accepted.get_mut(&connection) {
            it.unsent.sent(bytes);
        }
    }

    /// Whether there is a connection on which this shard sends to a shard of the node.
    pub fn is_up(&self, node: NodeId) -> bool {
        let links = self.nodes.get(&node).into_iter().flat_map(|it| it.links.values());
        links.filter_map(Outgoing::up).next().is_some()
    }

    /// Whether there is a connection with the known process of the node, in any direction.
    fn is_connected(&self, node: NodeId) -> bool {
        let session = self.nodes.get(&node).and_then(|it| it.process.session());
        let is_of = |it: &Caller| it.node == node && Some(it.session) == session;
        let is_known = |it: &Incoming| it.is_live() && it.caller().is_some_and(is_of);
        self.is_up(node) || self.accepted.values().any(is_known)
    }

    fn node(&mut self, node: NodeId) -> &mut Node {
        self.nodes.get_mut(&node).expect("a known node")
    }

    /// A connection to a shard that was dialled has a link.
    fn link(&mut self, node: NodeId, shard: u16) -> &mut Outgoing {
        self.node(node).links.get_mut(&shard).expect("a link of a known shard")
    }

    fn next_connection(&mut self) -> Connection {
        self.last.0 += 1;
        self.last
    }

    fn hello(&self, to: (NodeId, u16), refusal: u8) -> Bytes {
        Hello { from: self.own.clone(), to, refusal }.write().into()
    }

    /// An exchange has ended with this process of a node. If it is a new one, all connections with
    /// an older process end.
    fn learn(
        &mut self,
        connection: Connection,
        id: NodeId,
        session: Session,
        mark: Mark,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let is_connected = self.is_connected(id);
        let node = self.node(id);
        let is_new = node.process.learn(session, mark, is_connected).map_err(|why| match why {
            Denied::Uncertain => Refusal::Process(id),
            Denied::Both => Refusal::TwoProcesses(id),
        })?;
        if is_new {
            let links = node.links.iter();
            let is_old = |it: &Outgoing| it.up().is_some_and(|up| up.session != session);
            let old: Vec<u16> = links.filter(|(_, it)| is_old(it)).map(|it| *it.0).collect();
            for shard in old {
                // An earlier one of these may have changed the plan.
                if self.node(id).links.contains_key(&shard) {
                    self.lose(id, shard, None, out);
                }
            }
            self.close_accepted(out, |it| {
                it.is_live() && it.caller().is_some_and(|it| it.node == id && it.session != session)
            });
            self.hurry(id);
        }
        out.events.push(PeerEvent::Connected { node: id, session });
        self.notice(connection, Notice::Connected(id, session), out);
        Ok(())
    }

    /// Adds a notice, unless it repeats one. A dialler tries again each second.
    fn notice(&mut self, connection: Connection, notice: Notice, out: &mut Output) {
        let node = notice.node().and_then(|it| self.nodes.get_mut(&it));
        let noticed = node.map_or(&mut self.strangers, |it| &mut it.noticed);
        if noticed.is_new(&notice, self.now) {
            out.notices.push((connection, notice));
        }
    }
}

#[cfg(test)]
mod tests;
