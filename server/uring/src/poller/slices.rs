//! Slices: bytes and parts of files that are sent to a socket, or read for the caller.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use super::queue::Order;
use super::sockets::Sockets;
use super::workers::{Job, Workers};
use crate::at_once::Socket;
use crate::config::SLICE_BYTES_PER_TURN;
use crate::event::Event;
use crate::ids::ConnId;
use crate::slice::{Goes, Next, Slice};
use crate::spare::SpareSlices;

/// Slices that wait to be started, in order.
#[derive(Default)]
pub(super) struct Slices {
    waiting: VecDeque<(ConnId, Slice)>,
    spare: SpareSlices,
}

impl Slices {
    pub(super) fn new_slice(&mut self) -> Slice {
        self.spare.take()
    }

    pub(super) fn keep(&mut self, slice: Slice) {
        self.spare.keep(slice);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Queues a slice. Returns false if the connection is not open.
    pub(super) fn put(&mut self, sockets: &mut Sockets, conn: ConnId, slice: Slice) -> bool {
        if sockets.open(conn).is_none() {
            self.keep(slice);
            return false;
        }
        self.waiting.push_back((conn, slice));
        true
    }

    /// Starts slices in the order of their requests, up to the limit for one turn.
    pub(super) fn start(&mut self, sockets: &mut Sockets, workers: &Workers) {
        let mut budget = SLICE_BYTES_PER_TURN;
        while budget > 0
            && let Some((conn, slice)) = self.waiting.pop_front()
        {
            budget = budget.saturating_sub(slice.len());
            self.start_one(sockets, workers, conn, slice);
        }
    }

    /// Performs the steps that need no disk, and leaves the rest to worker threads.
    fn start_one(
        &mut self,
        sockets: &mut Sockets,
        workers: &Workers,
        conn: ConnId,
        mut slice: Slice,
    ) {
        let Some(slot) = sockets.open(conn) else { return self.keep(slice) };
        let socket = Socket { fd: slot.stream.as_raw_fd(), waits: false };
        let next = match slice.goes {
            Goes::ToSocket => slice.send_at_once(socket),
            Goes::ToCaller => slice.read_all_at_once(),
        };
        match (next, slice.goes) {
            (Next::End, Goes::ToCaller) => {
                sockets.queue.event(Event::SliceRead { conn, slice }, Order::Other);
            }
            (Next::End, Goes::ToSocket) => {
                let sent = slice.sent;
                self.keep(slice);
                sockets.queue.event(Event::Streamed { conn, sent }, Order::Other);
            }
            (Next::Ring, _) if slice.is_read() => self.send(sockets, conn, slice),
            (Next::Ring, _) => workers.begin(Job::Slice { conn, slice }),
        }
    }

    /// Continues a slice after a worker thread has read it, or has failed.
    pub(super) fn read(
        &mut self,
        sockets: &mut Sockets,
        conn: ConnId,
        slice: Slice,
        result: io::Result<()>,
    ) {
        if sockets.open(conn).is_none() {
            return self.keep(slice);
        }
        match (result, slice.goes) {
            (Ok(()), Goes::ToSocket) => self.send(sockets, conn, slice),
            (Ok(()), Goes::ToCaller) => {
                sockets.queue.event(Event::SliceRead { conn, slice }, Order::First);
            }
            (Err(error), _) => {
                self.keep(slice);
                sockets.queue.event(Event::StreamFailed { conn, error }, Order::First);
            }
        }
    }

    /// Sends as much of the rest of a slice as the socket accepts.
    fn send(&mut self, sockets: &mut Sockets, conn: ConnId, slice: Slice) {
        let Some(slot) = sockets.open(conn) else { return self.keep(slice) };
        let sent = match slot.stream.write(&slice[slice.sent..]) {
            Err(error) if is_passing(&error) => Ok(0),
            sent => sent,
        };
        let event = match sent {
            Ok(sent) => Event::Streamed { conn, sent: slice.sent + sent },
            Err(error) => Event::SendFailed { conn, error },
        };
        self.keep(slice);
        sockets.queue.event(event, Order::First);
    }
}

/// Whether the error is temporary: the socket is full, or a signal interrupted the call.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
