//! The bytes that a shard holds for its clients, by kind.
//!
//! It also has their sum and its peak, which the server's log shows at a clean stop.

use muster_counters::{Metric, Number, Value, Visitor};
use std::fmt;

/// The purpose for which bytes are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// Received, and not yet handled.
    Input,
    /// Received with TLS and not decrypted yet: bytes of handshakes, and of records that are
    /// incomplete.
    Encrypted,
    /// The state of TLS sessions (approximate).
    Sessions,
    /// Refusals of denied parts of requests, while the answers to the other parts are not ready.
    Amendments,
    /// Requests that wait: parked fetches, look-ups, joins, offsets of transactions.
    Parked,
    /// Reads of files under way, for fetches and look-ups.
    Reads,
    /// Buffers between a file and a socket.
    Slices,
    /// The long request under way, and its answer so far.
    Long,
    /// Answers that may not leave yet.
    Answers,
    /// Answers that may leave and that the client has not taken.
    Unsent,
}

/// Answers that their clients have not read.
pub(super) const UNREAD: [Kind; 2] = [Kind::Answers, Kind::Unsent];

const KINDS: usize = Kind::Unsent as usize + 1;

const NAMES: [&str; KINDS] = [
    "input",
    "encrypted",
    "sessions",
    "amendments",
    "parked",
    "reads",
    "slices",
    "long",
    "answers",
    "unsent",
];

/// Bytes held by kind, their sum, and the peak of the sum.
#[derive(Debug, Clone, Default)]
pub struct Account {
    held: [usize; KINDS],
    total: usize,
    peak: usize,
}

impl Account {
    pub fn take(&mut self, kind: Kind, bytes: usize) {
        self.held[kind as usize] += bytes;
        self.total += bytes;
        self.peak = self.peak.max(self.total);
    }

    /// # Panics
    /// If more is released than was taken.
    pub fn release(&mut self, kind: Kind, bytes: usize) {
        self.held[kind as usize] -= bytes;
        self.total -= bytes;
    }

    /// Sets the bytes of a kind. Call this for kinds that other code counts.
    pub fn set(&mut self, kind: Kind, bytes: usize) {
        self.release(kind, self.held(kind));
        self.take(kind, bytes);
    }

    pub fn held(&self, kind: Kind) -> usize {
        self.held[kind as usize]
    }

    /// The bytes of several kinds together.
    pub(super) fn held_of(&self, kinds: &[Kind]) -> usize {
        kinds.iter().map(|kind| self.held(*kind)).sum()
    }

    pub(super) fn by_kind(&self) -> ByKind {
        ByKind(self.held.map(|bytes| bytes as u64))
    }

    pub fn total(&self) -> usize {
        self.total
    }

    pub fn peak(&self) -> usize {
        self.peak
    }
}

/// The bytes of each kind, for metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByKind([u64; KINDS]);

impl Number for ByKind {
    const LABELS: &'static [&'static str] = &["kind"];

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, bytes)| *own += bytes);
    }

    fn visit(&self, metric: &Metric, visitor: &mut Visitor<'_>) {
        for (name, bytes) in NAMES.iter().zip(self.0) {
            visitor(metric, &[("kind", name)], Value::Number(bytes));
        }
    }
}

/// The bytes by kind, in the form of the log line.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, held) in NAMES.iter().zip(self.held) {
            write!(f, "{name} {} KiB, ", kib(held))?;
        }
        write!(f, "{} KiB in total, {} KiB at the peak", kib(self.total), kib(self.peak))
    }
}

fn kib(bytes: usize) -> usize {
    bytes.div_ceil(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart_and_together() {
        let mut account = Account::default();
        account.take(Kind::Input, 100);
        account.take(Kind::Unsent, 50);
        account.release(Kind::Input, 30);
        assert_eq!((account.held(Kind::Input), account.held(Kind::Unsent)), (70, 50));
        account.set(Kind::Reads, 10);
        account.set(Kind::Reads, 5);
        assert_eq!((account.total(), account.peak()), (125, 150));
        account.take(Kind::Slices, 5 << 20);
        assert_eq!(
            account.to_string(),
            "input 1 KiB, encrypted 0 KiB, sessions 0 KiB, amendments 0 KiB, parked 0 KiB, \
             reads 1 KiB, slices 5120 KiB, long 0 KiB, answers 0 KiB, unsent 1 KiB, 5121 KiB \
             in total, 5121 KiB at the peak"
        );
    }

    #[test]
    #[should_panic(expected = "attempt to subtract with overflow")]
    fn more_than_was_taken_cannot_be_released() {
        let mut account = Account::default();
        account.take(Kind::Answers, 1);
        account.release(Kind::Answers, 2);
    }
}
