//! A consumer group as the records that produce it, as a compacted log would have them.

use super::member::Member;
use super::{ConsumerGroup, records};
use crate::modern::Draft;
use crate::modern::members::Slot;
use crate::modern::target::INITIAL_EPOCH;
use crate::text::owned;
use muster_codec::records::{ConsumerGroupKey, ConsumerGroupPartitionMetadataValue, GroupRecord};

impl ConsumerGroup {
    pub(crate) fn durable_records(&self, out: &mut Draft<'_>) {
        self.records_by(&self.members.slots_by_id(), out);
    }

    /// The same records in the order in which the members joined. Sessions that start or expire at
    /// the same time do so in that order.
    pub(crate) fn records_by_age(&self, out: &mut Draft<'_>) {
        self.records_by(&self.members.slots_by_age(), out);
    }

    fn records_by(&self, slots: &[&Slot<Member>], out: &mut Draft<'_>) {
        for slot in slots {
            if let Some(member) = &slot.member {
                out.push(records::member_metadata(&self.id, &slot.id, &member.profile));
            }
        }
        out.push(records::group_epoch(&self.id, self.epoch, self.metadata_hash));
        if self.own.has_partition_metadata {
            let key = ConsumerGroupKey { group_id: owned(&self.id) };
            let value = ConsumerGroupPartitionMetadataValue::default();
            out.push(GroupRecord::ConsumerGroupPartitionMetadata(key, Some(value)));
        }
        for slot in slots.iter().filter(|slot| slot.has_target) {
            let Some(number) = self.members.slot_number(&slot.id) else { continue };
            out.push(records::target(&self.id, &slot.id, self.target.of(number)));
        }
        if self.target.epoch > INITIAL_EPOCH || self.target.timestamp > 0 {
            let (epoch, timestamp) = (self.target.epoch, self.target.timestamp);
            out.push(records::target_metadata(&self.id, epoch, timestamp));
        }
        for slot in slots {
            if let Some(member) = &slot.member {
                out.push(records::current(&self.id, &slot.id, &member.current));
            }
        }
        let resolved = self.own.regexes.all_resolved();
        out.extend(resolved.map(|(regex, it)| records::resolved(&self.id, regex, it)));
    }
}
