//! The rebalances that are under way, and the events that the caller has not taken yet. All of it
//! is volatile.
//!
//! A handler notes the causes of a rebalance, its beginning and the partitions that move
//! ([`Noted`]). A rebalance ends with the replay of the record that settles the group. A group that
//! is read from the log has no rebalance.

use crate::context::Around;
use crate::counters::Standing;
use crate::event::{Causes, Event, EventBody, Moved, Rebalance, Rejection, event_name};
use crate::group::{Entry, Group};
use crate::noted::{EVENTS_MAX, Noted};
use crate::text::Text;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use hashbrown::HashMap;
use muster_codec::Wall;

/// The maximum bytes of clients and reasons that are stored for the causes of all rebalances under
/// way in a slot. Beyond this limit, further causes have only the ids of members.
pub(crate) const SAID_BYTES_MAX: usize = 64 << 10;

/// The rebalances of a slot's groups.
#[derive(Debug, Default)]
pub(crate) struct Rebalances {
    under_way: HashMap<Text, UnderWay>,
    /// The groups with a rebalance under way, by the time at which it began.
    by_beginning: BTreeSet<(i64, Text)>,
    /// The bytes of clients and reasons in all rebalances under way: [`Causes::said_bytes`].
    said_bytes: usize,
    events: Vec<Event>,
    /// The number of events that were dropped because too many were waiting.
    left_out: u64,
    /// The time of the last call.
    now: i64,
    wall: Wall,
}

/// A rebalance under way.
#[derive(Debug)]
struct UnderWay {
    began_ms: i64,
    began: Wall,
    epoch: i32,
    restarts: u32,
    causes: Causes,
    moved: Moved,
}

impl Rebalances {
    pub(crate) fn begin_call(&mut self, around: Around<'_>) {
        (self.now, self.wall) = (around.now, around.wall);
    }

    /// Notes that a group has refused a client. The group may not exist.
    pub(crate) fn note_rejection(
        &mut self,
        group_id: &str,
        entry: Option<&Entry>,
        rejection: Rejection,
    ) {
        let group_id = entry.map_or_else(|| event_name(group_id), |entry| entry.id.clone());
        self.push(group_id, entry, EventBody::Refused(rejection));
    }

    /// Applies the notes that a call on a group has made.
    pub(crate) fn note(&mut self, entry: &Entry, mut noted: Noted) {
        if noted.is_empty() {
            return;
        }
        self.left_out += noted.left_out;
        for removal in noted.removals {
            self.push(entry.id.clone(), Some(entry), EventBody::Removed(removal));
        }
        if let Some(epoch) = noted.epoch {
            self.begin(&entry.id, epoch);
        }
        if let Some(under_way) = self.under_way.get_mut(&entry.id) {
            if self.said_bytes + noted.causes.said_bytes() > SAID_BYTES_MAX {
                noted.causes.forget_said();
            }
            let said_before = under_way.causes.said_bytes();
            under_way.causes.append(noted.causes);
            self.said_bytes += under_way.causes.said_bytes() - said_before;
            under_way.moved.add(noted.moved);
        }
    }

    fn begin(&mut self, group_id: &Text, epoch: i32) {
        let (began_ms, began) = (self.now, self.wall);
        if !self.under_way.contains_key(group_id) {
            self.by_beginning.insert((began_ms, group_id.clone()));
        }
        let entry = self.under_way.entry(group_id.clone());
        let under_way = entry.and_modify(|it| it.restarts += 1).or_insert_with(|| UnderWay {
            began_ms,
            began,
            epoch,
            restarts: 0,
            causes: Causes::default(),
            moved: Moved::default(),
        });
        under_way.epoch = epoch;
    }

    /// Called after a record of a group is replayed. The record may end the group's rebalance.
    #[inline]
    pub(crate) fn replayed(&mut self, entry: &Entry) {
        if !self.under_way.is_empty() {
            self.settle(entry);
        }
    }

