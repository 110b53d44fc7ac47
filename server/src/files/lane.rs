//! A lane has a file id, the file that is open under it, and the operations that wait for it.
//! Operations start in the order of the requests. They wait only for unfinished operations on which
//! they depend.
//!
//! An operation starts only when its file is open, and a slice of an answer only when all of its
//! files are open. If a file cannot be opened until another is closed, it waits only for operations
//! that have started, and these end by themselves.

use muster_storage::{FileOp, OpenMode};
use std::collections::VecDeque;
use std::path::PathBuf;

#[derive(Debug)]
pub(super) struct Lane<F> {
    state: State<F>,
    mode: OpenMode,
    /// The path of the file, for errors.
    path: PathBuf,
    queue: VecDeque<Waiting>,
    /// The number of waiting operations that close or truncate the file, or open another file under
    /// its id.
    turns: usize,
    /// The number of slices for which this file must stay open, because they wait for another file.
    users: usize,
}

#[derive(Debug)]
enum State<F> {
    Closed,
    /// The file must be opened.
    Wanted,
    Opening,
    /// The file could not be opened. The next operation tries again.
    Missing,
    Open(F),
    Truncating(F),
}

#[derive(Debug)]
pub(super) enum Waiting {
    Op {
        op: FileOp,
        /// The number of the last rename that was requested before this operation. Later renames
        /// must not delay the operation: such a rename may wait for an open, and the open for this
        /// operation.
        last_rename: u64,
    },
    /// The number of a slice that contains a part of the file.
    Slice(u64),
}

impl<F: Clone> Lane<F> {
    /// The lane of a file that must be opened.
    pub(super) fn new(path: PathBuf, mode: OpenMode) -> Self {
        let (state, queue) = (State::Wanted, VecDeque::new());
        Self { state, mode, path, queue, turns: 0, users: 0 }
    }

    pub(super) fn mode(&self) -> OpenMode {
        self.mode
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The file, if open.
    pub(super) fn file(&self) -> Option<&F> {
        match &self.state {
            State::Open(file) | State::Truncating(file) => Some(file),
            State::Closed | State::Wanted | State::Opening | State::Missing => None,
        }
    }

    /// Whether the file uses a descriptor.
    pub(super) fn has_descriptor(&self) -> bool {
        !matches!(self.state, State::Closed | State::Wanted | State::Missing)
    }

    /// Whether the file must be opened now.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.state, State::Wanted)
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether parts of the file can be read now. Reads need not wait until writes have ended.
    pub(super) fn is_readable(&self) -> bool {
        self.turns == 0 && matches!(self.state, State::Open(_))
    }

    /// Whether an operation may start now. Only a read may start before operations that wait
    /// already. `held` says that a file in the same directory is being renamed: then no write or
    /// sync starts, because its durability may depend on the new name.
    pub(super) fn starts(&self, op: &FileOp, held: bool) -> bool {
        if matches!(op, FileOp::Read { .. }) {
            return self.is_readable();
        }
        self.queue.is_empty() && self.is_ready_for(op, held)
    }

    pub(super) fn wait(&mut self, waiting: Waiting) {
        self.turns += usize::from(waiting.is_turn());
        self.queue.push_back(waiting);
    }

    /// Takes the first waiting operation if it may start. `rename` is the number of the oldest
    /// unfinished rename in the file's directory.
    pub(super) fn next(&mut self, rename: Option<u64>) -> Option<Waiting> {
        let is_ready = match self.queue.front()? {
            Waiting::Op { op, last_rename } => {
                self.is_ready_for(op, rename.is_some_and(|first| first <= *last_rename))
            }
            Waiting::Slice(_) => matches!(self.state, State::Open(_)),
        };
        let next = self.queue.pop_front_if(|_| is_ready)?;
        self.turns -= usize::from(next.is_turn());
        Some(next)
    }

    /// Keeps the file open for a slice, until [`Self::release`].
    pub(super) fn keep(&mut self) {
        self.users += 1;
    }

    pub(super) fn release(&mut self) {
        self.users -= 1;
    }

    /// Reuses the id for another file.
    pub(super) fn open_next(&mut self, path: PathBuf, mode: OpenMode) {
        (self.state, self.path, self.mode) = (State::Wanted, path, mode);
    }

    pub(super) fn begin_to_open(&mut self) {
        self.state = State::Opening;
    }

    pub(super) fn opened(&mut self, file: F) {
        self.state = State::Open(file);
    }

    /// Call this if the file could not be opened. Takes the operations that wait for it, except
    /// those from the first one on that closes it or opens another file.
    pub(super) fn not_opened(&mut self) -> Vec<Waiting> {
        self.state = State::Missing;
        let end = self.queue.iter().position(Waiting::ends_file).unwrap_or(self.queue.len());
        let failed: Vec<_> = self.queue.drain(..end).collect();
        self.turns -= failed.iter().filter(|it| it.is_turn()).count();
        failed
    }

    /// Whether the file could not be opened.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.state, State::Missing)
    }

    /// Requests to open a missing file again.
    pub(super) fn open_again(&mut self) {
        self.state = State::Wanted;
    }

    /// Returns the file to be truncated.
    pub(super) fn truncate(&mut self) -> Option<F> {
        let file = self.close()?;
        self.state = State::Truncating(file.clone());
        Some(file)
    }

    pub(super) fn truncated(&mut self) {
        if let Some(file) = self.close() {
            self.state = State::Open(file);
        }
    }

    /// Returns the file to be closed.
    pub(super) fn close(&mut self) -> Option<F> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Open(file) | State::Truncating(file) => Some(file),
            State::Closed | State::Wanted | State::Opening | State::Missing => None,
        }
    }

    fn is_ready_for(&self, op: &FileOp, held: bool) -> bool {
        let is_open = matches!(self.state, State::Open(_));
        match op {
            FileOp::Open { .. } => matches!(self.state, State::Closed),
            FileOp::Close { .. } if self.is_missing() => true,
            FileOp::Close { .. } | FileOp::Truncate { .. } => is_open && self.users == 0,
            FileOp::Write { .. } | FileOp::Sync { .. } => is_open && !held,
            FileOp::Read { .. }
            | FileOp::Rename { .. }
            | FileOp::RemoveFile { .. }
            | FileOp::RemoveDir { .. }
            | FileOp::MoveDir { .. }
            | FileOp::Keep { .. }
            | FileOp::Look { .. } => is_open,
        }
    }
}

impl Waiting {
    /// Whether the operation ends the file's use of its id: it closes the file, or opens another
    /// one.
    fn ends_file(&self) -> bool {
        matches!(self, Self::Op { op: FileOp::Open { .. } | FileOp::Close { .. }, .. })
    }

    fn is_turn(&self) -> bool {
        use FileOp::{Close, Open, Truncate};
        matches!(self, Self::Op { op: Open { .. } | Close { .. } | Truncate { .. }, .. })
    }
}
