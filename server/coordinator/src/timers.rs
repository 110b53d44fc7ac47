//! Keyed timers. Setting a timer and cancelling it take O(log n). Moving a deadline to a later
//! time, as each heartbeat does, only changes a number.
//!
//! The owner of a timer holds a [`Timer`], which has the deadline. For each timer, the queue has a
//! time, which is never later than the deadline. When this time has come, [`Timers::due`] checks
//! the deadline, and queues the timer again if the deadline is now later. Equal deadlines fire in
//! the order in which they were set.

use crate::text::Text;
use alloc::collections::BTreeMap;

/// The purpose of a timer, and its group and member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TimerKey {
    /// A member's session. Or, for a client that was sent a new member id, the time to join with
    /// it.
    Session { group_id: Text, member_id: Text },
    /// A member's rebalance timeout: the time within which it must revoke partitions.
    Revocation { group_id: Text, member_id: Text },
    /// The time within which a classic member of a consumer group must join again after
    /// REBALANCE_IN_PROGRESS.
    MemberJoin { group_id: Text, member_id: Text },
    /// The time within which a classic member of a consumer group must sync after it joined.
    MemberSync { group_id: Text, member_id: Text },
    /// The next slice of a long computation of a target assignment.
    Assignment { group_id: Text },
    /// The next slice of the resolution of a group's regular expressions.
    Expressions { group_id: Text },
    /// The join phase of a rebalance, or the initial delay of a streams group.
    Join { group_id: Text },
    /// The sync phase of a rebalance.
    PendingSync { group_id: Text },
    /// The sweep for expired offsets and groups.
    Sweep,
    /// The next slice of a deletion.
    Deletion,
    /// The next slice of a load of offsets.
    Load,
}

/// The reason why [`crate::Coordinator::expire`] is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A session may have expired.
    Session,
    /// A rebalance's join phase, or a streams group's initial delay, ends.
    Join,
    /// The sync phase of a rebalance ends.
    PendingSync,
    /// Offsets and groups may have expired.
    Sweep,
    /// A member's time to revoke partitions has expired.
    Revocation,
    /// There is work on a target assignment, on regular expressions, on a deletion or on a load.
    Work,
}

/// A time, and a sequence number that orders equal times.
type Due = (i64, u64);

/// One timer. It must be cancelled before it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    due: Option<Due>,
    queued: Option<Due>,
}

impl Timer {
    pub(crate) fn is_set(&self) -> bool {
        self.due.is_some()
    }

    #[cfg(test)]
    pub(crate) fn deadline(&self) -> Option<i64> {
        self.due.map(|(at, _)| at)
    }
}

/// All timers of a coordinator.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeMap<Due, TimerKey>,
    set: u64,
}

impl Timers {
    /// Sets the deadline of `timer`. `key` is called only if the timer has to be queued.
    pub(crate) fn schedule(&mut self, timer: &mut Timer, at: i64, key: impl FnOnce() -> TimerKey) {
        self.set += 1;
        let due = (at, self.set);
        timer.due = Some(due);
        match timer.queued {
            Some(queued) if queued <= due => {}
            Some(queued) => {
                let key = self.queue.remove(&queued).unwrap_or_else(key);
                self.queue(timer, due, key);
            }
            None => self.queue(timer, due, key()),
        }
    }

    pub(crate) fn cancel(&mut self, timer: &mut Timer) {
        timer.due = None;
        if let Some(queued) = timer.queued.take() {
            self.queue.remove(&queued);
        }
    }

    /// Number of queued timers.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The time at which the next queued timer must be checked, and its reason. No timer is due
    /// before.
    pub(crate) fn next(&self) -> Option<(i64, Reason)> {
        self.queue.first_key_value().map(|((at, _), key)| (*at, key.reason()))
    }