    fn settle(&mut self, entry: &Entry) {
        let Some(group) = &entry.group else { return };
        let under_way = self.under_way.get(&entry.id);
        let has_ended = |it: &UnderWay| is_settled(entry) && group.epoch() >= it.epoch;
        if !under_way.is_some_and(has_ended) {
            return;
        }
        let Some(under_way) = self.remove(&entry.id) else { return };
        let rebalance = self.rebalance(&under_way, entry, group.epoch());
        self.push(entry.id.clone(), Some(entry), EventBody::Rebalanced(rebalance));
    }

    fn rebalance(&self, under_way: &UnderWay, entry: &Entry, epoch: i32) -> Rebalance {
        Rebalance {
            epoch,
            began: under_way.began,
            took_ms: self.now.saturating_sub(under_way.began_ms),
            restarts: under_way.restarts,
            causes: under_way.causes.clone(),
            members: entry.counted.members,
            moved: under_way.moved,
        }
    }

    fn push(&mut self, group_id: Text, entry: Option<&Entry>, body: EventBody) {
        if self.events.len() >= EVENTS_MAX {
            self.left_out += 1;
            return;
        }
        let group = entry.and_then(|it| it.group.as_ref().or(it.successor.as_deref()));
        let protocol = group.and_then(|group| group.kind().type_name()).unwrap_or_default();
        self.events.push(Event { group_id, protocol, at: self.wall, body });
    }

    /// Forgets the rebalance of a group that is removed or rebuilt from its records.
    pub(crate) fn forget(&mut self, group_id: &str) {
        if !self.under_way.is_empty() {
            self.remove(group_id);
        }
    }

    fn remove(&mut self, group_id: &str) -> Option<UnderWay> {
        let (group_id, removed) = self.under_way.remove_entry(group_id)?;
        self.by_beginning.remove(&(removed.began_ms, group_id));
        self.said_bytes -= removed.causes.said_bytes();
        Some(removed)
    }

    /// The rebalance that is under way in a group, with its causes so far.
    pub(crate) fn of(&self, entry: &Entry) -> Option<Rebalance> {
        let under_way = self.under_way.get(&entry.id)?;
        Some(self.rebalance(under_way, entry, under_way.epoch))
    }

    pub(crate) fn take_events(&mut self) -> (Vec<Event>, u64) {
        (core::mem::take(&mut self.events), core::mem::take(&mut self.left_out))
    }

    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty() || self.left_out > 0
    }

    /// When the oldest rebalance under way began.
    pub(crate) fn oldest_began_ms(&self) -> Option<i64> {
        self.by_beginning.first().map(|(began_ms, _)| *began_ms)
    }

    /// Whether the indexes agree with the rebalances, for checks.
    #[expect(clippy::disallowed_methods, reason = "a sum does not depend on the order")]
    pub(crate) fn is_counted(&self) -> bool {
        let said = self.under_way.values().map(|it| it.causes.said_bytes());
        let is_begun =
            |(id, it): (&Text, &UnderWay)| self.by_beginning.contains(&(it.began_ms, id.clone()));
        said.sum::<usize>() == self.said_bytes
            && self.by_beginning.len() == self.under_way.len()
            && self.under_way.iter().all(is_begun)
    }

    /// The number of rebalances under way.
    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }
}

/// Whether the state of the group means that no rebalance is under way.
fn is_settled(entry: &Entry) -> bool {
    match entry.counted.standing {
        Some(
            Standing::ClassicEmpty
            | Standing::ClassicStable
            | Standing::ConsumerEmpty
            | Standing::ConsumerStable
            | Standing::ShareEmpty
            | Standing::ShareStable
            | Standing::StreamsEmpty
            | Standing::StreamsStable,
        ) => true,
        Some(
            Standing::ClassicPreparingRebalance
            | Standing::ClassicCompletingRebalance
            | Standing::ConsumerAssigning
            | Standing::ConsumerReconciling
            | Standing::StreamsNotReady
            | Standing::StreamsAssigning
            | Standing::StreamsReconciling,
        )
        | None => false,
    }
}

impl Group {
    /// The generation or group epoch.
    pub(crate) fn epoch(&self) -> i32 {
        match self {
            Self::Classic(group) => group.generation(),
            Self::Consumer(group) => group.epoch(),
            Self::Share(group) => group.epoch(),
            Self::Streams(group) => group.epoch(),
        }
    }
}
