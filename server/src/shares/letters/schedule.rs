//! The groups whose letter is due. Each group is entered with the step of its first letter.

use crate::clock::earliest;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The maximum number of groups whose letters are being read or sent at once. Each of them takes
/// the memory of one read and one batch.
const UNDER_WAY_MAX: usize = 32;

/// The step of a letter.
#[derive(Debug)]
pub(super) enum Step {
    /// The letter has not begun, or begins again, at this time.
    At(i64),
    /// The topic of the queue is being created; the answer may take until this time.
    Creating(Arc<str>, i64),
    /// The source records are being read, by the read with this number.
    Reading(u64),
    /// A batch with the records up to `upto` was sent to the leader of the queue.
    Sent { number: u64, upto: i64, until: i64 },
}

#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// The groups by the time at which their next dead letter begins.
    beginning: BTreeSet<(i64, Arc<str>)>,
    /// The groups whose dead letter waits for an answer, by its deadline.
    waiting: BTreeSet<(i64, Arc<str>)>,
    /// The number of groups whose letter is being read or sent.
    under_way: usize,
}

impl Schedule {
    pub(super) fn add(&mut self, group: &Arc<str>, step: &Step) {
        match *step {
            Step::At(at) => drop(self.beginning.insert((at, Arc::clone(group)))),
            Step::Creating(_, at) | Step::Sent { until: at, .. } => {
                self.waiting.insert((at, Arc::clone(group)));
            }
            Step::Reading(_) => {}
        }
        self.under_way += usize::from(is_under_way(step));
    }

    pub(super) fn remove(&mut self, group: &Arc<str>, step: &Step) {
        match *step {
            Step::At(at) => drop(self.beginning.remove(&(at, Arc::clone(group)))),
            Step::Creating(_, at) | Step::Sent { until: at, .. } => {
                self.waiting.remove(&(at, Arc::clone(group)));
            }
            Step::Reading(_) => {}
        }
        self.under_way -= usize::from(is_under_way(step));
    }

    /// The next time at which a group is due. While too many letters are under way, the groups
    /// whose letter has not begun are not due: they wait until another letter ends.
    pub(super) fn deadline(&self) -> Option<i64> {
        let beginning = self.beginning.first().filter(|_| self.free() > 0);
        earliest([beginning, self.waiting.first()].map(|it| it.map(|(at, _)| *at)))
    }

    /// The groups that are due, the earliest first.
    pub(super) fn due(&self, now: i64) -> Vec<Arc<str>> {
        let is_due = |it: &&(i64, Arc<str>)| it.0 <= now;
        let beginning = self.beginning.iter().take_while(is_due).take(self.free());
        let due = self.waiting.iter().take_while(is_due).chain(beginning);
        due.map(|(_, group)| Arc::clone(group)).collect()
    }

    fn free(&self) -> usize {
        UNDER_WAY_MAX.saturating_sub(self.under_way)
    }
}

fn is_under_way(step: &Step) -> bool {
    matches!(step, Step::Reading(_) | Step::Sent { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(number: usize) -> Arc<str> {
        format!("g{number:02}").into()
    }

    #[test]
    fn groups_begin_in_the_order_of_their_times_as_others_end() {
        let mut schedule = Schedule::default();
        for number in 0..UNDER_WAY_MAX - 1 {
            schedule.add(&group(number), &Step::Reading(number as u64));
        }
        for (number, at) in [(70, 30), (71, 10), (72, 20)] {
            schedule.add(&group(number), &Step::At(at));
        }
        assert_eq!(schedule.deadline(), Some(10));
        assert_eq!(schedule.due(9), []);
        assert_eq!(schedule.due(30), [group(71)], "there is room for one");
        schedule.remove(&group(71), &Step::At(10));
        let sent = Step::Sent { number: 99, upto: 5, until: 40 };
        schedule.add(&group(71), &sent);
        assert_eq!(schedule.deadline(), Some(40), "the others wait for its end");
        assert_eq!(schedule.due(40), [group(71)]);
        schedule.remove(&group(71), &sent);
        assert_eq!((schedule.deadline(), schedule.due(20)), (Some(20), vec![group(72)]));
        schedule.remove(&group(0), &Step::Reading(0));
        assert_eq!(schedule.due(30), [group(72), group(70)]);
    }

    #[test]
    fn a_group_that_waits_for_its_queue_to_be_created_leaves_room_for_others() {
        let mut schedule = Schedule::default();
        for number in 0..UNDER_WAY_MAX {
            schedule.add(&group(number), &Step::Creating("dlq".into(), 50));
        }
        schedule.add(&group(90), &Step::At(10));
        assert_eq!((schedule.deadline(), schedule.due(10)), (Some(10), vec![group(90)]));
        assert_eq!(schedule.due(50).len(), UNDER_WAY_MAX + 1);
    }
}
