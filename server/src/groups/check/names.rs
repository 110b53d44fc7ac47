//! The part of the running check that looks at the files of the log by their names: a file that was
//! removed, replaced or cut short reads as before to a server that has it open. One file after the
//! other is opened again, and its header and its last byte are read.

use muster_storage::{FileDone, FileId, FileOp, FileToken, LogFile, OpenMode, ShardLog};

/// The pause between two files.
const PAUSE_MS: i64 = 1_000;

/// The bytes of a header, and more.
const HEAD_BYTES: u32 = 4_096;

/// See the head of the file.
#[derive(Debug)]
pub(super) struct NamesCheck {
    file: FileId,
    token: FileToken,
    next_at: i64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The file that follows this one is next.
    Idle(u64),
    ReadingHead(LogFile),
    /// The header is that of the file.
    HeadRead(LogFile),
    ReadingEnd(LogFile),
    /// The file is to be closed.
    Done(u64),
}

impl NamesCheck {
    pub(super) fn new(file: FileId, token: FileToken, now: i64) -> Self {
        Self { file, token, next_at: now.saturating_add(PAUSE_MS), stage: Stage::Idle(0) }
    }

    pub(super) fn owns(&self, token: FileToken) -> bool {
        token == self.token
    }

    /// Continues, at the end of a turn; begins with no further file if it `ends`.
    pub(super) fn turn(&mut self, log: &ShardLog, now: i64, ends: bool, ops: &mut Vec<FileOp>) {
        let Self { file, token, .. } = *self;
        let read = |offset, len| FileOp::Read { token, file, offset, len };
        self.stage = match std::mem::replace(&mut self.stage, Stage::Idle(0)) {
            Stage::Idle(after) if ends || now < self.next_at || !log.is_recovered() => {
                Stage::Idle(after)
            }
            Stage::Idle(after) => match log.next_file(after) {
                Some(of) => {
                    ops.push(FileOp::Open { file, path: of.path.clone(), mode: OpenMode::Aside });
                    ops.push(read(0, HEAD_BYTES));
                    Stage::ReadingHead(of)
                }
                None => {
                    self.next_at = now.saturating_add(PAUSE_MS);
                    Stage::Idle(0)
                }
            },
            Stage::HeadRead(of) => {
                ops.push(read(u64::from(of.bytes) - 1, 1));
                Stage::ReadingEnd(of)
            }
            Stage::Done(after) => {
                ops.push(FileOp::Close { file });
                self.next_at = now.saturating_add(PAUSE_MS);
                Stage::Idle(after)
            }
            reading @ (Stage::ReadingHead(_) | Stage::ReadingEnd(_)) => reading,
        };
    }

    /// The time when it needs another turn without an event.
    pub(super) fn deadline(&self, ends: bool, now: i64) -> Option<i64> {
        match self.stage {
            Stage::Idle(_) => (!ends).then_some(self.next_at),
            Stage::HeadRead(_) | Stage::Done(_) => Some(now),
            Stage::ReadingHead(_) | Stage::ReadingEnd(_) => None,
        }
    }

    /// Takes the completion of a read; returns the damage that it shows.
    pub(super) fn done(&mut self, log: &ShardLog, done: FileDone) -> Option<String> {
        let (stage, damage) = match (std::mem::replace(&mut self.stage, Stage::Idle(0)), done) {
            (Stage::ReadingHead(of), FileDone::Read { data, .. }) => {
                if of.begins_with(&data) {
                    (Stage::HeadRead(of), None)
                } else {
                    let what = "is not there any more, or its header is another one";
                    (Stage::Done(of.sequence), damage(log, &of, what))
                }
            }
            (Stage::ReadingEnd(of), FileDone::Read { data, .. }) => {
                let is_short = data.is_empty();
                let damage = is_short.then(|| damage(log, &of, "is shorter than it was")).flatten();
                (Stage::Done(of.sequence), damage)
            }
            // The check of the content reports reads that fail.
            (Stage::ReadingHead(of) | Stage::ReadingEnd(of), _) => (Stage::Done(of.sequence), None),
            (stage @ (Stage::Idle(_) | Stage::HeadRead(_) | Stage::Done(_)), _) => (stage, None),
        };
        self.stage = stage;
        damage
    }
}

/// The words for a damaged file, unless it is no longer one of the log.
fn damage(log: &ShardLog, of: &LogFile, what: &str) -> Option<String> {
    log.has_file(of).then(|| format!("{} {what}", of.path.display()))
}
