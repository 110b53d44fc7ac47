//! Streams: sends parts of files to a socket, slice by slice.
//!
//! A long part in the page cache goes to the socket without a copy; a short part goes through a
//! buffer. A part that is only on disk is read into the buffer by the ring; the thread never waits
//! for it. When the socket accepts no more bytes without waiting, the buffer is free again. So a
//! peer that does not read holds no memory: bytes that its socket did not accept are read again
//! when the socket is writable ([`Ring::await_writable`]). The most recently used buffer is reused
//! first, because its memory is in the core's cache.
//!
//! A slice may also be read for the caller, who changes its bytes before they are sent. This is
//! used for encryption.
//!
//! A part of 16 KiB or more in the page cache is sent with sendfile(2), which passes the pages
//! themselves to the socket. They must not change until they have arrived. So logs are only
//! appended to, and removed files are truncated only at places where no page is cut
//! (`server/src/files/freeing.rs`).
//!
//! A slice takes four system calls besides those of the turn: to check the cache, to make the
//! socket non-blocking, to send, and to make the socket blocking again. If there are bytes before
//! the part, they take one more. These calls are paid once for 256 KiB. To copy the bytes twice
//! instead takes the CPU twice as long: in two loops that ran side by side, sendfile reached 3,800
//! MiB per CPU-second, and copying 2,000. The ring's own splice operation is no alternative,
//! because it always goes to a worker thread.

use std::io;

use io_uring::{opcode, squeue, types};

use crate::aligned::AlignedBuf;
use crate::at_once::Socket;
use crate::config::{READ_AHEAD_BYTES, SLICE_BYTES_PER_TURN};
use crate::connection::State;
use crate::disk::{DiskOp, outcome};
use crate::event::Event;
use crate::file::File;
use crate::ids::ConnId;
use crate::ring::Ring;
use crate::slice::{Goes, Next, Slice, ends_early};
use crate::tag::{Kind, Tag};

/// MSG_DONTWAIT: the socket accepts as many bytes as fit into its buffer, without waiting.
const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// The slice of a connection, and its operations in flight.
#[derive(Debug, Default)]
pub(crate) struct Streaming {
    slice: Option<Slice>,
    reads_in_flight: usize,
    /// The number of bytes that the completed reads have read. `error` is the first failure of a
    /// read.
    read: usize,
    error: Option<io::Error>,
    sending: bool,
    awaiting_room: bool,
}

impl Streaming {
    /// Whether an operation of the stream is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.reads_in_flight > 0 || self.is_on_socket()
    }

    pub(crate) fn awaits_room(&self) -> bool {
        self.awaiting_room
    }

    pub(crate) fn is_on_socket(&self) -> bool {
        self.sending || self.awaiting_room
    }
}

impl Ring {
    /// An empty slice. Pass it to [`Ring::stream`], [`Ring::read_slice`] or [`Ring::drop_slice`].
    pub fn slice(&mut self) -> Slice {
        self.spare_slices.take()
    }

    /// Drops a slice that is not sent, and keeps its buffer for reuse.
    pub fn drop_slice(&mut self, slice: Slice) {
        self.spare_slices.keep(slice);
    }

    /// Sends, in one of the next turns, as much of a slice as the socket accepts immediately.
    /// [`Event::Streamed`] reports the number of bytes; [`Event::StreamFailed`] reports that a file
    /// could not be read. Returns false if the connection is closed or closing.
    ///
    /// A connection may have only one slice at a time. All its earlier output must have been sent
    /// ([`Ring::unsent`] is 0). The caller must not use [`Ring::send`] and [`Ring::output`] before
    /// it has the slice's event.
    pub fn stream(&mut self, conn: ConnId, slice: Slice) -> bool {
        debug_assert!(self.unsent(conn) == 0);
        self.queue_slice(conn, slice)
    }

