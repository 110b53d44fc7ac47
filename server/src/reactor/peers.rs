//! The sockets of the connections with other nodes, beside [`Peers`], which has their states.
//! `peer_turns.rs` uses them.

use crate::shard::{ListenerIndex, TICK_MS};
use muster_peers::{Connection, Level, Notice, Output, Peers};
use muster_runtime::replicas::Tick;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tracing::{debug, info, warn};

/// The sockets of a shard's connections with other nodes.
pub(super) struct PeerSockets<C> {
    pub(super) peers: Peers,
    /// The listener on which other nodes connect.
    pub(super) listener: ListenerIndex,
    /// When the process began to count ticks.
    began: i64,
    pub(super) open: BTreeMap<Connection, Socket<C>>,
    /// The connections by their places in the driver.
    by_slot: BTreeMap<usize, Connection>,
    pub(super) out: Output,
}

/// An open connection.
pub(super) struct Socket<C> {
    pub(super) conn: C,
    slot: usize,
    address: Option<SocketAddr>,
    /// The bytes of the write under way that the socket has not taken.
    pub(super) unsent: usize,
}

/// The first tick of a process.
pub(crate) const FIRST_TICK: Tick = Tick(1);

impl<C: Copy + Eq> PeerSockets<C> {
    pub(super) fn new(peers: Peers, listener: ListenerIndex, now: i64) -> Self {
        let (open, by_slot) = (BTreeMap::new(), BTreeMap::new());
        Self { peers, listener, began: now, open, by_slot, out: Output::default() }
    }

    pub(super) fn advance(&mut self, now: i64) {
        let ticks = u32::try_from((now - self.began) / TICK_MS).unwrap_or(u32::MAX);
        self.peers.advance(now, Tick(FIRST_TICK.0.saturating_add(ticks)));
    }

    pub(super) fn name(&self, slot: usize, conn: C) -> Option<Connection> {
        let connection = self.by_slot.get(&slot)?;
        self.open.get(connection).is_some_and(|it| it.conn == conn).then_some(*connection)
    }

    pub(super) fn insert(
        &mut self,
        connection: Connection,
        conn: C,
        slot: usize,
        address: Option<SocketAddr>,
    ) {
        self.open.insert(connection, Socket { conn, slot, address, unsent: 0 });
        self.by_slot.insert(slot, connection);
    }

    pub(super) fn remove(&mut self, connection: Connection) -> Option<Socket<C>> {
        let socket = self.open.remove(&connection)?;
        self.by_slot.remove(&socket.slot);
        Some(socket)
    }

    /// Takes all open connections.
    pub(super) fn take_all(&mut self) -> BTreeMap<Connection, Socket<C>> {
        self.by_slot.clear();
        std::mem::take(&mut self.open)
    }

    /// The socket has taken all but the last `unsent` bytes of the write.
    pub(super) fn sent(&mut self, connection: Connection, unsent: usize) {
        let Some(socket) = self.open.get_mut(&connection) else { return };
        let before = std::mem::replace(&mut socket.unsent, unsent);
        self.peers.sent(connection, before - unsent);
    }

    pub(super) fn log(&self, shard: u32, connection: Connection, notice: &Notice) {
        let address = self.open.get(&connection).and_then(|it| it.address);
        let from = address.map_or_else(String::new, |it| format!(" ({it})"));
        match notice.level() {
            Level::Debug => debug!(target: "peers", shard, "{notice}{from}"),
            Level::Info => info!(target: "peers", shard, "{notice}{from}"),
            Level::Warn => warn!(target: "peers", shard, "{notice}{from}"),
        }
    }
}
