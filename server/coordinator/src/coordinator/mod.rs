//! Routes each request to its group. A coordinator has the groups of one slot.

mod caller;
pub mod counts;
mod delete_groups;
mod deletions;
mod describe;
mod expire;
mod heartbeats;
mod load_offsets;
mod loads;
mod not_written;
mod recovery;
mod replay;
mod requests;
mod reset;
mod resign;
mod restate;
mod share_offsets;
mod shared_limits;
mod snapshots;
mod topology_descriptions;
mod view;

pub use caller::Caller;
pub use describe::Listing;
pub use restate::StateWalk;

use crate::allowance::{Allowance, OfCall};
use crate::budget::{Budget, Held, Limited, Refusal};
use crate::changes::Changes;
use crate::classic::ClassicGroup;
use crate::committed::Committed;
use crate::config::{Config, GroupConfigs, GroupOverrides};
use crate::context::{Around, Context, DeletedTopic, Topics};
use crate::counters::{Counted, Counters};
use crate::event::{Event, Rebalance};
use crate::group::{Entry, Group, Kind};
use crate::groups::{Groups, Listed};
use crate::limits::EXPIRE_RECORDS_MAX;
use crate::noted::Noted;
use crate::offsets;
use crate::output::Output;
use crate::payers::Payers;
use crate::pending::{OpenTransaction, PendingOffsets};
use crate::rebalances::Rebalances;
use crate::snapshot::SnapshotDamage;
use crate::text::Text;
use crate::timers::{Reason, Timer, TimerKey, Timers};
use crate::topic_hashes::TopicHashes;
use crate::turn::Turn;
use alloc::string::String;
use alloc::vec::Vec;
use deletions::Deletions;
use loads::Loads;
use muster_codec::{ErrorCode, GroupRequest, Wall};

/// The groups of a slot.
#[derive(Debug)]
pub struct Coordinator {
    pub(crate) config: Config,
    pub(crate) group_configs: GroupConfigs,
    pub(crate) hashes: TopicHashes,
    /// The version of the topics when the coordinator was loaded.
    loaded_topics: i64,
    pub(crate) groups: Groups,
    pub(crate) changes: Changes,
    pub(crate) pending: PendingOffsets,
    pub(crate) counters: Counters,
    pub(crate) rebalances: Rebalances,
    refusal: Option<Refusal>,
    pub(crate) payers: Payers,
    pub(crate) timers: Timers,
    pub(crate) sweep: Sweep,
    deletions: Deletions,
    loads: Loads,
    /// The position of the last record.
    pub(crate) written_at: u64,
    /// The position of the last record that removed a group. An answer about no group waits for it.
    pub(crate) removed_at: u64,
    pub(crate) damage: Option<SnapshotDamage>,
    /// A buffer for offsets that recovery applies together.
    pub(crate) run: Vec<(i32, Committed)>,
    /// The connection of the request that is being handled.
    connection: Option<u64>,
}

/// The progress of a walk through all groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalkProgress {
    /// The walk continues after this group; None before the first group.
    After(Option<String>),
    End,
}

/// The limit of one call of a walk through all groups.
#[derive(Debug, Clone, Copy)]
pub struct WalkLimit {
    pub groups: usize,
    /// Whether the call loads all offsets of a group. If not, the walk waits until `expire` does.
    pub loads_at_once: bool,
}

/// The sweep for expired offsets, every `offsets.retention.check.interval.ms`.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    pub(crate) timer: Timer,
    /// The last group that was visited, if the sweep is not complete.
    pub(crate) swept: Option<Text>,
    /// How much the clock of expiry lags the wall clock, in milliseconds.
    pub(crate) left_out_ms: i64,
}

