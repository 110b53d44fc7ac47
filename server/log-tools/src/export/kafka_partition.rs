//! Writes a partition's directory in Kafka's format: segments, topic id, leader epochs. Indexes are
//! left out, because Kafka rebuilds them.

use muster_codec::Uuid;
use muster_codec::record_batch::BatchHeader;
use muster_server::Failure;
use muster_storage::partition_log::segment_file_name;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Kafka's default of `log.segment.bytes`.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug)]
pub(super) struct KafkaPartition {
    directory: PathBuf,
    topic: String,
    index: i32,
    start_offset: i64,
    /// The base offset of the active segment.
    base_offset: i64,
    size: u64,
    /// Bytes that are not written yet.
    buffer: Vec<u8>,
    /// The offset after the last record.
    next_offset: i64,
    records: u64,
}

impl fmt::Display for KafkaPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, index, records, start_offset, next_offset, .. } = self;
        write!(f, "{topic}-{index}: {records} records, offsets {start_offset} to {next_offset}")
    }
}

impl KafkaPartition {
    /// Creates the directory with one empty segment.
    ///
    /// # Errors
    /// The directory exists already, or cannot be written.
    pub(super) fn create(
        to: &Path,
        topic: &str,
        index: i32,
        topic_id: Uuid,
        base_offset: i64,
    ) -> Result<Self, Failure> {
        let directory = to.join(format!("{topic}-{index}"));
        fs::create_dir(&directory)
            .map_err(|error| format!("could not make {}: {error}", directory.display()))?;
        let partition = Self {
            directory,
            topic: topic.to_owned(),
            index,
            start_offset: base_offset,
            base_offset,
            size: 0,
            buffer: Vec::new(),
            next_offset: base_offset,
            records: 0,
        };
        let metadata = format!("version: 0\ntopic_id: {topic_id}\n");
        partition.write_new("partition.metadata", metadata.as_bytes())?;
        let epochs = format!("0\n1\n0 {base_offset}\n");
        partition.write_new("leader-epoch-checkpoint", epochs.as_bytes())?;
        partition.write_new(&segment_file_name(base_offset), b"")?;
        Ok(partition)
    }

    /// Sets the log start offset.
    pub(super) fn begin_at(&mut self, start_offset: i64) {
        self.start_offset = self.start_offset.max(start_offset);
        self.next_offset = self.next_offset.max(start_offset);
    }

    /// Begins a segment with this base offset.
    pub(super) fn begin_segment(&mut self, base_offset: i64) -> Result<(), Failure> {
        if base_offset == self.base_offset {
            return Ok(());
        }
        self.flush()?;
        (self.base_offset, self.size) = (base_offset, 0);
        self.write_new(&segment_file_name(base_offset), b"")
    }

    /// Appends a batch, whose offsets are already set.
    pub(super) fn push(&mut self, header: BatchHeader, batch: &[u8]) -> Result<(), Failure> {
        // Kafka's index of a segment has an offset as its distance from the base offset, in 31
        // bits.
        let is_far = header.last_offset() - self.base_offset > i64::from(i32::MAX);
        if is_far || self.size + batch.len() as u64 > SEGMENT_BYTES_MAX {
            self.begin_segment(header.base_offset)?;
        }
        self.buffer.extend_from_slice(batch);
        self.size += batch.len() as u64;
        self.next_offset = header.next_offset();
        self.records += u64::from(header.records_count.unsigned_abs());
        Ok(())
    }

    pub(super) fn flush_if_longer(&mut self, len: usize) -> Result<(), Failure> {
        if self.buffer.len() > len { self.flush() } else { Ok(()) }
    }

    /// Writes the buffered bytes.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let path = self.directory.join(segment_file_name(self.base_offset));
        let opened = File::options().append(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(&self.buffer));
        written.map_err(|error| format!("could not write {}: {error}", path.display()))?;
        self.buffer.clear();
        Ok(())
    }

    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    pub(super) fn index(&self) -> i32 {
        self.index
    }

    pub(super) fn start_offset(&self) -> i64 {
        self.start_offset
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.directory.join(name);
        let written = File::create_new(&path).and_then(|mut file| file.write_all(bytes));
        Ok(written.map_err(|error| format!("could not write {}: {error}", path.display()))?)
    }
}
