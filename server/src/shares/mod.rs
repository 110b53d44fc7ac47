//! The share groups of the partitions that a shard leads: share state in the shard's log, open
//! share partitions, share sessions, and the requests of members. The groups themselves are in
//! `groups/`.
//!
//! [`Shares`] is sans-I/O. Its inputs are
//! - requests, each with the [`Inputs`] of a call;
//! - the effects of partitions ([`Shares::took_effect`]): ended reads, and partitions that have
//!   grown;
//! - requests of group coordinators about share state, from this shard and from others;
//! - batches of dead letters from other shards, and other shards' answers to batches;
//! - the positions that became durable ([`Shares::flushed`]);
//! - connections that have ended, new images, and the end of a turn ([`Shares::turn`]).
//!
//! [`Shares::take_answers`] returns the answers.
//!
//! Invariants:
//! - Records of share state are appended in one place, `SlotStates::write`.
//! - The record of a change must be flushed before the acknowledgement that caused it is answered,
//!   and before a record that it released is acquired again.
//! - Only one request at a time reads a share partition. The next request begins to read when this
//!   one has acquired its records.
//!
//! A ShareFetch reads whole batches into memory, because the bounds of all batches must be known
//! before it is decided which ones are sent. While a flush is under way, changes of share
//! partitions are only collected. After it, each changed share partition gets one record.
//!
//! Group coordinators request share state from the leaders of the partitions (`state_calls.rs`),
//! which answer 512 partitions in a turn (`state_answers.rs`). After each deletion of a topic, and
//! at startup, `jobs.rs` scans in slices for states whose topic is not in the image. So a shard
//! that missed a deletion catches up without a record of it.
//!
//! Dead letters (`letters/`) of at most 32 groups of a shard are sent at the same time. No letter
//! is kept on disk: the share state says which records still need one.

mod answers;
mod changes;
mod closing;
mod config;
mod copy;
mod counters;
mod fetching;
mod jobs;
mod letters;
mod machine;
mod opening;
mod requests;
mod starts;
mod state_answers;
mod state_apis;
mod state_calls;
mod state_questions;
mod states;
mod table;

pub(crate) use counters::ShareCounters;
#[cfg(test)]
pub(crate) use counters::ShareGauges;
#[cfg(test)]
pub(crate) use letters::LETTER_RECORDS_MAX;
pub(crate) use requests::Client;
pub(crate) use states::SlotStates;
pub(crate) use table::Asked;

use crate::clock::{Times, earliest};
use crate::cluster::{ClusterImage, Endpoints};
use crate::config::Config;
use crate::limit_refusals::Refused;
use crate::net::{ConnectionId, Reply};
use crate::partitions::{Effects, PartitionId, Partitions, RecordReadEnd};
use crate::placement::{Placement, Slot};
use config::ShareConfig;
use letters::Letters;
use muster_codec::ErrorCode;
use muster_coordinator::RequestId;
use muster_fairness::Address;
use muster_runtime::Runtime;
use muster_shares::limits::SESSION_PARTITIONS_MAX;
use muster_shares::partition::InFlight;
use muster_shares::sessions::SessionKey;
use muster_shares::{OpenPartitions, Sessions, SharePartitionKey, TopicPartition};
use state_calls::StateCalls;
#[cfg(test)]
pub(crate) use state_questions::SLICE_PARTITIONS;
use state_questions::StateQuestions;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use table::{Closing, Table};

/// The maximum number of groups whose configs are cached. Beyond it the cache is emptied.
const CONFIGS_MAX: usize = 10_000;

