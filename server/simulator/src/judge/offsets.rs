//! The committed offsets of a server, compared with the books of raw clients.

use crate::client::Committer;
use crate::records::RecordBytes;
use muster_codec::records::GroupRecord;
use std::collections::BTreeMap;

/// Committed offsets, by group, topic and partition.
pub(crate) struct Offsets(BTreeMap<(String, String, i32), i64>);

impl Offsets {
    pub(crate) fn of(records: &[RecordBytes]) -> Self {
        let offset = |(key, value): &RecordBytes| match GroupRecord::read(key, value.as_deref()) {
            Ok(Some(GroupRecord::OffsetCommit(key, Some(value)))) => {
                let place = (key.group.into_owned(), key.topic.into_owned(), key.partition);
                Some((place, value.offset))
            }
            _ => None,
        };
        Self(records.iter().filter_map(offset).collect())
    }

    /// Checks the offsets against the book of a committer.
    ///
    /// # Errors
    /// The book excludes these offsets.
    pub(crate) fn check(&self, committer: &Committer) -> Result<(), String> {
        let group = committer.group().to_owned();
        let of = |(topic, partition): (&str, i32)| {
            self.0.get(&(group.clone(), topic.to_owned(), partition)).copied()
        };
        committer.check(&committer.places().map(of).collect::<Vec<_>>())
    }
}
