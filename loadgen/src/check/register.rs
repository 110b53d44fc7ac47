//! The committed offset of a partition as a register, and the rule `commit-lost`: a read returns
//! the value that was last written.
//!
//! Writes and reads are intervals, from the sending of the request to the reading of its answer.
//! The effect is at some moment in the interval. A write without an answer may take effect at any
//! moment after it was sent, or never. A read may return the value of a write unless
//!
//! - the write was sent after the read was answered, or
//! - a second write lies completely between the write and the read: it was sent after the first
//!   write was answered, and it was answered before the read was sent. (The next write of the same
//!   member counts as sent after the answer even if both have the same time.)
//!
//! This is linearizability of a register, checked for each read by itself. Every correct
//! coordinator satisfies it. Offsets from before the run are unknown: if no write was answered
//! before the read was sent, any value is accepted.
//!
//! A deletion of the group writes -1 (no offset) to all its partitions. A later read of an offset
//! from before the deletion is reported as `deleted-group-came-back`.

use crate::plan::MemberIndex;
use crate::time::Time;

pub(super) const NO_OFFSET: i64 = -1;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Write {
    pub(super) of: Source,
    pub(super) value: i64,
    pub(super) sent: Time,
    /// The time when the write was answered; [`Time::MAX`] until then.
    pub(super) at: Time,
    /// The next commit that the same member sent after this one was answered. It is often sent in
    /// the same moment, so times alone do not show which was first.
    pub(super) followed_by: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Source {
    Commit {
        member: MemberIndex,
        id: u32,
        epoch: i32,
    },
    /// The request will never be answered.
    Unanswered {
        member: MemberIndex,
        id: u32,
        epoch: i32,
    },
    Deletion,
}

#[derive(Default)]
pub(super) struct Register {
    /// The writes in the order in which they became known.
    writes: Vec<Write>,
    /// Reads that were sent up to this time can't be judged: they may return forgotten writes.
    known_from: Time,
    /// The lowest and the highest value of forgotten unanswered writes. Reads that return these
    /// values, or a value between them, are not judged.
    forgotten: Option<(i64, i64)>,
}

impl Register {
    /// If there are this many writes when one more is added, the old ones are forgotten. Newer ones
    /// are kept, because reads in flight may return them.
    const KEPT: usize = 6;
    const UNANSWERED_KEPT: usize = 8;

    pub(super) fn write(&mut self, write: Write) {
        if self.writes.len() >= Self::KEPT {
            self.forget();
        }
        if let Source::Commit { member, id, .. } = write.of {
            let own = self.writes.iter_mut().filter(|own| own.of.is_of(member));
            own.filter(|own| own.at < Time::MAX).for_each(|own| {
                own.followed_by.get_or_insert(id);
            });
        }
        self.writes.push(write);
    }

    pub(super) fn answered(&mut self, member: MemberIndex, id: u32, at: Time) {
        if let Some(write) = self.find(member, id) {
            write.at = at;
        }
    }

    /// Removes a write whose request failed, and certainly had no effect.
    pub(super) fn refused(&mut self, member: MemberIndex, id: u32) {
        if let Some(at) = self.writes.iter().rposition(|write| write.of.is(member, id)) {
            self.writes.remove(at);
        }
    }

    pub(super) fn unanswered(&mut self, member: MemberIndex, id: u32) {
        if let Some(write) = self.find(member, id)
            && let Source::Commit { member, id, epoch } = write.of
        {
            write.of = Source::Unanswered { member, id, epoch };
        }
        if self.writes.iter().filter(|write| write.is_unanswered()).count() > Self::UNANSWERED_KEPT
            && let Some(oldest) = self.writes.iter().position(Write::is_unanswered)
        {
            let value = self.writes.remove(oldest).value;
            let (low, high) = self.forgotten.unwrap_or((value, value));
            self.forgotten = Some((low.min(value), high.max(value)));
        }
    }

    /// Judges a read. Returns a write that proves the read wrong, if there is one.
    pub(super) fn read(&self, value: i64, sent: Time, at: Time) -> Option<Write> {
        if sent <= self.known_from
            || self.forgotten.is_some_and(|(low, high)| (low..=high).contains(&value))
        {
            return None;
        }
        let done = self.writes.iter().filter(|write| write.at < sent);
        let last = done.max_by_key(|write| write.sent)?;
        let may_return =
            |write: &Write| write.value == value && write.sent <= at && !write.is_before(last);
        (!self.writes.iter().any(may_return)).then_some(*last)
    }

    fn find(&mut self, member: MemberIndex, id: u32) -> Option<&mut Write> {
        self.writes.iter_mut().rev().find(|write| write.of.is(member, id))
    }

    /// Forgets all writes that were answered before a certain write was sent: the middle one of the
    /// answered writes. Reads that are sent after its answer cannot return forgotten writes.
    /// Earlier reads are no longer judged.
    fn forget(&mut self) {
        let done: Vec<_> = self.writes.iter().filter(|write| write.at < Time::MAX).collect();
        let Some(by) = done.get(done.len() / 2).map(|write| **write) else { return };
        let before = self.writes.len();
        self.writes.retain(|write| write.at >= by.sent);
        if self.writes.len() < before {
            self.known_from = self.known_from.max(by.at);
        }
    }
}

impl Write {
    /// Whether this write was answered before the other one was sent.
    fn is_before(&self, other: &Self) -> bool {
        let follows = || match (self.of, other.of) {
            (Source::Commit { member, .. }, Source::Commit { member: same, id, .. }) => {
                member == same && self.followed_by == Some(id)
            }
            _ => false,
        };
        self.at < other.sent || (self.at == other.sent && follows())
    }

    fn is_unanswered(&self) -> bool {
        matches!(self.of, Source::Unanswered { .. })
    }
}

impl Source {
    fn is_of(self, by: MemberIndex) -> bool {
        matches!(self, Self::Commit { member, .. } if member == by)
    }

    fn is(self, by: MemberIndex, which: u32) -> bool {
        match self {
            Self::Commit { member, id, .. } | Self::Unanswered { member, id, .. } => {
                (member, id) == (by, which)
            }
            Self::Deletion => false,
        }
    }
}
