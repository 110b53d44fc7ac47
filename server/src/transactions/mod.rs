//! The transactions of a shard: the coordinators of its partitions of `__transaction_state`, and
//! the slots' side of the messages with all coordinators. The transactions of partitions are in
//! `partitions/`.
//!
//! [`Transactions`] is sans-I/O. Its inputs are
//! - requests and due timers, each with the [`Inputs`] of a call;
//! - letters between coordinators and slots: letters of this shard, letters of other shards
//!   ([`Transactions::arrived`]), and letters of the partitions ([`Transactions::send`]). The
//!   caller takes them one by one ([`Transactions::next_letter`]) until there is none, and passes
//!   letters for slots on to the partitions;
//! - the positions that became durable ([`Transactions::flushed`]);
//! - the end of a sync of the partitions, for reports ([`Transactions::begin_sync`],
//!   [`Transactions::synced`]).
//!
//! Its outputs are answers ([`Transactions::take_answers`]) and commands
//! ([`Transactions::send_mail`]).
//!
//! Invariants:
//! - Records are appended in one place, `Transactions::write`. If the log refuses records, the
//!   answer is an error, their messages are dropped, and the ids return to their durable state.
//! - A message that depends on records is sent when they are durable. Any other message may be
//!   lost.
//! - The number and size of letters to another shard are limited. Further letters are dropped.
//!
//! A message is addressed to a slot, but all partitions of a shard have one address, as they are
//! loaded together (`cluster/view.rs`). All letters to another shard in a turn are one message.
//! `shard/transactions.rs` passes letters within the shard on until none is left.
//!
//! Each load of a shard begins a *life*. The number of the life only increases, as it is made from
//! the number of starts in `meta.properties`. It is the epoch of the shard's coordinators and the
//! session of its slots.
//!
//! A question of a partition or group (`questions.rs`) is sent once its coordinator knows the slot,
//! and again after each load of the coordinator. It counts as lost after 30 s. A report waits for a
//! sync of the partitions that have transactions. All reports of a load wait for the same sync, and
//! all syncs of a turn become one sync of each file.

mod coordinators;
mod copy;
mod limits;
mod links;
mod listing;
mod machine;
mod post;
mod questions;
mod requests;
#[cfg(test)]
mod tests;
mod topics;

pub(crate) use coordinators::Coordinators;
pub(crate) use limits::LETTER_BYTES_MAX;
pub(crate) use links::Answered;
pub(crate) use listing::ListingOfIds;
pub(crate) use requests::Sender;

use crate::clock::{Times, earliest};
use crate::cluster::ClusterImage;
use crate::config::Config;
use crate::event::Command;
use crate::logging::RequestErrors;
use crate::mailbox::{Letter, ToTransactions};
use crate::net::Reply;
use crate::placement::{Placement, Slot, TransactionsPartition};
use links::Links;
#[cfg(test)]
use muster_codec::records::TransactionRecord;
use muster_runtime::{Runtime, Topic};
use muster_transactions::ProducerIds;
use muster_transactions::message::{FromSlot, OpenIn, Question, Reported, ToSlot, Verdict};
use post::{Amount, Post};
use questions::Questions;
use std::collections::BTreeMap;

/// The transactions of a shard.
#[derive(Debug)]
pub(crate) struct Transactions {
    shard: u32,
    placement: Placement,
    coordinators: Coordinators,
    links: Links,
    post: Post,
    answers: Vec<Reply<'static>>,
    questions: Questions,
    /// The number and bytes of the letters that were taken from each other shard. The next mail to
    /// that shard reports them.
    taken: BTreeMap<u32, Amount>,
    /// Whether no transaction can have lost writes before startup, because the machine has kept its
    /// page cache since the last run.
    is_settled: bool,
}

/// The inputs of a call to a coordinator.
pub(crate) struct Inputs<'i> {
    pub(crate) times: Times,
    pub(crate) image: &'i ClusterImage,
    pub(crate) runtime: &'i mut Runtime,
    pub(crate) producer_ids: &'i mut dyn ProducerIds,
    pub(crate) errors: &'i mut RequestErrors,
}

/// The properties of a shard that differ between its loads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    /// A number that grows with each load. It is the epoch of the shard's coordinators, and the
    /// session of its slots.
    pub(crate) number: i32,
    /// Whether the machine may have lost its memory before this load.
    pub(crate) may_have_lost_writes: bool,
}

