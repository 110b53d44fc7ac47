//! The known state of records that have equal state.

use std::time::Duration;

use super::Freed;
use crate::event::Acknowledge;
use crate::plan::MemberIndex;
use crate::time::Time;

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Records {
    /// The delivery count of the last delivery; 0 if none is known.
    pub(super) deliveries: i16,
    /// The last delivery, even after it has ended.
    pub(super) hold: Option<Hold>,
    /// Why and when the last delivery ended, or may have ended.
    freed: Option<(Freed, Time)>,
    /// Whether an acceptance or a rejection was sent, which may have taken effect.
    may_be_done: bool,
    /// When an acceptance or a rejection was answered without error.
    pub(super) done: Option<Time>,
}

/// A delivery to a member.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Hold {
    pub(super) member: MemberIndex,
    pub(super) session: u32,
    /// When the first answer of its session arrived.
    pub(super) opened: Time,
    pub(super) sent: Time,
    pub(super) arrived: Time,
    pub(super) lock: Duration,
}

impl Records {
    pub(super) fn done(at: Time) -> Self {
        Self { done: Some(at), may_be_done: true, ..Self::default() }
    }

    pub(super) fn acquired(self, hold: Hold, deliveries: i16) -> Self {
        Self { deliveries, hold: Some(hold), freed: None, ..self }
    }

    pub(super) fn acknowledging(self, member: MemberIndex, how: Acknowledge, at: Time) -> Self {
        let may_be_done = self.may_be_done || how != Acknowledge::Release;
        let is_its = self.hold.is_some_and(|hold| hold.member == member);
        let freed = if is_its { Some((Freed::Release, at)) } else { self.freed };
        Self { may_be_done, freed, ..self }
    }

    pub(super) fn acknowledged(self, member: MemberIndex, how: Acknowledge, at: Time) -> Self {
        if how != Acknowledge::Release {
            return Self::done(at);
        }
        let is_its = self.hold.is_some_and(|hold| hold.member == member);
        Self { freed: self.freed.or(is_its.then_some((Freed::Release, at))), ..self }
    }

    /// Notes the end of the last delivery, unless an earlier end is known.
    pub(super) fn free(&mut self, why: Freed, at: Time) {
        if self.done.is_none() {
            self.freed.get_or_insert((why, at));
        }
    }

    /// The delivery that may still hold the locks of the records.
    pub(super) fn held(&self) -> Option<Hold> {
        self.hold.filter(|_| self.freed.is_none() && self.done.is_none())
    }

    /// Why the records were delivered again when they arrived at `arrived`, and how long this took.
    /// `None` if they were not delivered before, or should not have been delivered again.
    pub(super) fn waited(&self, arrived: Time) -> Option<(Freed, Duration)> {
        let hold = self.hold.filter(|_| self.done.is_none())?;
        let expired = hold.arrived + hold.lock;
        let (why, from) = match self.freed {
            // A release or a crash after the lock has expired frees nothing: the records were free.
            Some((why, at)) if at <= expired => (why, at),
            Some(_) | None if arrived >= expired => (Freed::Expiry, expired),
            Some(_) | None => return None,
        };
        Some((why, arrived.since(from)))
    }

    /// Whether the records may be done: acknowledged, or at the delivery limit.
    pub(super) fn may_be_done(&self, limit: u32, lost: u32) -> bool {
        self.may_be_done || self.done.is_some() || self.may_be_at(limit, lost)
    }

    /// Whether the records may have reached the delivery limit. Lost fetches may have raised their
    /// count.
    pub(super) fn may_be_at(&self, limit: u32, lost: u32) -> bool {
        u32::try_from(self.deliveries).unwrap_or(0).saturating_add(lost) >= limit
    }
}
