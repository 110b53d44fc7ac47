//! Writes a snapshot to `snapshot.new`. Renames it once it is complete and all operations in it are
//! durable in the log.

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
    /// The token of the writer's file operations.
    pub token: FileToken,
}

/// The outcome of writing a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotNews {
    /// The snapshot was written and renamed.
    Written(SnapshotHeader),
    /// The disk is full; the file was removed.
    NoSpace,
}

/// Writes snapshots, one at a time. Each is written in chunks, so that a flush of the log waits for
/// at most one chunk.
#[derive(Debug)]
pub struct SnapshotWriter {
    config: WriterConfig,
    state: State,
    /// The bytes to write next, at file position `at`.
    waiting: Outbox,
    at: u64,
    is_writing: bool,
    /// A buffer kept for reuse.
    spare: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// The caller is appending the body.
    Filling,
    /// The whole body was appended.
    Ending(SnapshotHeader),
    /// The header is being written.
    Heading(SnapshotHeader),
    /// The file is written. The rename waits until the log is flushed up to the snapshot's newest
    /// position.
    Whole(SnapshotHeader),
    /// The snapshot was abandoned, and its last write is in progress.
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

    /// Begins a file. The caller then appends the body to [`Self::body`] while [`Self::has_room`].
    /// The body begins at [`SNAPSHOT_BODY_AT`].
    ///
    /// # Panics
    /// A snapshot is being written already.
    pub fn begin(&mut self, ops: &mut Vec<FileOp>) {
        assert!(self.is_idle() && !self.is_writing, "one at a time");
        let path = self.config.dir.join(SNAPSHOT_ASIDE_FILE_NAME);
        let (file, mode) = (self.config.file, OpenMode::ASIDE);
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

    /// The file position of the next appended byte.
    pub fn body_end(&self) -> u64 {
        self.at + self.waiting.len() as u64
    }

    /// Ends the body. `header.file_bytes` is filled in.
    pub fn finish(&mut self, header: SnapshotHeader) {
        assert_eq!(self.state, State::Filling);
        self.state = State::Ending(SnapshotHeader { file_bytes: self.body_end(), ..header });
    }

    /// Abandons the snapshot.
    pub fn give_up(&mut self, ops: &mut Vec<FileOp>) {
        if self.is_idle() || self.state == State::GivenUp {
            return;
        }
        self.waiting = Outbox::default();
        self.state = State::GivenUp;
        self.end_given_up(ops);
    }

    /// Pushes the file operations that are due. `flushed` is the last durable position of the log.
    /// Call it after each call of another function, and after each flush of the log.
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
                ops.push(FileOp::Rename {
                    token: None,
                    from,
                    to: self.config.dir.join(SNAPSHOT_FILE_NAME),
                });
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

    /// Takes the completion of one of this writer's writes. Call [`Self::poll`] afterwards.
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

    /// Writes the next chunk in whole blocks. The last one is padded with zeros.
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