/// A message to a slot of this shard.
pub(crate) struct ForSlot {
    pub(crate) coordinator: u32,
    pub(crate) message: ToSlot,
}

impl Transactions {
    pub(crate) fn new(
        shard: u32,
        placement: Placement,
        coordinators: Coordinators,
        life: Life,
    ) -> Self {
        let (session, lost) = (life.number.unsigned_abs().into(), life.may_have_lost_writes);
        Self {
            shard,
            placement,
            coordinators,
            links: Links::new(placement, shard, session, lost),
            post: Post::new(shard, placement),
            answers: Vec::new(),
            questions: Questions::default(),
            taken: BTreeMap::new(),
            is_settled: !lost,
        }
    }

    /// Starts the coordinators after the replay of the log.
    pub(crate) fn loaded(&mut self, mut inputs: Inputs<'_>) {
        let all: Vec<TransactionsPartition> = self.coordinators.iter().collect();
        for partition in all {
            let output =
                self.coordinators.call(partition, &mut inputs, |it, context| it.loaded(context));
            self.write(partition, &mut inputs, output);
        }
    }

    /// Applies a new config.
    pub(crate) fn set_config(&mut self, config: &Config) {
        self.coordinators.set_config(config);
    }

    /// The coordinators, for snapshots and checks.
    pub(crate) fn coordinators(&self) -> &Coordinators {
        &self.coordinators
    }

    /// The machines of the coordinators, for snapshots.
    pub(crate) fn topic(&mut self) -> &mut dyn Topic {
        self.coordinators.topic()
    }

    /// The number of transactional ids.
    pub(crate) fn ids(&self) -> usize {
        self.coordinators.ids()
    }

    /// Appends a record, for tests.
    #[cfg(test)]
    pub(crate) fn append_one(
        &mut self,
        runtime: &mut Runtime,
        partition: TransactionsPartition,
        now: i64,
        record: &TransactionRecord<'_>,
    ) {
        let records = std::slice::from_ref(record);
        self.coordinators.append(runtime, partition, now, records).unwrap();
    }

    /// Applies a record that is not in the log, for tests.
    #[cfg(test)]
    pub(crate) fn replay(
        &mut self,
        partition: TransactionsPartition,
        record: &TransactionRecord<'_>,
        position: u64,
    ) {
        self.coordinators.apply(partition, record, position);
    }

