//! Writes a snapshot to `snapshot.new`, and renames it once it is whole and the operations in it
//! are durable in the log.

use super::{SNAPSHOT_ASIDE_FILE_NAME, SNAPSHOT_BODY_AT, SNAPSHOT_FILE_NAME, SnapshotHeader};
use crate::file_op::{FileDone, FileId, FileOp, FileToken, OpenMode};
use crate::limits::{BLOCK_BYTES_MAX, SNAPSHOT_CHUNK_BYTES};
use crate::outbox::Outbox;
use std::path::PathBuf;

/// The configuration of a writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterConfig {
    /// The directory of the log, relative to the data directory.
    pub dir: PathBuf,
    pub file: FileId,
    /// The token of its writes.
    pub token: FileToken,
}

/// The result of writing a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotNews {
    /// The snapshot is in place.
    Written(SnapshotHeader),
    /// The disk is full; the file was removed.
    NoSpace,
}

/// Writes one snapshot at a time, one chunk at a time: a flush of the log never waits for more.
#[derive(Debug)]
pub struct SnapshotWriter {
    config: WriterConfig,
    state: State,
    /// The bytes to write next, at `at` in the file.
    waiting: Outbox,
    at: u64,
    is_writing: bool,
    /// A buffer for reuse.
    spare: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// The body is being appended.
    Filling,
    /// The whole body was appended.
    Ending(SnapshotHeader),
    /// The header is being written.
    Heading(SnapshotHeader),
    /// The file is written; the rename waits until the log is flushed as far.
    Whole(SnapshotHeader),
    /// The snapshot was given up; its last write is under way.
    GivenUp,
}

impl SnapshotWriter {
    pub fn new(config: WriterConfig) -> Self {
        Self {
            config,
            state: State::Idle,
            waiting: Outbox::default(),
            at: 0,
            is_writing: false,
            spare: Vec::new(),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Begins a file. The caller appends its body to [`Self::body`] while [`Self::has_room`]; it
    /// starts at [`SNAPSHOT_BODY_AT`].
    ///
    /// # Panics
    /// If one is being written.
    pub fn begin(&mut self, ops: &mut Vec<FileOp>) {
        assert!(self.is_idle() && !self.is_writing, "one at a time");
        let path = self.config.dir.join(SNAPSHOT_ASIDE_FILE_NAME);
        let (file, mode) = (self.config.file, OpenMode::Aside);
        ops.push(FileOp::RemoveFile { path: path.clone() });
        ops.push(FileOp::Open { file, path, mode });
        self.state = State::Filling;
        self.at = SNAPSHOT_BODY_AT;
    }

    /// Whether more of the body may be appended now.
    pub fn has_room(&self) -> bool {
        self.state == State::Filling && self.waiting.len() < SNAPSHOT_CHUNK_BYTES
    }

    /// The buffer to append the body to.
    pub fn body(&mut self) -> &mut Vec<u8> {
        self.waiting.end()
    }

    /// The place in the file of the next byte that is appended.
    pub fn body_end(&self) -> u64 {
        self.at + self.waiting.len() as u64
    }

    /// Ends the body; `header` needs no `file_bytes`.
    pub fn finish(&mut self, header: SnapshotHeader) {
        assert_eq!(self.state, State::Filling);
        self.state = State::Ending(SnapshotHeader { file_bytes: self.body_end(), ..header });
    }

    /// Gives up the snapshot.
    pub fn give_up(&mut self, ops: &mut Vec<FileOp>) {
        if self.is_idle() || self.state == State::GivenUp {
            return;
        }
        self.waiting = Outbox::default();
        self.state = State::GivenUp;
        self.end_given_up(ops);
    }

    /// Pushes the operations that are due; `flushed` is the last durable position of the log. To be
    /// called after each call of the other functions, and when the log was flushed.
    pub fn poll(&mut self, flushed: u64, ops: &mut Vec<FileOp>) -> Option<SnapshotNews> {
        if self.is_writing {
            return None;
        }
        match self.state {
            State::Filling if self.waiting.len() >= SNAPSHOT_CHUNK_BYTES => self.write_chunk(ops),
            State::Ending(_) if self.waiting.len() > 0 => self.write_chunk(ops),
            State::Ending(header) => {
                let mut data = header.to_bytes().to_vec();
                data.resize(BLOCK_BYTES_MAX as usize, 0);
                self.write(0, data, ops);
                self.state = State::Heading(header);
            }
            State::Whole(header) if flushed >= header.newest => {
                ops.push(FileOp::Close { file: self.config.file });
                let from = self.config.dir.join(SNAPSHOT_ASIDE_FILE_NAME);
                ops.push(FileOp::Rename { from, to: self.config.dir.join(SNAPSHOT_FILE_NAME) });
                self.reset();
                return Some(SnapshotNews::Written(header));
            }
            State::Idle | State::Filling | State::Heading(_) | State::Whole(_) | State::GivenUp => {
            }
        }
        None
    }

    pub fn owns(&self, token: FileToken) -> bool {
        token == self.config.token
    }

    /// Takes the completion of a write of this writer. The caller then calls [`Self::poll`].
    pub fn done(&mut self, done: FileDone, ops: &mut Vec<FileOp>) -> Option<SnapshotNews> {
        assert!(self.is_writing && self.owns(done.token()), "a write of another owner");
        self.is_writing = false;
        match (done, self.state) {
            (_, State::GivenUp) => self.end_given_up(ops),
            (FileDone::NoSpace { .. }, _) => {
                self.give_up(ops);
                return Some(SnapshotNews::NoSpace);
            }
            (_, State::Heading(header)) => self.state = State::Whole(header),
            (FileDone::Written { buffer, .. }, _) => self.spare = buffer,
            _ => {}
        }
        None
    }

    /// Writes the next chunk in whole blocks, the last padded with zeros.
    fn write_chunk(&mut self, ops: &mut Vec<FileOp>) {
        let mut data = std::mem::take(&mut self.spare);
        data.clear();
        self.waiting.take(SNAPSHOT_CHUNK_BYTES, &mut data);
        let len = data.len();
        data.resize(len.next_multiple_of(BLOCK_BYTES_MAX as usize), 0);
        let at = self.at;
        self.at += len as u64;
        self.write(at, data, ops);
    }

    fn write(&mut self, offset: u64, data: Vec<u8>, ops: &mut Vec<FileOp>) {
        let WriterConfig { file, token, .. } = self.config;
        self.is_writing = true;
        ops.push(FileOp::Write { token, file, offset, data });
    }

    fn end_given_up(&mut self, ops: &mut Vec<FileOp>) {
        if self.is_writing {
            return;
        }
        ops.push(FileOp::Close { file: self.config.file });
        let path = self.config.dir.join(SNAPSHOT_ASIDE_FILE_NAME);
        ops.push(FileOp::RemoveFile { path });
        self.reset();
    }

    fn reset(&mut self) {
        self.state = State::Idle;
        (self.waiting, self.spare) = (Outbox::default(), Vec::new());
    }
}
