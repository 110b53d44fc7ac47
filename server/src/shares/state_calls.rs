//! Requests of group coordinators about share state, and their results. A request goes to the
//! shards that lead its partitions. If one of them fails, it does not answer: after a while the
//! group's coordinator gets an error, and tries again.

use super::{Inputs, Shares};
use crate::cluster::{Topic, leader};
use crate::event::Command;
use crate::mailbox::{StateAnswer, StateQuestion, ToShares};
use crate::placement::Slot;
use muster_codec::{ErrorCode, Uuid};
use muster_coordinator::{StateCall, StateRequest, StateResult};
use muster_shares::state::Initialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a coordinator waits for further results of the shards, in ms. Clients wait for an
/// answer as long as this.
const WAIT_MS: i64 = 10_000;

/// The requests that this shard's coordinators wait for.
#[derive(Debug, Default)]
pub(super) struct StateCalls {
    last_number: u64,
    waiting: BTreeMap<u64, Waiting>,
}

/// A coordinator's request that not all shards have answered.
#[derive(Debug)]
struct Waiting {
    slot: Slot,
    call: StateCall,
    results: Vec<StateResult>,
    /// The number of shards that have not answered.
    shards: u32,
    deadline: i64,
}

impl StateCalls {
    /// Whether no coordinator of this shard waits for results.
    pub(super) fn are_none_waiting(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Shares {
    /// Passes the request of a coordinator to the leaders of the partitions that it names. The
    /// caller has waited until all records that the coordinator wrote before are durable.
    pub(crate) fn ask_leaders(
        &mut self,
        inputs: &mut Inputs<'_>,
        slot: Slot,
        call: StateCall,
        out: &mut Vec<Command>,
    ) {
        let calls = &mut self.state_calls;
        // Two loads of the shard never use the same number, because a late answer to an earlier
        // load may come.
        calls.last_number = calls.last_number.max(self.first_number) + 1;
        let (number, from) = (calls.last_number, self.shard);
        let (by_shard, results) = split(inputs, &call.request);
        let group_id: Arc<str> = (*call.group_id).into();
        let shards = by_shard.len() as u32;
        let deadline = inputs.times.now.saturating_add(WAIT_MS);
        calls.waiting.insert(number, Waiting { slot, call, results, shards, deadline });
        for (to, request) in by_shard {
            let group_id = Arc::clone(&group_id);
            let question = StateQuestion { from, number, group_id, request };
            if to == from {
                self.answer_coordinator(inputs, question, out);
            } else {
                out.push(Command::mail(to, ToShares::StateQuestion(question)));
            }
        }
    }

    /// Answers a request with errors instead of sending it.
    pub(crate) fn refuse_call(&mut self, slot: Slot, call: StateCall) {
        let calls = &mut self.state_calls;
        calls.last_number = calls.last_number.max(self.first_number) + 1;
        let (results, shards, deadline) = (Vec::new(), 0, i64::MAX);
        let waiting = Waiting { slot, call, results, shards, deadline };
        calls.waiting.insert(calls.last_number, waiting);
    }

    /// Takes an answer of a shard, which has all results of the shard, or those of a slice.
    pub(crate) fn take_state_answer(&mut self, now: i64, answer: StateAnswer) {
        let Some(waiting) = self.state_calls.waiting.get_mut(&answer.number) else { return };
        waiting.results.extend(answer.results);
        waiting.shards = waiting.shards.saturating_sub(u32::from(answer.is_last));
        waiting.deadline = now.saturating_add(WAIT_MS);
    }

    /// Takes the next request that all shards have answered, or whose deadline has passed. Returns
    /// the slot of its coordinator, the request, and the results.
    pub(crate) fn next_answered(
        &mut self,
        now: i64,
    ) -> Option<(Slot, StateCall, Vec<StateResult>)> {
        let mut waiting = self.state_calls.waiting.iter();
        let (number, _) = waiting.find(|(_, it)| it.shards == 0 || it.deadline <= now)?;
        let number = *number;
        let Waiting { slot, call, mut results, .. } = self.state_calls.waiting.remove(&number)?;
        add_missing(&call.request, &mut results);
        Some((slot, call, results))
    }

    /// The time at which the next request is given up.
    pub(super) fn state_calls_deadline(&self) -> Option<i64> {
        self.state_calls.waiting.values().map(|it| it.deadline).min()
    }
}

/// Splits a request: the part for each shard, and the results of partitions that do not exist.
fn split(
    inputs: &Inputs<'_>,
    request: &StateRequest,
) -> (BTreeMap<u32, StateRequest>, Vec<StateResult>) {
    let (mut by_shard, mut results) = (BTreeMap::new(), Vec::new());
    let mut known: Option<(Uuid, Option<&Topic>)> = None;
    each_partition(request, |topic_id, partition, initialize| {
        // The partitions come topic by topic, so the last topic is often the right one.
        let found = known.filter(|(id, _)| *id == topic_id);
        let found = found.unwrap_or_else(|| (topic_id, inputs.image.topic_by_id(topic_id)));
        known = Some(found);
        let existing = found.1.filter(|topic| (0..topic.partitions).contains(&partition));
        let Some(topic) = existing else {
            let result = Err(ErrorCode::UnknownTopicOrPartition);
            return results.push(StateResult { topic_id, partition, result });
        };
        let shard = leader(topic, partition, inputs.placement);
        let of_shard = by_shard.entry(shard).or_insert_with(|| empty(request));
        add(of_shard, topic_id, partition, initialize);
    });
    (by_shard, results)
}

/// The same request, without partitions.
fn empty(request: &StateRequest) -> StateRequest {
    match request {
        StateRequest::Initialize { state_epoch, .. } => {
            StateRequest::Initialize { state_epoch: *state_epoch, topics: Vec::new() }
        }
        StateRequest::Delete(_) => StateRequest::Delete(Vec::new()),
        StateRequest::ReadSummary(_) => StateRequest::ReadSummary(Vec::new()),
    }
}

fn add(request: &mut StateRequest, topic_id: Uuid, partition: i32, initialize: Option<Initialize>) {
    match request {
        StateRequest::Initialize { topics, .. } => {
            let start = muster_coordinator::Start::of(initialize.map_or(-1, |it| it.start_offset));
            of_topic(topics, topic_id).push((partition, start));
        }
        StateRequest::Delete(topics) | StateRequest::ReadSummary(topics) => {
            of_topic(topics, topic_id).push(partition);
        }
    }
}

/// The entry of a topic, which is the last entry or is added: partitions come topic by topic.
fn of_topic<T>(topics: &mut Vec<(Uuid, Vec<T>)>, topic_id: Uuid) -> &mut Vec<T> {
    let is_last = topics.last().is_some_and(|(id, _)| *id == topic_id);
    if !is_last {
        topics.push((topic_id, Vec::new()));
    }
    let last = topics.len() - 1;
    &mut topics[last].1
}

fn each_partition(request: &StateRequest, mut act: impl FnMut(Uuid, i32, Option<Initialize>)) {
    match request {
        StateRequest::Initialize { state_epoch, topics } => {
            for (topic_id, partitions) in topics {
                for (partition, start) in partitions {
                    let start_offset = start.offset();
                    let initialize = Initialize { state_epoch: *state_epoch, start_offset };
                    act(*topic_id, *partition, Some(initialize));
                }
            }
        }
        StateRequest::Delete(topics) | StateRequest::ReadSummary(topics) => {
            for (topic_id, partitions) in topics {
                partitions.iter().for_each(|partition| act(*topic_id, *partition, None));
            }
        }
    }
}

fn count(request: &StateRequest) -> usize {
    match request {
        StateRequest::Initialize { topics, .. } => topics.iter().map(|it| it.1.len()).sum(),
        StateRequest::Delete(topics) | StateRequest::ReadSummary(topics) => {
            topics.iter().map(|it| it.1.len()).sum()
        }
    }
}

/// Adds errors for the partitions whose shard did not answer in time.
fn add_missing(request: &StateRequest, results: &mut Vec<StateResult>) {
    if results.len() == count(request) {
        return;
    }
    let known: std::collections::BTreeSet<_> =
        results.iter().map(|it| (it.topic_id, it.partition)).collect();
    each_partition(request, |topic_id, partition, _| {
        if !known.contains(&(topic_id, partition)) {
            let result = Err(ErrorCode::CoordinatorNotAvailable);
            results.push(StateResult { topic_id, partition, result });
        }
    });
}