    /// Whether no transaction is left that may have lost writes before the start.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled || self.coordinators.are_settled()
    }

    /// The time at which [`Self::expire`] has something to do.
    pub(crate) fn deadline(&self) -> Option<i64> {
        let coordinators = self.coordinators.next_deadline().map(|(at, _)| at);
        earliest([coordinators, self.links.next_deadline()])
    }

    /// Fires some timers that are due.
    pub(crate) fn expire(&mut self, mut inputs: Inputs<'_>) {
        let now = inputs.times.now;
        self.links.expire(now);
        for _ in 0..limits::TIMERS_OF_A_TURN {
            let due = self.coordinators.next_deadline().filter(|(at, _)| *at <= now);
            let Some((_, partition)) = due else { return };
            let output =
                self.coordinators.call(partition, &mut inputs, |it, context| it.expire(context));
            self.write(partition, &mut inputs, output);
        }
    }

    /// Removes some transactional ids. If one has an open transaction, begins to abort that first.
    /// Returns whether there were any ids. If so, the caller has to call this again.
    pub(crate) fn reset(&mut self, mut inputs: Inputs<'_>) -> bool {
        let mut had_any = false;
        let all: Vec<TransactionsPartition> = self.coordinators.iter().collect();
        for partition in all {
            let (output, had) =
                self.coordinators.call(partition, &mut inputs, |it, context| it.reset(context));
            self.write(partition, &mut inputs, output);
            had_any |= had;
        }
        had_any
    }

    /// Notifies the coordinators that the shard has received producer ids.
    pub(crate) fn producer_ids_arrived(&mut self) {
        self.coordinators.producer_ids_arrived();
    }

    /// Notes that a slot is durable up to a position.
    pub(crate) fn flushed(&mut self, slot: Slot, position: u64) {
        self.post.flushed(slot, position);
    }

    /// Takes letters from another shard.
    pub(crate) fn arrived(&mut self, from: u32, letters: Vec<Letter>) {
        let taken = self.taken.entry(from).or_default();
        taken.letters += letters.len();
        taken.bytes += post::bytes_of(&letters);
        self.post.arrived(letters);
    }

    /// Notes that another shard has taken letters.
    pub(crate) fn letters_taken(&mut self, by: u32, letters: usize, bytes: usize) {
        self.post.taken(by, letters, bytes);
    }

    /// Sends the question of a partition or group. If its coordinator does not know the slot yet,
    /// and so would not answer, the question is sent later: when the coordinator has answered the
    /// slot's report.
    pub(crate) fn ask(&mut self, now: i64, question: Question) {
        let id = &question.transactional_id;
        let TransactionsPartition(coordinator) = self.placement.transactions_partition(id);
        if self.links.is_known(question.slot, coordinator) {
            self.send(coordinator, FromSlot::Question(question.clone()));
        }
        self.questions.insert(now, coordinator, question);
    }

    /// Closes the open question that a verdict answers. Returns false if there is none.
    pub(crate) fn answers(&mut self, verdict: &Verdict) -> bool {
        self.questions.answered(verdict)
    }

    /// The time at which the next question counts as lost.
    pub(crate) fn questions_deadline(&self) -> Option<i64> {
        self.questions.next_deadline()
    }

    /// Ends a question that counts as lost at the time `until`. Returns a verdict with an error, as
    /// the coordinator has sent none.
    pub(crate) fn take_lost(&mut self, until: i64) -> Option<Verdict> {
        self.questions.take_lost(until)
    }

    /// Sends a message of a slot.
    pub(crate) fn send(&mut self, coordinator: u32, message: FromSlot) {
        self.post.add_to_coordinator(coordinator, message);
    }

    /// Whether a letter waits for [`Self::next_letter`].
    pub(crate) fn has_letters(&self) -> bool {
        self.post.has_letters()
    }

    /// Handles the next letter, or returns it if a slot has to handle it.
    pub(crate) fn next_letter(&mut self, inputs: &mut Inputs<'_>) -> Option<ForSlot> {
        match self.post.next()? {
            Letter::ToSlot { coordinator, message } => {
                let is_current = self.links.receive(coordinator, &message);
                is_current.then_some(ForSlot { coordinator, message })
            }
            Letter::ToCoordinator { coordinator, message } => {
                let partition = TransactionsPartition(coordinator);
                if self.coordinators.has(partition) {
                    let output = self
                        .coordinators
                        .call(partition, inputs, |it, context| it.receive(context, message));
                    self.write(partition, inputs, output);
                }
                None
            }
        }
    }

    /// Whether the partitions have to sync their records of transactions, for reports.
    pub(crate) fn begin_sync(&mut self) -> bool {
        self.links.begin_sync()
    }

    /// Sends the reports after a sync of the partitions. `open` has the open transactions by slot.
    /// `is_whole` is false if a partition is offline or has lost writes.
    pub(crate) fn synced(&mut self, now: i64, open: &BTreeMap<u32, Vec<OpenIn>>, is_whole: bool) {
        for (coordinator, report) in self.links.synced(now, open, is_whole) {
            self.post.add_to_coordinator(coordinator, report);
        }
    }

    /// Handles a coordinator's answer to the report of a slot. None if the answer belongs to an
    /// earlier report.
    pub(crate) fn reported(
        &mut self,
        slot: u32,
        coordinator: u32,
        reported: &Reported,
    ) -> Option<Answered> {
        let answered = self.links.answered(slot, coordinator, reported)?;
        for question in self.questions.of(coordinator) {
            self.send(coordinator, FromSlot::Question(question));
        }
        Some(answered)
    }

    /// Notes that the answer to a report could not be applied: the slot reports again after a
    /// while.
    pub(crate) fn report_again(&mut self, now: i64, slot: u32, coordinator: u32) {
        self.links.report_again(now, slot, coordinator);
    }

    /// Whether there are answers for [`Self::take_answers`].
    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The answers since the last call.
    pub(crate) fn take_answers(&mut self) -> Vec<Reply<'static>> {
        std::mem::take(&mut self.answers)
    }

    /// Sends the letters to other shards.
    pub(crate) fn send_mail(&mut self, out: &mut Vec<Command>) {
        while let Some((to, Amount { letters, bytes })) = self.taken.pop_first() {
            let message = ToTransactions::LettersTaken { by: self.shard, letters, bytes };
            out.push(Command::mail(to, message));
        }
        self.post.send(out);
    }
}
