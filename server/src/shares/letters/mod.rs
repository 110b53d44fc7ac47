//! Dead letters on their way to the queue of their group (Kafka's `ShareGroupDLQStateManager`).
//!
//! The letters of a group are delivered one after the other, each as one or more batches:
//!
//! 1. [`queue`] finds the topic of the queue, which may have to be created first.
//! 2. Source records are read if the group wants copies of them.
//! 3. A batch goes to the shard that leads the partition of the queue, which may be this one.
//!    That appends it ([`Message::DeadLetters`]), and answers.
//! 4. What fails for a while is tried again, five times at most. Then the letter is dropped, and
//!    the log of the server says so. While the disk lacks space, the letter waits.
//!
//! However a letter ends, its records are archived then. A share partition is not dropped before,
//! unless its state is.

mod batch;
mod delivery;
mod queue;
mod records;
mod schedule;

use crate::mailbox::Message;
use crate::partitions::LettersEnd;
use batch::Copied;
use muster_codec::Uuid;
use muster_coordinator::MissingTopic;
use muster_fairness::Address;
use muster_shares::SharePartitionKey;
use muster_shares::partition::Letter;
use schedule::{Schedule, Step};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// The attempts for a letter whose failure may be over soon.
const ATTEMPTS_MAX: u32 = 5;

/// The wait before another attempt, which doubles each time.
const BACKOFF_MS: i64 = 1_000;
const BACKOFF_MAX_MS: i64 = 30_000;

/// How long another shard, or the controller, may take to answer.
const ANSWER_MS: i64 = 30_000;

/// The wait before another attempt while the disk lacks space.
const NO_SPACE_MS: i64 = 10_000;

/// The records of a letter. One with more is dropped: a batch or a write of share state may claim
/// any number of offsets without having a record for each.
pub(crate) const LETTER_RECORDS_MAX: i64 = 1_000_000;

/// The letters of a shard that are in memory. Further ones stay with their share partitions.
const LETTERS_MAX: usize = 100_000;

/// The letters of a shard.
#[derive(Debug, Default)]
pub(super) struct Letters {
    /// The letters of each group, of which the first is under way.
    by_group: BTreeMap<Arc<str>, VecDeque<Delivery>>,
    /// The letters of all groups.
    count: usize,
    /// The groups with letters, by the step of the first one.
    schedule: Schedule,
    /// The group whose letter waits for a read or an answer, by the number of that.
    awaited: HashMap<u64, Arc<str>>,
    last_number: u64,
    /// Batches of other shards and of this one that are being appended: the shard, and its number.
    appending: HashMap<u64, (u32, u64)>,
    /// Batches that partitions have appended, or refused.
    pub(super) appended: Vec<(u64, LettersEnd)>,
    /// Messages for other shards.
    outbox: Vec<(u32, Message)>,
    /// Topics that the controller is to create.
    wanted_topics: Vec<MissingTopic>,
    /// Those that were dropped since the last call, and why the first one was.
    dropped: Dropped,
    /// Whether records were archived since the last write of changes.
    pub(super) have_ended: bool,
}

/// Letters that were dropped.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    pub(crate) count: u64,
    pub(crate) first: String,
}

/// A letter on its way.
#[derive(Debug)]
struct Delivery {
    key: SharePartitionKey,
    /// The opening of the share partition: the end concerns no later one.
    opening: u64,
    /// The address of the member that has opened it, whose share the letter uses.
    address: Address,
    letter: Letter,
    /// The first record that is not in the queue.
    next: i64,
    /// The records that a batch may have: fewer once one was too large.
    most: i64,
    /// The attempts to send this batch that have failed, and those to read its source records.
    failed: u32,
    failed_reads: u32,
    step: Step,
}

/// The next batch of a letter.
#[derive(Debug)]
struct Place {
    topic_id: Uuid,
    partition: i32,
    leader: u32,
    /// The bytes that a batch should have, and those that the queue takes.
    batch_bytes: usize,
    max_bytes: usize,
}

/// The source records of a letter from one offset on.
#[derive(Debug, Default)]
struct Sources {
    records: Vec<Copied>,
    /// The last offset that was read; None if no more can be.
    upto: Option<i64>,
}

impl Letters {
    fn next_number(&mut self, first_number: u64) -> u64 {
        // No load of the shard repeats a number of another one, for which a late answer may come.
        self.last_number = self.last_number.max(first_number) + 1;
        self.last_number
    }

    /// Whether there is room for the letters of another share partition.
    fn have_room(&self) -> bool {
        self.count < LETTERS_MAX
    }

    fn add(&mut self, delivery: Delivery) {
        let group = Arc::clone(&delivery.key.group_id);
        let all = self.by_group.entry(Arc::clone(&group)).or_default();
        if all.is_empty() {
            self.schedule.add(&group, &delivery.step);
        }
        all.push_back(delivery);
        self.count += 1;
    }

