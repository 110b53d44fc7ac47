//! Fetches of the oracle. They wait for records, like Kafka's `DelayedShareFetch` in its purgatory.

use crate::broker::{Broker, Open, kafkas_name};
use crate::compare::Answer;
use crate::json::{int, int_or, list, text};
use crate::log::Read;
use crate::state::Coordinator;
use muster_codec::{ErrorCode, Wall};
use muster_shares::partition::{AcquireMode, Fetched, Wanted, aborted_ranges, kept_batches};
use muster_shares::{SharePartition, SharePartitionKey};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub struct Waiting {
    pub deadline: i64,
    id: String,
    group: String,
    member: String,
    mode: AcquireMode,
    max_records: i64,
    batch_size: i64,
    max_bytes: i64,
    min_bytes: i64,
    /// The partitions in order. The number shows whether the share partition was opened again.
    partitions: Vec<(SharePartitionKey, u64)>,
    errors: BTreeMap<SharePartitionKey, ErrorCode>,
}

/// The partitions from which a fetch may acquire records, each with the offset to read.
type Offsets = Vec<(SharePartitionKey, i64)>;

impl Broker {
    pub fn fetch(&mut self, op: &Value) {
        let group = text(&op["group"]).to_owned();
        let mode =
            if op["mode"] == 1 { AcquireMode::RecordLimit } else { AcquireMode::BatchOptimized };
        let mut fetch = Waiting {
            deadline: self.now + int_or(&op["max_wait_ms"], 0),
            id: text(&op["id"]).to_owned(),
            member: text(&op["member"]).to_owned(),
            mode,
            max_records: int_or(&op["max_records"], 500),
            batch_size: int_or(&op["batch_size"], 500),
            max_bytes: int_or(&op["max_bytes"], 1 << 20),
            min_bytes: int_or(&op["min_bytes"], 0),
            partitions: Vec::new(),
            errors: BTreeMap::new(),
            group,
        };
        let mut wanted: Vec<_> = list(&op["partitions"]).to_vec();
        let epoch = usize::try_from(int_or(&op["session_epoch"], 0)).unwrap_or(0);
        let by = epoch % wanted.len().max(1);
        wanted.rotate_left(by);
        for partition in &wanted {
            let at = self.at(partition);
            let key = SharePartitionKey::new(&*fetch.group, at.topic_id, at.partition);
            match self.opened(&key) {
                Ok(number) => fetch.partitions.push((key, number)),
                Err(error) => drop(fetch.errors.insert(key, error)),
            }
        }
        if fetch.partitions.is_empty() {
            return self.answer(&fetch, Vec::new());
        }
        self.waiting.push(fetch);
        let last = self.waiting.len() - 1;
        self.try_one(last);
        self.end_waiting();
    }

