//! Injected faults: defects that the simulator has to find, to prove that its checks work. Each is
//! one row of the table below.
//!
//! A fault of the server is asked for where it is built in: `Fault::LostTombstone.is_injected()`.
//! Only builds with the feature `injected-faults` have these faults; in all others the answer is a
//! constant false, and the code of the fault is compiled out.
#![no_std]
#![forbid(unsafe_code)]

use core::fmt::{self, Write as _};

/// Where a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the simulator's disk, which each build of the simulator has.
    Disk,
    /// In the storage or the server, in builds with the feature `injected-faults`.
    Server,
}

/// Declares the faults: what a fault does, its name, and its place.
macro_rules! faults {
    ($($(#[$doc:meta])+ $name:ident: $place:ident,)+) => {
        /// A fault. Its name on the command line is that of its variant: `lost-tombstone`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Fault {
            $($(#[$doc])+ $name,)+
        }

        impl Fault {
            pub const ALL: &[Self] = &[$(Self::$name),+];

            pub const fn place(self) -> Place {
                match self {
                    $(Self::$name => Place::$place,)+
                }
            }

            const fn variant(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

faults! {
    /// The disk says that a write is durable before it is.
    EarlyWrite: Disk,
    /// The disk answers syncs and does nothing.
    SkippedSync: Disk,
    /// Calls that open files or change their names make the shard wait for the disk.
    BlockingCall: Disk,
    /// No snapshot is written after damage of a shard's log.
    UnwrittenSnapshot: Server,
    /// Answers leave without waiting for the flush.
    EarlyAnswer: Server,
    /// Recovery skips some tombstones.
    LostTombstone: Server,
    /// Recovery cuts off the last block of a segment, though it is whole.
    WrongCut: Server,
    /// A record is written, but not replayed in the live state, so that recovery differs from it.
    ReplayDiffers: Server,
    /// Timers of groups do not fire.
    DeadTimer: Server,
    /// Buffered input of clients is not counted in its account.
    OutsideAccount: Server,
    /// A new log is created at startup where one is missing.
    StartDeletes: Server,
    /// A log that has become shorter is accepted at startup.
    SilentCut: Server,
    /// A long request is answered at once.
    UnslicedScan: Server,
    /// Sessions end by the clock, whatever waits to be read.
    ExpiryFirst: Server,
    /// A shard that was loaded again takes images of the cluster that are older than its own.
    StaleImage: Server,
    /// An answer that is joined from the parts of several slots has only the first part.
    LostPart: Server,
    /// Markers are sent before the decision is durable.
    EarlyMarker: Server,
    /// Some markers are answered without being written.
    LostMarker: Server,
    /// Partitions do not ask before the first batch of a transaction.
    UnaskedAppend: Server,
    /// Partitions and groups append after a yes that no longer counts.
    StaleYes: Server,
    /// Committed records are read beyond the first open transaction.
    StableTooFar: Server,
    /// Offsets of a transaction are committed at once.
    PendingShown: Server,
    /// Compaction keeps the records of aborted transactions.
    AbortedKept: Server,
    /// The state of a transactional id changes without a record.
    UnwrittenId: Server,
    /// A change of ACLs is answered before all shards have it.
    EarlyAccess: Server,
    /// A connection keeps the permissions that it had first.
    OldPermissions: Server,
    /// The refusal of a topic has its id.
    TellingRefusal: Server,
    /// A connection is served before its throttle time is over.
    Unmuted: Server,
    /// Bytes beyond a quota are not throttled.
    Unlimited: Server,
    /// Locks on records of share groups do not end.
    EndlessLock: Server,
    /// Acknowledgements of share groups are answered before their record is flushed.
    EarlyAcknowledgement: Server,
    /// Some changes of share partitions are not written.
    LostUpdate: Server,
    /// The start offset in some records of share state is one too far.
    ShareStartTooFar: Server,
    /// Records that a member has acquired are given to others.
    DoubleGrant: Server,
    /// The records of a member are not released when its session ends.
    ForgottenRelease: Server,
    /// Tasks of streams groups are free before their owners have given them up.
    EarlyTask: Server,
    /// The epoch of streams groups is not bumped.
    StuckEpoch: Server,
    /// Recovery skips the target of some members of streams groups.
    LostTarget: Server,
    /// Compaction of user topics drops the newest records, too.
    NewestLost: Server,
    /// A slice of an answer has one file more than may be open.
    LargeSlice: Server,
    /// The partitions of a fetch that is answered stay in the share of its address.
    ShareKept: Server,
}

/// The fault is not in this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotBuiltIn(Fault);

impl Fault {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| kebab(fault.variant()).eq(name.chars()))
    }

    /// Injects the fault into this process, in place of any other. The simulator passes a fault of
    /// the disk to the disk itself.
    ///
    /// # Errors
    /// This build does not have the fault.
    pub fn inject(self) -> Result<(), NotBuiltIn> {
        match self.place() {
            Place::Disk => Ok(()),
            Place::Server => switch::set(self),
        }
    }

    /// Whether this fault of the server is injected.
    #[inline]
    pub fn is_injected(self) -> bool {
        switch::is(self)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        kebab(self.variant()).try_for_each(|letter| f.write_char(letter))
    }
}

impl fmt::Display for NotBuiltIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} needs a build with --features injected-faults", self.0)
    }
}

/// `LostTombstone` as `lost-tombstone`.
fn kebab(name: &str) -> impl Iterator<Item = char> {
    name.char_indices().flat_map(|(at, letter)| {
        let dash = (at > 0 && letter.is_ascii_uppercase()).then_some('-');
        dash.into_iter().chain([letter.to_ascii_lowercase()])
    })
}

#[cfg(feature = "injected-faults")]
mod switch {
    use super::{Fault, NotBuiltIn};
    use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// Zero for none, and otherwise one more than the place of the fault in the table.
    static INJECTED: AtomicU8 = AtomicU8::new(0);

    const _: () = assert!(Fault::ALL.len() < u8::MAX as usize, "the switch is one byte");

    pub(super) fn set(fault: Fault) -> Result<(), NotBuiltIn> {
        INJECTED.store(fault as u8 + 1, Relaxed);
        Ok(())
    }

    #[inline]
    pub(super) fn is(fault: Fault) -> bool {
        INJECTED.load(Relaxed) == fault as u8 + 1
    }
}

#[cfg(not(feature = "injected-faults"))]
mod switch {
    use super::{Fault, NotBuiltIn};

    pub(super) fn set(fault: Fault) -> Result<(), NotBuiltIn> {
        Err(NotBuiltIn(fault))
    }

    #[inline]
    pub(super) const fn is(_: Fault) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    #[test]
    fn a_fault_is_found_by_its_name() {
        assert_eq!(Fault::ShareStartTooFar.to_string(), "share-start-too-far");
        assert!(Fault::ALL.iter().all(|fault| Fault::named(&fault.to_string()) == Some(*fault)));
        assert_eq!(Fault::named("EarlyWrite"), None);
        assert_eq!(Fault::named("early-writes"), None);
    }

    #[test]
    fn a_fault_of_the_disk_is_in_each_build() {
        assert_eq!(Fault::SkippedSync.inject(), Ok(()));
    }

    #[cfg(feature = "injected-faults")]
    #[test]
    fn the_last_injected_fault_is_the_only_one() {
        for fault in Fault::ALL.iter().copied().filter(|it| it.place() == Place::Server) {
            fault.inject().unwrap();
            let injected = Fault::ALL.iter().copied().filter(|it| it.is_injected());
            assert!(injected.eq([fault]));
        }
    }

    #[cfg(not(feature = "injected-faults"))]
    #[test]
    fn a_build_without_faults_refuses_them() {
        let refused = Fault::EarlyAnswer.inject().unwrap_err().to_string();
        assert_eq!(refused, "early-answer needs a build with --features injected-faults");
        assert!(Fault::ALL.iter().all(|fault| !fault.is_injected()));
    }
}
