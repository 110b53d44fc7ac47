//! Injected faults: defects that the simulator has to find, to prove that its checks work. Only
//! builds with the feature `injected-faults` have them; in all others [`is`] is a constant false,
//! and the code of the fault is compiled out.

/// A fault, in this crate or in the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Answers leave without waiting for the flush.
    EarlyAnswer = 1,
    /// Recovery skips some tombstones.
    LostTombstone,
    /// Recovery cuts off the last block of a segment, though it is whole.
    WrongCut,
    /// A record is written, but not replayed.
    ReplayDiffers,
    /// Timers of groups do not fire.
    DeadTimer,
    /// Buffered input of clients is not counted in its account.
    OutsideAccount,
    /// A new log is created at startup where one is missing.
    StartDeletes,
    /// A log that has become shorter is accepted at startup.
    SilentCut,
    /// A long request is answered at once.
    UnslicedScan,
    /// Sessions end by the clock, whatever waits to be read.
    ExpiryFirst,
    /// A shard that was loaded again takes images of the cluster that are older than its own.
    StaleImage,
    /// An answer that is joined from the parts of several slots has only the first part.
    LostPart,
    /// Markers are sent before the decision is durable.
    EarlyMarker,
    /// Some markers are answered without being written.
    LostMarker,
    /// Partitions do not ask before the first batch of a transaction.
    UnaskedAppend,
    /// Partitions and groups append after a yes that no longer counts.
    StaleYes,
    /// Committed records are read beyond the first open transaction.
    StableTooFar,
    /// Offsets of a transaction are committed at once.
    PendingShown,
    /// Compaction keeps the records of aborted transactions.
    AbortedKept,
    /// The state of a transactional id changes without a record.
    UnwrittenId,
    /// A change of ACLs is answered before all shards have it.
    EarlyAccess,
    /// A connection keeps the permissions that it had first.
    OldPermissions,
    /// The refusal of a topic has its id.
    TellingRefusal,
    /// A connection is served before its throttle time is over.
    Unmuted,
    /// Bytes beyond a quota are not throttled.
    Unlimited,
    /// Locks on records of share groups do not end.
    EndlessLock,
    /// Acknowledgements of share groups are answered before their record is flushed.
    EarlyAcknowledgement,
    /// Some changes of share partitions are not written.
    LostUpdate,
    /// The start offset in some records of share state is one too far.
    ShareStartTooFar,
    /// Records that a member has acquired are given to others.
    DoubleGrant,
    /// The records of a member are not released when its session ends.
    ForgottenRelease,
    /// Tasks of streams groups are free before their owners have given them up.
    EarlyTask,
    /// The epoch of streams groups is not bumped.
    StuckEpoch,
    /// Recovery skips the target of some members of streams groups.
    LostTarget,
    /// Compaction of user topics drops the newest records, too.
    NewestLost,
}

#[cfg(feature = "injected-faults")]
static INJECTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Injects the fault into this process, in place of any other.
#[cfg(feature = "injected-faults")]
pub fn inject(fault: Fault) {
    INJECTED.store(fault as u8, std::sync::atomic::Ordering::Relaxed);
}

/// Whether the fault is injected.
#[cfg(feature = "injected-faults")]
pub fn is(fault: Fault) -> bool {
    INJECTED.load(std::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// Whether the fault is injected: never.
#[cfg(not(feature = "injected-faults"))]
pub const fn is(_: Fault) -> bool {
    false
}
