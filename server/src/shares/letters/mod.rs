//! Dead letters on their way to the queue of their group (Kafka's `ShareGroupDLQStateManager`).
//!
//! The letters of a group are delivered one after the other, each as one or more batches:
//!
//! 1. [`queue`] finds the topic of the queue, which may have to be created first.
//! 2. Source records are read if the group wants copies of them.
//! 3. A batch goes to the shard that leads the partition of the queue, which may be this shard. The
//!    leader appends the batch ([`ToShares::DeadLetters`]), and answers.
//! 4. A step that fails for a temporary reason is tried again, five times at most. Then the letter
//!    is dropped, with a line in the server's log. While the disk lacks space, the letter waits.
//!
//! Whether a letter was delivered or dropped, its records are then archived. The share partition
//! stays open until then, unless its state is dropped.

mod batch;
mod delivery;
mod queue;
mod records;
mod schedule;

use crate::mailbox::ToShares;
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

/// The maximum number of times that a step is tried again after a temporary failure.
const ATTEMPTS_MAX: u32 = 5;

/// The pause before another attempt; it doubles each time, up to a maximum.
const BACKOFF_MS: i64 = 1_000;
const BACKOFF_MAX_MS: i64 = 30_000;

/// The maximum time for another shard, or the controller, to answer.
const ANSWER_MS: i64 = 30_000;

/// The pause before another attempt while the disk lacks space.
const NO_SPACE_MS: i64 = 10_000;

/// The maximum number of records of a letter. A larger letter is dropped. Its offsets come from a
/// batch or a write of share state, which may claim offsets that have no records.
pub(crate) const LETTER_RECORDS_MAX: i64 = 1_000_000;

/// If a shard has this number of letters in memory, or more, it takes no further letters. They stay
/// with their share partitions.
const LETTERS_MAX: usize = 100_000;

/// The letters of a shard.
#[derive(Debug, Default)]
pub(super) struct Letters {
    /// The letters of each group; the first one is under way.
    by_group: BTreeMap<Arc<str>, VecDeque<Delivery>>,
    /// The number of letters of all groups.
    count: usize,
    /// The groups with letters, by the step of the group's first letter.
    schedule: Schedule,
    /// The groups whose letter waits for an answer, by the number of the batch.
    awaited: HashMap<u64, Arc<str>>,
    last_number: u64,
    /// Batches that are being appended to queues of this shard, from this shard or another. The
    /// value has the shard that sent the batch, and the batch's number at that shard.
    appending: HashMap<u64, (u32, u64)>,
    /// Batches that partitions have appended or refused.
    pub(super) appended: Vec<(u64, LettersEnd)>,
    /// Messages for other shards.
    outbox: Vec<(u32, ToShares)>,
    /// Topics that the controller is to create.
    wanted_topics: Vec<MissingTopic>,
    /// The number of dropped letters that were not logged yet, and the reason for the first.
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
    /// Each time that a share partition is opened has a number. If the letter ends after the share
    /// partition was opened again, the end is ignored.
    opening: u64,
    /// The address of the member that opened the share partition. The letter counts against the
    /// share of this address in limits.
    address: Address,
    letter: Letter,
    /// The offset of the first record whose letter is not in the queue yet.
    next: i64,
    /// The maximum number of records of a batch: lowered when a batch was too large.
    most: i64,
    /// The numbers of failed attempts to send this batch, and to read its source records.
    failed: u32,
    failed_reads: u32,
    step: Step,
}

/// The partition of a queue to which the next batch of a letter goes.
#[derive(Debug)]
struct Place {
    topic_id: Uuid,
    partition: i32,
    leader: u32,
    /// The intended size of a batch in bytes, and the maximum that the queue accepts.
    batch_bytes: usize,
    max_bytes: usize,
}

/// Source records of a letter, from an offset on.
#[derive(Debug, Default)]
struct Sources {
    records: Vec<Copied>,
    /// The last offset that was read; None if no more can be read.
    upto: Option<i64>,
}

impl Letters {
    fn next_number(&mut self, first_number: u64) -> u64 {
        // A late answer to an earlier load of the shard may come. So the numbers of two loads are
        // never the same.
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

    /// Sets the step of the letter of a group that is under way. A late answer to the previous step
    /// is ignored.
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

    /// Removes the letters of a share partition that is dropped. If it is opened again and still
    /// has these letters, it passes them on again.
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

    /// Notes that the first letter of a group, which had this step, was removed.
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

    /// Removes the group whose letter waits for the answer with this number.
    fn take_awaited(&mut self, number: u64) -> Option<Arc<str>> {
        self.awaited.remove(&number)
    }

    /// The time at which a letter continues.
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

    /// Whether no letter is on its way. Each turn asks this.
    pub(super) fn are_none(&self) -> bool {
        self.by_group.is_empty()
    }

    /// Whether the shard has nothing to take from here.
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
