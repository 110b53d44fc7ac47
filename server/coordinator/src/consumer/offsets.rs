//! Whether a consumer group allows offsets to be committed, fetched or deleted.

use super::ConsumerGroup;
use super::member::Member;
use crate::config::Config;
use crate::context::Topics;
use crate::offsets::{Commit, is_metadata_too_large};
use muster_codec::messages::OffsetCommitRequest;
use muster_codec::{ErrorCode, Uuid};

/// The first version of OffsetCommit for members of the consumer protocol.
const CONSUMERS_FROM: i16 = 9;

/// The first version of TxnOffsetCommit that knows STALE_MEMBER_EPOCH.
const TRANSACTIONAL_STALE_FROM: i16 = 6;

impl ConsumerGroup {
    /// Accepts or refuses a commit. A member that sends an older epoch than its own may commit for
    /// partitions that it has owned since that epoch or before (KIP-1251); any other partition
    /// refuses the whole commit. In a transaction a client need not name a member.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH; ILLEGAL_GENERATION for a member
    /// of the classic protocol, and in older transactional commits.
    pub(crate) fn accept_commit(
        &self,
        config: &Config,
        topics: &dyn Topics,
        kind: Commit,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let epoch = request.generation_id_or_member_epoch;
        if epoch < 0 && self.is_empty() || kind.is_transactional() && names_no_member(request) {
            return Ok(());
        }
        let member = self.members.get(&request.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if !member.is_classic() && is_too_old_for_consumers(kind) {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if epoch == member.current.epoch {
            return Ok(());
        }
        let mut partitions = request.topics.iter().flat_map(|topic| {
            let topic_id = if kind.by_id() {
                topics.name(topic.topic_id).map(|_| topic.topic_id)
            } else {
                Some(topics.id(&topic.name).unwrap_or(Uuid::ZERO))
            };
            let taken = topic.partitions.iter().filter(|partition| {
                !is_metadata_too_large(config, partition.committed_metadata.as_deref())
            });
            taken.filter_map(move |it| Some((topic_id?, it.partition_index)))
        });
        let is_newer = epoch > member.current.epoch;
        if is_newer || !partitions.all(|(id, index)| has_owned_since(member, id, index, epoch)) {
            Err(stale_commit(kind, member))
        } else {
            Ok(())
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
}

fn names_no_member(request: &OffsetCommitRequest<'_>) -> bool {
    request.generation_id_or_member_epoch == -1
        && request.member_id.is_empty()
        && request.group_instance_id.is_none()
}

fn is_too_old_for_consumers(kind: Commit) -> bool {
    matches!(kind, Commit::Plain { version } if version < CONSUMERS_FROM)
}

fn stale_commit(kind: Commit, member: &Member) -> ErrorCode {
    match kind {
        Commit::Transactional { version } if version < TRANSACTIONAL_STALE_FROM => {
            ErrorCode::IllegalGeneration
        }
        Commit::Plain { .. } | Commit::Transactional { .. } => stale(member),
    }
}

fn has_owned_since(member: &Member, topic_id: Uuid, partition: i32, epoch: i32) -> bool {
    let current = &member.current;
    let since = current.assigned.epoch(&topic_id, partition);
    let since = since.or_else(|| current.revoking.epoch(&topic_id, partition));
    since.is_some_and(|since| since <= epoch)
}

fn stale(member: &Member) -> ErrorCode {
    if member.is_classic() { ErrorCode::IllegalGeneration } else { ErrorCode::StaleMemberEpoch }
}
