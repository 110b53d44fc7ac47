//! The way of events and messages between other nodes and the shard. On one machine there are none.
//!
//! In a turn, everything that has arrived goes to the shard at once. The shard's messages leave at
//! the end of the turn. There is one write at a time on each socket, so that the bytes that wait
//! stay in `Peers`, which limits them.

use super::peers::PeerSockets;
use super::{Completion, Io, Reactor};
use crate::clock::Times;
use crate::mailbox::{Dialled, ToReactor};
use crate::shard::{Lied, ListenerIndex, Message, Shard};
use muster_peers::{DialError, MayBe, Output, Peers};

/// The most bytes of a write. `Sent` comes only once the socket has taken all of them, and a
/// connection without progress is closed.
const WRITE_BYTES: usize = 1 << 20;

impl<I: Io> Reactor<I> {
    /// Begins to connect the shard with the shards of other nodes. They reach it on this listener.
    pub fn connect(&mut self, peers: Peers, listener: ListenerIndex) {
        self.peers = Some(Box::new(PeerSockets::new(peers, listener, self.times.now)));
    }

    /// Begins a turn: notes the time before anything else.
    pub(super) fn begin_turn_of_peers(&mut self, io: &mut I, shard: &mut Shard) {
        let now = self.times.now;
        let Some(sockets) = &mut self.peers else { return };
        sockets.advance(now);
        self.carry_out(io, shard);
    }

    /// Handles a completion of a connection with another node. Returns any other completion.
    pub(super) fn handle_peer(
        &mut self,
        io: &mut I,
        shard: &mut Shard,
        completion: Completion<I::Conn, I::Data, I::Parts>,
    ) -> Option<Completion<I::Conn, I::Data, I::Parts>> {
        let sockets = self.peers.as_mut()?;
        let named = completion.conn().and_then(|conn| sockets.name(io.slot(conn), conn));
        match (completion, named) {
            (Completion::Accepted { conn, listener }, _) if listener == sockets.listener => {
                let connection = sockets.peers.accepted(MayBe::Any, &mut sockets.out);
                sockets.insert(connection, conn, io.slot(conn), io.peer(conn));
                io.put_first(conn, true);
            }
            (Completion::Mail(Message::Reactor(ToReactor::Dialled(dialled))), _) => {
                self.dialled(io, dialled);
            }
            (Completion::Received { data, .. }, Some(connection)) => {
                sockets.peers.received(connection, &data, &mut sockets.out);
            }
            (Completion::Sent { unsent, .. }, Some(connection)) => sockets.sent(connection, unsent),
            (Completion::InputEnded { conn } | Completion::Broken { conn }, Some(connection)) => {
                sockets.remove(connection);
                sockets.peers.closed(connection, &mut sockets.out);
                io.close(conn);
            }
            (completion, _) => return Some(completion),
        }
        self.carry_out(io, shard);
        None
    }

    fn dialled(&mut self, io: &mut I, Dialled { connection, result }: Dialled) {
        let Some(sockets) = &mut self.peers else { return };
        let opened = result.and_then(|socket| {
            io.adopt(socket).map_err(|error| DialError::Other(error.to_string()))
        });
        match opened {
            Ok(conn) => {
                sockets.insert(connection, conn, io.slot(conn), io.peer(conn));
                io.put_first(conn, true);
                sockets.peers.dialled(connection, &mut sockets.out);
            }
            Err(why) => sockets.peers.dial_failed(connection, why, &mut sockets.out),
        }
    }

    /// Sends the messages of the turn. Returns when the next turn is due.
    pub(super) fn end_turn_of_peers(
        &mut self,
        io: &mut I,
        shard: &mut Shard,
        times: Times,
    ) -> Option<i64> {
        let sockets = self.peers.as_mut()?;
        sockets.advance(times.now);
        for (to, message) in shard.take_peer_messages() {
            sockets.peers.say(to, &message);
        }
        sockets.peers.end_turn(&mut sockets.out);
        // The consequences for the shard are handled by the next turn.
        let is_due = !sockets.out.events.is_empty();
        self.carry_out(io, shard);
        self.send_to_peers(io);
        let deadline = self.peers.as_ref()?.peers.deadline();
        if is_due { Some(times.now) } else { deadline }
    }

    /// Closes all connections with other nodes. The events reach the shard in its next turn, or the
    /// shard that replaces it.
    pub(super) fn leave_peers(&mut self, io: &mut I) {
        let Some(sockets) = &mut self.peers else { return };
        for (connection, socket) in sockets.take_all() {
            sockets.peers.closed(connection, &mut sockets.out);
            io.close(socket.conn);
        }
    }

    /// Carries out the consequences of calls of `Peers`.
    fn carry_out(&mut self, io: &mut I, shard: &mut Shard) {
        let Some(sockets) = &mut self.peers else { return };
        let number = shard.inspect().number();
        for event in std::mem::take(&mut sockets.out.events) {
            if let Err(Lied { node, why }) = shard.peer(self.times, event, &mut self.commands) {
                sockets.peers.lied(node, why, &mut sockets.out);
            }
        }
        let Output { dial, close, notices, .. } = &mut sockets.out;
        dial.drain(..).for_each(|it| io.dial(it));
        let (close, notices) = (std::mem::take(close), std::mem::take(notices));
        notices.iter().for_each(|(connection, it)| sockets.log(number, *connection, it));
        for connection in close {
            if let Some(socket) = sockets.remove(connection) {
                io.close(socket.conn);
            }
        }
    }

    fn send_to_peers(&mut self, io: &mut I) {
        let Some(sockets) = &mut self.peers else { return };
        for (connection, pieces) in sockets.peers.to_send() {
            let socket = sockets.open.get_mut(&connection).filter(|it| it.unsent == 0);
            let Some(socket) = socket else { continue };
            let mut bytes = Vec::new();
            for piece in pieces {
                let room = WRITE_BYTES - bytes.len();
                bytes.extend_from_slice(&piece[..piece.len().min(room)]);
                if bytes.len() == WRITE_BYTES {
                    break;
                }
            }
            socket.unsent = bytes.len();
            io.send(socket.conn, &mut bytes);
        }
    }
}
