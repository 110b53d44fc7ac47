//! The contract of a state machine.

use crate::{CheckCopy, Damage, Digest, NextId, Opened, SectionAt};
use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, EndTxnMarker, Producer, WriteRecord};
use muster_storage::TopicRule;
use muster_storage::snapshot::Part;
use std::fmt::Debug;
use std::ops::{Add, Sub};
use std::sync::Arc;

/// The replicated state of one partition of an internal topic: a function of the records that the
/// machine replayed. It has no clock, performs no I/O and sends nothing.
pub trait Machine: 'static {
    /// The rule of the topic in logs.
    const RULE: TopicRule;

    /// The names of the sections that a machine has in a snapshot, for error messages. The number
    /// of a section on the disk is its place here.
    const SECTIONS: &'static [&'static str];

    /// Whether read-only calls may find damage in a snapshot.
    const READS_FIND_DAMAGE: bool = false;

    /// A record of the topic.
    type Record<'r>: WriteRecord;

    /// The amounts that a machine uses of its topic's limits. All machines of the topic on a shard
    /// share these limits.
    type Held: Copy + Default + Add<Output = Self::Held> + Sub<Output = Self::Held>;

    /// The progress of writing a section.
    type Walk: 'static;

    /// The progress of [`Self::restate`].
    type Restating: Default + 'static;

    /// The place of a state that was audited.
    type Place: Debug + 'static;

    /// A value that a shard keeps once and that all its machines of the topic update, such as a
    /// budget.
    type Shared;

    /// Applies the records of an operation that the log has accepted. `position` is the operation's
    /// position in the partition's slot.
    fn apply(&mut self, operation: &[Self::Record<'_>], position: u64);

    /// Applies a batch of the log, except for records that the machine already has from a snapshot.
    /// `position` is the position of the last operation in the batch's block. Returns false if the
    /// snapshot contains all records of the batch.
    ///
    /// # Errors
    /// This version cannot read a record.
    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError>;

    /// The amounts that the machine uses now.
    fn held(&self) -> Self::Held;

    /// The time at which the machine's next timer is due.
    fn next_deadline(&self) -> Option<i64>;

    /// Updates [`Self::Shared`]. Called after each call of the machine.
    fn settle(&mut self, _shared: &mut Self::Shared) {}

    /// Takes back all that the machine has reported to the shared value. It is dropped afterwards.
    fn release(&mut self, _shared: &mut Self::Shared) {}

    /// Notes that the machine begins with a snapshot that has all operations up to `position`.
    /// Sections with content are opened after this call, and each has a position of its own, which
    /// then counts instead. Sections without content are not opened.
    fn begin_after(&mut self, position: u64);

    /// Begins to write a section; None if it has no content.
    fn begin_section(&self, section: u8, at: SectionAt) -> Option<Self::Walk>;

    /// Appends the next part of a section to `out`: about `bytes` bytes. When the section is
    /// complete, returns where it is in the file.
    ///
    /// # Errors
    /// The section cannot be written, so no snapshot can be made.
    fn write_section(
        &mut self,
        walk: &mut Self::Walk,
        at: SectionAt,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Part>, Damage>;

    /// Loads a section of a snapshot into a machine that has replayed nothing.
    ///
    /// # Errors
    /// The section is damaged. The machine must not be used then.
    fn open_section(&mut self, section: u8, opened: Opened<'_>) -> Result<(), Damage>;

    /// The last stable offset that the partition has once its records before `end` are durable.
    fn stable_offset(&mut self, end: i64) -> i64 {
        end
    }

    /// If a producer's record at an offset belongs to an aborted transaction: the first offset of
    /// this transaction, and its producer.
    fn aborted(&self, _producer_id: i64, _offset: i64) -> Option<(i64, i64)> {
        None
    }

    /// Calls `take` with about `count` further records of the state, each with the producer of the
    /// transaction that it is part of. If a new machine replays all of them in this order, it gets
    /// the same state. A machine that has the state already is not changed by them, nor by the
    /// first ones alone. This is true even if other records come between two calls. Returns false
    /// after the last record.
    ///
    /// # Errors
    /// A part of the state in the snapshot is damaged.
    fn restate(
        &mut self,
        walk: &mut Self::Restating,
        count: usize,
        take: &mut dyn FnMut(Option<Producer>, &Self::Record<'_>),
    ) -> Result<bool, Damage>;

    /// Takes the state that follows `after`, converts it to records, replays these, and compares
    /// the result with the state. Returns None after the last state, or if nothing is compared.
    fn audit_after(&mut self, _after: Option<&Self::Place>) -> Option<Audited<Self::Place>> {
        None
    }

    /// An empty copy of a sample of the states, for the running check: one id in 2^`halvings`, and
    /// `salt` decides which. None if nothing is compared.
    fn copy(&self, _salt: u64, _halvings: u32) -> Option<Box<dyn CheckCopy>> {
        None
    }

    /// The first wanted id that follows `after`. Visits at most `visits` ids.
    fn next_id(
        &mut self,
        _after: Option<&Arc<str>>,
        _visits: usize,
        _is_wanted: &dyn Fn(&str) -> bool,
    ) -> NextId {
        NextId::End
    }

    /// The digest of the states of an id; None if it would be more work than `items_max`.
    fn digest(&mut self, _id: &str, _items_max: usize) -> Option<Digest> {
        None
    }

    /// The damage that the machine has found in its part of a snapshot since the snapshot was
    /// opened. Once there is damage, no answer or record of the machine may be used.
    fn damage(&self) -> Option<Damage> {
        None
    }
}

/// The place of a state that was audited, and a description of what differs, if anything.
pub type Audited<P> = (P, Result<(), String>);

/// A machine whose records may be part of transactions.
pub trait Transactional: Machine {
    /// Like [`Machine::apply`], in a transaction of a producer.
    fn apply_in_transaction(
        &mut self,
        producer: Producer,
        operation: &[Self::Record<'_>],
        position: u64,
    );

    /// Applies the marker, which the log has accepted and which ends the transaction of a producer.
    fn end_transaction(&mut self, producer: Producer, marker: EndTxnMarker, position: u64);
}

/// The amounts of machines whose topic has no limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

impl Add for Unlimited {
    type Output = Self;

    fn add(self, _: Self) -> Self {
        self
    }
}

impl Sub for Unlimited {
    type Output = Self;

    fn sub(self, _: Self) -> Self {
        self
    }
}
