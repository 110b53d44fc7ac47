//! A consumer group as the records that would make it: what is left of it in a compacted log.

use super::member::Member;
use super::{ConsumerGroup, Draft, records};
use crate::modern::roster::Seat;
use crate::modern::target::INITIAL_EPOCH;
use crate::text::owned;
use muster_codec::records::{ConsumerGroupKey, ConsumerGroupPartitionMetadataValue, GroupRecord};

impl ConsumerGroup {
    pub(crate) fn durable_records(&self, out: &mut Draft<'_>) {
        self.records_by(&self.roster.seats_by_id(), out);
    }

    /// The same in the order in which members came: in that order sessions begin and end, of those
    /// that do so together.
    pub(crate) fn records_by_age(&self, out: &mut Draft<'_>) {
        self.records_by(&self.roster.seats_by_age(), out);
    }

    fn records_by(&self, seats: &[&Seat<Member>], out: &mut Draft<'_>) {
        for seat in seats {
            if let Some(member) = &seat.member {
                out.push(records::member_metadata(&self.id, &seat.id, member));
            }
        }
        out.push(records::group_epoch(&self.id, self.epoch, self.metadata_hash));
        if self.has_partition_metadata {
            let key = ConsumerGroupKey { group_id: owned(&self.id) };
            let value = ConsumerGroupPartitionMetadataValue::default();
            out.push(GroupRecord::ConsumerGroupPartitionMetadata(key, Some(value)));
        }
        for seat in seats.iter().filter(|seat| seat.is_promised) {
            let Some(number) = self.roster.seat_number(&seat.id) else { continue };
            out.push(records::target(&self.id, &seat.id, self.target.of(number)));
        }
        if self.target.epoch > INITIAL_EPOCH || self.target.timestamp > 0 {
            let (epoch, timestamp) = (self.target.epoch, self.target.timestamp);
            out.push(records::target_metadata(&self.id, epoch, timestamp));
        }
        for seat in seats {
            if let Some(member) = &seat.member {
                out.push(records::current(&self.id, &seat.id, &member.current));
            }
        }
        let resolved = self.regexes.all_resolved();
        out.extend(resolved.map(|(regex, it)| records::resolved(&self.id, regex, it)));
    }
}