/// The share groups of the partitions that a shard leads.
#[derive(Debug)]
pub(crate) struct Shares {
    shard: u32,
    endpoints: Endpoints,
    /// Requests to other shards get numbers greater than this one.
    first_number: u64,
    states: SlotStates,
    open: OpenPartitions,
    sessions: Sessions,
    requests: Table,
    /// For each share partition, the requests that wait for it. And for each partition, the groups
    /// that have such requests.
    waiters: BTreeMap<SharePartitionKey, BTreeSet<u64>>,
    by_partition: BTreeMap<TopicPartition, BTreeSet<Arc<str>>>,
    /// The share partitions that are being read.
    reading: BTreeSet<SharePartitionKey>,
    /// The reads under way, by number.
    reads: HashMap<u64, ReadFor>,
    last_read: u64,
    /// The share partitions whose start is being looked up, each with the address of the member
    /// that fetches it. Then the starts that were found.
    looked_up: HashMap<SharePartitionKey, Address>,
    found: BTreeMap<SharePartitionKey, Result<i64, ErrorCode>>,
    /// The sessions that end once their last acknowledgements are flushed.
    closing: BTreeMap<SessionKey, Closing>,
    /// Groups that may have no session left.
    left_groups: BTreeSet<Arc<str>>,
    configs: HashMap<Arc<str>, ShareConfig>,
    state_calls: StateCalls,
    state_questions: StateQuestions,
    letters: Letters,
    /// Effects of partitions that are not handled yet.
    ended_reads: Vec<(u64, RecordReadEnd)>,
    grown: Vec<PartitionId>,
    answers: Vec<Reply<'static>>,
    /// The clients that have to wait before their next request, and for how many ms.
    throttled: Vec<(ConnectionId, i64)>,
    /// Limits that requests exceeded, for the log.
    refused: Vec<Refused>,
    counters: ShareCounters,
}

/// The purpose of a read.
#[derive(Debug)]
enum ReadFor {
    /// The records of a part of a request.
    Request { id: u64, part: usize },
    /// The start of a share partition.
    Start(SharePartitionKey),
    /// The source records of a group's dead letter.
    Letter(Arc<str>),
}

/// The inputs of a call.
pub(crate) struct Inputs<'i> {
    pub(crate) times: Times,
    pub(crate) image: &'i ClusterImage,
    /// The config including altered configs.
    pub(crate) config: &'i Config,
    pub(crate) placement: Placement,
    /// The number of the shard.
    pub(crate) shard: u32,
    pub(crate) runtime: &'i mut Runtime,
    pub(crate) partitions: &'i mut Partitions,
    pub(crate) effects: &'i mut Effects,
}

impl Shares {
    pub(crate) fn new(
        shard: u32,
        endpoints: Endpoints,
        first_number: u64,
        states: SlotStates,
        config: &Config,
    ) -> Self {
        let sessions_max = config.group_share_max_share_sessions.max(0).unsigned_abs() as usize;
        Self {
            shard,
            endpoints,
            first_number,
            states,
            open: OpenPartitions::default(),
            sessions: Sessions::new(sessions_max, config.of_memory(SESSION_PARTITIONS_MAX)),
            requests: Table::default(),
            waiters: BTreeMap::new(),
            by_partition: BTreeMap::new(),
            reading: BTreeSet::new(),
            reads: HashMap::new(),
            last_read: 0,
            looked_up: HashMap::new(),
            found: BTreeMap::new(),
            closing: BTreeMap::new(),
            left_groups: BTreeSet::new(),
            configs: HashMap::new(),
            state_calls: StateCalls::default(),
            state_questions: StateQuestions::default(),
            letters: Letters::default(),
            ended_reads: Vec::new(),
            grown: Vec::new(),
            answers: Vec::new(),
            throttled: Vec::new(),
            refused: Vec::new(),
            counters: ShareCounters::default(),
        }
    }

    /// The share state of this shard, for snapshots and checks.
    pub(crate) fn states(&self) -> &SlotStates {
        &self.states
    }

