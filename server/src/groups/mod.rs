//! The groups of a shard: the coordinators of its slots, and the removal of offsets of deleted
//! topics.
//!
//! The coordinators of transactions send markers to the slots that have offsets of a transaction
//! ([`Groups::mark_transaction`]).
//!
//! [`Groups`] is sans-I/O. Its inputs are
//! - the time ([`Groups::advance`]), before all other input of an event or turn;
//! - requests, due timers and images of the cluster, each with the [`Inputs`] of a call. Each call
//!   passes answers to `take`, each with the position that must be durable before it is sent;
//! - the end of a turn ([`Groups::end_turn`]). [`Groups::deadline`] is the time at which the next
//!   turn is needed.
//!
//! Invariants:
//! - Records are written and applied in one place, [`Runtime`]. If the log refuses records, the
//!   request is answered with an error, and the groups of the records return to their durable
//!   state.
//! - While [`Runtime::is_closed`], no request is handled: too many bytes wait for the disk, or
//!   recovered operations are not durable yet. Only work under way continues: markers, and commits
//!   of offsets that wait for a verdict, whose number is limited.
//!
//! A walk over all groups (lists, sweeps, audits, snapshots) visits one slot after the other, in
//! slices. The audit (once a second, in debug builds and in the simulator) shows whether the next
//! snapshot would be right. The version of the topics is a position in shard 0's log, not a time.

mod clock;
mod configs;
mod coordinators;
mod copy;
mod counters;
mod deleted_topics;
mod events;
mod faults;
mod history;
mod leading;
mod machine;
mod offset_producers;
mod offset_questions;
mod requests;
mod reset;
mod slots;
#[cfg(test)]
mod test_access;
mod transactions;
mod turn;
mod views;

#[cfg(test)]
pub(crate) use counters::METRICS;
pub(crate) use history::HISTORY_BYTES_MAX;
pub(crate) use offset_questions::ASKED_BYTES_MAX;
pub(crate) use slots::ListingOfSlots;
pub use slots::Slots;
pub(crate) use transactions::{Marked, OffsetMarkers};
pub(crate) use turn::{Inputs, TurnEnd};

use crate::clock::earliest;
use crate::cluster::{BROKER_RESOURCE, ClusterImage, TOPIC_RESOURCE};
use crate::config::{Config, compaction};
use crate::event::Command;
use crate::mailbox::ToController;
use crate::net::Reply;
use crate::placement::{CONTROLLER, Placement, Slot};
use coordinators::Coordinators;
use deleted_topics::DeletedTopics;
use events::GroupEvents;
use muster_runtime::{Runtime, Topic};
use muster_storage::ShardLog;
use offset_questions::OffsetQuestions;
use requests::LateAnswers;
use std::sync::Arc;
use transactions::MarkersUnderWay;

/// The groups of a shard.
pub(crate) struct Groups {
    shard: u32,
    placement: Placement,
    /// The config from the file and the command line.
    config: Arc<Config>,
    coordinators: Coordinators,
    late: LateAnswers,
    /// `producer.id.expiration.ms`.
    producer_expiration_ms: i64,
    /// `transaction.partition.verification.enable`.
    verifies: bool,
    questions: OffsetQuestions,
    markers: MarkersUnderWay,
    deleted_topics: DeletedTopics,
    events: GroupEvents,
}

/// Everything that the groups of a shard start with.
pub(crate) struct Setup {
    pub(crate) shard: u32,
    pub(crate) placement: Placement,
    /// The config from the file and the command line.
    pub(crate) config: Arc<Config>,
    pub(crate) slots: Slots,
    pub(crate) cut_bytes: usize,
    /// The number of the first question to coordinators of transactions.
    pub(crate) first_number: u64,
}

impl Groups {
    /// The groups of a shard. `config` includes altered configs.
    pub(crate) fn new(setup: Setup, config: &Config, now: i64) -> Self {
        let Setup { shard, placement, config: common, slots, cut_bytes, .. } = setup;
        Self {
            shard,
            placement,
            config: common,
            producer_expiration_ms: config.producer_id_expiration_ms.into(),
            verifies: config.transaction_partition_verification_enable,
            questions: OffsetQuestions::new(setup.first_number),
            markers: MarkersUnderWay::default(),
            late: LateAnswers::default(),
            coordinators: Coordinators::new(slots, cut_bytes, now),
            deleted_topics: DeletedTopics::default(),
            events: GroupEvents::default(),
        }
    }

