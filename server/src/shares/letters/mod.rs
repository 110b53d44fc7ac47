//! Dead letters on their way to the queue of their group (Kafka's `ShareGroupDLQStateManager`).
//!
//! The letters of a group are delivered one after the other, each as one or more batches:
//!
//! 1. [`queue`] finds the topic of the queue, which may have to be created first.
//! 2. Source records are read if the group wants copies of them.
//! 3. A batch goes to the shard that leads the partition of the queue, which may be this one.
//!    That appends it ([`Message::DeadLetters`]), and answers.
//! 4. What fails for a while is tried again, five times at most. Then the letter is dropped, and
//!    the log of the server says so.
//!
//! However a letter ends, its records are archived then. A share partition is not dropped before,
//! unless its state is.

mod batch;
mod delivery;
mod queue;
mod records;

use crate::mailbox::Message;
use batch::Copied;
use muster_codec::{ErrorCode, Uuid};
use muster_coordinator::MissingTopic;
use muster_shares::SharePartitionKey;
use muster_shares::partition::Letter;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// The attempts for a letter whose failure may be over soon.
const ATTEMPTS_MAX: u32 = 5;

/// The wait before another attempt, which doubles each time.
const BACKOFF_MS: i64 = 1_000;
const BACKOFF_MAX_MS: i64 = 30_000;

/// How long another shard, or the controller, may take to answer.
const ANSWER_MS: i64 = 30_000;

/// The letters of a shard.
#[derive(Debug, Default)]
pub(super) struct Letters {
    /// Those of each group; the first one is under way. Each is of records in flight, whose number
    /// is limited (`share.partition.max.record.locks`).
    by_group: BTreeMap<Arc<str>, VecDeque<Delivery>>,
    /// The group whose letter waits for a read or an answer, by the number of that.
    awaited: HashMap<u64, Arc<str>>,
    last_number: u64,
    /// Batches of other shards and of this one that are being appended: the shard, and its number.
    appending: HashMap<u64, (u32, u64)>,
    /// Batches that partitions have appended, or refused.
    pub(super) appended: Vec<(u64, ErrorCode)>,
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
    letter: Letter,
    /// The first record that is not in the queue.
    next: i64,
    /// The attempts of this batch that have failed.
    failed: u32,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// It has not begun, or is begun again at this time.
    At(i64),
    /// The topic of its queue is being created, until this time.
    Creating(Arc<str>, i64),
    /// Source records are being read.
    Reading(u64),
    /// A batch with the records up to this one is with the leader of the queue.
    Sent { number: u64, upto: i64, until: i64 },
}

/// The next batch of a letter.
#[derive(Debug)]
struct Place {
    topic_id: Uuid,
    partition: i32,
    leader: u32,
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

    /// Adds a letter; true if it is the only one of its group.
    fn add(&mut self, delivery: Delivery) -> bool {
        let group = self.by_group.entry(delivery.key.group_id.clone()).or_default();
        group.push_back(delivery);
        group.len() == 1
    }

    fn first_of(&mut self, group: &str) -> Option<&mut Delivery> {
        self.by_group.get_mut(group)?.front_mut()
    }

    /// Removes the letter of a group that is under way.
    fn take_first(&mut self, group: &str) -> Option<Delivery> {
        let all = self.by_group.get_mut(group)?;
        let first = all.pop_front();
        if all.is_empty() {
            self.by_group.remove(group);
        }
        first
    }

    /// The group whose letter waits with this number, which it does no longer.
    fn take_awaited(&mut self, number: u64) -> Option<Arc<str>> {
        self.awaited.remove(&number)
    }

    /// When a letter is to be tried again.
    pub(super) fn deadline(&self) -> Option<i64> {
        let first = self.by_group.values().filter_map(VecDeque::front);
        first.filter_map(Delivery::deadline).min()
    }

    /// The groups whose letters are due.
    fn due(&self, now: i64) -> Vec<Arc<str>> {
        let is_due = |it: &VecDeque<Delivery>| {
            it.front().and_then(Delivery::deadline).is_some_and(|at| at <= now)
        };
        let due = self.by_group.iter().filter(|(_, all)| is_due(all));
        due.map(|(group, _)| Arc::clone(group)).collect()
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

    /// Whether there is nothing for the shard to take.
    pub(super) fn are_settled(&self) -> bool {
        self.appended.is_empty()
            && self.outbox.is_empty()
            && self.wanted_topics.is_empty()
            && self.dropped.count == 0
    }
}

impl Delivery {
    fn deadline(&self) -> Option<i64> {
        match self.step {
            Step::At(at) | Step::Creating(_, at) | Step::Sent { until: at, .. } => Some(at),
            Step::Reading(_) => None,
        }
    }
}
