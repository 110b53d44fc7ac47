//! Faults that are injected one at a time, to prove that the simulator finds them. Some are of
//! the simulated disk; the others are built into the server by the feature `injected-faults`.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// The disk says that a write is durable before it is.
    EarlyWrite,
    /// The disk answers syncs and does nothing.
    SkippedSync,
    /// Answers leave without waiting for the flush.
    EarlyAnswer,
    /// A start skips a tombstone now and then.
    LostTombstone,
    /// Recovery cuts off the last whole block.
    WrongCut,
    /// Live replay of a record differs from that of a start.
    ReplayDiffers,
    /// Timers of groups do not fire.
    DeadTimer,
    /// Input of clients is held and not counted.
    OutsideAccount,
    /// A start makes a new log where one is missing.
    StartDeletes,
    /// A start takes a log that is shorter than it was.
    SilentCut,
    /// A long request is answered at once.
    UnslicedScan,
    /// Sessions end by the clock, whatever waits to be read.
    ExpiryFirst,
    /// A shard that was loaded again takes images of the cluster that are older than its own.
    StaleImage,
}

impl Plant {
    pub const ALL: [Self; 13] = [
        Self::EarlyWrite,
        Self::SkippedSync,
        Self::EarlyAnswer,
        Self::LostTombstone,
        Self::WrongCut,
        Self::ReplayDiffers,
        Self::DeadTimer,
        Self::OutsideAccount,
        Self::StartDeletes,
        Self::SilentCut,
        Self::UnslicedScan,
        Self::ExpiryFirst,
        Self::StaleImage,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::EarlyWrite => "early-write",
            Self::SkippedSync => "skipped-sync",
            Self::EarlyAnswer => "early-answer",
            Self::LostTombstone => "lost-tombstone",
            Self::WrongCut => "wrong-cut",
            Self::ReplayDiffers => "replay-differs",
            Self::DeadTimer => "dead-timer",
            Self::OutsideAccount => "outside-account",
            Self::StartDeletes => "start-deletes",
            Self::SilentCut => "silent-cut",
            Self::UnslicedScan => "unsliced-scan",
            Self::ExpiryFirst => "expiry-first",
            Self::StaleImage => "stale-image",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plant| plant.name() == name)
    }

    /// Makes the server of this process have the fault, from now on and in all threads.
    ///
    /// # Errors
    /// This build has no such fault in it.
    pub fn put_in(self) -> Result<(), String> {
        match self {
            Self::EarlyWrite | Self::SkippedSync => Ok(()),
            _ => self.build_in(),
        }
    }

    #[cfg(not(feature = "injected-faults"))]
    fn build_in(self) -> Result<(), String> {
        Err(format!("{self} needs a build with --features injected-faults"))
    }

    #[cfg(feature = "injected-faults")]
    fn build_in(self) -> Result<(), String> {
        use muster_storage::injected::{Fault, inject};
        inject(match self {
            Self::EarlyAnswer => Fault::EarlyAnswer,
            Self::LostTombstone => Fault::LostTombstone,
            Self::WrongCut => Fault::WrongCut,
            Self::ReplayDiffers => Fault::ReplayDiffers,
            Self::DeadTimer => Fault::DeadTimer,
            Self::OutsideAccount => Fault::OutsideAccount,
            Self::StartDeletes => Fault::StartDeletes,
            Self::SilentCut => Fault::SilentCut,
            Self::UnslicedScan => Fault::UnslicedScan,
            Self::ExpiryFirst => Fault::ExpiryFirst,
            Self::StaleImage => Fault::StaleImage,
            Self::EarlyWrite | Self::SkippedSync => return Ok(()),
        });
        Ok(())
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
