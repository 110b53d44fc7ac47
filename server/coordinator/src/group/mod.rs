//! The whole state of one group id: a group of any kind, and its offsets.

mod replay;

pub(crate) use replay::{durable_records, group_records, has_committed, replay_in};

use crate::changes::Changes;
use crate::classic::{self, ClassicGroup};
use crate::consumer::ConsumerGroup;
use crate::counters::{Counted, Gauges, Standing};
use crate::modern;
use crate::offsets::{Offsets, RetentionBase};
use crate::payers::Payers;
use crate::share::{self, ShareGroup};
use crate::streams::{self, StreamsGroup};
use crate::text::Text;
use crate::timers::Timers;
use crate::turn::Turn;
use alloc::boxed::Box;
use muster_codec::ErrorCode;
use muster_codec::consumer_protocol::PROTOCOL_TYPE;

/// A group, by its protocol.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives in an entry, which is boxed")]
pub(crate) enum Group {
    Classic(ClassicGroup),
    Consumer(Box<ConsumerGroup>),
    Share(Box<ShareGroup>),
    Streams(Box<StreamsGroup>),
}

/// Declares the kinds: each has a name, its number in a snapshot, and the name of its protocol.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, $type_name:expr;)*) => {
        /// The kind of a group.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($(#[$doc])* $kind = $number,)*
        }

        impl Kind {
            /// The kind with this number; None if there is none.
            pub(crate) fn of(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$kind),)*
                    _ => None,
                }
            }

            /// The name of the protocol in responses; None for offsets without a group.
            pub(crate) fn type_name(self) -> Option<&'static str> {
                match self {
                    $(Self::$kind => $type_name,)*
                }
            }
        }
    };
}

kinds! {
    /// Offsets without a group.
    None = 0, None;
    Classic = 1, Some("classic");
    Consumer = 2, Some("consumer");
    Share = 3, Some("share");
    Streams = 4, Some("streams");
}

impl Kind {
    /// The gauge that counts the empty groups of this kind.
    pub(crate) fn empty_groups(self, gauges: &mut Gauges) -> Option<&mut u64> {
        match self {
            Self::None => None,
            Self::Classic => Some(&mut gauges.classic_empty),
            Self::Consumer => Some(&mut gauges.consumer_empty),
            Self::Share => Some(&mut gauges.share_empty),
            Self::Streams => Some(&mut gauges.streams_empty),
        }
    }
}

/// The whole state of one group id. The offsets stay when a group of another kind replaces the
/// group.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: Text,
    pub(crate) group: Option<Group>,
    /// The group that will replace `group`. A handler stores it here until the handler's records
    /// are replayed.
    pub(crate) successor: Option<Box<Group>>,
    pub(crate) offsets: Offsets,
    /// The position of the last record of this group.
    pub(crate) written_at: u64,
    /// The group's present contribution to the gauges.
    pub(crate) counted: Counted,
    /// The number of the last list of [`Changes`] to which the group's id was added, or 0.
    pub(crate) noted: u32,
}

// For 640 bytes jemalloc takes 640, but for eight bytes more it would take 768. A shard may have
// 1,000,000 entries.
const _: () = assert!(size_of::<Entry>() <= 640);

/// Processing this many partitions, or this many bytes of texts, takes as long as one member.
const PARTITIONS_PER_ITEM: usize = 4;
const BYTES_PER_ITEM: usize = 1_024;

impl Entry {
    /// An entry without a group.
    pub(crate) fn new(id: Text) -> Self {
        let offsets = Offsets::default();
        Self {
            id,
            group: None,
            successor: None,
            offsets,
            written_at: 0,
            counted: Counted::default(),
            noted: 0,
        }
    }

    /// Updates the gauges after a change of the group. Returns whether they changed.
    #[inline]
    pub(crate) fn recount(&mut self, gauges: &mut Gauges, payers: &mut Payers) -> bool {
        let before = self.counted;
        let mut now = self.group.as_ref().map_or(Counted::default(), Group::counted);
        now.payer = before.payer;
        if now.member_bytes != before.member_bytes {
            let bytes = [before, now].map(|it| it.member_bytes as usize);
            now.payer = payers.changed(before.payer, bytes[0], bytes[1]);
        }
        self.counted = now;
        gauges.exchange(before, now);
        before != now
    }

    /// Called when a record of the group is applied.
    #[inline]
    pub(crate) fn written(&mut self, position: u64, changes: &mut Changes) {
        self.written_at = position;
        self.changed(changes);
    }

    #[inline]
    pub(crate) fn changed(&mut self, changes: &mut Changes) {
        changes.note(&self.id, &mut self.noted);
    }

