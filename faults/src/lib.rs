//! Injected faults: defects that the simulator has to find, to prove that its checks work. The
//! table below has a row for each.
//!
//! The code of a server fault asks whether it is injected: `Fault::LostTombstone.is_injected()`.
//! Only builds with the feature `injected-faults` can inject such faults. In all other builds the
//! answer is a constant false, and the code of the fault is compiled out.
#![no_std]
#![forbid(unsafe_code)]

use core::fmt::{self, Write as _};

/// Whether this build contains the code of the server's faults, so that they can be injected.
pub const ARE_BUILT_IN: bool = cfg!(feature = "injected-faults");

/// The component that contains the code of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The simulator's disk. Every build of the simulator has these faults.
    Disk,
    /// The storage or the server, in builds with the feature `injected-faults`.
    Server,
}

/// Declares the faults: a description, the name and the place of each.
macro_rules! faults {
    ($($(#[$doc:meta])+ $name:ident: $place:ident,)+) => {
        /// A fault. On the command line its name is in kebab case: `LostTombstone` is
        /// `lost-tombstone`.
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
    /// The disk reports a write as durable before it is.
    EarlyWrite: Disk,
    /// The disk acknowledges syncs without doing them.
    SkippedSync: Disk,
    /// The shard's thread blocks in calls that open or rename files.
    BlockingCall: Disk,
    /// No snapshot is written after damage was found in a shard's log.
    UnwrittenSnapshot: Server,
    /// Answers leave before the flush that they depend on.
    EarlyAnswer: Server,
    /// Recovery skips some tombstones.
    LostTombstone: Server,
    /// Recovery cuts off the last block of a segment, although the block is valid.
    WrongCut: Server,
    /// Some operations of groups are written but not applied to the live state, which then differs
    /// from the recovered state.
    ReplayDiffers: Server,
    /// Timers of groups do not fire.
    DeadTimer: Server,
    /// The buffered input of clients is not counted against the memory budget of a shard.
    OutsideAccount: Server,
    /// At startup a missing log is replaced by a new one.
    StartDeletes: Server,
    /// At startup a log is accepted although it has become shorter.
    SilentCut: Server,
    /// A long request is handled in one go instead of in slices.
    UnslicedScan: Server,
    /// Sessions expire by the clock, even if unread input may contain a heartbeat.
    ExpiryFirst: Server,
    /// A shard accepts cluster images that are older than its own.
    StaleImage: Server,
    /// An answer that combines the parts of several slots contains only the first part.
    LostPart: Server,
    /// Transaction markers are sent before the decision is durable.
    EarlyMarker: Server,
    /// Some markers are acknowledged without being written.
    LostMarker: Server,
    /// Partitions append the first batch of a transaction without asking its coordinator.
    UnaskedAppend: Server,
    /// Partitions and groups append although the coordinator's permission is no longer valid.
    StaleYes: Server,
    /// READ_COMMITTED fetches read beyond the first open transaction.
    StableTooFar: Server,
    /// The offsets of a transaction are visible before it is committed.
    PendingShown: Server,
    /// Compaction keeps the records of aborted transactions.
    AbortedKept: Server,
    /// The state of a transactional id changes without a record.
    UnwrittenId: Server,
    /// A change of ACLs is answered before all shards have it.
    EarlyAccess: Server,
    /// A connection keeps its first permissions after ACLs have changed.
    OldPermissions: Server,
    /// An error that denies access to a topic reveals the topic's id.
    TellingRefusal: Server,
    /// A connection is served before its throttle time is over.
    Unmuted: Server,
    /// Traffic above a quota is not throttled.
    Unlimited: Server,
    /// Acquisition locks on records of share groups never time out.
    EndlessLock: Server,
    /// Acknowledgements of share groups are confirmed before their record is flushed.
    EarlyAcknowledgement: Server,
    /// Some state changes of share partitions are not written.
    LostUpdate: Server,
    /// The start offset in some share-state records is one too high.
    ShareStartTooFar: Server,
    /// Records that one member has acquired are delivered to other members, too.
    DoubleGrant: Server,
    /// A member's acquired records are not released when its session ends.
    ForgottenRelease: Server,
    /// Streams tasks are assigned to new owners before the old owners have given them up.
    EarlyTask: Server,
    /// Every fourth bump of the epoch of a streams group is lost.
    StuckEpoch: Server,
    /// Recovery skips the target assignment of some members of streams groups.
    LostTarget: Server,
    /// Compaction of user topics drops even the newest record of a key.
    NewestLost: Server,
    /// A slice of an answer reads from more files than the limit allows: from one too many.
    LargeSlice: Server,
    /// An answered fetch still counts its partitions against the share of its client's address.
    ShareKept: Server,
}

/// This build does not contain the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotBuiltIn(Fault);

impl Fault {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| kebab(fault.variant()).eq(name.chars()))
    }

    /// Injects the fault into this process. It replaces a fault that was injected before. For a
    /// fault of the disk this does nothing, because the simulator passes such a fault to its disk.
    ///
    /// # Errors
    /// This build does not contain the fault.
    pub fn inject(self) -> Result<(), NotBuiltIn> {
        match self.place() {
            Place::Disk => Ok(()),
            Place::Server => switch::set(self),
        }
    }

    /// Whether this server fault is injected.
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

/// The kebab-case form of a name: `LostTombstone` becomes `lost-tombstone`.
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

    /// The index of the injected fault in the table, plus one; zero if there is none.
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
