//! Whether members may commit and fetch offsets of their group.

use super::Group;
use super::kind::Kind;
use super::member::Current;
use super::owned::Key;
use crate::config::Config;
use crate::context::Topics;
use crate::offsets::{Commit, is_metadata_too_large};
use muster_codec::ErrorCode;
use muster_codec::messages::{OffsetCommitRequest, OffsetCommitRequestTopic};

/// From this version on, OffsetCommit supports members of the newer protocols.
const MODERN_FROM: i16 = 9;

/// From this version on, TxnOffsetCommit may answer STALE_MEMBER_EPOCH.
const TRANSACTIONAL_STALE_FROM: i16 = 6;

/// A kind of groups whose members commit offsets.
pub(crate) trait Commits: Kind {
    /// Whether a member uses the classic protocol.
    fn is_classic(profile: &Self::Profile) -> bool;

    /// The key by which the partitions of a topic are assigned.
    fn key_of(
        group: &Group<Self>,
        topics: &dyn Topics,
        kind: Commit,
        topic: &OffsetCommitRequestTopic<'_>,
    ) -> Assigned<Self::Key>;
}

/// How the partitions of a topic in a commit are assigned.
pub(crate) enum Assigned<K> {
    By(K),
    Never,
    /// The topic does not exist. The commit of this topic alone is refused.
    Unknown,
}

impl<K: Commits> Group<K> {
    /// Checks whether a commit is allowed. If a member sends an epoch older than its own, it may
    /// commit only partitions that it has owned since that epoch (KIP-1251): any other partition
    /// makes the whole commit fail. Partitions of unknown topics, and partitions with too much
    /// metadata, are not checked here: each of them gets its own error later. In a transaction a
    /// client need not name a member.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH. ILLEGAL_GENERATION for a classic
    /// member, and in older versions of transactional commits.
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
        if !K::is_classic(&member.profile) && is_too_old(kind) {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if epoch == member.current.epoch {
            return Ok(());
        }
        let is_newer = epoch > member.current.epoch;
        let has_all = || {
            request.topics.iter().all(|topic| {
                let key = K::key_of(self, topics, kind, topic);
                let taken = topic.partitions.iter().filter(|partition| {
                    !is_metadata_too_large(config, partition.committed_metadata.as_deref())
                });
                let mut taken = taken.map(|it| it.partition_index);
                taken.all(|it| has_owned_since(&member.current, &key, it, epoch))
            })
        };
        if is_newer || !has_all() { Err(stale_commit::<K>(kind, &member.profile)) } else { Ok(()) }
    }

    /// Checks whether a member may fetch offsets. Clients that use the group only for offsets
    /// always may.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH. ILLEGAL_GENERATION for a classic member.
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
        if epoch == member.current.epoch { Ok(()) } else { Err(stale::<K>(&member.profile)) }
    }
}

fn names_no_member(request: &OffsetCommitRequest<'_>) -> bool {
    request.generation_id_or_member_epoch == -1
        && request.member_id.is_empty()
        && request.group_instance_id.is_none()
}

fn is_too_old(kind: Commit) -> bool {
    matches!(kind, Commit::Plain { version } if version < MODERN_FROM)
}

fn stale_commit<K: Commits>(kind: Commit, profile: &K::Profile) -> ErrorCode {
    match kind {
        Commit::Transactional { version } if version < TRANSACTIONAL_STALE_FROM => {
            ErrorCode::IllegalGeneration
        }
        Commit::Plain { .. } | Commit::Transactional { .. } => stale::<K>(profile),
    }
}

fn has_owned_since<K: Key>(
    current: &Current<K>,
    key: &Assigned<K>,
    partition: i32,
    epoch: i32,
) -> bool {
    let key = match key {
        Assigned::By(key) => key,
        Assigned::Never => return false,
        Assigned::Unknown => return true,
    };
    let since = current.assigned.epoch(key, partition);
    let since = since.or_else(|| current.revoking.epoch(key, partition));
    since.is_some_and(|since| since <= epoch)
}

fn stale<K: Commits>(profile: &K::Profile) -> ErrorCode {
    if K::is_classic(profile) { ErrorCode::IllegalGeneration } else { ErrorCode::StaleMemberEpoch }
}
