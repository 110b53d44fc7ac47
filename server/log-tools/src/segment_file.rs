//! Reads a file of record batches, one batch at a time. Segments of partitions have the same format
//! in muster and in Kafka.

use crate::damage::Damage;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{Batch, BatchHeader, validate};
use muster_server::Failure;
use muster_storage::DamagedPart;
use std::fs::{self, File};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The longest batch that is read. It exceeds Kafka's largest request.
const BATCH_BYTES_MAX: usize = 256 << 20;

const MAGIC_AT: usize = 16;

#[derive(Debug)]
pub(super) struct SegmentFile {
    path: PathBuf,
    file: BufReader<File>,
    len: u64,
    /// The file position of the next batch.
    at: u64,
    next_offset: i64,
    batch: Vec<u8>,
}

/// A whole batch with a valid checksum, and its file position. Its records are not checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located<'a> {
    pub(super) at: u64,
    pub(super) batch: Batch<'a>,
}

impl SegmentFile {
    pub(super) fn open(path: PathBuf) -> Result<Self, Failure> {
        let failed = |error| format!("could not read {}: {error}", path.display());
        let file = File::open(&path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let file = BufReader::new(file);
        Ok(Self { path, file, len, at: 0, next_offset: 0, batch: Vec::new() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The offset after the last batch so far; 0 before the first.
    pub(super) fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Skips a damaged part. It begins where the next batch would begin.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn skip(&mut self, part: &DamagedPart) -> Result<(), Failure> {
        self.file.seek(SeekFrom::Start(part.bytes.end))?;
        (self.at, self.next_offset) = (part.bytes.end, part.offsets.end);
        Ok(())
    }

    /// Reads the next batch. None at the end of the file.
    ///
    /// # Errors
    /// [`Damage`], after which nothing more can be read, or an error of the file system.
    pub(super) fn next(&mut self) -> Result<Option<Located<'_>>, Failure> {
        let (at, left) = (self.at, self.len - self.at);
        if left == 0 {
            return Ok(None);
        }
        let header = self.header(left)?;
        let len = header.total_len();
        if len as u64 > left {
            return Err(self.damage("the file ends within a batch"));
        }
        if len > BATCH_BYTES_MAX {
            return Err(self.damage("a batch longer than the maximum"));
        }
        self.read(RECORD_BATCH_HEADER_BYTES, len)?;
        validate(&self.batch).map_err(|error| self.damage(error))?;
        if header.last_offset_delta < 0 || header.next_offset() <= header.base_offset {
            return Err(self.damage("the last offset is before the first"));
        }
        if header.base_offset < self.next_offset {
            return Err(self.damage("offsets go back"));
        }
        self.at += len as u64;
        self.next_offset = header.next_offset();
        Ok(Some(Located { at, batch: Batch { header, bytes: &self.batch } }))
    }

    /// Reads the header of the next batch; `left` bytes are left in the file.
    fn header(&mut self, left: u64) -> Result<BatchHeader, Failure> {
        if left < RECORD_BATCH_HEADER_BYTES as u64 {
            return Err(self.damage("the file ends within the header of a batch"));
        }
        self.read(0, RECORD_BATCH_HEADER_BYTES)?;
        if self.batch.iter().all(|byte| *byte == 0) {
            return Err(self.damage("zeros in the place of a batch"));
        }
        if matches!(self.batch[MAGIC_AT], 0 | 1) {
            return Err(
                self.damage("a message of a format before Kafka 0.11, which is not supported")
            );
        }
        BatchHeader::read(&self.batch).map_err(|error| self.damage(error))
    }

    /// Reads the next bytes of the file into `batch[from..to]`.
    fn read(&mut self, from: usize, to: usize) -> Result<(), Failure> {
        self.batch.resize(to, 0);
        self.file
            .read_exact(&mut self.batch[from..])
            .map_err(|error| format!("could not read {}: {error}", self.path.display()).into())
    }

    fn damage(&self, what: impl std::fmt::Display) -> Failure {
        Damage::new(&self.path, self.at, what).into()
    }
}

/// The names in a directory, sorted. Empty if it does not exist.
pub(super) fn names(directory: &Path) -> Result<Vec<String>, Failure> {
    let failed = |error| format!("could not read {}: {error}", directory.display());
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let name = |entry: std::io::Result<fs::DirEntry>| {
        Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned())
    };
    let mut names = entries.map(name).collect::<Result<Vec<_>, String>>()?;
    names.sort_unstable();
    Ok(names)
}
