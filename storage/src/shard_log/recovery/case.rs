//! The cases that recovery distinguishes, and the error for a log that is not opened.

use super::segment_file_name;
use std::fmt;

/// The finding at the position of the next block, or at the start of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Zeros to the end: the log ends here.
    A,
    /// A block that continues the log: replayed.
    B,
    /// A whole block of another segment or log, and no block of this segment after it: the log
    /// ends.
    C,
    /// Zeros, then other bytes, but no block of this segment: cut.
    D,
    /// Not a whole block, and no block of this segment after it: cut.
    E,
    /// Not a block, but a block of this segment follows: refused.
    F,
    /// A block whose positions do not continue the log: refused.
    G,
    /// The last segments have neither header nor blocks: created again.
    H,
    /// A segment without a header has blocks, or segments follow it: refused.
    I,
    /// The sequence numbers have a gap, or do not begin with 1: refused.
    J,
    /// No segments: a new log.
    K,
    /// The file belongs to another log, has another format, or is shorter than its header says:
    /// refused.
    L,
    /// A whole block with batches that break their rules: refused.
    M,
    /// A compacted segment: replayed; positions may be missing in it.
    N,
    /// A segment that an earlier compacted segment replaces: left over.
    O,
    /// Two segments that both replace a third: refused.
    P,
    /// A compacted segment whose blocks contradict its header: refused.
    Q,
    /// Not a block, and longer than any block could be: refused.
    R,
}

/// The reason why a log is not opened: acknowledged operations are damaged or missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corruption {
    pub case: Case,
    pub segment: u64,
    /// The byte position in the segment.
    pub at: usize,
    pub what: String,
}

impl Corruption {
    pub(super) fn new(case: Case, segment: u64, at: usize, what: &str) -> Self {
        Self { case, segment, at, what: what.to_owned() }
    }

    /// Describes the place and the kind of the damage.
    pub fn place(&self) -> String {
        let Self { segment, at, what, .. } = self;
        format!("segment {} is damaged at byte {at}: {what}", segment_file_name(*segment))
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. At most the log from this byte on is lost", self.place())
    }
}

impl std::error::Error for Corruption {}

pub(super) fn refuse<T>(case: Case, segment: u64, at: usize, what: &str) -> Result<T, Corruption> {
    Err(Corruption::new(case, segment, at, what))
}
