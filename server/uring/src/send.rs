//! Sending: output that is queued for a connection is sent together, in one send.

use std::io;

use io_uring::{opcode, types};

use crate::config::{SEND_APPEND_BYTES_MAX, SEND_BUFFERS_MAX, SEND_COPY_BYTES_MAX};
use crate::connection::State;
use crate::event::Event;
use crate::ids::ConnId;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

/// MSG_NOSIGNAL: a disconnected peer causes an error, not a signal. MSG_WAITALL: the kernel
/// continues until everything is sent or an error occurs, so that partial sends are rare.
const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;

/// A connection's output: queued, and in flight.
#[derive(Default)]
pub(crate) struct Sending {
    queue: Vec<Vec<u8>>,
    flight: Vec<Vec<u8>>,
    /// The number of bytes of `flight` that are sent.
    sent: usize,
    pub(crate) in_flight: bool,
    /// Whether the connection is in `Ring::dirty`.
    dirty: bool,
    message: Option<Box<Message>>,
}

/// The arguments of sendmsg(2). They are boxed, because the kernel needs them at the same address
/// until it has accepted the operation.
struct Message {
    header: libc::msghdr,
    parts: Vec<libc::iovec>,
}

impl Sending {
    pub(crate) fn unsent(&self) -> usize {
        bytes(&self.queue) + bytes(&self.flight) - self.sent
    }

    pub(crate) fn reset(&mut self) {
        *self = Self { dirty: self.dirty, ..Self::default() };
    }

    fn appendable(&self, len: usize) -> bool {
        self.queue.last().is_some_and(|last| last.len() + len <= SEND_APPEND_BYTES_MAX)
    }
}

impl Ring {
    /// The buffer to which the connection's next output has to be appended. It is sent in the next
    /// turn, in one send with all other queued output. None if the connection is closed or closing.
    ///
    /// This is the cheapest way to send small responses: it needs no allocation and no queue entry
    /// of its own. The caller has to check `unsent` to limit the output to a client that does not
    /// read.
    pub fn output(&mut self, conn: ConnId) -> Option<&mut Vec<u8>> {
        let slot = self.connections.get_open(conn)?;
        if !slot.sending.appendable(1) {
            let buffer = self.spare.take();
            slot.sending.queue.push(buffer);
        }
        if !std::mem::replace(&mut slot.sending.dirty, true) {
            self.dirty.push(conn);
        }
        slot.sending.queue.last_mut()
    }

    /// Queues a buffer of the caller after the connection's other output. A large buffer is not
    /// copied. When the bytes are sent, [`Ring::buffer`] may reuse their memory. Returns false, and
    /// drops the bytes, if the connection is closed or closing.
    pub fn send(&mut self, conn: ConnId, bytes: Vec<u8>) -> bool {
        let Some(slot) = self.connections.get_open(conn) else {
            self.recycle(bytes);
            return false;
        };
        if bytes.len() <= SEND_COPY_BYTES_MAX && slot.sending.appendable(bytes.len()) {
            if let Some(last) = slot.sending.queue.last_mut() {
                last.extend_from_slice(&bytes);
            }
            self.recycle(bytes);
            return true;
        }
        slot.sending.queue.push(bytes);
        if !std::mem::replace(&mut slot.sending.dirty, true) {
            self.dirty.push(conn);
        }
        true
    }

