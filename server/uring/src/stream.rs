//! Streams: parts of files to a socket, slice by slice, through buffers that are used again at once.
//!
//! A slice is read, and sent as far as the socket takes it without waiting; then its buffer is free
//! again. So a peer that does not read holds no memory: what the socket did not take is read once
//! more when it has room ([`Ring::await_room`]). The buffer that was used last is used first, so that
//! its bytes are in the core's cache.

use std::io;

use io_uring::{opcode, types};
use std::os::fd::AsRawFd;

use crate::aligned::AlignedBuf;
use crate::config::{SPARE_SLICE_BYTES_MAX, SPARE_SLICES_MAX};
use crate::connection::{ConnId, State};
use crate::disk::outcome;
use crate::event::Event;
use crate::file::File;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

/// The socket takes what it has room for and no more.
const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// What is sent next on a connection: bytes and parts of files, one behind the other.
#[derive(Debug)]
pub struct Slice {
    buf: AlignedBuf,
    reads: Vec<SliceRead>,
}

/// A part of a file, and where in the buffer it belongs.
#[derive(Debug)]
struct SliceRead {
    file: File,
    offset: u64,
    at: usize,
    len: u32,
}

/// A connection's slice, and what the kernel is doing for it.
#[derive(Debug, Default)]
pub(crate) struct Streaming {
    slice: Option<Slice>,
    reads_in_flight: usize,
    /// Bytes that reads have brought, and the first failure.
    read: usize,
    error: Option<io::Error>,
    sending: bool,
    awaiting_room: bool,
}

impl Slice {
    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Appends `len` bytes of a file from `offset` on. The file must not be a direct one.
    pub fn put_file(&mut self, file: &File, offset: u64, len: u32) {
        let at = self.buf.len();
        self.buf.expose(at + len as usize);
        self.reads.push(SliceRead { file: file.clone(), offset, at, len });
    }

    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    fn file_bytes(&self) -> usize {
        self.reads.iter().map(|read| read.len as usize).sum()
    }
}

impl Streaming {
    /// Whether the kernel still has something of it.
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
    /// An empty slice; to be given to [`Ring::stream`] or [`Ring::drop_slice`].
    pub fn slice(&mut self) -> Slice {
        let buf = self.spare_slices.pop();
        let buf = buf.unwrap_or_else(|| AlignedBuf::with_capacity(SPARE_SLICE_BYTES_MAX));
        Slice { buf, reads: Vec::new() }
    }

    /// The slice is not sent.
    pub fn drop_slice(&mut self, slice: Slice) {
        let mut buf = slice.buf;
        let is_worth = buf.capacity() <= SPARE_SLICE_BYTES_MAX;
        if is_worth && self.spare_slices.len() < SPARE_SLICES_MAX {
            buf.clear();
            self.spare_slices.push(buf);
        }
    }

    /// Sends a slice as far as the socket takes it at once: [`Event::Streamed`] tells how far, or
    /// [`Event::StreamFailed`] that a file could not be read; nothing was sent then. False, and
    /// nothing, if the connection is closed or closing.
    ///
    /// One slice of a connection at a time, and while it is under way nothing by [`Ring::send`] and
    /// [`Ring::output`], nor before they have left ([`Ring::unsent`] is 0).
    pub fn stream(&mut self, conn: ConnId, mut slice: Slice) -> bool {
        let Some(slot) = self.connections.get_open(conn) else {
            self.drop_slice(slice);
            return false;
        };
        debug_assert!(slot.streaming.slice.is_none() && slot.sending.unsent() == 0);
        let reads = slice.reads.len();
        let entries: Vec<_> = slice.entries().collect();
        let streaming = &mut slot.streaming;
        (streaming.reads_in_flight, streaming.read, streaming.error) = (reads, 0, None);
        streaming.slice = Some(slice);
        for entry in entries {
            self.push(entry, Tag::new(Kind::SliceRead, conn.index, conn.generation));
        }
        if reads == 0 {
            self.send_slice(conn);
        }
        true
    }

    /// Asks for [`Event::Room`] when the socket has room for output again.
    pub fn await_room(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        if std::mem::replace(&mut slot.streaming.awaiting_room, true) {
            return;
        }
        let poll = opcode::PollAdd::new(types::Fd(slot.raw_fd()), libc::POLLOUT as u32).build();
        self.push(poll, Tag::new(Kind::Room, conn.index, conn.generation));
    }

    /// One read of a slice has ended; the last one sends it.
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
        self.send_slice(conn);
        None
    }

    fn send_slice(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        let fd = types::Fd(slot.raw_fd());
        let Some(slice) = &slot.streaming.slice else { return };
        let len = slice.buf.len().min(i32::MAX as usize) as u32;
        let send = opcode::Send::new(fd, slice.buf.as_ptr(), len).flags(FLAGS).build();
        slot.streaming.sending = true;
        self.push(send, Tag::new(Kind::SliceSend, conn.index, conn.generation));
    }

    pub(crate) fn slice_sent(&mut self, tag: Tag, result: i32) -> Option<Event> {
        let conn = ConnId { index: tag.index, generation: tag.generation };
        self.connections.get_mut(conn)?.streaming.sending = false;
        self.end_slice(conn);
        if self.connections.get_mut(conn)?.state != State::Open {
            self.advance_close(conn);
            return None;
        }
        match result {
            0.. => Some(Event::Streamed { conn, sent: result as usize }),
            _ if matches!(-result, libc::EAGAIN | libc::EINTR) => {
                Some(Event::Streamed { conn, sent: 0 })
            }
            _ => {
                let error = io::Error::from_raw_os_error(-result);
                Some(Event::SendFailed { conn, error })
            }
        }
    }

    /// A socket that broke has room, too: the next send tells.
    pub(crate) fn has_room(&mut self, tag: Tag) -> Option<Event> {
        let conn = ConnId { index: tag.index, generation: tag.generation };
        let slot = self.connections.get_mut(conn)?;
        slot.streaming.awaiting_room = false;
        if slot.state != State::Open {
            self.advance_close(conn);
            return None;
        }
        Some(Event::Room { conn })
    }

    /// The buffer of a connection's slice is free again.
    fn end_slice(&mut self, conn: ConnId) {
        let slot = self.connections.get_mut(conn);
        if let Some(slice) = slot.and_then(|slot| slot.streaming.slice.take()) {
            self.drop_slice(slice);
        }
    }
}

impl Slice {
    /// A read for each part of a file.
    fn entries(&mut self) -> impl Iterator<Item = io_uring::squeue::Entry> {
        let Self { buf, reads } = self;
        reads.iter().map(|read| {
            let SliceRead { file, offset, at, len } = read;
            let part = &mut buf[*at..*at + *len as usize];
            let fd = types::Fd(file.std().as_raw_fd());
            opcode::Read::new(fd, part.as_mut_ptr(), *len).offset(*offset).build()
        })
    }
}

fn ends_early(read: usize, wanted: usize) -> io::Error {
    let text = format!("only {read} of {wanted} bytes are there");
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}