    /// Opens the share partition, unless it is open. Returns its number.
    fn opened(&mut self, key: &SharePartitionKey) -> Result<u64, ErrorCode> {
        let at = muster_shares::TopicPartition { topic_id: key.topic_id, partition: key.partition };
        if !self.log(at).leads {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        if let Some(open) = self.open.get(key) {
            return Ok(open.number);
        }
        let reset = self.group_text(&key.group_id, "share.auto.offset.reset", "latest");
        let log = self.log(at);
        let reset = if reset == "earliest" { log.start } else { log.end };
        let (epoch, now) = (log.epoch, Wall(self.now));
        // Like Kafka's leader, reads the state. The read writes a record if the leader epoch is
        // new.
        let Coordinator { states, world, .. } = &self.coordinator;
        let (_, record) = states.read(key, epoch, world, now).map_err(|it| it.error)?;
        let partition = SharePartition::open(states.get(key).unwrap(), reset).unwrap();
        record.into_iter().for_each(|record| assert!(self.coordinator.append(record)));
        self.opened += 1;
        let number = self.opened;
        self.open.insert(key.clone(), Open { partition, number, position: None });
        self.flush(key);
        Ok(number)
    }

    /// The group of a fetch that waits.
    pub fn waiting_group(&self, id: &str) -> Option<&str> {
        self.waiting.iter().find(|it| it.id == id).map(|it| &*it.group)
    }

    /// Tries the waiting fetches of certain share partitions.
    pub fn try_waiting(&mut self, concerns: impl Fn(&SharePartitionKey) -> bool) {
        let mut at = 0;
        while let Some(fetch) = self.waiting.get(at) {
            let is_concerned = fetch.partitions.iter().any(|(key, _)| concerns(key));
            if !is_concerned || !self.try_one(at) {
                at += 1;
            }
        }
    }

    /// Ends the fetches whose deadline has passed.
    pub fn end_waiting(&mut self) {
        while let Some(at) = self.waiting.iter().position(|it| it.deadline <= self.now) {
            let fetch = self.waiting.remove(at);
            let offsets = self.taking_part(&fetch);
            self.complete(&fetch, &offsets, BTreeMap::new());
        }
    }

    /// The partitions from which the fetch may acquire records now, with the offset to read in
    /// each.
    fn taking_part(&mut self, fetch: &Waiting) -> Offsets {
        let settings = self.settings(&fetch.group);
        let mut offsets = Vec::new();
        for (key, number) in &fetch.partitions {
            let open = self.open.get_mut(key).filter(|open| open.number == *number);
            let Some(open) = open else { continue };
            if open.partition.can_acquire(&settings) {
                offsets.push((key.clone(), open.partition.next_fetch_offset()));
            }
        }
        offsets
    }

    /// Completes a fetch if there is enough to read. Returns false if it continues to wait.
    fn try_one(&mut self, at: usize) -> bool {
        let fetch = self.waiting[at].clone();
        let offsets = self.taking_part(&fetch);
        if offsets.is_empty() {
            return false;
        }
        let unknown: Offsets = offsets
            .iter()
            .filter(|(key, offset)| {
                self.open[key].position.is_none_or(|(known, _)| known != *offset)
            })
            .cloned()
            .collect();
        let share = fetch.max_bytes / i64::try_from(offsets.len()).unwrap();
        let reads = self.read(&fetch, &unknown, share);
        for (key, offset) in &unknown {
            if !reads[key].is_out_of_range {
                self.open.get_mut(key).unwrap().position = Some((*offset, reads[key].position));
            }
        }
        let has_error = reads.values().any(|read| read.is_out_of_range);
        if !has_error && !self.has_enough(&fetch, &offsets, share) {
            return false;
        }
        self.waiting.remove(at);
        self.complete(&fetch, &offsets, reads);
        true
    }

    fn is_committed(&self, group: &str) -> bool {
        self.group_text(group, "share.isolation.level", "read_uncommitted") == "read_committed"
    }

    fn has_enough(&self, fetch: &Waiting, offsets: &Offsets, share: i64) -> bool {
        let is_committed = self.is_committed(&fetch.group);
        let mut bytes = 0;
        for (key, offset) in offsets {
            let log = &self.logs[&at(key)];
            let bound = log.bound(is_committed);
            let Some((_, position)) = self.open[key].position else { continue };
            if *offset > bound {
                return true;
            }
            if *offset < bound {
                bytes += (log.position(bound) - position).min(share);
            }
        }
        bytes >= fetch.min_bytes
    }

    fn read(
        &self,
        fetch: &Waiting,
        wanted: &Offsets,
        share: i64,
    ) -> BTreeMap<SharePartitionKey, Read> {
        let is_committed = self.is_committed(&fetch.group);
        let (mut limit, mut at_least_one) = (fetch.max_bytes, true);
        let mut reads = BTreeMap::new();
        for (key, offset) in wanted {
            let log = &self.logs[&at(key)];
            let read = log.read(*offset, share.min(limit), at_least_one, is_committed);
            at_least_one &= read.bytes == 0;
            limit = (limit - read.bytes).max(0);
            reads.insert(key.clone(), read);
        }
        reads
    }

    /// Completes a fetch: reads the partitions that are not in `reads`, acquires records and
    /// answers. Then tries the other fetches that wait for these partitions, which may now find
    /// records.
    fn complete(
        &mut self,
        fetch: &Waiting,
        offsets: &Offsets,
        mut reads: BTreeMap<SharePartitionKey, Read>,
    ) {
        let share = fetch.max_bytes / i64::try_from(offsets.len().max(1)).unwrap();
        let (known, missing): (Offsets, Offsets) =
            offsets.iter().cloned().partition(|(key, _)| reads.contains_key(key));
        reads.extend(self.read(fetch, &missing, share));
        let mut left = fetch.max_records;
        let mut answers = Vec::new();
        for (key, offset) in missing.iter().chain(&known) {
            let (answer, count) = self.acquire(fetch, key, *offset, &reads[key], left);
            left -= count;
            answers.push((key.clone(), answer));
        }
        self.answer(fetch, answers);
        for (key, _) in offsets {
            self.try_waiting(|it| it == key);
        }
    }

    fn acquire(
        &mut self,
        fetch: &Waiting,
        key: &SharePartitionKey,
        offset: i64,
        read: &Read,
        left: i64,
    ) -> (Value, i64) {
        let settings = self.settings(&fetch.group);
        let start = self.log(at(key)).start;
        let now = self.now;
        let partition = &mut self.open.get_mut(key).unwrap().partition;
        if read.is_out_of_range {
            partition.log_starts_at(start);
            return (json!({"acquired": [], "batches": []}), 0);
        }
        let batches: Vec<_> = read.batches.iter().map(|it| it.bounds).collect();
        let aborted = aborted_ranges(&read.batches, &read.aborted);
        let wanted = Wanted {
            member: &fetch.member,
            mode: fetch.mode,
            max_records: left,
            batch_size: fetch.batch_size,
        };
        let fetched = Fetched { offset, batches: &batches, aborted: &aborted };
        let acquired = partition.acquire(&wanted, &fetched, &settings, now);
        let count = acquired.iter().map(|it| it.last - it.first + 1).sum();
        let kept = &batches[kept_batches(&batches, &acquired)];
        let kept: Vec<_> = kept.iter().map(|it| json!([it.base, it.last])).collect();
        let acquired: Vec<_> =
            acquired.iter().map(|it| json!([it.first, it.last, it.delivery_count])).collect();
        (json!({"acquired": acquired, "batches": kept}), count)
    }

    fn answer(&mut self, fetch: &Waiting, answers: Vec<(SharePartitionKey, Value)>) {
        let error = |(key, error): (&SharePartitionKey, &ErrorCode)| {
            let answer = json!({"acquired": [], "batches": [], "error": kafkas_name(*error)});
            (key.clone(), answer)
        };
        let errors = fetch.errors.iter().map(error);
        let mut partitions: Vec<_> = answers
            .into_iter()
            .chain(errors)
            .map(|(key, mut answer)| {
                answer["topic"] = json!(self.coordinator.world.name(key.topic_id));
                answer["partition"] = json!(key.partition);
                answer
            })
            .collect();
        partitions.sort_by_key(|it| (it["topic"].to_string(), int(&it["partition"])));
        let answer = Answer { group: fetch.group.clone(), body: json!({"partitions": partitions}) };
        self.answers.insert(fetch.id.clone(), answer);
    }
}

fn at(key: &SharePartitionKey) -> muster_shares::TopicPartition {
    muster_shares::TopicPartition { topic_id: key.topic_id, partition: key.partition }
}