    /// An empty buffer. It reuses the memory of a sent buffer, if possible.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.take()
    }

    /// Keeps a buffer, so that [`Ring::buffer`] and [`Ring::output`] can reuse its memory.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.spare.keep(buffer);
    }

    /// The number of output bytes that the socket has not accepted yet.
    pub fn unsent(&self, conn: ConnId) -> usize {
        self.connections.get(conn).map_or(0, |slot| slot.sending.unsent())
    }

    /// Starts a send for each connection that has output and no send in flight.
    pub(crate) fn start_sends(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for conn in dirty.drain(..) {
            self.start_send(conn);
        }
        self.dirty = dirty;
    }

    pub(crate) fn sent(&mut self, tag: Tag, result: i32) -> Option<Event> {
        let conn = ConnId { index: tag.index, generation: tag.generation };
        let slot = self.connections.get_mut(conn)?;
        slot.sending.in_flight = false;
        if slot.state == State::Closing {
            self.advance_close(conn);
            return None;
        }
        match result {
            0.. => self.send_advanced(conn, result as usize),
            _ if matches!(-result, libc::EINTR | libc::EAGAIN) => self.send_advanced(conn, 0),
            _ => self.send_failed(conn, -result),
        }
    }

    fn send_advanced(&mut self, conn: ConnId, sent: usize) -> Option<Event> {
        let slot = self.connections.get_mut(conn)?;
        slot.sending.sent += sent;
        if slot.sending.sent < bytes(&slot.sending.flight) {
            self.submit_send(conn);
            return None;
        }
        slot.sending.sent = 0;
        let mut flight = std::mem::take(&mut slot.sending.flight);
        flight.drain(..).for_each(|buffer| self.recycle(buffer));
        self.start_send_after(conn, flight)
    }

    /// If more output has gathered, queues the connection for a send in the next turn. `flight` is
    /// an empty vector, whose memory is reused.
    fn start_send_after(&mut self, conn: ConnId, flight: Vec<Vec<u8>>) -> Option<Event> {
        let slot = self.connections.get_mut(conn)?;
        slot.sending.flight = flight;
        let unsent = slot.sending.unsent();
        if slot.state == State::Finishing && unsent == 0 {
            self.advance_close(conn);
            return None;
        }
        if unsent > 0 && !std::mem::replace(&mut slot.sending.dirty, true) {
            self.dirty.push(conn);
        }
        Some(Event::Sent { conn, unsent })
    }

    fn send_failed(&mut self, conn: ConnId, errno: i32) -> Option<Event> {
        let slot = self.connections.get_mut(conn)?;
        slot.sending.reset();
        if slot.state == State::Finishing {
            self.advance_close(conn);
            return None;
        }
        Some(Event::SendFailed { conn, error: io::Error::from_raw_os_error(errno) })
    }

    fn start_send(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        let sending = &mut slot.sending;
        sending.dirty = false;
        if sending.in_flight || slot.state == State::Closing {
            return;
        }
        sending.queue.retain(|buffer| !buffer.is_empty());
        if sending.queue.len() <= SEND_BUFFERS_MAX {
            std::mem::swap(&mut sending.queue, &mut sending.flight);
        } else {
            sending.flight.extend(sending.queue.drain(..SEND_BUFFERS_MAX));
            sending.dirty = true;
            self.dirty.push(conn);
        }
        self.submit_send(conn);
    }

    fn submit_send(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        let fd = types::Fd(slot.raw_fd());
        let sending = &mut slot.sending;
        let entry = match sending.flight.as_slice() {
            [] => return,
            [buffer] => {
                let rest = &buffer[sending.sent..];
                // If the rest is longer, another send follows, as after any partial send.
                let len = rest.len().min(i32::MAX as usize) as u32;
                opcode::Send::new(fd, rest.as_ptr(), len).flags(FLAGS).build()
            }
            _ => opcode::SendMsg::new(fd, sending.gather()).flags(FLAGS as u32).build(),
        };
        sending.in_flight = true;
        self.push(entry, Tag::new(Kind::Send, conn.index, conn.generation));
    }
}

impl Sending {
    /// The message with the unsent bytes of `flight`.
    fn gather(&mut self) -> *const libc::msghdr {
        let message = self.message.get_or_insert_with(|| {
            // SAFETY: all zeros is a valid msghdr: no name, no parts, no control data.
            Box::new(Message { header: unsafe { std::mem::zeroed() }, parts: Vec::new() })
        });
        message.parts.clear();
        let mut skip = self.sent;
        for buffer in &self.flight {
            let rest = &buffer[skip.min(buffer.len())..];
            skip -= buffer.len() - rest.len();
            if !rest.is_empty() {
                message.parts.push(libc::iovec {
                    iov_base: rest.as_ptr().cast_mut().cast(),
                    iov_len: rest.len(),
                });
            }
        }
        message.header.msg_iov = message.parts.as_mut_ptr();
        message.header.msg_iovlen = message.parts.len() as _;
        &raw const message.header
    }
}

fn bytes(buffers: &[Vec<u8>]) -> usize {
    buffers.iter().map(Vec::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_send_continues_where_it_stopped() {
        let flight = vec![b"abc".to_vec(), b"de".to_vec(), b"f".to_vec()];
        for (sent, lens) in
            [(0, &[3, 2, 1][..]), (2, &[1, 2, 1]), (3, &[2, 1]), (4, &[1, 1]), (5, &[1])]
        {
            let mut sending = Sending { flight: flight.clone(), sent, ..Sending::default() };
            sending.gather();
            let parts = &sending.message.as_ref().unwrap().parts;
            let got: Vec<usize> = parts.iter().map(|part| part.iov_len).collect();
            assert_eq!(got, lens, "after {sent} bytes");
        }
    }
}
