//! Faults that are injected one at a time, to prove that the simulator finds them. Some are of
//! the simulated disk; the others are built into the server by the feature `injected-faults`.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// The disk says that a write is durable before it is.
    EarlyWrite,
    /// The disk answers syncs and does nothing.
    SkippedSync,
    /// Answers leave without waiting for the flush.
    EarlyAnswer,
    /// Recovery skips some tombstones.
    LostTombstone,
    /// Recovery cuts off the last block of a segment, though it is whole.
    WrongCut,
    /// A record is written, but not replayed in the live state, so that recovery differs from it.
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

impl InjectedFault {
    pub const ALL: [Self; 37] = [
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
        Self::LostPart,
        Self::EarlyMarker,
        Self::LostMarker,
        Self::UnaskedAppend,
        Self::StaleYes,
        Self::StableTooFar,
        Self::PendingShown,
        Self::AbortedKept,
        Self::UnwrittenId,
        Self::EarlyAccess,
        Self::OldPermissions,
        Self::TellingRefusal,
        Self::Unmuted,
        Self::Unlimited,
        Self::EndlessLock,
        Self::EarlyAcknowledgement,
        Self::LostUpdate,
        Self::ShareStartTooFar,
        Self::DoubleGrant,
        Self::ForgottenRelease,
        Self::EarlyTask,
        Self::StuckEpoch,
        Self::LostTarget,
        Self::NewestLost,
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
            Self::LostPart => "lost-part",
            Self::EarlyMarker => "early-marker",
            Self::LostMarker => "lost-marker",
            Self::UnaskedAppend => "unasked-append",
            Self::StaleYes => "stale-yes",
            Self::StableTooFar => "stable-too-far",
            Self::PendingShown => "pending-shown",
            Self::AbortedKept => "aborted-kept",
            Self::UnwrittenId => "unwritten-id",
            Self::EarlyAccess => "early-access",
            Self::OldPermissions => "old-permissions",
            Self::TellingRefusal => "telling-refusal",
            Self::Unmuted => "unmuted",
            Self::Unlimited => "unlimited",
            Self::EndlessLock => "endless-lock",
            Self::EarlyAcknowledgement => "early-acknowledgement",
            Self::LostUpdate => "lost-update",
            Self::ShareStartTooFar => "share-start-too-far",
            Self::DoubleGrant => "double-grant",
            Self::ForgottenRelease => "forgotten-release",
            Self::EarlyTask => "early-task",
            Self::StuckEpoch => "stuck-epoch",
            Self::LostTarget => "lost-target",
            Self::NewestLost => "newest-lost",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// Makes the server of this process have the fault, from now on and in all threads.
    ///
    /// # Errors
    /// This build has no such fault in it.
    pub fn inject(self) -> Result<(), String> {
        match self {
            Self::EarlyWrite | Self::SkippedSync => Ok(()),
            Self::EarlyAnswer
            | Self::LostTombstone
            | Self::WrongCut
            | Self::ReplayDiffers
            | Self::DeadTimer
            | Self::OutsideAccount
            | Self::StartDeletes
            | Self::SilentCut
            | Self::UnslicedScan
            | Self::ExpiryFirst
            | Self::StaleImage
            | Self::LostPart
            | Self::EarlyMarker
            | Self::LostMarker
            | Self::UnaskedAppend
            | Self::StaleYes
            | Self::StableTooFar
            | Self::PendingShown
            | Self::AbortedKept
            | Self::UnwrittenId
            | Self::EarlyAccess
            | Self::OldPermissions
            | Self::TellingRefusal
            | Self::Unmuted
            | Self::Unlimited
            | Self::EndlessLock
            | Self::EarlyAcknowledgement
            | Self::LostUpdate
            | Self::ShareStartTooFar
            | Self::DoubleGrant
            | Self::ForgottenRelease
            | Self::EarlyTask
            | Self::StuckEpoch
            | Self::LostTarget
            | Self::NewestLost => self.inject_in_server(),
        }
    }

    #[cfg(not(feature = "injected-faults"))]
    fn inject_in_server(self) -> Result<(), String> {
        Err(format!("{self} needs a build with --features injected-faults"))
    }

    #[cfg(feature = "injected-faults")]
    fn inject_in_server(self) -> Result<(), String> {
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
            Self::LostPart => Fault::LostPart,
            Self::EarlyMarker => Fault::EarlyMarker,
            Self::LostMarker => Fault::LostMarker,
            Self::UnaskedAppend => Fault::UnaskedAppend,
            Self::StaleYes => Fault::StaleYes,
            Self::StableTooFar => Fault::StableTooFar,
            Self::PendingShown => Fault::PendingShown,
            Self::AbortedKept => Fault::AbortedKept,
            Self::UnwrittenId => Fault::UnwrittenId,
            Self::EarlyAccess => Fault::EarlyAccess,
            Self::OldPermissions => Fault::OldPermissions,
            Self::TellingRefusal => Fault::TellingRefusal,
            Self::Unmuted => Fault::Unmuted,
            Self::Unlimited => Fault::Unlimited,
            Self::EndlessLock => Fault::EndlessLock,
            Self::EarlyAcknowledgement => Fault::EarlyAcknowledgement,
            Self::LostUpdate => Fault::LostUpdate,
            Self::ShareStartTooFar => Fault::ShareStartTooFar,
            Self::DoubleGrant => Fault::DoubleGrant,
            Self::ForgottenRelease => Fault::ForgottenRelease,
            Self::EarlyTask => Fault::EarlyTask,
            Self::StuckEpoch => Fault::StuckEpoch,
            Self::LostTarget => Fault::LostTarget,
            Self::NewestLost => Fault::NewestLost,
            Self::EarlyWrite | Self::SkippedSync => return Ok(()),
        });
        Ok(())
    }
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
