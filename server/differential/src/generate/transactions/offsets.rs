//! Requests that commit offsets in transactions.

use super::claim::Claim;
use super::{Draft, topic};
use crate::generate::offsets::committed;
use crate::world::{Member, World};
use muster_codec::messages::*;

pub(super) fn txn_offset_commit(world: &mut World) -> Draft {
    let claim = Claim::new(world);
    let versions = claim.versions(5);
    let (group_id, member) = committer(world);
    let request = TxnOffsetCommitRequest {
        transactional_id: claim.id.into(),
        group_id: group_id.into(),
        producer_id: claim.client.producer_id,
        producer_epoch: claim.client.epoch,
        generation_id_or_member_epoch: member.epoch,
        member_id: member.id.into(),
        group_instance_id: member.instance.map(Into::into),
        topics: world.some(
            2,
            |it: &TxnOffsetCommitRequestTopic<'_>| it.name.clone(),
            |world| {
                let topic = topic(world);
                let partitions = world.some(
                    2,
                    |it: &TxnOffsetCommitRequestPartition<'_>| it.partition_index,
                    |world| {
                        let one = committed(world, &topic);
                        TxnOffsetCommitRequestPartition {
                            partition_index: one.partition_index,
                            committed_offset: one.committed_offset,
                            committed_leader_epoch: one.committed_leader_epoch,
                            committed_metadata: one.committed_metadata,
                        }
                    },
                );
                TxnOffsetCommitRequestTopic {
                    name: topic.name.into(),
                    topic_id: topic.id,
                    partitions,
                }
            },
        ),
    };
    (request.into(), versions)
}

/// A group, with or without one of its members.
fn committer(world: &mut World) -> (String, Member) {
    if world.chance(70) {
        let epoch = if world.chance(5) { world.one(&[0, 1, -2]) } else { -1 };
        return (world.group_name(), Member { epoch, ..Member::default() });
    }
    let group = world.group_at();
    (world.groups[group].id.clone(), world.member(group))
}
