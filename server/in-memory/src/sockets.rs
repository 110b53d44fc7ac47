//! The connections in memory, and all else that production's reactor needs beside files.

use crate::disk::Operation;
use crate::{Done, Memory};
use muster::clock::Times;
use muster::reactor::{Completion, Io, Share};
use muster::shard::{CertificateOrder, Command, Message, Shard};
use muster::telemetry::Push;
use std::net::{Ipv4Addr, SocketAddr};

/// A connection; none has the same name as an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conn {
    slot: u32,
    serial: u32,
}

/// The client's end of a connection.
#[derive(Debug, Default)]
pub struct Socket {
    serial: u32,
    /// The bytes that the server has sent; the client empties it.
    pub received: Vec<u8>,
    /// The number of bytes that the server does not know to be sent yet.
    pub(crate) unsent: usize,
    is_paused: bool,
    /// The bytes that came while the server did not receive.
    held: Vec<u8>,
}

/// Open connections, by slot.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    open: Vec<Option<Socket>>,
    serial: u32,
}

impl Sockets {
    pub(crate) fn connect(&mut self, slot: u32) -> Conn {
        self.serial += 1;
        let serial = self.serial;
        if self.open.len() <= slot as usize {
            self.open.resize_with(slot as usize + 1, || None);
        }
        let open = &mut self.open[slot as usize];
        assert!(open.is_none(), "slot {slot} is not free");
        *open = Some(Socket { serial, ..Socket::default() });
        Conn { slot, serial }
    }

    pub(crate) fn get_mut(&mut self, conn: Conn) -> Option<&mut Socket> {
        let socket = self.open.get_mut(conn.slot as usize)?.as_mut()?;
        (socket.serial == conn.serial).then_some(socket)
    }

    fn get(&self, conn: Conn) -> Option<&Socket> {
        let socket = self.open.get(conn.slot as usize)?.as_ref()?;
        (socket.serial == conn.serial).then_some(socket)
    }

    fn remove(&mut self, conn: Conn) {
        if self.get(conn).is_some() {
            self.open[conn.slot as usize] = None;
        }
    }
}

impl Memory {
    pub(crate) fn receive(&mut self, conn: Conn, data: &[u8]) {
        match self.sockets.get_mut(conn) {
            Some(socket) if socket.is_paused => socket.held.extend_from_slice(data),
            Some(_) => self.came.push_back(Completion::Received { conn, data: data.to_vec() }),
            None => {}
        }
    }
}

impl Io for Memory {
    type Conn = Conn;
    type Data = Vec<u8>;
    type Parts = Vec<u8>;
    type Files = Self;

    fn files(&mut self) -> &mut Self {
        self
    }

    fn times(&self) -> Times {
        self.times
    }

    fn next_completion(&mut self) -> Option<Done> {
        self.came.pop_front()
    }

    /// All completions come in the order in which they occurred.
    fn next_other(&mut self) -> Option<Done> {
        None
    }

    fn has_others(&self) -> bool {
        false
    }

    fn unread_since(&self) -> Option<i64> {
        None
    }

    /// No time passes in a turn.
    fn is_late(&mut self, _: i64) -> bool {
        false
    }

    fn begin(&mut self, _: Share) {}

    fn is_over(&mut self) -> bool {
        false
    }

    fn work(&mut self, shard: &mut Shard, times: Times, commands: &mut Vec<Command>) {
        shard.work(times, &mut || false, commands);
    }

    fn slot(&self, conn: Conn) -> usize {
        conn.slot as usize
    }

    fn peer(&self, conn: Conn) -> Option<SocketAddr> {
        let address = SocketAddr::new(Ipv4Addr::new(1, 2, 3, 4).into(), 1);
        self.sockets.get(conn).map(|_| address)
    }

    fn is_full(&self) -> bool {
        false
    }

    fn connections_max(&self) -> Option<usize> {
        None
    }

    fn send(&mut self, conn: Conn, output: &mut Vec<u8>) {
        if let Some(socket) = self.sockets.get_mut(conn) {
            socket.unsent += output.len();
            socket.received.extend_from_slice(output);
        }
        output.clear();
    }

    fn unsent(&self, conn: Conn) -> usize {
        self.sockets.get(conn).map_or(0, |socket| socket.unsent)
    }

    fn recycle(&mut self, _: Vec<u8>) {}

    /// The order in which clients are served is the caller's.
    fn put_first(&mut self, _: Conn, _: bool) {}

    fn pause_receive(&mut self, conn: Conn) {
        if let Some(socket) = self.sockets.get_mut(conn) {
            socket.is_paused = true;
        }
    }

    fn resume_receive(&mut self, conn: Conn) {
        let Some(socket) = self.sockets.get_mut(conn) else { return };
        socket.is_paused = false;
        let data = std::mem::take(&mut socket.held);
        if !data.is_empty() {
            self.came.push_back(Completion::Received { conn, data });
        }
    }

    fn await_writable(&mut self, conn: Conn) {
        self.begun.push_back(Operation::Writable(conn));
    }

    /// All output has left already.
    fn finish(&mut self, conn: Conn) {
        self.sockets.remove(conn);
    }

    fn close(&mut self, conn: Conn) {
        self.sockets.remove(conn);
    }

    fn mail(&mut self, to: u32, message: Message) {
        assert_eq!(to, 0, "there is one shard");
        self.came.push_back(Completion::Mail(message));
    }

    /// No listener has TLS.
    fn order_certificates(&mut self, _: CertificateOrder) {}

    fn pass_push(&mut self, push: Push) {
        let (outcome, _) = self.telemetry.take(self.times.now, &push);
        self.came.push_back(Completion::Mail(Message::Pushed(outcome)));
    }
}
