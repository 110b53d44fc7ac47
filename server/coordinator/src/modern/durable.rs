//! The durable state of a group as records, like a compacted log.

use super::kind::Kind;
use super::members::Slot;
use super::target::INITIAL_EPOCH;
use super::{Draft, Group};
use crate::turn::Turn;
use muster_codec::records::GroupRecord;

impl<K: Kind> Group<K> {
    pub(crate) fn durable_records(&self, out: &mut Draft<'_>) {
        self.records_by(&self.members.slots_by_id(), out);
    }

    /// Like [`Self::durable_records`], with the members in the order in which they joined. Sessions
    /// that start or expire at the same time do so in this order.
    pub(crate) fn records_by_age(&self, out: &mut Draft<'_>) {
        self.records_by(&self.members.slots_by_age(), out);
    }

    fn records_by(&self, slots: &[&Slot<K>], out: &mut Draft<'_>) {
        for slot in slots {
            if let Some(member) = &slot.member {
                out.push(K::member_record(&self.id, &slot.id, &member.profile));
            }
        }
        let fields = K::epoch_fields(self);
        out.push(K::epoch_record(&self.id, self.epoch, self.metadata_hash, &fields));
        for slot in slots.iter().filter(|slot| slot.has_target) {
            let Some(number) = self.members.slot_number(&slot.id) else { continue };
            out.push(K::target_record(&self.id, &slot.id, self.target.of(number)));
        }
        if self.target.epoch > INITIAL_EPOCH || self.target.timestamp > 0 {
            let (epoch, timestamp) = (self.target.epoch, self.target.timestamp);
            out.push(K::target_epoch_record(&self.id, epoch, timestamp));
        }
        for slot in slots {
            if let Some(member) = &slot.member {
                out.push(K::current_record(&self.id, &slot.id, &member.current));
            }
        }
        K::own_records(self, out);
    }

    /// The tombstones of a group, by member id. Tombstones of a member are written with the id that
    /// `rename` returns for it.
    pub(crate) fn tombstones<'g>(
        &'g self,
        draft: &mut Draft<'_>,
        rename: impl Fn(&'g str) -> &'g str,
    ) {
        let slots = self.members.slots_by_id();
        let ids = slots.iter().filter(|slot| slot.member.is_some()).map(|slot| rename(&slot.id));
        draft.extend(ids.clone().map(|it| K::current_tombstone(&self.id, it)));
        draft.extend(ids.clone().map(|it| K::target_tombstone(&self.id, it)));
        draft.push(K::target_epoch_tombstone(&self.id));
        draft.extend(ids.map(|it| K::member_tombstone(&self.id, it)));
        K::group_tombstones(self, draft);
    }

    /// Writes the tombstones of the group.
    pub(crate) fn write_tombstones(&self, turn: &mut Turn<'_, '_>) {
        let mut draft = Draft::new();
        self.tombstones(&mut draft, |member_id| member_id);
        turn.write_all(draft);
    }

    /// The tombstones of a member, in Kafka's order.
    pub(crate) fn member_tombstones(group_id: &str, member_id: &str) -> [GroupRecord<'static>; 3] {
        [
            K::current_tombstone(group_id, member_id),
            K::target_tombstone(group_id, member_id),
            K::member_tombstone(group_id, member_id),
        ]
    }
}
