//! Receiving: one multishot receive per connection, into the shared buffers.

use std::io;

use io_uring::{cqueue, opcode, types};

use crate::buffers::GROUP;
use crate::connection::State;
use crate::event::Event;
use crate::ids::ConnId;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

/// The state of a connection's receive.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    /// The kernel holds a receive.
    pub(crate) armed: bool,
    pub(crate) paused: bool,
    /// The stream ended or broke: no further receive.
    ended: bool,
}

impl Ring {
    /// Stops receiving, so that the peer's window fills. One or a few events may follow, with bytes
    /// that the kernel received before.
    pub fn pause_recv(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        let was_paused = std::mem::replace(&mut slot.receiving.paused, true);
        if slot.receiving.armed && !was_paused {
            self.cancel(Tag::new(Kind::Recv, conn.index, conn.generation));
        }
    }

    /// Receives again after `pause_recv`.
    pub fn resume_recv(&mut self, conn: ConnId) {
        if let Some(slot) = self.connections.get_open(conn) {
            slot.receiving.paused = false;
            self.arm_recv(conn);
        }
    }

    pub(crate) fn arm_recv(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        let receiving = &mut slot.receiving;
        if receiving.armed || receiving.paused || receiving.ended {
            return;
        }
        receiving.armed = true;
        let recv = opcode::RecvMulti::new(types::Fd(slot.raw_fd()), GROUP).build();
        self.push(recv, Tag::new(Kind::Recv, conn.index, conn.generation));
    }

    /// Resumes connections whose receive ended for lack of buffers, if there is one again.
    pub(crate) fn feed_starved(&mut self) {
        if !self.pool.exhausted() {
            while let Some(conn) = self.starved.pop() {
                self.arm_recv(conn);
            }
        }
    }

    /// Whether bytes of a connection wait for a buffer.
    pub fn is_starved(&self) -> bool {
        let waits =
            |conn: &ConnId| self.connections.get(*conn).is_some_and(|slot| !slot.receiving.paused);
        self.starved.iter().any(waits)
    }

    pub(crate) fn received(&mut self, tag: Tag, result: i32, flags: u32) -> Option<Event> {
        let conn = ConnId { index: tag.index, generation: tag.generation };
        // The buffer is returned even if the bytes are not used.
        let data = self.pool.lend(flags, result.max(0) as u32);
        let slot = self.connections.get_mut(conn)?;
        let ended = !cqueue::more(flags);
        slot.receiving.armed &= !ended;
        if slot.state != State::Open {
            self.advance_close(conn);
            return None;
        }
        match data {
            Some(data) if result > 0 => {
                if ended {
                    self.arm_recv(conn);
                }
                Some(Event::Received { conn, data })
            }
            _ => self.recv_stopped(conn, result),
        }
    }

    fn recv_stopped(&mut self, conn: ConnId, result: i32) -> Option<Event> {
        match -result {
            libc::ENOBUFS => self.starved.push(conn),
            libc::ECANCELED | libc::EINTR | libc::EAGAIN => self.arm_recv(conn),
            errno => {
                let slot = self.connections.get_mut(conn)?;
                slot.receiving.ended = true;
                let error = (errno != 0).then(|| io::Error::from_raw_os_error(errno));
                return Some(Event::Ended { conn, error });
            }
        }
        None
    }
}
