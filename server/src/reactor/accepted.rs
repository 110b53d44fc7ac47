//! New connections of clients, and the descriptors that are left for them.

use super::secured::{self, Open};
use super::{Io, Reactor};
use crate::net::ConnectionId;
use crate::shard::{Event, ListenerIndex, Shard};

impl<I: Io> Reactor<I> {
    pub(super) fn accepted(
        &mut self,
        io: &mut I,
        shard: &mut Shard,
        conn: I::Conn,
        listener: ListenerIndex,
    ) {
        let Some(peer) = io.peer(conn) else { return io.close(conn) };
        let slot = io.slot(conn);
        self.serial = self.serial.wrapping_add(1);
        let connection = ConnectionId::new(slot as u32, self.serial);
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        let secured = match self.sessions.open(listener) {
            Ok(secured) => secured,
            Err(failed) => {
                self.lines.not_accepted(self.times.now, &secured::not_opened(&failed));
                return io.close(conn);
            }
        };
        if secured.is_some() {
            self.sessions.handshakes.begin(self.times.now, connection);
        }
        self.connections[slot] = Some(Open { id: connection, conn, secured });
        self.note_full(io, shard);
        // On a listener for both families, an IPv4 client's address is converted from IPv6 to IPv4.
        let (host, port) = (format!("/{}", peer.ip().to_canonical()).into(), peer.port());
        self.step(io, shard, Event::Opened { connection, listener, host, port });
    }

    /// Notes whether descriptors for further connections are left.
    pub(super) fn note_full(&mut self, io: &I, shard: &Shard) {
        let was_full = std::mem::replace(&mut self.is_full, io.is_full());
        let (now, shard) = (self.times.now, shard.inspect());
        if self.is_full && !was_full {
            let connections = self.connections.iter().flatten().count();
            let (limit, busiest) = (io.connections_max(), shard.busiest_host());
            self.lines.full(now, shard.number(), connections, limit, busiest);
        } else if was_full && !self.is_full {
            self.lines.no_longer_full(now, shard.number());
        }
    }
}
