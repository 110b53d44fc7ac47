//! The output of a connection. It gathers, and is sent as the socket accepts it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};

use mio::net::TcpStream;

use crate::config::{SEND_APPEND_BYTES_MAX, SEND_COPY_BYTES_MAX};
use crate::spare::SpareBuffers;

/// The most buffers that one system call sends.
const BUFFERS_AT_ONCE: usize = 64;

/// Output that the socket has not accepted yet.
#[derive(Default)]
pub(super) struct Sending {
    queue: VecDeque<Vec<u8>>,
    /// The number of bytes of the first buffer that were already sent.
    sent: usize,
    /// The number of unsent bytes in the queue. Bytes that a caller has appended to the last buffer
    /// are missing until [`Self::count_last`] is called.
    unsent: usize,
    /// The length of the last buffer when it was counted.
    counted_of_last: usize,
}

impl Sending {
    pub(super) fn unsent(&self) -> usize {
        self.unsent + self.queue.back().map_or(0, Vec::len) - self.counted_of_last
    }

    /// The buffer to append output to.
    pub(super) fn output(&mut self, spare: &mut SpareBuffers) -> &mut Vec<u8> {
        if !self.is_appendable(1) {
            self.push(spare.take());
        }
        let last = self.queue.len() - 1;
        &mut self.queue[last]
    }

    /// Queues a buffer. A large one is not copied.
    pub(super) fn put(&mut self, bytes: Vec<u8>, spare: &mut SpareBuffers) {
        if bytes.len() > SEND_COPY_BYTES_MAX || !self.is_appendable(bytes.len()) {
            return self.push(bytes);
        }
        if let Some(last) = self.queue.back_mut() {
            last.extend_from_slice(&bytes);
        }
        spare.keep(bytes);
    }

    /// Sends as much as the socket accepts. Returns false if the socket is full.
    ///
    /// # Errors
    /// The connection failed.
    pub(super) fn flush(
        &mut self,
        stream: &mut TcpStream,
        spare: &mut SpareBuffers,
    ) -> io::Result<bool> {
        while self.unsent() > 0 {
            match self.send(stream) {
                Ok(sent) => self.advance(sent, spare),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn send(&self, stream: &mut TcpStream) -> io::Result<usize> {
        if let (Some(only), 1) = (self.queue.front(), self.queue.len()) {
            return stream.write(&only[self.sent..]);
        }
        let mut parts = [IoSlice::new(&[]); BUFFERS_AT_ONCE];
        let mut skipped = self.sent;
        for (part, buffer) in parts.iter_mut().zip(&self.queue) {
            *part = IoSlice::new(&buffer[std::mem::take(&mut skipped)..]);
        }
        stream.write_vectored(&parts[..self.queue.len().min(BUFFERS_AT_ONCE)])
    }

    fn advance(&mut self, sent: usize, spare: &mut SpareBuffers) {
        self.count_last();
        self.unsent -= sent;
        self.sent += sent;
        while let Some(buffer) = self.queue.pop_front_if(|first| first.len() <= self.sent) {
            self.sent -= buffer.len();
            spare.keep(buffer);
        }
        self.counted_of_last = self.queue.back().map_or(0, Vec::len);
    }

    fn push(&mut self, buffer: Vec<u8>) {
        self.count_last();
        self.counted_of_last = buffer.len();
        self.unsent += buffer.len();
        self.queue.push_back(buffer);
    }

    /// Counts the bytes that were appended to the last buffer.
    fn count_last(&mut self) {
        self.unsent = self.unsent();
        self.counted_of_last = self.queue.back().map_or(0, Vec::len);
    }

    fn is_appendable(&self, len: usize) -> bool {
        self.queue.back().is_some_and(|last| last.len() + len <= SEND_APPEND_BYTES_MAX)
    }
}
