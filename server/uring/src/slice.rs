//! Slices: bytes and parts of files that are sent on a connection as a unit.

use std::collections::VecDeque;
use std::io;
use std::ops::Deref;

use io_uring::{opcode, squeue, types};
use std::os::fd::AsRawFd;

use crate::aligned::AlignedBuf;
use crate::at_once::{self, Socket};
use crate::file::File;

/// The shortest part of a file for which sendfile(2) is used. To copy a shorter part is cheaper
/// than the further system calls.
const UNCOPIED_BYTES_MIN: u32 = 16 << 10;

/// Bytes and parts of files to be sent on a connection, in order.
#[derive(Debug)]
pub struct Slice {
    pub(crate) goes: Goes,
    /// The bytes of the slice. Each part of a file has its place in this buffer, but a part that is
    /// sent without a copy is never written to it.
    pub(crate) buf: AlignedBuf,
    /// The parts still to be read, in order.
    reads: VecDeque<SliceRead>,
    /// The number of bytes that the socket has accepted.
    pub(crate) sent: usize,
}

/// The destination of a slice's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goes {
    ToSocket,
    ToCaller,
}

/// Whether the socket accepted a part of a slice completely.
enum Sent {
    All,
    Some,
}

/// The next step of a slice.
pub(crate) enum Next {
    /// There is no further step: all bytes are sent or read, or the socket is full.
    End,
    /// The driver has to read the remaining parts of files. Then it sends the rest of the slice, or
    /// returns the slice to the caller.
    Ring,
}

/// A part of a file, and its place in the buffer.
#[derive(Debug)]
struct SliceRead {
    file: File,
    offset: u64,
    at: usize,
    len: u32,
}

impl Slice {
    /// An empty slice with an empty buffer.
    pub(crate) fn new(buf: AlignedBuf) -> Self {
        Self { goes: Goes::ToSocket, buf, reads: VecDeque::new(), sent: 0 }
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Appends `len` bytes of a file, from `offset` on. The file must not be opened with O_DIRECT.
    pub fn put_file(&mut self, file: &File, offset: u64, len: u32) {
        let at = self.buf.len();
        self.buf.expose(at + len as usize);
        self.reads.push_back(SliceRead { file: file.clone(), offset, at, len });
    }

    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    pub(crate) fn file_bytes(&self) -> usize {
        self.reads.iter().map(|read| read.len as usize).sum()
    }
}

/// The bytes of all parts, after the driver has read them for the caller.
impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buf
    }
}

impl Slice {
    /// Reads short parts and sends long ones, in order, until the next step would have to wait.
    pub(crate) fn send_at_once(&mut self, socket: Socket) -> Next {
        while let Some(read) = self.reads.front() {
            let done = match read.len {
                UNCOPIED_BYTES_MIN.. => self.send_uncopied(socket),
                _ => self.read_at_once(),
            };
            match done {
                Some(Sent::All) => drop(self.reads.pop_front()),
                Some(Sent::Some) => return Next::End,
                None => return Next::Ring,
            }
        }
        if self.sent == self.buf.len() { Next::End } else { Next::Ring }
    }

    /// Reads the parts that are in the page cache, up to the first one that is not.
    pub(crate) fn read_all_at_once(&mut self) -> Next {
        while !self.reads.is_empty() {
            match self.read_at_once() {
                Some(_) => drop(self.reads.pop_front()),
                None => return Next::Ring,
            }
        }
        Next::End
    }

    /// Reads all remaining parts, and waits for the disk. Afterwards the slice holds no file.
    ///
    /// # Errors
    /// A file could not be read, or is too short.
    pub(crate) fn read_all(&mut self) -> io::Result<()> {
        let (wanted, mut read) = (self.file_bytes(), 0);
        for SliceRead { file, offset, at, len } in self.reads.drain(..) {
            read += file.read_at(offset, &mut self.buf[at..at + len as usize])?;
            file.read_ahead(offset + u64::from(len));
        }
        if read < wanted { Err(ends_early(read, wanted)) } else { Ok(()) }
    }

    /// Whether no part of a file remains to be read.
    pub(crate) fn is_read(&self) -> bool {
        self.reads.is_empty()
    }

    /// Reads the next part of a file into its place in the buffer. None if the part is not in the
    /// page cache.
    fn read_at_once(&mut self) -> Option<Sent> {
        let Self { buf, reads, .. } = self;
        let SliceRead { file, offset, at, len } = reads.front()?;
        let place = &mut buf[*at..*at + *len as usize];
        at_once::read(file, *offset, place).then_some(Sent::All)
    }

    /// Sends the bytes before the next part of a file, and then this part without a copy. None if
    /// the part is not in the page cache, or if a send failed: the ring then reads and sends the
    /// part.
    fn send_uncopied(&mut self, socket: Socket) -> Option<Sent> {
        let SliceRead { file, offset, at, len } = self.reads.front()?;
        if self.sent < *at {
            self.sent += at_once::send(socket, &self.buf[self.sent..*at]).ok()?;
            if self.sent < *at {
                return Some(Sent::Some);
            }
        }
        let sent = at_once::send_file(socket, file, *offset, *len)?;
        self.sent += sent;
        Some(if sent == *len as usize { Sent::All } else { Sent::Some })
    }

    /// The file and the end offset of each part still to be read.
    pub(crate) fn ends(&self) -> Vec<(File, u64)> {
        let end = |read: &SliceRead| (read.file.clone(), read.offset + u64::from(read.len));
        self.reads.iter().map(end).collect()
    }

    /// Returns a read operation for each remaining part of a file. io_uring's workers carry out all
    /// these reads, because at least one part is not in the page cache.
    pub(crate) fn entries(&mut self) -> impl Iterator<Item = squeue::Entry> {
        let Self { buf, reads, .. } = self;
        reads.iter().map(|read| {
            let SliceRead { file, offset, at, len } = read;
            let part = &mut buf[*at..*at + *len as usize];
            let fd = types::Fd(file.std().as_raw_fd());
            let read = opcode::Read::new(fd, part.as_mut_ptr(), *len).offset(*offset).build();
            read.flags(squeue::Flags::ASYNC)
        })
    }
}

/// The error for a file that is too short.
pub(crate) fn ends_early(read: usize, wanted: usize) -> io::Error {
    let text = format!("only {read} of {wanted} bytes are there");
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}