    /// The letter of a group that is under way. Its step is changed by [`Self::set_step`] alone.
    fn first_of(&mut self, group: &str) -> Option<&mut Delivery> {
        self.by_group.get_mut(group)?.front_mut()
    }

    /// Sets the step of the letter of a group that is under way. The answer for which it has waited
    /// is for none.
    fn set_step(&mut self, group: &Arc<str>, step: Step) {
        let first = self.by_group.get_mut(group).and_then(VecDeque::front_mut);
        let Some(first) = first else { return };
        self.schedule.remove(group, &first.step);
        self.schedule.add(group, &step);
        if let Step::Sent { number, .. } = std::mem::replace(&mut first.step, step) {
            self.awaited.remove(&number);
        }
    }

    /// Removes the letter of a group that is under way.
    fn take_first(&mut self, group: &Arc<str>) -> Option<Delivery> {
        let first = self.by_group.get_mut(group)?.pop_front()?;
        self.count -= 1;
        self.first_changed(group, &first.step);
        Some(first)
    }

    /// Removes the letters of a share partition that is dropped: they are handed over again if it
    /// is opened with them.
    pub(super) fn forget(&mut self, key: &SharePartitionKey) {
        let group = &key.group_id;
        let Some(all) = self.by_group.get_mut(group) else { return };
        let before = all.len();
        let first = all.pop_front_if(|it| it.key == *key);
        all.retain(|it| it.key != *key);
        self.count -= before - all.len();
        if let Some(first) = first {
            self.first_changed(group, &first.step);
        }
    }

    /// The first letter of a group, which had this step, was removed.
    fn first_changed(&mut self, group: &Arc<str>, before: &Step) {
        self.schedule.remove(group, before);
        if let Step::Sent { number, .. } = before {
            self.awaited.remove(number);
        }
        match self.by_group.get(group).and_then(VecDeque::front) {
            Some(next) => self.schedule.add(group, &next.step),
            None => drop(self.by_group.remove(group)),
        }
    }

    /// The group whose letter waits with this number, which it does no longer.
    fn take_awaited(&mut self, number: u64) -> Option<Arc<str>> {
        self.awaited.remove(&number)
    }

    /// When a letter is to be tried again.
    pub(super) fn deadline(&self) -> Option<i64> {
        if self.are_none() {
            return None;
        }
        self.schedule.deadline()
    }

    /// The groups whose letters wait for a topic.
    fn awaiting_topic(&self, name: &str) -> Vec<Arc<str>> {
        let awaits = |it: &VecDeque<Delivery>| {
            let step = it.front().map(|first| &first.step);
            matches!(step, Some(Step::Creating(topic, _)) if **topic == *name)
        };
        let waiting = self.by_group.iter().filter(|(_, all)| awaits(all));
        waiting.map(|(group, _)| Arc::clone(group)).collect()
    }

    /// Whether no letter is on its way. Each turn asks.
    pub(super) fn are_none(&self) -> bool {
        self.by_group.is_empty()
    }

    /// Whether there is nothing for the shard to take.
    pub(super) fn are_settled(&self) -> bool {
        self.appended.is_empty()
            && self.outbox.is_empty()
            && self.wanted_topics.is_empty()
            && self.dropped.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_shares::partition::Cause;

    fn add(letters: &mut Letters, partition: i32, first: i64) -> SharePartitionKey {
        let key = SharePartitionKey::new("g", Uuid([1; 16]), partition);
        let cause = Cause::Rejected;
        letters.add(Delivery {
            key: key.clone(),
            opening: 1,
            address: Address::default(),
            letter: Letter { first, last: first, delivery_count: 1, cause },
            next: first,
            most: i64::MAX,
            failed: 0,
            failed_reads: 0,
            step: Step::At(10),
        });
        key
    }

    #[test]
    fn the_letters_of_a_share_partition_that_is_dropped_are_forgotten() {
        let mut letters = Letters::default();
        let group: Arc<str> = "g".into();
        let dropped = add(&mut letters, 0, 5);
        let kept = add(&mut letters, 1, 6);
        add(&mut letters, 0, 7);
        letters.set_step(&group, Step::Sent { number: 3, upto: 5, until: 40 });
        letters.awaited.insert(3, Arc::clone(&group));
        letters.forget(&dropped);
        assert_eq!(letters.take_awaited(3), None, "an answer is for none");
        assert_eq!(letters.first_of("g").map(|it| it.next), Some(6));
        assert_eq!((letters.count, letters.deadline()), (1, Some(10)));
        letters.forget(&kept);
        assert_eq!((letters.count, letters.deadline()), (0, None));
        assert!(letters.by_group.is_empty());
    }

    #[test]
    fn letters_are_limited() {
        let mut letters = Letters { count: LETTERS_MAX - 1, ..Letters::default() };
        assert!(letters.have_room());
        add(&mut letters, 0, 5);
        assert!(!letters.have_room());
    }
}
