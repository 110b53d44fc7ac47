//! Lines of the log about reads that failed: each names the partition, the file and the place.

use super::Shard;
use crate::net::ConnectionId;
use crate::partitions::{FailedRead, PartitionId, parse_directory};
use std::path::Path;

impl Shard {
    pub(super) fn log_failed_reads(&mut self, failed: &[FailedRead]) {
        for FailedRead { of, reason } in failed {
            let of = of.map(|id| format!(" of {}", self.in_words(id))).unwrap_or_default();
            let words = format_args!("a read{of} failed: {reason}");
            self.errors.log(self.times.now, "read", words);
        }
    }

    /// Logs that a file could not be read while an answer with its bytes was being sent. As the
    /// answer's length was sent before, it cannot be completed, and the connection is closed.
    pub(super) fn stream_failed(&mut self, connection: ConnectionId, reason: &str) {
        let files = self.clients.streamed_files(connection);
        files.iter().for_each(|file| self.partitions.not_sent(*file));
        let first = files.first().and_then(|file| self.partitions.held_path(*file));
        let path = first.unwrap_or_default();
        let of = partition_of(&path).map(|id| format!(" of {}", self.in_words(id)));
        let (of, path) = (of.unwrap_or_default(), path.display());
        let words = format_args!("{path}{of} or a file sent with it could not be read: {reason}");
        self.errors.log(self.times.now, "stream", words);
        let reason = "a file of its answer could not be read".to_owned();
        self.clients.close(connection, reason, &mut self.commands);
    }

    /// A partition by the name of its topic, or by the id if the topic is gone.
    fn in_words(&self, PartitionId { topic, index }: PartitionId) -> String {
        match self.broker.image().topic_by_id(topic) {
            Some(topic) => format!("{}-{index}", topic.name),
            None => format!("{topic}-{index}"),
        }
    }
}

/// The partition whose directory has a file.
fn partition_of(file: &Path) -> Option<PartitionId> {
    parse_directory(file.parent()?.file_name()?.to_str()?)
}
