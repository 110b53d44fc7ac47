//! The cases that recovery distinguishes, and the error for a log that is not opened.

use crate::segment_name;
use std::fmt;

/// The finding at the position of the next block, or at the start of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Zeros to the end: the log ends here.
    A,
    /// A block that continues the log: replayed.
    B,
    /// A whole block of another segment or log. No block of this segment follows, so the log ends
    /// here.
    C,
    /// Zeros, followed by other bytes without a block of this segment. The other bytes are cut off.
    D,
    /// Bytes that are not a whole block. No block of this segment follows, so they are cut off.
    E,
    /// Bytes that are not a block of this segment, although such a block follows: refused.
    F,
    /// A block whose positions do not continue the log: refused.
    G,
    /// The last segments have neither header nor blocks: created again.
    H,
    /// A segment has blocks but no header, or is followed by a segment with a header or blocks:
    /// refused.
    I,
    /// The sequence numbers of the segments have a gap, or begin with another number than 1:
    /// refused.
    J,
    /// No segments: a new log.
    K,
    /// The file belongs to another log, has another format, or is shorter than its header says:
    /// refused.
    L,
    /// A whole block with batches that break their rules: refused.
    M,
    /// A compacted segment, which is replayed. Compaction may have removed positions from it.
    N,
    /// The old file of a segment that an earlier compacted segment replaces. It may be reused or
    /// removed.
    O,
    /// Two segments that both claim to replace the same segment: refused.
    P,
    /// A compacted segment whose blocks contradict its header: refused.
    Q,
    /// Bytes that are not a block, and more than a torn block could leave: refused.
    R,
    /// An entry that does not continue the earlier entries of its Raft group: refused.
    S,
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
        format!("segment {} is damaged at byte {at}: {what}", segment_name::file_name(*segment))
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
