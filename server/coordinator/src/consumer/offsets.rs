//! Whether a consumer group allows offsets to be committed, fetched or deleted; its tombstones.

use super::member::Member;
use super::{ConsumerGroup, records};
use crate::config::Config;
use crate::context::Topics;
use crate::modern::Draft;
use crate::offsets::{TOPIC_IDS_FROM, is_metadata_too_large};
use muster_codec::messages::OffsetCommitRequest;
use muster_codec::{ErrorCode, Uuid};

/// The first version of OffsetCommit for members of the consumer protocol.
const CONSUMERS_FROM: i16 = 9;

impl ConsumerGroup {
    /// Accepts or refuses a commit. A member that sends an older epoch than its own may commit for
    /// partitions that it has owned since that epoch or before (KIP-1251); any other partition
    /// refuses the whole commit.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH; ILLEGAL_GENERATION for a member
    /// of the classic protocol.
    pub(crate) fn accept_commit(
        &self,
        config: &Config,
        topics: &dyn Topics,
        api_version: i16,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let epoch = request.generation_id_or_member_epoch;
        if epoch < 0 && self.is_empty() {
            return Ok(());
        }
        let member = self.members.get(&request.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if !member.is_classic() && api_version < CONSUMERS_FROM {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if epoch == member.current.epoch {
            return Ok(());
        }
        let mut partitions = request.topics.iter().flat_map(|topic| {
            let topic_id = match api_version >= TOPIC_IDS_FROM {
                true => topics.name(topic.topic_id).map(|_| topic.topic_id),
                false => Some(topics.id(&topic.name).unwrap_or(Uuid::ZERO)),
            };
            let taken = topic.partitions.iter().filter(|partition| {
                !is_metadata_too_large(config, partition.committed_metadata.as_deref())
            });
            taken.filter_map(move |it| Some((topic_id?, it.partition_index)))
        });
        let is_newer = epoch > member.current.epoch;
        match is_newer || !partitions.all(|(id, index)| has_owned_since(member, id, index, epoch)) {
            true => Err(stale(member)),
            false => Ok(()),
        }
    }

    /// Whether a member may fetch offsets. Clients that use the group for offsets only always may.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; ILLEGAL_GENERATION for a member of the classic
    /// protocol.
    pub(crate) fn validate_fetch(
        &self,
        member_id: Option<&str>,
        epoch: i32,
    ) -> Result<(), ErrorCode> {
        if member_id.is_none() && epoch < 0 {
            return Ok(());
        }
        let member = member_id.and_then(|it| self.members.get(it));
        let member = member.ok_or(ErrorCode::UnknownMemberId)?;
        if epoch == member.current.epoch { Ok(()) } else { Err(stale(member)) }
    }

    /// Tombstones for the whole group. `rename` maps a member to the id that its records have by
    /// then.
    pub(crate) fn tombstones<'g>(
        &'g self,
        draft: &mut Draft<'_>,
        rename: impl Fn(&'g str) -> &'g str,
    ) {
        let slots = self.members.slots_by_id();
        let ids = slots.iter().filter(|slot| slot.member.is_some()).map(|slot| rename(&slot.id));
        draft.extend(ids.clone().map(|it| records::current_tombstone(&self.id, it)));
        draft.extend(ids.clone().map(|it| records::target_tombstone(&self.id, it)));
        draft.push(records::target_metadata_tombstone(&self.id));
        draft.extend(ids.map(|it| records::member_tombstone(&self.id, it)));
        let resolved = self.own.regexes.all_resolved();
        draft.extend(resolved.map(|(regex, _)| records::regex_tombstone(&self.id, regex)));
        draft.push(records::partition_metadata_tombstone(&self.id));
        draft.push(records::group_tombstone(&self.id));
    }
}

fn has_owned_since(member: &Member, topic_id: Uuid, partition: i32, epoch: i32) -> bool {
    let current = &member.current;
    let since = current.assigned.epoch(topic_id, partition);
    let since = since.or_else(|| current.revoking.epoch(topic_id, partition));
    since.is_some_and(|since| since <= epoch)
}

fn stale(member: &Member) -> ErrorCode {
    match member.is_classic() {
        true => ErrorCode::IllegalGeneration,
        false => ErrorCode::StaleMemberEpoch,
    }
}
