//! Start-up: reads what is on disk of each partition. The only file here that touches the file
//! system; what the bytes mean is for [`PartitionRecovery`].

use super::layout;
use super::partition_set::PartitionId;
use super::producers::{Producers, Sequenced, Stored};
use muster_codec::record_batch::BatchHeader;
use muster_storage::partition_log::{START_OFFSET_FILE, partition_files};
use muster_storage::{FileOp, PartitionError, PartitionRecovery, SegmentSource};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a partition's directory holds.
#[derive(Debug)]
pub(super) struct Found {
    pub recovery: PartitionRecovery,
    /// The file that remembers the log start offset; empty if there is none.
    pub start_offset: Vec<u8>,
    pub producers: Producers,
}

/// The partitions that have a directory. It may be about to go, if the topic has.
pub(super) fn on_disk(data: &Path) -> io::Result<Vec<PartitionId>> {
    let names = names(&data.join(layout::TOPICS))?;
    Ok(names.iter().filter_map(|name| layout::parse_directory(name)).collect())
}

/// Reads the directory of a partition.
pub(super) fn read(data: &Path, id: PartitionId, now: i64) -> Result<Found, PartitionError> {
    read_partition(&data.join(layout::directory(id)), now)
}

/// Reads a partition as a start does: whether its end is torn.
///
/// # Errors
/// What keeps a server from starting.
pub(crate) fn recovers_torn(directory: &Path) -> Result<bool, PartitionError> {
    Ok(read_partition(directory, 0)?.recovery.is_torn())
}

fn read_partition(directory: &Path, now: i64) -> Result<Found, PartitionError> {
    let segments = partition_files(names(directory)?);
    let mut recovery = PartitionRecovery::new(segments.len());
    let mut producers = Producers::default();
    for (base_offset, name) in segments {
        let source = Segment::open(&directory.join(name))?;
        recovery
            .segment(base_offset, &source, now, |header| replay(&mut producers, now, header))?;
    }
    let start_offset = if_there(fs::read(directory.join(START_OFFSET_FILE)))?.unwrap_or_default();
    Ok(Found { recovery, start_offset, producers })
}

/// The names in a directory, none if it is not there.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let Some(entries) = if_there(fs::read_dir(directory))? else { return Ok(Vec::new()) };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn if_there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

struct Segment {
    file: File,
    len: u64,
}

impl Segment {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

impl SegmentSource for Segment {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

fn replay(producers: &mut Producers, now: i64, header: &BatchHeader) {
    let Some(sequenced) = Sequenced::of(header) else { return };
    let (base_offset, last_offset) = (header.base_offset, header.last_offset());
    let stored = Stored { base_offset, last_offset, timestamp: header.max_timestamp };
    producers.appended(now, &sequenced, stored);
}

/// Removes what a topic that is gone left behind.
pub(super) fn removal(id: PartitionId) -> FileOp {
    FileOp::RemoveDir { path: layout::directory(id) }
}
