//! OffsetCommit and TxnOffsetCommit: one record for each accepted offset.

use super::Offsets;
use crate::config::Config;
use crate::context::Topics;
use crate::limits::GROUP_OFFSETS_MAX;
use crate::pending::GroupPending;
use crate::pending::PENDING_BYTES;
use crate::text::owned;
use crate::turn::Turn;
use alloc::vec::Vec;
use muster_codec::messages::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use muster_codec::{ErrorCode, Str, Uuid};

/// The retention time in a commit for which the config decides the retention.
const DEFAULT_RETENTION: i64 = -1;

/// From this version on, OffsetCommit names topics by id.
const TOPIC_IDS_FROM: i16 = 10;

/// From this version on, TxnOffsetCommit names topics by id (KIP-1319).
const TRANSACTIONAL_TOPIC_IDS_FROM: i16 = 6;

/// From this version on, TxnOffsetCommit may answer COORDINATOR_LOAD_IN_PROGRESS.
const TRANSACTIONAL_LOADS_FROM: i16 = 2;

/// The request that commits offsets, with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    Plain {
        version: i16,
    },
    /// A commit in a transaction: TxnOffsetCommit.
    Transactional {
        version: i16,
    },
}

impl Commit {
    pub(crate) fn is_transactional(self) -> bool {
        matches!(self, Self::Transactional { .. })
    }

    /// Maps an error to one that this version may answer, like Kafka's `TxnOffsetCommitRequest`.
    pub(crate) fn error(self, error: ErrorCode) -> ErrorCode {
        match (self, error) {
            (Self::Transactional { version }, ErrorCode::CoordinatorLoadInProgress)
                if version < TRANSACTIONAL_LOADS_FROM =>
            {
                ErrorCode::CoordinatorNotAvailable
            }
            (_, error) => error,
        }
    }

    /// Whether the request names topics by their ids.
    pub(crate) fn by_id(self) -> bool {
        match self {
            Self::Plain { version } => version >= TOPIC_IDS_FROM,
            Self::Transactional { version } => version >= TRANSACTIONAL_TOPIC_IDS_FROM,
        }
    }
}

/// Answers a commit. `offsets` is an error if the group refuses the commit. The caller has checked
/// that the topics and partitions exist. If a topic id has become unknown since then, its offsets
/// are refused with UNKNOWN_TOPIC_ID.
pub(crate) fn commit<'r>(
    turn: &mut Turn<'_, 'r>,
    topics: &dyn Topics,
    kind: Commit,
    request: OffsetCommitRequest<'r>,
    offsets: Result<&Offsets, ErrorCode>,
) -> OffsetCommitResponse<'r> {
    let expire_timestamp = match request.retention_time_ms {
        DEFAULT_RETENTION => -1,
        retention => turn.wall.plus(retention),
    };
    let mut commit =
        Committing { kind, group_id: request.group_id, expire_timestamp, offsets, turn };
    let topics = request.topics.into_iter().map(|topic| {
        if kind.by_id() {
            commit.topic_by_id(topics, topic)
        } else {
            commit.topic_by_name(topics, topic)
        }
    });
    OffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

struct Committing<'c, 't, 'r> {
    kind: Commit,
    group_id: Str<'r>,
    expire_timestamp: i64,
    offsets: Result<&'c Offsets, ErrorCode>,
    turn: &'c mut Turn<'t, 'r>,
}