    /// Whether the gauges count a group for this entry.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted.standing.is_some()
    }

    /// The size of the group without its offsets, in items. Scans and checks count their work in
    /// items.
    pub(crate) fn group_items(&self) -> usize {
        self.group.as_ref().map_or(0, Group::items)
    }

    /// The size of the group in items. Each offset is one item.
    pub(crate) fn items(&self) -> usize {
        self.group_items() + self.offsets.len()
    }

    /// Whether the entry has neither group nor offsets. If so, it may be removed.
    pub(crate) fn is_vacant(&self) -> bool {
        self.group.is_none() && self.successor.is_none() && self.offsets.is_empty()
    }
}

impl Group {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Classic(_) => Kind::Classic,
            Self::Consumer(_) => Kind::Consumer,
            Self::Share(_) => Kind::Share,
            Self::Streams(_) => Kind::Streams,
        }
    }

    /// The number of members. In a classic group, only the members in its last record count.
    pub(crate) fn members(&self) -> usize {
        match self {
            Self::Classic(group) => group.durable().map_or(0, |durable| durable.members.len()),
            Self::Consumer(group) => group.len(),
            Self::Share(group) => group.len(),
            Self::Streams(group) => group.len(),
        }
    }

    /// The size in items. One item is a member, or [`PARTITIONS_PER_ITEM`] assigned partitions, or
    /// [`BYTES_PER_ITEM`] bytes of profiles.
    fn items(&self) -> usize {
        let (assigned, bytes) = match self {
            Self::Classic(group) => (0, group.member_bytes()),
            Self::Consumer(group) => (group.assigned(), group.profile_bytes()),
            Self::Share(group) => (group.assigned(), group.profile_bytes()),
            Self::Streams(group) => (group.assigned(), group.member_bytes()),
        };
        self.members() + assigned / PARTITIONS_PER_ITEM + bytes / BYTES_PER_ITEM
    }

    /// The group's current contribution to the gauges.
    pub(crate) fn counted(&self) -> Counted {
        Counted {
            standing: self.standing(),
            payer: 0,
            members: self.members() as u32,
            member_bytes: self.member_bytes() as u32,
        }
    }

    fn standing(&self) -> Option<Standing> {
        match self {
            Self::Classic(group) => match group.state() {
                classic::state::State::Empty => Some(Standing::ClassicEmpty),
                classic::state::State::PreparingRebalance => {
                    Some(Standing::ClassicPreparingRebalance)
                }
                classic::state::State::CompletingRebalance => {
                    Some(Standing::ClassicCompletingRebalance)
                }
                classic::state::State::Stable => Some(Standing::ClassicStable),
                classic::state::State::Dead => None,
            },
            Self::Consumer(group) => Some(match group.state() {
                modern::State::Empty => Standing::ConsumerEmpty,
                modern::State::NotReady | modern::State::Assigning => Standing::ConsumerAssigning,
                modern::State::Reconciling => Standing::ConsumerReconciling,
                modern::State::Stable => Standing::ConsumerStable,
            }),
            Self::Share(group) if group.is_empty() => Some(Standing::ShareEmpty),
            Self::Share(_) => Some(Standing::ShareStable),
            Self::Streams(group) => Some(match group.state() {
                modern::State::Empty => Standing::StreamsEmpty,
                modern::State::NotReady => Standing::StreamsNotReady,
                modern::State::Assigning => Standing::StreamsAssigning,
                modern::State::Reconciling => Standing::StreamsReconciling,
                modern::State::Stable => Standing::StreamsStable,
            }),
        }
    }

    /// Bytes of the members' profiles.
    pub(crate) fn member_bytes(&self) -> usize {
        match self {
            Self::Classic(group) => group.member_bytes(),
            Self::Consumer(group) => group.member_bytes(),
            Self::Share(group) => group.member_bytes(),
            Self::Streams(group) => group.member_bytes(),
        }
    }

    /// The number of members, including members that are joining.
    pub(crate) fn members_and_pending(&self) -> usize {
        match self {
            Self::Classic(group) => group.members_and_pending(),
            Self::Consumer(group) => group.members_and_pending(),
            Self::Share(group) => group.members_and_pending(),
            Self::Streams(group) => group.members_and_pending(),
        }
    }

    /// When the group's state began, according to its record.
    pub(crate) fn recorded_at(&self) -> Option<i64> {
        match self {
            Self::Classic(group) => group.durable().map(|durable| durable.state_timestamp),
            Self::Consumer(_) | Self::Share(_) | Self::Streams(_) => None,
        }
        .filter(|at| *at != -1)
    }

    /// A hash of the counts over the members. 0 for a classic group, which does not update such
    /// counts with each record.
    pub(crate) fn count_hash(&self) -> u64 {
        match self {
            Self::Classic(_) => 0,
            Self::Consumer(group) => group.count_hash(),
            Self::Share(group) => group.count_hash(),
            Self::Streams(group) => group.count_hash(),
        }
    }

    /// The name of its state in responses.
    pub(crate) fn state_name(&self) -> &'static str {
        match self {
            Self::Classic(group) => group.state().name(),
            Self::Consumer(group) => group.state().name(),
            Self::Share(group) => group.share_state().name(),
            Self::Streams(group) => group.state().name(),
        }
    }

    /// The protocol type of its members; empty if no member ever joined.
    pub(crate) fn protocol_type(&self) -> &str {
        match self {
            Self::Classic(group) => group.protocol_type(),
            Self::Consumer(_) => PROTOCOL_TYPE,
            Self::Share(_) => share::PROTOCOL_TYPE,
            Self::Streams(_) => streams::PROTOCOL_TYPE,
        }
    }

    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        match self {
            Self::Classic(group) => group.is_subscribed_to(topic),
            Self::Consumer(group) => group.is_subscribed_to(topic),
            Self::Share(group) => group.is_subscribed_to(topic),
            Self::Streams(group) => group.reads(topic),
        }
    }

    /// Checks whether the group may be deleted.
    ///
    /// # Errors
    /// NON_EMPTY_GROUP. GROUP_ID_NOT_FOUND for a dead classic group.
    pub(crate) fn validate_delete(&self) -> Result<(), ErrorCode> {
        match self {
            Self::Classic(group) => group.validate_delete(),
            Self::Consumer(group) => group.validate_delete(),
            Self::Share(group) => group.validate_delete(),
            Self::Streams(group) => group.validate_delete(),
        }
    }

    /// # Errors
    /// NON_EMPTY_GROUP for a classic group whose members are not consumers: the topics that they
    /// use are not known. GROUP_ID_NOT_FOUND for a share group, which has no offsets.
    pub(crate) fn validate_offset_delete(&self) -> Result<(), ErrorCode> {
        match self {
            Self::Classic(group) => group.validate_offset_delete(),
            Self::Consumer(_) | Self::Streams(_) => Ok(()),
            Self::Share(_) => Err(ErrorCode::GroupIdNotFound),
        }
    }

    /// The time from which the retention of the group's offsets counts. None if the offsets do not
    /// expire in the group's present state.
    pub(crate) fn retention_base(&self) -> Option<RetentionBase> {
        match self {
            Self::Classic(group) => group.retention_base(),
            Self::Consumer(_) | Self::Streams(_) => Some(RetentionBase::Commit),
            Self::Share(_) => None,
        }
    }

    /// Whether groups of this kind have offsets. Share groups have none: an OffsetFetch treats a
    /// share group as unknown.
    pub(crate) fn has_offsets(&self) -> bool {
        match self {
            Self::Classic(_) | Self::Consumer(_) | Self::Streams(_) => true,
            Self::Share(_) => false,
        }
    }

    /// Called after a load, when the group's records are replayed. Starts the sessions.
    pub(crate) fn loaded(&mut self, turn: &mut Turn<'_, '_>) {
        match self {
            Self::Classic(group) => group.loaded(turn),
            Self::Consumer(group) => group.loaded(turn),
            Self::Share(group) => group.loaded(turn),
            Self::Streams(group) => group.loaded(turn),
        }
    }

    /// Answers the parked requests of a group that is removed. Their clients must join again.
    pub(crate) fn dismiss_all(&mut self, turn: &mut Turn<'_, '_>, error: ErrorCode) {
        match self {
            Self::Classic(group) => group.dismiss_all(turn, error),
            Self::Consumer(_) | Self::Share(_) | Self::Streams(_) => {}
        }
    }

    /// Cancels the timers of a group that was deleted.
    pub(crate) fn removed(&mut self, timers: &mut Timers) {
        match self {
            Self::Classic(group) => group.removed(timers),
            Self::Consumer(group) => group.removed(timers),
            Self::Share(group) => group.removed(timers),
            Self::Streams(group) => group.removed(timers),
        }
    }

    /// Writes the records that remove the group. The tombstones of its offsets must precede them.
    pub(crate) fn write_tombstones(&self, turn: &mut Turn<'_, '_>, group_id: &str) {
        match self {
            Self::Classic(_) => turn.write(classic::tombstone(group_id)),
            Self::Consumer(group) => group.write_tombstones(turn),
            Self::Share(group) => group.write_tombstones(turn),
            Self::Streams(group) => group.write_tombstones(turn),
        }
    }
}