    /// Removes the first entry of the queue if its time has come. The caller must pass the timer to
    /// [`Self::due`] before it acts on the returned key.
    pub(crate) fn pop(&mut self, now: i64) -> Option<TimerKey> {
        let first = self.queue.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Whether the popped `timer` is due. If its deadline is now later, queues it again.
    pub(crate) fn due(&mut self, timer: &mut Timer, now: i64, key: TimerKey) -> bool {
        debug_assert!(timer.queued.is_some() && timer.due.is_some());
        timer.queued = None;
        match timer.due {
            Some(due) if due.0 > now || self.is_behind(due) => self.queue(timer, due, key),
            Some(_) => {
                timer.due = None;
                return true;
            }
            None => {}
        }
        false
    }

    /// Whether the queue has an earlier time than `due`. If so, a timer whose deadline was moved to
    /// `due` must be queued again: timers fire in the order of their deadlines.
    fn is_behind(&self, due: Due) -> bool {
        self.queue.first_key_value().is_some_and(|(first, _)| *first < due)
    }

    fn queue(&mut self, timer: &mut Timer, due: Due, key: TimerKey) {
        timer.queued = Some(due);
        let before = self.queue.insert(due, key);
        debug_assert_eq!(before, None, "each setting has a number of its own");
    }
}

impl TimerKey {
    /// None if the timer belongs to no group.
    pub(crate) fn group_id(&self) -> Option<&Text> {
        match self {
            Self::Session { group_id, .. }
            | Self::Revocation { group_id, .. }
            | Self::MemberJoin { group_id, .. }
            | Self::MemberSync { group_id, .. }
            | Self::Assignment { group_id }
            | Self::Expressions { group_id }
            | Self::Join { group_id }
            | Self::PendingSync { group_id } => Some(group_id),
            Self::Sweep | Self::Deletion | Self::Load => None,
        }
    }

    /// Whether the timer is for a slice of long work.
    pub(crate) fn is_slice_of_work(&self) -> bool {
        self.reason() == Reason::Work
    }

    fn reason(&self) -> Reason {
        match self {
            Self::Session { .. } => Reason::Session,
            Self::Revocation { .. } => Reason::Revocation,
            Self::Join { .. } | Self::MemberJoin { .. } => Reason::Join,
            Self::PendingSync { .. } | Self::MemberSync { .. } => Reason::PendingSync,
            Self::Assignment { .. } | Self::Expressions { .. } | Self::Deletion | Self::Load => {
                Reason::Work
            }
            Self::Sweep => Reason::Sweep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> TimerKey {
        TimerKey::Join { group_id: name.into() }
    }

    #[test]
    fn equal_deadlines_fire_in_the_order_in_which_they_were_set() {
        let (mut timers, mut a, mut b) = (Timers::default(), Timer::default(), Timer::default());
        timers.schedule(&mut a, 5, || key("a"));
        timers.schedule(&mut b, 9, || key("b"));
        timers.schedule(&mut a, 9, || unreachable!("it is queued"));
        assert_eq!(timers.pop(4), None);
        assert_eq!(timers.pop(9), Some(key("a")));
        assert!(!timers.due(&mut a, 9, key("a")), "b was set to 9 before a was");
        assert_eq!(timers.pop(9), Some(key("b")));
        assert!(timers.due(&mut b, 9, key("b")));
        assert_eq!(timers.pop(9), Some(key("a")));
        assert!(timers.due(&mut a, 9, key("a")));
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_timer_is_queued_again_only_when_its_deadline_gets_earlier() {
        let (mut timers, mut a) = (Timers::default(), Timer::default());
        timers.schedule(&mut a, 5, || key("a"));
        timers.schedule(&mut a, 50, || unreachable!("it is queued"));
        assert_eq!((timers.next(), a.deadline()), (Some((5, Reason::Join)), Some(50)));
        timers.schedule(&mut a, 2, || unreachable!("it is queued"));
        assert_eq!(timers.next(), Some((2, Reason::Join)));
        assert_eq!(timers.queue.len(), 1);
    }

    #[test]
    fn a_cancelled_timer_leaves_nothing_behind() {
        let (mut timers, mut a) = (Timers::default(), Timer::default());
        timers.schedule(&mut a, 5, || key("a"));
        timers.cancel(&mut a);
        assert_eq!((timers.next(), a.deadline()), (None, None));
    }
}
