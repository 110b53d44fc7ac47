//! Closing a connection: cancel the operations in flight, wait for them, close the descriptor
//! exactly once, free the slot.

use std::os::fd::IntoRawFd;

use io_uring::types::CancelBuilder;
use io_uring::{opcode, types};

use crate::config::CLOSES_PER_TURN;
use crate::connection::State;
use crate::event::Event;
use crate::ids::ConnId;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

impl Ring {
    /// Closes the connection immediately and drops its queued output. `Closed` follows. Does
    /// nothing if the connection is being closed already, or the id is no longer valid.
    pub fn close(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        if slot.state == State::Closing {
            return;
        }
        slot.state = State::Closing;
        let on_socket = slot.sending.in_flight || slot.streaming.is_on_socket();
        if slot.receiving.is_armed() || on_socket {
            self.cancel_all(conn);
        }
        self.advance_close(conn);
    }

    /// Closes the connection once its queued output is sent; nothing more is received. A slice of a
    /// file that is still being read is not sent. If the peer does not read, this takes long; then
    /// [`Ring::close`] may be called to close the connection immediately.
    pub fn finish(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        slot.state = State::Finishing;
        let awaits_room = slot.streaming.awaits_room();
        self.cancel_recv(conn);
        if awaits_room {
            self.cancel(Tag::new(Kind::Writable, conn.index, conn.generation));
        }
        self.advance_close(conn);
    }

    /// Performs the next step of a close.
    pub(crate) fn advance_close(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        if slot.state == State::Finishing && slot.sending.unsent() == 0 {
            slot.state = State::Closing;
        }
        let in_flight = slot.sending.in_flight || slot.streaming.is_in_flight();
        if slot.state != State::Closing || slot.receiving.is_armed() || in_flight {
            return;
        }
        if slot.fd.is_some() && !std::mem::replace(&mut slot.closes, true) {
            self.closes.push_back(conn);
        }
    }

    /// Starts closing descriptors, up to the limit for one turn.
    pub(crate) fn start_closes(&mut self) {
        for _ in 0..CLOSES_PER_TURN {
            let Some(conn) = self.closes.pop_front() else { return };
            let fd = self.connections.get_mut(conn).and_then(|slot| slot.fd.take());
            let Some(fd) = fd else { continue };
            // From here on the kernel owns the descriptor, and closes it exactly once.
            let close = opcode::Close::new(types::Fd(fd.into_raw_fd())).build();
            self.push(close, Tag::new(Kind::Close, conn.index, conn.generation));
        }
    }

    pub(crate) fn closed(&mut self, tag: Tag) -> Option<Event> {
        let conn = ConnId { index: tag.index, generation: tag.generation };
        self.connections.remove(conn);
        self.retry_accepts();
        Some(Event::Closed { conn })
    }

    /// Cancels the operation with this tag. The operation's own completion has the result.
    pub(crate) fn cancel(&mut self, target: Tag) {
        let cancel = opcode::AsyncCancel::new(target.encode()).build();
        self.push(cancel, Tag::new(Kind::Cancel, 0, 0));
    }

    /// Cancels all operations with this tag.
    pub(crate) fn cancel_all_of(&mut self, target: Tag) {
        self.cancel_matching(CancelBuilder::user_data(target.encode()).all());
    }

    fn cancel_all(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        let matching = CancelBuilder::fd(types::Fd(slot.raw_fd())).all();
        self.cancel_matching(matching);
    }

    fn cancel_matching(&mut self, matching: CancelBuilder) {
        let cancel = opcode::AsyncCancel2::new(matching).build();
        self.push(cancel, Tag::new(Kind::Cancel, 0, 0));
    }
}
