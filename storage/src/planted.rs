//! Faults that are built in on purpose, so that the simulator can prove that it would see them. Only
//! a build with the feature `planted-faults` has them; in all others [`is`] is never true, and what
//! stands behind it is not there.

/// One fault, here or in the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Answers leave without waiting for the flush.
    EarlyAnswer = 1,
    /// A start skips a tombstone now and then.
    LostTombstone,
    /// Recovery cuts off the last whole block of a segment.
    WrongCut,
    /// A record is written, but not replayed.
    ReplayDiffers,
    /// Timers of groups do not fire.
    DeadTimer,
    /// Input of clients is held and not counted.
    OutsideAccount,
    /// A start makes a new log where one is missing.
    StartDeletes,
    /// A start takes a log that is shorter than it was.
    SilentCut,
}

#[cfg(feature = "planted-faults")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Has this process the fault from now on, in place of any other.
#[cfg(feature = "planted-faults")]
pub fn plant(fault: Fault) {
    PLANTED.store(fault as u8, std::sync::atomic::Ordering::Relaxed);
}

/// Whether the fault is planted.
#[cfg(feature = "planted-faults")]
pub fn is(fault: Fault) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// Whether the fault is planted: never.
#[cfg(not(feature = "planted-faults"))]
pub const fn is(_: Fault) -> bool {
    false
}