    /// The runs of records in flight from the start offset on, for checks. Each run comes with its
    /// share partition. The bool is false if a member has acquired the run and has no session.
    pub(crate) fn in_flight(
        &self,
    ) -> impl Iterator<Item = (&SharePartitionKey, InFlight<'_>, bool)> {
        let runs = self.open.iter().flat_map(|(key, it)| {
            let start = it.start_offset();
            let runs = it.in_flight().filter(move |run| run.last >= start);
            runs.map(move |run| (key, InFlight { first: run.first.max(start), ..run }))
        });
        runs.map(|(key, run)| {
            let key_of = |member| SessionKey::new(key.group_id.clone(), member);
            let epoch = run.member.map(|member| self.sessions.epoch(&key_of(member)));
            (key, run, epoch.is_none_or(|it| it.is_some()))
        })
    }

    /// The share state, for the load of the shard, snapshots and tests.
    pub(crate) fn states_mut(&mut self) -> &mut SlotStates {
        &mut self.states
    }

    /// Keeps the result of a read until [`Self::settle`] handles it.
    pub(crate) fn read_done(&mut self, number: u64, end: RecordReadEnd) {
        self.ended_reads.push((number, end));
    }

    /// Takes the effects of partitions, for [`Self::settle`].
    pub(crate) fn took_effect(&mut self, effects: &mut Effects) {
        self.grown.append(&mut effects.grown);
        self.letters.appended.append(&mut effects.letters);
    }

