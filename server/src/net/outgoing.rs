//! The output of a connection: the answers that may be sent, in order. Answers in memory are sent
//! as bytes. From the first answer with parts of files on, all answers are sent in slices of a
//! stream, until the stream is empty.

use super::limits::{ENCRYPTED_SLICE_BYTES, SLICE_BYTES, SLICE_PIECES_MAX};
use super::stream::{Frame, Piece, SliceMax, Stream};
use muster_storage::FileKey;

/// A frame larger than this is moved to the output rather than copied, if the output is empty.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// The output of a connection.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Frames that may leave now, before `stream`.
    bytes: Vec<u8>,
    /// All frames from the first frame with parts of files on.
    stream: Stream,
    streaming: Streaming,
    /// The maximum number of bytes in a slice.
    slice_bytes: usize,
    /// Bytes of earlier output that the socket has not accepted yet.
    unsent: usize,
    /// The time when the socket last accepted output.
    pub last_taken: i64,
    /// Whether the connection is marked: see [`Outputs::mark`](super::outputs::Outputs::mark).
    is_marked: bool,
}

/// The state of a connection's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Streaming {
    /// No slice is under way, because the stream is empty or other output leaves first.
    #[default]
    No,
    /// The next slice of the stream waits for its turn.
    Queued,
    /// A slice of this number of bytes is under way.
    UnderWay(usize),
    /// The socket is full.
    AwaitsWritable,
}

impl Outgoing {
    pub(super) fn new(now: i64) -> Self {
        Self {
            bytes: Vec::new(),
            stream: Stream::default(),
            streaming: Streaming::No,
            slice_bytes: SLICE_BYTES,
            unsent: 0,
            last_taken: now,
            is_marked: false,
        }
    }

    /// Makes slices shorter, because they are copied when they are encrypted.
    pub(super) fn shorten_slices(&mut self) {
        self.slice_bytes = ENCRYPTED_SLICE_BYTES;
    }

    /// The buffer for an answer that may leave now, after the earlier ones. None if the answer has
    /// to leave in the stream: see [`Self::push`].
    #[inline]
    pub(super) fn buffer(&mut self) -> Option<&mut Vec<u8>> {
        self.stream.is_empty().then_some(&mut self.bytes)
    }

    /// Adds an answer, which may leave.
    #[inline]
    pub(super) fn push(&mut self, frame: &mut Frame) {
        if self.stream.is_empty() && frame.files.is_empty() {
            append(&mut frame.bytes, &mut self.bytes);
        } else {
            self.stream.push(frame);
        }
    }

    /// The bytes that leave before the stream.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the bytes that leave before the stream.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// The bytes to send now; the caller empties the buffer.
    #[inline]
    pub(super) fn send(&mut self) -> &mut Vec<u8> {
        self.unsent += self.bytes.len();
        &mut self.bytes
    }

    /// Notes that the socket accepted output; `unsent` bytes of it are left.
    #[inline]
    pub(super) fn sent(&mut self, unsent: usize) {
        self.unsent = unsent;
    }

    /// The bytes that the client has not read yet, including bytes in files.
    #[inline]
    pub(super) fn unread_bytes(&self) -> usize {
        self.bytes.len() + self.unsent + self.stream.len()
    }

    /// The memory of these answers.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.len() + self.unsent + self.stream.bytes_held()
    }

    /// The files with parts that are still to be sent, once for each part.
    pub(super) fn files(&self) -> impl Iterator<Item = FileKey> {
        self.stream.files()
    }

    pub(super) fn streaming(&self) -> Streaming {
        self.streaming
    }

    /// Queues the next slice of the stream. False if other bytes must be sent first, if the stream
    /// is empty, or if a slice is queued or under way.
    #[inline]
    pub(super) fn queue_slice(&mut self) -> bool {
        let is_first = self.bytes.is_empty() && self.unsent == 0;
        let may_leave = is_first && !self.stream.is_empty() && self.streaming == Streaming::No;
        if may_leave {
            self.streaming = Streaming::Queued;
        }
        may_leave
    }

    /// Begins the next slice of the stream, with up to `files` parts of files.
    pub(super) fn next_slice(&mut self, files: usize) -> Vec<Piece<'_>> {
        let max = SliceMax { bytes: self.slice_bytes, pieces: SLICE_PIECES_MAX, files };
        let pieces = self.stream.slice(max);
        self.streaming = Streaming::UnderWay(pieces.iter().map(Piece::len).sum());
        pieces
    }

    /// Ends the slice under way after `sent` of its bytes. The socket has not accepted the last
    /// `unsent` of these. Adds the files that are sent to `done`. Returns whether the socket is
    /// full; None if no slice is under way.
    pub(super) fn end_slice(
        &mut self,
        sent: usize,
        unsent: usize,
        done: &mut Vec<FileKey>,
    ) -> Option<bool> {
        let Streaming::UnderWay(len) = self.streaming else { return None };
        self.stream.advance(sent, done);
        self.unsent += unsent;
        let is_full = sent < len && !self.stream.is_empty();
        self.streaming = if is_full { Streaming::AwaitsWritable } else { Streaming::No };
        Some(is_full)
    }

    /// Notes that the socket accepts output again. False if the stream did not wait for this.
    pub(super) fn writable(&mut self) -> bool {
        let did_wait = self.streaming == Streaming::AwaitsWritable;
        if did_wait {
            self.streaming = Streaming::No;
        }
        did_wait
    }

    /// Notes that the connection is marked. Returns false if it already was.
    #[inline]
    pub(super) fn mark(&mut self) -> bool {
        !std::mem::replace(&mut self.is_marked, true)
    }

    /// Notes that the connection is no longer marked.
    #[inline]
    pub(super) fn unmark(&mut self) {
        self.is_marked = false;
    }
}

/// Appends bytes to the output, or swaps the buffers if there are many.
fn append(bytes: &mut Vec<u8>, output: &mut Vec<u8>) {
    if output.is_empty() && bytes.len() > COPIED_BYTES_MAX {
        std::mem::swap(bytes, output);
    } else {
        output.extend_from_slice(bytes);
    }
}