    /// Advances the time of the groups.
    pub(crate) fn advance(&mut self, now: i64, log: &ShardLog) {
        self.coordinators.advance(now, log);
    }

    /// Fires the due timers of one slot. All input up to the time `handled_until` has been handled,
    /// so only timers that were due at that time are fired.
    pub(crate) fn expire(
        &mut self,
        handled_until: i64,
        mut inputs: Inputs<'_>,
        mut take: impl FnMut(Reply<'static>),
    ) {
        let Some(slot) = self.coordinators.due(handled_until) else { return };
        let now = std::mem::replace(&mut inputs.times.now, handled_until);
        let output = self.coordinators.expire(slot, inputs.again());
        inputs.times.now = now;
        let forgotten = now.saturating_sub(self.producer_expiration_ms);
        self.slots_mut().on_producers(slot, |it| it.expire(forgotten));
        let Self { coordinators, late, .. } = self;
        coordinators.write(slot, inputs, output, |reply| late.join(reply, &mut take));
    }

    /// Continues the removal of the offsets of deleted topics by a slice. The first call also finds
    /// topics for which the previous process may not have finished the removal.
    pub(crate) fn forget_slice(&mut self, mut inputs: Inputs<'_>, mut take: impl FnMut(Reply<'_>)) {
        if !self.deleted_topics.has_begun() {
            self.deleted_topics.begin(&mut self.coordinators, inputs.again(), None, &mut take);
        }
        if self.has_to_forget(inputs.runtime) {
            self.deleted_topics.forget_some(&mut self.coordinators, inputs, &mut take);
        }
    }

    /// Applies the new image, which is in the inputs; `before` is the previous one.
    pub(crate) fn image_changed(
        &mut self,
        config: &Config,
        before: &ClusterImage,
        mut inputs: Inputs<'_>,
        mut take: impl FnMut(Reply<'_>),
    ) {
        let image = inputs.image;
        self.producer_expiration_ms = config.producer_id_expiration_ms.into();
        self.verifies = config.transaction_partition_verification_enable;
        let again = inputs.again();
        self.deleted_topics.begin(&mut self.coordinators, again, Some(before), &mut take);
        self.slots_mut().configure(config, Some(before), image);
        let is_other = |of_type| !image.reconfigured(before, of_type).is_empty();
        if [BROKER_RESOURCE, TOPIC_RESOURCE].into_iter().any(is_other) {
            inputs.runtime.log_mut().set_compaction(compaction(
                config,
                image,
                self.placement.shards,
            ));
        }
    }

    /// The machines of all slots.
    pub(crate) fn topic(&mut self) -> &mut dyn Topic {
        self.slots_mut().topic()
    }

    /// Ends a turn: reports events, and durable removals of deleted topics.
    pub(crate) fn end_turn(
        &mut self,
        runtime: &Runtime,
        turn: &TurnEnd<'_>,
        out: &mut Vec<Command>,
    ) {
        while let Some(version) = self.deleted_topics.next_durable(runtime) {
            let message = ToController::Forgotten { from: self.shard, version };
            out.push(Command::mail(CONTROLLER, message));
        }
        let events = self.slots_mut().take_events();
        self.events.take(turn, self.shard, events);
    }

    /// The time when the next turn is needed. While input `is_blocked`, this is not the time of a
    /// timer: a timer could expire a member whose heartbeat is in the input that cannot be read.
    pub(crate) fn deadline(&self, runtime: &Runtime, now: i64, is_blocked: bool) -> Option<i64> {
        earliest([
            self.coordinators.expiry_deadline().filter(|_| !is_blocked),
            self.has_to_forget(runtime).then_some(now),
        ])
    }

    /// Whether a removal of offsets has to continue at once.
    fn has_to_forget(&self, runtime: &Runtime) -> bool {
        self.deleted_topics.are_under_way() && !runtime.is_closed()
    }

    /// For checks: the transactions with pending offsets. For each, the slot, the producer, and the
    /// first offset of the transaction in the slot.
    pub(crate) fn open_places(&self) -> impl Iterator<Item = (Slot, (i64, i16), i64)> {
        let all = self.slots().producers_from(Slot(0));
        all.flat_map(|(slot, producers)| {
            producers.places().map(move |(it, first)| (slot, (it.id, it.epoch), first))
        })
    }
}