impl Coordinator {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            group_configs: GroupConfigs::default(),
            hashes: TopicHashes::default(),
            loaded_topics: 0,
            groups: Groups::default(),
            changes: Changes::default(),
            pending: PendingOffsets::default(),
            counters: Counters::default(),
            rebalances: Rebalances::default(),
            refusal: None,
            payers: Payers::default(),
            timers: Timers::default(),
            sweep: Sweep::default(),
            deletions: Deletions::default(),
            loads: Loads::default(),
            written_at: 0,
            removed_at: 0,
            damage: None,
            run: Vec::new(),
            connection: None,
        }
    }

    /// Replaces the configs. Running timers keep their deadlines.
    pub fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    /// Sets the configs of one group. Without them the group has the default.
    pub fn set_group_config(&mut self, group_id: &str, overrides: GroupOverrides) {
        self.group_configs.set(group_id, overrides);
    }

    /// Serves a request. Some requests, such as JoinGroup, may be answered by a later call.
    pub fn handle<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: GroupRequest<'r>,
    ) -> Output<'r> {
        let mut output = Output::default();
        let out = &mut output;
        self.connection = Some(caller.request.connection);
        let adds_pending = matches!(request, GroupRequest::TxnOffsetCommit(_));
        let member_bytes_max = self.config.members_bytes_max;
        context.budget.begin(caller.client_host, adds_pending, member_bytes_max);
        match request {
            GroupRequest::Heartbeat(body) => self.heartbeat(context, caller, &body, out),
            GroupRequest::ConsumerGroupHeartbeat(body) => {
                self.consumer_group_heartbeat(context, caller, body, out);
            }
            GroupRequest::ConsumerGroupDescribe(body) => {
                self.describe_consumer_groups(context, caller, body, out);
            }
            GroupRequest::OffsetCommit(body) => self.offset_commit(context, caller, body, out),
            GroupRequest::OffsetFetch(body) => self.offset_fetch(context, caller, body, out),
            GroupRequest::JoinGroup(body) => self.join_group(context, caller, body, out),
            GroupRequest::SyncGroup(body) => self.sync_group(context, caller, body, out),
            GroupRequest::LeaveGroup(body) => self.leave_group(context, caller, body, out),
            GroupRequest::OffsetDelete(body) => self.offset_delete(context, caller, body, out),
            GroupRequest::ListGroups(body) => self.list_groups(caller, &body, out),
            GroupRequest::DescribeGroups(body) => self.describe_groups(caller, body, out),
            GroupRequest::DeleteGroups(body) => self.delete_groups(context, caller, body, out),
            GroupRequest::ShareGroupHeartbeat(body) => {
                self.share_group_heartbeat(context, caller, &body, out);
            }
            GroupRequest::ShareGroupDescribe(body) => {
                self.describe_share_groups(context, caller, body, out)
            }
            GroupRequest::StreamsGroupHeartbeat(body) => {
                self.streams_group_heartbeat(context, caller, *body, out);
            }
            GroupRequest::StreamsGroupTopologyDescriptionUpdate(body) => {
                self.update_topology_description(context, caller, &body, out);
            }
            GroupRequest::StreamsGroupDescribe(body) => self.describe_streams(caller, body, out),
            GroupRequest::DescribeShareGroupOffsets(body) => {
                self.describe_share_offsets(context, caller, body, out)
            }
            GroupRequest::AlterShareGroupOffsets(body) => {
                self.alter_share_offsets(context, caller, body, out);
            }
            GroupRequest::DeleteShareGroupOffsets(body) => {
                self.delete_share_offsets(context, caller, body, out);
            }
            GroupRequest::TxnOffsetCommit(body) => self.txn_commit(context, caller, body, out),
        }
        self.connection = None;
        output
    }

    /// Called when all records of the log are replayed. Sessions and deadlines start at `now`.
    /// Regular expressions that were resolved at another version of the topics are resolved again.
    pub fn loaded(&mut self, now: i64, wall: Wall, topics: &dyn Topics) {
        let mut output = Output::default();
        let (others, client) = (Held::default(), None);
        let around = Around { now, wall, position: 0, topics, others, client };
        self.loaded_topics = topics.version();
        self.run = Vec::new();
        self.load_members();
        let mut next = self.groups.live_after(None);
        while let Some(id) = next {
            self.with(around, &mut output, &id, |turn, entry| {
                if let Some(group) = entry.and_then(|it| it.group.as_mut()) {
                    group.loaded(turn);
                }
            });
            next = self.groups.live_after(Some(&id));
        }
        debug_assert!(output.records.is_empty() && output.answers.is_empty());
        // The sweep is last: Kafka handles sessions before a sweep that is due at the same time.
        let interval_ms = self.config.offsets_retention_check_interval_ms;
        self.sweep_at(now.saturating_add(interval_ms));
        self.load_pending(now);
    }

    /// The time when [`Self::expire`] is due, in the milliseconds of [`Context::now`].
    pub fn next_deadline(&self) -> Option<i64> {
        self.next_timer().map(|(at, _)| at)
    }

    /// The time and the reason of the next call of [`Self::expire`], which may find nothing to do.
    pub fn next_timer(&self) -> Option<(i64, Reason)> {
        self.timers.next()
    }

    /// Schedules the sweep for expired offsets and groups at `at`, and cancels its former time.
    pub fn sweep_at(&mut self, at: i64) {
        self.timers.schedule(&mut self.sweep.timer, at, || TimerKey::Sweep);
    }

    /// Lets offsets and groups expire as if the wall clock showed `ms` less. The caller uses this
    /// after the clock has jumped, perhaps by mistake.
    pub fn leave_out_of_expiry(&mut self, ms: i64) {
        self.sweep.left_out_ms = ms;
    }

    /// Writes tombstones for offsets of deleted topics, and removes the topics from share groups.
    pub fn topics_deleted(
        &mut self,
        context: &mut Context<'_>,
        topics: &[DeletedTopic<'_>],
    ) -> Output<'static> {
        let mut output = Output::default();
        let limit = WalkLimit { groups: usize::MAX, loads_at_once: true };
        let all = self.topics_deleted_after(context, topics, None, limit, &mut output);
        debug_assert_eq!(all, WalkProgress::End);
        output
    }

    /// Like [`Self::topics_deleted`], for at most `limit.groups` groups after the group `after`,
    /// and for fewer if they have many offsets. Returns the progress of the walk.
    pub fn topics_deleted_after(
        &mut self,
        context: &mut Context<'_>,
        topics: &[DeletedTopic<'_>],
        after: Option<&str>,
        limit: WalkLimit,
        output: &mut Output<'static>,
    ) -> WalkProgress {
        let WalkLimit { groups, loads_at_once } = limit;
        let records_max = if groups == usize::MAX { groups } else { EXPIRE_RECORDS_MAX };
        let deleted = offsets::Deleted::new(topics);
        let mut through = after.map(Text::from);
        for _ in 0..groups {
            let Some(id) = self.groups.id_after(through.as_ref()) else { return WalkProgress::End };
            if self.may_have_offsets_of(&id, topics) {
                if loads_at_once {
                    self.load_offsets(&id);
                } else if self.require_offsets(&id, context.now).is_err() {
                    break;
                }
                self.with(context.around(), output, &id, |turn, entry| {
                    if let Some(entry) = entry {
                        offsets::delete_topics(turn, &entry.offsets, &id, &deleted, records_max);
                    }
                });
            }
            if self.is_share_group(&id) {
                self.with(context.around(), output, &id, |turn, entry| {
                    if let Some(Group::Share(group)) = entry.and_then(|it| it.group.as_ref()) {
                        group.topics_deleted(turn, topics);
                    }
                });
            }
            if output.records.len() >= records_max {
                break;
            }
            through = Some(id);
        }
        WalkProgress::After(through.map(|id| id.as_ref().into()))
    }

    /// The work to describe the members of a group, in units of some 0.3 microseconds.
    pub fn group_weight(&self, group_id: &str) -> usize {
        match self.groups.listed(group_id) {
            Some(Listed::Live(entry)) => 1 + entry.group_items(),
            Some(Listed::Unloaded(group)) => 1 + group.entry.members as usize,
            None => 1,
        }
    }

    /// The work to list the offsets of a group.
    pub fn offsets_weight(&self, group_id: &str) -> usize {
        match self.groups.listed(group_id) {
            Some(Listed::Live(entry)) => 1 + entry.offsets.len(),
            Some(Listed::Unloaded(group)) => 1 + group.offsets_max(),
            None => 1,
        }
    }

    /// Whether a group is a share group, loaded or not.
    pub fn is_share_group(&self, group_id: &str) -> bool {
        match self.groups.listed(group_id) {
            Some(Listed::Live(entry)) => matches!(entry.group, Some(Group::Share(_))),
            Some(Listed::Unloaded(group)) => group.entry.kind == Kind::Share,
            None => false,
        }
    }

    /// Calls `act` with a group, or with None if it does not exist.
    pub(crate) fn with<'r, R>(
        &mut self,
        around: Around<'_>,
        output: &mut Output<'r>,
        group_id: &str,
        act: impl FnOnce(&mut Turn<'_, 'r>, Option<&mut Entry>) -> R,
    ) -> R {
        self.load(group_id);
        let mut entry = self.groups.get_mut(group_id);
        let visible_at = entry.as_ref().map_or(self.removed_at, |entry| entry.written_at);
        let answered = output.answers.len();
        let member_bytes = self.counters.gauges.member_bytes as usize;
        let counted = entry.as_ref().map_or(Counted::default(), |entry| entry.counted);
        let of_client = |client| OfCall::new(client, counted, &self.payers, &self.pending);
        let held = around.client.map_or(OfCall::default(), of_client);
        self.rebalances.begin_call(around);
        let mut noted = Noted::default();
        let mut turn = Turn {
            now: around.now,
            wall: around.wall,
            config: &self.config,
            group_configs: &self.group_configs,
            members: Allowance::new(
                self.config.members_bytes_max,
                around.others.member_bytes + member_bytes,
                held.member_bytes,
            ),
            pending_bytes: Allowance::new(
                self.config.pending_bytes_max,
                around.others.pending_bytes + self.pending.bytes(),
                held.pending_bytes,
            ),
            pending: &self.pending,
            topics: around.topics,
            loaded_topics: self.loaded_topics,
            newest_topics: self.loaded_topics.max(around.topics.version_of_newest()),
            hashes: &mut self.hashes,
            timers: &mut self.timers,
            output,
            events: &mut self.counters.events,
            noted: &mut noted,
            visible_at,
            position: around.position,
            connection: self.connection,
            describes: None,
        };
        let result = act(&mut turn, entry.as_deref_mut());
        let visible_at = turn.visible_at;
        let (members, pending) = (turn.members, turn.pending_bytes);
        self.payers.adds = members.taken_by.unwrap_or(self.payers.adds);
        let of_members = members.exceeded.map(|it| (Limited::MemberBytes, it));
        let of_pending = || pending.exceeded.map(|it| (Limited::PendingBytes, it));
        if let Some((limit, exceeded)) = of_members.or_else(of_pending) {
            self.refusal = Some(Refusal { limit, exceeded });
        }
        if let Some(rejection) = noted.rejection.take() {
            self.rebalances.note_rejection(group_id, entry.as_deref(), rejection);
        }
        if let Some(entry) = entry {
            if entry.recount(&mut self.counters.gauges, &mut self.payers) {
                entry.changed(&mut self.changes);
            }
            self.rebalances.note(entry, noted);
        }
        // Answers that `act` gave before it wrote a record must wait for this record, too.
        output.answers[answered..].iter_mut().for_each(|it| it.visible_at = visible_at);
        result
    }

    /// Removes a group without a record, for a check copy, which keeps only some groups.
    pub(crate) fn forget(&mut self, group_id: &str) {
        let Some(entry) = self.groups.get_mut(group_id) else { return };
        let group = entry.group.take();
        group.into_iter().for_each(|mut group| group.removed(&mut self.timers));
        self.counters.gauges.offsets -= entry.offsets.len() as u64;
        entry.recount(&mut self.counters.gauges, &mut self.payers);
        self.groups.remove(group_id);
        self.changes.note_removed(group_id);
        self.rebalances.forget(group_id);
        self.pending.forget(group_id);
        self.counters.gauges.pending_offsets = self.pending.len() as u64;
    }

    /// The events since the last call, and the number of events that were dropped.
    #[must_use]
    pub fn take_events(&mut self) -> (Vec<Event>, u64) {
        self.rebalances.take_events()
    }

    /// Whether there are events to take.
    pub fn has_events(&self) -> bool {
        self.rebalances.has_events()
    }

    /// When the oldest rebalance under way began.
    pub fn oldest_rebalance_began_ms(&self) -> Option<i64> {
        self.rebalances.oldest_began_ms()
    }

    /// The rebalance that is under way in a group; an unloaded group has none.
    pub fn rebalance_under_way(&self, group_id: &str) -> Option<Rebalance> {
        match self.groups.listed(group_id)? {
            Listed::Live(entry) => self.rebalances.of(entry),
            Listed::Unloaded(_) => None,
        }
    }

    /// Creates a classic group for a client at `host` if there is no group of any kind. Returns
    /// whether it is new.
    ///
    /// # Errors
    /// COORDINATOR_NOT_AVAILABLE if the budget of groups is used up.
    pub(crate) fn create_classic_if_absent(
        &mut self,
        group_id: &str,
        host: &str,
        around: Around<'_>,
        budget: &mut Budget,
    ) -> Result<bool, ErrorCode> {
        self.load(group_id);
        if self.groups.get(group_id).is_none() {
            let admitted = self.admit_group(budget, host, around.now);
            admitted.map_err(|_| ErrorCode::CoordinatorNotAvailable)?;
        }
        let entry = self.groups.get_or_insert(group_id);
        if entry.group.is_some() {
            return Ok(false);
        }
        entry.group = Some(Group::Classic(ClassicGroup::new(entry.id.clone(), around.wall)));
        entry.written(entry.written_at.max(self.removed_at), &mut self.changes);
        entry.recount(&mut self.counters.gauges, &mut self.payers);
        Ok(true)
    }

    /// The gauges and counters of the coordinator, for metrics.
    pub fn counters(&self) -> Counters {
        let Counters { gauges, events } = self.counters;
        Counters { gauges: gauges + self.groups.unloaded.gauges(), events }
    }

    /// The transactions with pending offsets, by producer and group.
    pub fn open_transactions(&self) -> impl Iterator<Item = OpenTransaction<'_>> {
        self.pending.open()
    }

    /// The position of the last record. A response about all groups waits for it.
    pub fn written_at(&self) -> u64 {
        self.written_at
    }
}