    /// Reads the parts of a slice for the caller. [`Event::SliceRead`] returns the slice; the
    /// caller drops it with [`Ring::drop_slice`]. [`Event::StreamFailed`] reports that a file could
    /// not be read. As with [`Ring::stream`], a connection may have one slice at a time, but it may
    /// have other output. Returns false if the connection is closed or closing.
    pub fn read_slice(&mut self, conn: ConnId, mut slice: Slice) -> bool {
        slice.goes = Goes::ToCaller;
        self.queue_slice(conn, slice)
    }

    fn queue_slice(&mut self, conn: ConnId, slice: Slice) -> bool {
        let Some(slot) = self.connections.get_open(conn) else {
            self.drop_slice(slice);
            return false;
        };
        debug_assert!(slot.streaming.slice.is_none());
        slot.streaming.slice = Some(slice);
        self.slices.push_back(conn);
        true
    }

    /// Starts slices in the order of their requests, up to the limit for one turn.
    pub(crate) fn start_slices(&mut self) {
        let mut budget = SLICE_BYTES_PER_TURN;
        while budget > 0
            && let Some(conn) = self.slices.pop_front()
        {
            budget = budget.saturating_sub(self.start_slice(conn));
        }
    }

    /// Whether slices wait for the next turn, or events of slices wait to be taken.
    pub(crate) fn has_slices(&self) -> bool {
        !self.slices.is_empty() || !self.streamed.is_empty()
    }

    /// The next event of a slice that was sent or read without an operation in the kernel's queue.
    pub(crate) fn next_streamed(&mut self) -> Option<Event> {
        while let Some((conn, sent)) = self.streamed.pop_front() {
            let Some(slot) = self.connections.get_open(conn) else {
                self.end_slice(conn);
                continue;
            };
            return Some(match slot.streaming.slice.take() {
                Some(slice) => Event::SliceRead { conn, slice },
                None => Event::Streamed { conn, sent },
            });
        }
        None
    }

    /// Performs those steps of a slice that need not wait. The ring performs the rest. Returns the
    /// length of the slice.
    fn start_slice(&mut self, conn: ConnId) -> usize {
        let Some(slot) = self.connections.get_open(conn) else {
            self.end_slice(conn);
            return 0;
        };
        let socket = Socket { fd: slot.raw_fd(), waits: true };
        let Some(slice) = &mut slot.streaming.slice else { return 0 };
        let len = slice.buf.len();
        let next = match slice.goes {
            Goes::ToSocket => slice.send_at_once(socket),
            Goes::ToCaller => slice.read_all_at_once(),
        };
        match (next, slice.goes) {
            (Next::End, Goes::ToCaller) => self.streamed.push_back((conn, 0)),
            (Next::End, Goes::ToSocket) => {
                let sent = slice.sent;
                self.end_slice(conn);
                self.streamed.push_back((conn, sent));
            }
            (Next::Ring, _) => self.read_parts(conn),
        }
        len
    }

    fn read_parts(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        let streaming = &mut slot.streaming;
        let Some(slice) = &mut streaming.slice else { return };
        let (entries, ends) = (slice.entries().collect::<Vec<_>>(), slice.ends());
        (streaming.reads_in_flight, streaming.read, streaming.error) = (entries.len(), 0, None);
        if entries.is_empty() {
            return self.send_slice(conn);
        }
        for entry in entries {
            self.push(entry, Tag::new(Kind::SliceRead, conn.index, conn.generation));
        }
        ends.into_iter().for_each(|(file, end)| self.read_ahead(file, end));
    }

    /// Advises the kernel to read the bytes after a part, because they will probably be sent next.
    fn read_ahead(&mut self, file: File, offset: u64) {
        let op = DiskOp { file, buf: AlignedBuf::empty(), token: 0 };
        self.start_disk(Kind::ReadAhead, op, |fd, _buf| {
            let advice = libc::POSIX_FADV_WILLNEED;
            let advise = opcode::Fadvise::new(fd, READ_AHEAD_BYTES as libc::off_t, advice);
            advise.offset(offset).build().flags(squeue::Flags::ASYNC)
        });
    }

