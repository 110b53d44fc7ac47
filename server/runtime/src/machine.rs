//! The contract of a state machine.

use std::ops::{Add, Sub};

/// The replicated state of one partition of an internal topic: a function of the records that it
/// replayed. It has no clock, performs no I/O and sends nothing.
pub trait Machine: 'static {
    /// The amounts that a machine uses of the limits that all machines of its topic on a shard
    /// share.
    type Held: Copy + Default + Add<Output = Self::Held> + Sub<Output = Self::Held>;

    /// The amounts that the machine uses now.
    fn held(&self) -> Self::Held;

    /// The time at which the machine's next timer is due.
    fn next_deadline(&self) -> Option<i64>;
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
