//! The contract of a state machine.

use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, EndTxnMarker, Producer, WriteRecord};
use muster_storage::TopicRule;
use std::fmt;
use std::ops::{Add, Sub};

/// The replicated state of one partition of an internal topic: a function of the records that the
/// machine replayed. It has no clock, performs no I/O and sends nothing.
pub trait Machine: 'static {
    /// The rule of the topic in logs.
    const RULE: TopicRule;

    /// A record of the topic.
    type Record<'r>: WriteRecord;

    /// The amounts that a machine uses of the limits that all machines of its topic on a shard
    /// share.
    type Held: Copy + Default + Add<Output = Self::Held> + Sub<Output = Self::Held>;

    /// A value of a shard to which all machines of the topic report, such as a budget.
    type Shared;

    /// Applies the records of an operation that the log has accepted. `position` is the position of
    /// the operation in the partition.
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

    /// Reports to the shared value. Called after each call of the machine.
    fn settle(&mut self, _shared: &mut Self::Shared) {}

    /// The damage that the machine has found in its part of a snapshot since the snapshot was
    /// opened. Once there is damage, no answer or record of the machine may be used.
    fn damage(&self) -> Option<Damage> {
        None
    }
}

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

/// A description of the damage of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage(pub String);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
