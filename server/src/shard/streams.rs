//! Answers with parts of files: their next slices, and the release of the files.

use super::{Command, Part, Shard};
use crate::net::{ConnectionId, Piece};
use muster_storage::{FileKey, FileRange};

/// A piece that owns its bytes.
enum Owned {
    Bytes(Vec<u8>),
    File(FileRange),
}

impl Shard {
    /// Starts slices up to the limit.
    pub(super) fn start_slices(&mut self) {
        while let Some((connection, pieces)) = self.connections.next_slice() {
            let pieces: Vec<Owned> = pieces.into_iter().map(Owned::of).collect();
            pieces.into_iter().for_each(|piece| self.add_part(piece));
            self.commands.push(Command::SendParts { connection });
        }
    }

    fn add_part(&mut self, piece: Owned) {
        let part = match piece {
            Owned::Bytes(bytes) => Part::Bytes(bytes),
            Owned::File(FileRange { file, offset, len }) => {
                let mut ops = Vec::new();
                let open = self.partitions.open_held(file, &mut ops);
                self.commands.extend(ops.into_iter().map(Command::File));
                let Some(file) = open else { unreachable!("{file:?} is sent but not held") };
                Part::File { file, offset, len }
            }
        };
        self.commands.push(Command::Part(part));
    }

    /// A slice has left, as far as the socket accepted it.
    pub(super) fn streamed(&mut self, connection: ConnectionId, sent: usize) {
        let (done, is_full) = self.connections.streamed(connection, sent);
        self.release(done);
        if is_full {
            self.commands.push(Command::AwaitWritable { connection });
        }
    }

    /// A file could not be read in the middle of an answer, whose length can no longer be kept.
    pub(super) fn stream_failed(&mut self, connection: ConnectionId, reason: &str) {
        let file = self.connections.get(connection).and_then(|it| it.stream.files().next());
        let path = file.and_then(|file| self.partitions.held_path(file)).unwrap_or_default();
        let path = path.display();
        let words = format_args!("{path} or a file sent with it could not be read: {reason}");
        self.request_error("stream", words);
        self.close(connection, "a file of its answer could not be read".to_owned());
    }

    /// Releases parts of these files: they are sent, or never will be.
    pub(super) fn release(&mut self, files: Vec<FileKey>) {
        let mut ops = Vec::new();
        files.into_iter().for_each(|file| self.partitions.release(file, &mut ops));
        self.commands.extend(ops.into_iter().map(Command::File));
    }
}

impl Owned {
    fn of(piece: Piece<'_>) -> Self {
        match piece {
            Piece::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Piece::File(range) => Self::File(range),
        }
    }
}
