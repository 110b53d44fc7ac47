//! The output of a connection that has to send parts of files. It is a queue of parts. Whenever the
//! socket accepts output, the next slice is taken from it.
//!
//! From the first answer with parts of files on, all output of the connection goes through the
//! queue, in slices of 256 KiB, until the queue is empty. Connections take turns. If a file cannot
//! be read in the middle of an answer, the connection is closed, and the log has a line about it:
//! the length of the answer was sent already. Clients detect damaged records by checksum, as with
//! Kafka.

use muster_codec::header;
use muster_codec::{Response, wire};
use muster_storage::{FileKey, FileRange};
use std::collections::VecDeque;

/// A complete answer: its bytes in memory, and the parts of files that are sent between them, each
/// with its byte position in `bytes`.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) files: Vec<(usize, FileRange)>,
}

/// Parts of answers, in the order in which they leave.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    parts: VecDeque<Part>,
    /// The bytes of the first part that have left, if it is a part in memory.
    sent: usize,
    bytes: usize,
    file_bytes: usize,
}

#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    File(FileRange),
}

/// The maximum size of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SliceMax {
    pub(crate) bytes: usize,
    pub(crate) pieces: usize,
    /// The maximum number of parts of files: as many files as may be open at one time.
    pub(crate) files: usize,
}

/// A part of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece<'s> {
    Bytes(&'s [u8]),
    File(FileRange),
}

impl Piece<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::File(range) => range.len as usize,
        }
    }

    /// The file to which the piece belongs.
    pub(crate) fn file(&self) -> Option<FileKey> {
        match self {
            Piece::Bytes(_) => None,
            Piece::File(range) => Some(range.file),
        }
    }
}

impl Frame {
    /// Writes an answer; `files` are its records in files, in their order.
    ///
    /// # Errors
    /// The API is not served in that version.
    pub(crate) fn write(
        &mut self,
        correlation_id: i32,
        version: i16,
        response: &Response<'_>,
        files: &[FileRange],
    ) -> wire::Result<()> {
        header::write_response(correlation_id, version, response, &mut self.bytes)?;
        if let Response::Fetch(body) = response {
            let places = body.gaps().map(|gap| gap.at.get());
            self.files.extend(places.zip(files.iter().copied()));
        }
        debug_assert_eq!(self.files.len(), files.len());
        Ok(())
    }

    /// The length of the answer, with the parts of files.
    pub(crate) fn len(&self) -> usize {
        let file_bytes = self.files.iter().map(|(_, range)| range.len as usize);
        self.bytes.len() + file_bytes.sum::<usize>()
    }
}

impl Stream {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The number of bytes that have not left, including bytes in files.
    pub(crate) fn len(&self) -> usize {
        self.bytes - self.sent + self.file_bytes
    }

    /// The number of bytes held in memory.
    pub(crate) fn bytes_held(&self) -> usize {
        self.bytes + self.parts.len() * size_of::<Part>()
    }

    pub(crate) fn push(&mut self, frame: &Frame) {
        let mut from = 0;
        for (at, range) in &frame.files {
            self.push_bytes(&frame.bytes[from..*at]);
            from = *at;
            if range.len > 0 {
                self.file_bytes += range.len as usize;
                self.parts.push_back(Part::File(*range));
            }
        }
        self.push_bytes(&frame.bytes[from..]);
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes += bytes.len();
        match self.parts.back_mut() {
            Some(Part::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.parts.push_back(Part::Bytes(bytes.to_vec())),
        }
    }

    /// The next slice.
    pub(crate) fn slice(&self, max: SliceMax) -> Vec<Piece<'_>> {
        let mut pieces = Vec::new();
        let (mut room, mut files, mut skip) = (max.bytes, max.files, self.sent);
        for part in self.parts.iter().take(max.pieces) {
            let (piece, len) = match part {
                Part::Bytes(bytes) => {
                    let bytes = &bytes[std::mem::take(&mut skip)..];
                    let len = bytes.len().min(room);
                    (Piece::Bytes(&bytes[..len]), len)
                }
                Part::File(_) if files == 0 => break,
                Part::File(range) => {
                    let len = (range.len as usize).min(room);
                    files -= 1;
                    (Piece::File(FileRange { len: len as u32, ..*range }), len)
                }
            };
            if room == 0 {
                break;
            }
            room -= len;
            pieces.push(piece);
        }
        pieces
    }

