//! A committed offset, and its record.

use alloc::boxed::Box;
use muster_codec::records::OffsetCommitValue;
use muster_codec::{Str, Uuid};

/// A committed offset: the content of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    /// The leader epoch of the last consumed record; -1 if the client did not know it.
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: Box<str>,
    pub(crate) commit_timestamp: i64,
    /// When the offset expires; -1 unless the commit had its own retention (OffsetCommit v2-4).
    pub(crate) expire_timestamp: i64,
    /// Zero if the topic was unknown, or if the record is older than topic ids.
    pub(crate) topic_id: Uuid,
}

impl Committed {
    pub(crate) fn from_record(value: &OffsetCommitValue<'_>) -> Self {
        Self {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: Box::from(&*value.metadata),
            commit_timestamp: value.commit_timestamp,
            expire_timestamp: value.expire_timestamp,
            topic_id: value.topic_id,
        }
    }

    /// The offset as the value of its record.
    pub(crate) fn to_record(&self) -> OffsetCommitValue<'_> {
        OffsetCommitValue {
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            metadata: Str::Borrowed(&self.metadata),
            commit_timestamp: self.commit_timestamp,
            expire_timestamp: self.expire_timestamp,
            topic_id: self.topic_id,
        }
    }
}