    /// Returns true if [`Self::settle`] has nothing to do, no answer is to be taken, and no request
    /// of a group coordinator is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.ended_reads.is_empty()
            && self.grown.is_empty()
            && self.answers.is_empty()
            && self.state_calls.are_none_waiting()
            && self.letters.are_settled()
    }

    /// Continues the work that waited for reads, for partitions to grow, and for letters to be
    /// appended. Returns false if none of these has happened.
    pub(crate) fn settle(&mut self, inputs: &mut Inputs<'_>) -> bool {
        let ended = std::mem::take(&mut self.ended_reads);
        let grown = std::mem::take(&mut self.grown);
        let have_letters = self.letters_appended(inputs);
        let is_idle = ended.is_empty() && grown.is_empty() && !have_letters;
        for (number, end) in ended {
            match self.reads.remove(&number) {
                Some(ReadFor::Request { id, part }) => self.read_ended(inputs, id, part, end),
                Some(ReadFor::Start(key)) => self.start_found(inputs, &key, end),
                Some(ReadFor::Letter(group)) => self.letter_read(inputs, &group, number, end),
                None => {}
            }
        }
        for PartitionId { topic: topic_id, index: partition } in grown {
            let at = TopicPartition { topic_id, partition };
            for group_id in self.by_partition.remove(&at).unwrap_or_default() {
                self.wake(inputs, &SharePartitionKey { group_id, topic_id, partition });
            }
        }
        !is_idle
    }

    /// Whether records of share state in a slot may not be durable yet.
    pub(crate) fn awaits_flush(&self, Slot(log): Slot) -> bool {
        self.open.awaits_flush(log)
    }

    /// Notes that a slot is durable up to a position.
    pub(crate) fn flushed(&mut self, inputs: &mut Inputs<'_>, Slot(log): Slot, position: u64) {
        for key in self.open.flushed(log, position) {
            self.wake(inputs, &key);
        }
    }

    /// Whether [`Self::turn`] or [`Self::answer_questions`] may have work. Most shards serve no
    /// share group, and calls that find no work would take a sixth of an idle turn.
    pub(crate) fn may_have_work(&self, now: i64) -> bool {
        !self.open.is_empty()
            || !self.requests.is_empty()
            || !self.closing.is_empty()
            || !self.left_groups.is_empty()
            || !self.letters.are_none()
            || self.letters.have_ended
            || self.slices_deadline(now).is_none_or(|at| at <= now)
    }

    /// Ends a turn: fires due timers, and writes changes.
    pub(crate) fn turn(&mut self, inputs: &mut Inputs<'_>, handled_until: i64) {
        self.states.work(inputs.runtime, inputs.times, inputs.image);
        self.end_flushed_sessions(inputs);
        self.expire_locks(inputs, handled_until);
        self.letters_turn(inputs);
        while let Some(id) = self.requests.due(inputs.times.now) {
            if let Some(request) = self.unpark(id) {
                self.counters.expired_fetches += 1;
                self.try_fetch(inputs, Some(id), request);
            }
        }
        self.write_changes(inputs);
    }

    /// The time of the next turn that the slices of work on share state need. (While the log takes
    /// no records, they cannot continue.)
    pub(crate) fn slices_deadline(&self, now: i64) -> Option<i64> {
        if self.state_questions.are_left() { Some(now) } else { self.states.deadline(now) }
    }

    /// The time at which all other work needs the next turn.
    pub(crate) fn deadline(&self) -> Option<i64> {
        earliest([
            self.open.next_deadline(),
            self.requests.next_deadline(),
            self.state_calls_deadline(),
            self.letters.deadline(),
        ])
    }

    /// Handles the end of a connection: its requests are not answered, and the records of its
    /// sessions are released.
    pub(crate) fn connection_closed(&mut self, inputs: &mut Inputs<'_>, connection: u64) {
        for id in self.requests.of_connection(connection) {
            let waited = self.unpark(id);
            if let Some(mut request) = waited.or_else(|| self.requests.take(id)) {
                self.closing_unanswered(inputs, &request);
                let keys = self.release_reads(&mut request);
                keys.iter().for_each(|key| self.wake(inputs, key));
            }
        }
        let Some(gone) = self.sessions.disconnected(connection) else { return };
        if let Some(ended) = gone.ended {
            self.release(inputs, &gone.group_id, &ended);
        }
        if gone.is_group_gone {
            self.left_groups.insert(gone.group_id);
        }
    }

    /// Applies a new image: share partitions of deleted topics are dropped. `before` is the
    /// previous image.
    pub(crate) fn image_changed(&mut self, inputs: &Inputs<'_>, before: &ClusterImage) {
        self.states.image_changed(before, inputs.image);
        self.configs.clear();
        let sessions_max = inputs.config.group_share_max_share_sessions;
        self.sessions.set_limit(sessions_max.max(0).unsigned_abs() as usize);
        let keys = self.open.iter().map(|(key, _)| key);
        let gone: Vec<_> =
            keys.filter(|key| inputs.image.topic_by_id(key.topic_id).is_none()).cloned().collect();
        gone.iter().for_each(|key| self.drop_partition(key, ErrorCode::UnknownTopicOrPartition));
    }

    /// Whether a request waits for records, and its deadline has not passed.
    pub(crate) fn is_parked(&self, request: RequestId, now: i64) -> bool {
        self.requests.is_parked_until(request, now)
    }

    /// The requests of a connection that wait for records.
    pub(crate) fn parked_fetches(&self, connection: u64) -> usize {
        self.requests.parked_of(connection)
    }

    /// The approximate size of requests that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.requests.bytes()
    }

    /// The answers since the last call.
    pub(crate) fn take_answers(&mut self) -> Vec<Reply<'static>> {
        std::mem::take(&mut self.answers)
    }

    /// The clients that have to wait after these answers.
    pub(crate) fn take_throttled(&mut self) -> Vec<(ConnectionId, i64)> {
        std::mem::take(&mut self.throttled)
    }

    /// The limits that requests exceeded since the last call.
    pub(crate) fn take_refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    /// The configs of a group.
    fn config(&mut self, inputs: &Inputs<'_>, group_id: &str) -> &ShareConfig {
        if self.configs.len() >= CONFIGS_MAX && !self.configs.contains_key(group_id) {
            self.configs.clear();
        }
        let new = || ShareConfig::new(inputs.config, inputs.image, group_id);
        self.configs.entry(group_id.into()).or_insert_with(new)
    }
}

/// The id of a topic partition.
fn partition_id(at: TopicPartition) -> PartitionId {
    PartitionId { topic: at.topic_id, index: at.partition }
}