    /// Removes `bytes` bytes, which were sent. Adds a file to `done` for each part of a file that
    /// is sent.
    pub(crate) fn advance(&mut self, mut bytes: usize, done: &mut Vec<FileKey>) {
        while bytes > 0
            && let Some(part) = self.parts.front_mut()
        {
            match part {
                Part::Bytes(all) => {
                    let left = all.len() - self.sent;
                    if bytes < left {
                        self.sent += bytes;
                        return;
                    }
                    self.bytes -= all.len();
                    (self.sent, bytes) = (0, bytes - left);
                }
                Part::File(range) => {
                    let taken = bytes.min(range.len as usize);
                    self.file_bytes -= taken;
                    range.offset += taken as u64;
                    range.len -= taken as u32;
                    bytes -= taken;
                    if range.len > 0 {
                        return;
                    }
                    done.push(range.file);
                }
            }
            self.parts.pop_front();
        }
    }

    /// The files of all parts, once for each part.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileKey> {
        self.parts.iter().filter_map(|part| match part {
            Part::File(range) => Some(range.file),
            Part::Bytes(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: SliceMax = SliceMax { bytes: 100, pieces: 100, files: 100 };

    fn key(segment: u64) -> FileKey {
        FileKey { log: 1, segment }
    }

    fn range(segment: u64, offset: u64, len: u32) -> FileRange {
        FileRange { file: key(segment), offset, len }
    }

    fn stream() -> Stream {
        let mut stream = Stream::default();
        let frame = Frame {
            bytes: b"headmidtail".to_vec(),
            files: vec![(4, range(1, 1_000, 10)), (7, range(2, 0, 3))],
        };
        assert_eq!(frame.len(), 24);
        stream.push(&frame);
        stream.push(&Frame { bytes: b"next".to_vec(), files: Vec::new() });
        stream
    }

    /// The bytes of the pieces. A piece of a file is shown as its segment number.
    fn bytes(pieces: &[Piece<'_>]) -> Vec<u8> {
        let each = |piece: &Piece<'_>| match piece {
            Piece::Bytes(bytes) => bytes.to_vec(),
            Piece::File(range) => vec![b'0' + range.file.segment as u8; range.len as usize],
        };
        pieces.iter().flat_map(each).collect()
    }

    #[test]
    fn parts_leave_in_order_however_little_the_socket_accepts() {
        let all = b"head1111111111mid222tailnext";
        for taken in 1..=all.len() {
            for size in [1, 3, 7, 100] {
                let (mut stream, mut left, mut done) = (stream(), Vec::new(), Vec::new());
                while !stream.is_empty() {
                    assert_eq!(stream.len(), all.len() - left.len());
                    let slice = bytes(&stream.slice(SliceMax { bytes: size, ..MANY }));
                    assert!(slice.len() == size.min(stream.len()));
                    let sent = slice.len().min(taken);
                    left.extend_from_slice(&slice[..sent]);
                    stream.advance(sent, &mut done);
                }
                assert_eq!(left, all);
                assert_eq!(done, [key(1), key(2)]);
                assert_eq!(stream.bytes_held(), 0);
            }
        }
    }

    #[test]
    fn a_range_continues_where_it_stopped() {
        let mut stream = stream();
        stream.advance(9, &mut Vec::new());
        let short = SliceMax { bytes: 3, ..MANY };
        assert_eq!(stream.slice(short), [Piece::File(range(1, 1_005, 3))]);
        let first = [Piece::File(range(1, 1_005, 5)), Piece::Bytes(b"mid")];
        assert_eq!(stream.slice(SliceMax { pieces: 2, ..MANY }), first);
        assert_eq!(stream.slice(SliceMax { files: 1, ..MANY }), first);
        assert_eq!(stream.slice(SliceMax { files: 2, ..MANY }).len(), 4, "all that is left");
        assert_eq!(stream.files().collect::<Vec<_>>(), [key(1), key(2)]);
    }
}