impl<'r> Committing<'_, '_, 'r> {
    fn topic_by_name(
        &mut self,
        topics: &dyn Topics,
        topic: OffsetCommitRequestTopic<'r>,
    ) -> OffsetCommitResponseTopic<'r> {
        let topic_id = topics.id(&topic.name).unwrap_or(Uuid::ZERO);
        let partitions = self.partitions(&topic.name, topic_id, topic.partitions);
        OffsetCommitResponseTopic { name: topic.name, partitions, ..Default::default() }
    }

    fn topic_by_id(
        &mut self,
        topics: &dyn Topics,
        topic: OffsetCommitRequestTopic<'r>,
    ) -> OffsetCommitResponseTopic<'r> {
        let topic_id = topic.topic_id;
        let partitions = match topics.name(topic_id) {
            Some(name) => self.partitions(&owned(name), topic_id, topic.partitions),
            None => refuse(topic.partitions, ErrorCode::UnknownTopicId),
        };
        OffsetCommitResponseTopic { topic_id, partitions, ..Default::default() }
    }

    fn partitions(
        &mut self,
        topic: &Str<'r>,
        topic_id: Uuid,
        partitions: Vec<OffsetCommitRequestPartition<'r>>,
    ) -> Vec<OffsetCommitResponsePartition> {
        let offsets = match self.offsets {
            Ok(offsets) => offsets,
            Err(error) => return refuse(partitions, error),
        };
        let answers = partitions.into_iter().map(|partition| {
            let partition_index = partition.partition_index;
            let error = self.refusal(offsets, topic, &partition).unwrap_or(ErrorCode::None);
            if error == ErrorCode::None {
                self.write(topic, topic_id, partition);
            }
            OffsetCommitResponsePartition { partition_index, error_code: error as i16 }
        });
        answers.collect()
    }

    /// The reason why an offset is refused. The bytes of an accepted pending offset are taken from
    /// the allowance.
    fn refusal(
        &mut self,
        offsets: &Offsets,
        topic: &str,
        partition: &OffsetCommitRequestPartition<'_>,
    ) -> Option<ErrorCode> {
        let metadata = partition.committed_metadata.as_deref();
        if is_metadata_too_large(self.turn.config, metadata) {
            return Some(ErrorCode::OffsetMetadataTooLarge);
        }
        let pending = self.turn.pending.of(&self.group_id).map_or(0, GroupPending::len);
        let full = offsets.len() + pending + self.turn.output.records.len() >= GROUP_OFFSETS_MAX
            && (self.kind.is_transactional()
                || offsets.get(topic, partition.partition_index).is_none());
        if full {
            return Some(ErrorCode::InvalidCommitOffsetSize);
        }
        let bytes = PENDING_BYTES + metadata.map_or(0, str::len);
        let fits = !self.kind.is_transactional() || self.turn.pending_bytes.take(bytes);
        (!fits).then_some(ErrorCode::CoordinatorNotAvailable)
    }

    fn write(
        &mut self,
        topic: &Str<'r>,
        topic_id: Uuid,
        partition: OffsetCommitRequestPartition<'r>,
    ) {
        let key = OffsetCommitKey {
            group: self.group_id.clone(),
            topic: topic.clone(),
            partition: partition.partition_index,
        };
        // A record with its own expiry is written in a version that has no topic id. So the state
        // gets no topic id now, either: the log must produce the same state later.
        let topic_id = if self.expire_timestamp == -1 { topic_id } else { Uuid::ZERO };
        let value = OffsetCommitValue {
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata: partition.committed_metadata.unwrap_or_default(),
            commit_timestamp: self.turn.wall.0,
            expire_timestamp: self.expire_timestamp,
            topic_id,
        };
        self.turn.events.offsets_committed += 1;
        self.turn.write(GroupRecord::OffsetCommit(key, Some(value)));
    }
}

fn refuse(
    partitions: Vec<OffsetCommitRequestPartition<'_>>,
    error: ErrorCode,
) -> Vec<OffsetCommitResponsePartition> {
    let refused = partitions.into_iter().map(|partition| OffsetCommitResponsePartition {
        partition_index: partition.partition_index,
        error_code: error as i16,
    });
    refused.collect()
}

/// Kafka compares the number of characters of a Java string, although the config's name says bytes.
pub(crate) fn is_metadata_too_large(config: &Config, metadata: Option<&str>) -> bool {
    let metadata = metadata.unwrap_or_default();
    let max = usize::try_from(config.offset_metadata_max_bytes).unwrap_or(0);
    metadata.len() > max && metadata.encode_utf16().count() > max
}