    /// Requests the event [`Event::Writable`], which comes when the socket can accept output again.
    pub fn await_writable(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        if std::mem::replace(&mut slot.streaming.awaiting_room, true) {
            return;
        }
        let poll = opcode::PollAdd::new(types::Fd(slot.raw_fd()), libc::POLLOUT as u32).build();
        self.push(poll, Tag::new(Kind::Writable, conn.index, conn.generation));
    }

    /// Handles the completion of a slice's read. After the last read the slice is sent, or returned
    /// to the caller.
    pub(crate) fn slice_read(&mut self, tag: Tag, result: i32) -> Option<Event> {
        let conn = ConnId { index: tag.index, generation: tag.generation };
        let streaming = &mut self.connections.get_mut(conn)?.streaming;
        streaming.reads_in_flight -= 1;
        match outcome(result) {
            Ok(read) => streaming.read += read,
            Err(error) => streaming.error = streaming.error.take().or(Some(error)),
        }
        if streaming.reads_in_flight > 0 {
            return None;
        }
        self.slice_is_read(conn)
    }

    fn slice_is_read(&mut self, conn: ConnId) -> Option<Event> {
        let slot = self.connections.get_mut(conn)?;
        if slot.state != State::Open {
            self.end_slice(conn);
            self.advance_close(conn);
            return None;
        }
        let (read, error) = (slot.streaming.read, slot.streaming.error.take());
        let wanted = slot.streaming.slice.as_ref().map_or(0, Slice::file_bytes);
        let error = error.or_else(|| (read < wanted).then(|| ends_early(read, wanted)));
        if let Some(error) = error {
            self.end_slice(conn);
            return Some(Event::StreamFailed { conn, error });
        }
        let slot = self.connections.get_mut(conn)?;
        let read = slot.streaming.slice.take_if(|slice| slice.goes == Goes::ToCaller);
        if let Some(slice) = read {
            return Some(Event::SliceRead { conn, slice });
        }
        self.send_slice(conn);
        None
    }

    fn send_slice(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        let fd = types::Fd(slot.raw_fd());
        let Some(slice) = &slot.streaming.slice else { return };
        let rest = &slice.buf[slice.sent..];
        let len = rest.len().min(i32::MAX as usize) as u32;
        let send = opcode::Send::new(fd, rest.as_ptr(), len).flags(FLAGS).build();
        slot.streaming.sending = true;
        self.push(send, Tag::new(Kind::SliceSend, conn.index, conn.generation));
    }

    pub(crate) fn slice_sent(&mut self, tag: Tag, result: i32) -> Option<Event> {
        let conn = ConnId { index: tag.index, generation: tag.generation };
        let streaming = &mut self.connections.get_mut(conn)?.streaming;
        streaming.sending = false;
        let before = streaming.slice.as_ref().map_or(0, |slice| slice.sent);
        self.end_slice(conn);
        if self.connections.get_mut(conn)?.state != State::Open {
            self.advance_close(conn);
            return None;
        }
        match result {
            0.. => Some(Event::Streamed { conn, sent: before + result as usize }),
            _ if matches!(-result, libc::EAGAIN | libc::EINTR) => {
                Some(Event::Streamed { conn, sent: before })
            }
            _ => {
                let error = io::Error::from_raw_os_error(-result);
                Some(Event::SendFailed { conn, error })
            }
        }
    }

    /// Handles the completion of [`Ring::await_writable`]. If the connection has failed, the event
    /// comes, too, and the next send reports the error.
    pub(crate) fn writable(&mut self, tag: Tag) -> Option<Event> {
        let conn = ConnId { index: tag.index, generation: tag.generation };
        let slot = self.connections.get_mut(conn)?;
        slot.streaming.awaiting_room = false;
        if slot.state != State::Open {
            self.advance_close(conn);
            return None;
        }
        Some(Event::Writable { conn })
    }

    /// Drops the slice of a connection and keeps its buffer.
    fn end_slice(&mut self, conn: ConnId) {
        let slot = self.connections.get_mut(conn);
        if let Some(slice) = slot.and_then(|slot| slot.streaming.slice.take()) {
            self.drop_slice(slice);
        }
    }
}
