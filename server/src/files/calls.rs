//! File system calls that may wait for a disk: those that change or look up names, change lengths,
//! or close files. They are made one after the other. The shard continues meanwhile.

use super::{Call, Descriptor, FileIo};
use hashbrown::HashMap;
use muster_storage::{FileId, FileToken};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// The purpose of a call. It decides how the end of the call is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Open(FileId),
    Truncate(FileId),
    /// A rename, with the token of its completion.
    Rename(Option<FileToken>),
    /// Another change of a name.
    Name,
    /// Looks up which file a path leads to. If the file with the id `file` is open when the look
    /// begins, the path should lead to it.
    Look {
        token: FileToken,
        file: Option<FileId>,
    },
    Close,
}

/// The calls of a shard, in the order of the requests.
#[derive(Debug)]
pub(super) struct Calls<F> {
    /// The calls that have not begun. The first of them opens a file, and has to wait.
    waiting: VecDeque<(Purpose, Call<F>)>,
    under_way: VecDeque<(Purpose, Directories)>,
    /// The directories in which calls change names or open files.
    busy: HashMap<PathBuf, Busy>,
    closes: usize,
    renames: usize,
    /// The number of the last rename; the first is 1.
    last_rename: u64,
    /// The time at which the present first call in `waiting` became the first.
    waits_since: i64,
    /// When the first call under way began.
    begun_at: i64,
}

#[derive(Debug, Default)]
struct Busy {
    calls: usize,
    /// The numbers of the renames among these calls.
    renames: VecDeque<u64>,
}

type Directories = [Option<PathBuf>; 2];

impl<F: Descriptor> Calls<F> {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            busy: HashMap::new(),
            closes: 0,
            renames: 0,
            last_rename: 0,
            waits_since: 0,
            begun_at: 0,
        }
    }

    /// Adds a call, which begins with [`Self::begin_next`].
    pub(super) fn push(&mut self, purpose: Purpose, call: Call<F>, now: i64) {
        let is_rename = matches!(purpose, Purpose::Rename(_));
        self.renames += usize::from(is_rename);
        self.last_rename += u64::from(is_rename);
        for directory in directories(&call).into_iter().flatten() {
            let busy = self.busy.entry(directory).or_default();
            busy.calls += 1;
            busy.renames.extend(is_rename.then_some(self.last_rename));
        }
        if self.waiting.is_empty() {
            self.waits_since = now;
        }
        self.waiting.push_back((purpose, call));
    }

    /// The first call that has not begun.
    pub(super) fn next(&self) -> Option<Purpose> {
        self.waiting.front().map(|(purpose, _)| *purpose)
    }

    /// The next call must be a look. Gives it the file if the file is open. A look does not hold
    /// its file earlier, because an open that waits before it may wait until this file is closed.
    pub(super) fn look_at(&mut self, open: impl FnOnce(&Path) -> Option<F>) {
        if let Some((_, Call::Look { path, file })) = self.waiting.front_mut() {
            *file = open(path);
        }
    }

    pub(super) fn begin_next<I: FileIo<File = F>>(&mut self, io: &mut I, now: i64) {
        let Some((purpose, call)) = self.waiting.pop_front() else { return };
        self.waits_since = now;
        self.begin(io, purpose, call, now);
    }

    /// Truncates a file before the waiting calls are made. The first waiting call may open this
    /// file again, which must not happen before the file is truncated.
    pub(super) fn truncate<I: FileIo<File = F>>(
        &mut self,
        io: &mut I,
        id: FileId,
        call: Call<F>,
        now: i64,
    ) {
        self.begin(io, Purpose::Truncate(id), call, now);
    }

    /// Closes a file before the waiting calls are made, as one of them may wait for this.
    pub(super) fn close<I: FileIo<File = F>>(&mut self, io: &mut I, file: F, now: i64) {
        self.closes += 1;
        self.begin(io, Purpose::Close, Call::Close { file }, now);
    }

    /// The first call under way has ended; returns its purpose.
    pub(super) fn ended(&mut self, now: i64) -> Option<Purpose> {
        let (purpose, directories) = self.under_way.pop_front()?;
        self.begun_at = now;
        let is_rename = matches!(purpose, Purpose::Rename(_));
        self.renames -= usize::from(is_rename);
        self.closes -= usize::from(purpose == Purpose::Close);
        for directory in directories.into_iter().flatten() {
            let Some(busy) = self.busy.get_mut(&directory) else { continue };
            busy.calls -= 1;
            if is_rename {
                busy.renames.pop_front();
            }
            if busy.calls == 0 {
                self.busy.remove(&directory);
            }
        }
        Some(purpose)
    }

    /// Whether the directory of this file has an unfinished call that changes names or opens a
    /// file.
    pub(super) fn concern(&self, file: &Path) -> bool {
        !self.busy.is_empty() && file.parent().is_some_and(|it| self.busy.contains_key(it))
    }

    /// The number of the first unfinished rename in the directory of a file.
    pub(super) fn rename_beside(&self, file: &Path) -> Option<u64> {
        let busy = || file.parent().and_then(|directory| self.busy.get(directory));
        if self.renames == 0 { None } else { busy()?.renames.front().copied() }
    }

    /// The number of the last rename that was requested.
    pub(super) fn last_rename(&self) -> u64 {
        self.last_rename
    }

    /// The time at which the call that is being made began. Calls are made one after the other.
    pub(super) fn since(&self) -> Option<i64> {
        (!self.under_way.is_empty()).then_some(self.begun_at)
    }

    /// The time since which the first waiting call has been the first.
    pub(super) fn waits_since(&self) -> Option<i64> {
        (!self.waiting.is_empty()).then_some(self.waits_since)
    }

    /// The number of unfinished closes.
    pub(super) fn closes(&self) -> usize {
        self.closes
    }

    /// The number of unfinished calls other than closes.
    pub(super) fn others(&self) -> usize {
        self.waiting.len() + self.under_way.len() - self.closes
    }

    fn begin<I: FileIo<File = F>>(
        &mut self,
        io: &mut I,
        purpose: Purpose,
        call: Call<F>,
        now: i64,
    ) {
        if self.under_way.is_empty() {
            self.begun_at = now;
        }
        self.under_way.push_back((purpose, directories(&call)));
        io.call(call);
    }
}

/// The directories in which a call changes names or opens a file.
fn directories<F>(call: &Call<F>) -> Directories {
    let parent = |path: &Path| path.parent().map(Path::to_owned);
    match call {
        Call::Open { path, .. } | Call::RemoveFile { path } | Call::Keep { path, .. } => {
            [parent(path), None]
        }
        Call::Rename { from, to } => {
            let (from, to) = (parent(from), parent(to));
            let other = from.clone().filter(|from| to.as_ref() != Some(from));
            [to, other]
        }
        Call::RemoveDir { path } => [Some(path.clone()), None],
        Call::MoveDir { from, to } => [Some(from.clone()), Some(to.clone())],
        Call::Truncate { .. } | Call::Look { .. } | Call::Link(_) | Call::Close { .. } => {
            [None, None]
        }
    }
}
