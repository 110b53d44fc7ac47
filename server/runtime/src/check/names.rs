//! The part of the running check that looks at the files of the log by their names. A process that
//! has a file open does not notice that the file or its directory was removed or replaced, or that
//! the file was cut short. The check looks at one file after the other; if the log has grown, it
//! looks at the newest file in between. A look covers three things: whether the name still leads to
//! the file, the file's length, and its header. A clean stop waits for a look at all files.

use muster_storage::{FileDone, FileId, FileOp, FileToken, LogFile, OpenMode, ShardLog};

/// The pause between the looks at two files.
const PAUSE_MS: i64 = 1_000;

/// The number of bytes to read from the beginning of a file. A header is shorter.
const HEAD_BYTES: u32 = 4_096;

/// The looks at the files of the log: see the head of the file.
#[derive(Debug)]
pub(super) struct NamesCheck {
    file: FileId,
    token: FileToken,
    next_at: i64,
    /// The last file of the present round through all files.
    after: u64,
    /// The number of bytes that had been written to the log at the last look at the newest file,
    /// and whether the last look was at the newest file.
    grown_to: u64,
    was_newest: bool,
    rounds: u64,
    stage: Stage,
    last_round: LastRound,
}

/// The round at a clean stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastRound {
    No,
    UnderWay,
    Done,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Looking(LogFile),
    /// The name leads to the file, and the file is long enough.
    Found(LogFile),
    ReadingHead(LogFile),
    /// The file that was opened to read its header has to be closed.
    HeadRead,
}

/// Whether the check continues.
#[derive(Debug, Clone, Copy)]
pub(super) struct Going {
    /// Whether no further file is looked at.
    pub(super) is_ended: bool,
    pub(super) is_stopping: bool,
}

impl NamesCheck {
    pub(super) fn new(file: FileId, token: FileToken, now: i64) -> Self {
        Self {
            file,
            token,
            next_at: now.saturating_add(PAUSE_MS),
            after: 0,
            grown_to: 0,
            was_newest: false,
            rounds: 0,
            stage: Stage::Idle,
            last_round: LastRound::No,
        }
    }

    pub(super) fn owns(&self, token: FileToken) -> bool {
        token == self.token
    }

    /// The number of completed rounds through all files.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Whether all files were looked at since the stop began.
    pub(super) fn is_over(&self) -> bool {
        self.last_round == LastRound::Done
    }

    /// Continues the looks, at the end of a turn.
    pub(super) fn turn(&mut self, log: &ShardLog, now: i64, going: Going, ops: &mut Vec<FileOp>) {
        let is_waiting = match self.stage {
            Stage::Idle => now < self.next_at || going.is_ended,
            Stage::Looking(_) | Stage::ReadingHead(_) => true,
            Stage::Found(_) | Stage::HeadRead => false,
        };
        if is_waiting && !going.is_stopping {
            return;
        }
        let Self { file, token, .. } = *self;
        if going.is_stopping && self.last_round == LastRound::No {
            (self.last_round, self.after, self.next_at) = (LastRound::UnderWay, 0, now);
        }
        self.stage = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle if going.is_ended || now < self.next_at || !log.is_recovered() => {
                Stage::Idle
            }
            Stage::Idle => match self.next(log, now) {
                Some(of) => {
                    let (path, file) = (of.path.clone(), log.open_file(of.sequence));
                    ops.push(FileOp::Look { token, path, file });
                    Stage::Looking(of)
                }
                None => Stage::Idle,
            },
            Stage::Found(of) => {
                ops.push(FileOp::Open { file, path: of.path.clone(), mode: OpenMode::ASIDE });
                ops.push(FileOp::Read { token, file, offset: 0, len: HEAD_BYTES });
                Stage::ReadingHead(of)
            }
            Stage::HeadRead => {
                ops.push(FileOp::Close { file });
                Stage::Idle
            }
            waiting @ (Stage::Looking(_) | Stage::ReadingHead(_)) => waiting,
        };
    }

    /// The time when the looks need another turn without an event.
    pub(super) fn deadline(&self, is_ended: bool, now: i64) -> Option<i64> {
        match self.stage {
            Stage::Idle => (!is_ended && !self.is_over()).then_some(self.next_at),
            Stage::Found(_) | Stage::HeadRead => Some(now),
            Stage::Looking(_) | Stage::ReadingHead(_) => None,
        }
    }

    /// Takes the completion of a look or read; returns the damage that it shows.
    pub(super) fn done(&mut self, log: &ShardLog, done: FileDone) -> Option<String> {
        let (stage, what) = match (std::mem::replace(&mut self.stage, Stage::Idle), done) {
            (Stage::Looking(of), FileDone::Looked { len: None, .. }) => {
                (Stage::Idle, Some((of, "is gone: its name leads to no file, or to another one")))
            }
            (Stage::Looking(of), FileDone::Looked { len: Some(len), .. }) => {
                if len < u64::from(of.bytes) {
                    (Stage::Idle, Some((of, "is shorter than it was")))
                } else {
                    (Stage::Found(of), None)
                }
            }
            (Stage::ReadingHead(of), FileDone::Read { data, .. }) => {
                let is_it = of.begins_with(&data);
                (Stage::HeadRead, (!is_it).then_some((of, "does not begin with its header")))
            }
            (Stage::ReadingHead(_), _) => (Stage::HeadRead, None),
            // The check of the content reports reads that fail.
            (Stage::Looking(_), _) => (Stage::Idle, None),
            (stage @ (Stage::Idle | Stage::Found(_) | Stage::HeadRead), _) => (stage, None),
        };
        self.stage = stage;
        // Compaction may have replaced the file meanwhile; then there is no damage.
        let (of, what) = what.filter(|(of, _)| log.has_file(of))?;
        Some(format!("{} {what}", of.path.display()))
    }

    /// The next file. If the log has grown since the last look at the newest file, this is the
    /// newest file, but never twice in a row.
    fn next(&mut self, log: &ShardLog, now: i64) -> Option<LogFile> {
        let is_last_round = self.last_round == LastRound::UnderWay;
        if !is_last_round {
            self.next_at = now.saturating_add(PAUSE_MS);
        }
        self.was_newest = !is_last_round && !self.was_newest && self.grown_to < log.written_bytes();
        if self.was_newest {
            self.grown_to = log.written_bytes();
            return log.newest_file();
        }
        let next = log.next_file(self.after);
        self.after = next.as_ref().map_or(0, |of| of.sequence);
        self.rounds += u64::from(next.is_none());
        if is_last_round && next.is_none() {
            self.last_round = LastRound::Done;
        }
        next
    }
}
