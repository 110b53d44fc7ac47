//! A shard's log without a server: at startup and in tools. It performs its file operations one
//! after the other, with the standard library.

use crate::directories;
use crate::shard::LogSizes;
use crate::topics;
use muster_storage::limits::SEGMENT_BYTES_DEFAULT;
use muster_storage::{FileDone, FileId, FileOp, LogConfig, Recovered, ShardLog};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The config of a shard's log outside a server: no linger and no compaction.
pub fn log_config(dir: PathBuf, log_id: u64, block_bytes: u32, sizes: LogSizes) -> LogConfig {
    let segment_bytes = sizes.segment_bytes.unwrap_or(SEGMENT_BYTES_DEFAULT);
    LogConfig {
        dir,
        log_id,
        block_bytes,
        operation_bytes_max: sizes.operation_bytes_max,
        open_bytes_max: sizes.open_bytes_max,
        topics: topics::RULES,
        ..LogConfig::with_segments(segment_bytes)
    }
}

/// A shard log and its open files.
#[derive(Debug)]
pub struct OfflineLog {
    pub log: ShardLog,
    data: PathBuf,
    files: HashMap<FileId, File>,
}

impl OfflineLog {
    pub fn new(data: PathBuf, config: LogConfig) -> Self {
        Self::open(data, config, Recovered::default())
    }

    /// Opens a log that continues the recovered log.
    pub fn open(data: PathBuf, config: LogConfig, recovered: Recovered) -> Self {
        Self::of(data, ShardLog::new(config, recovered))
    }

    /// Wraps a log, which may have been written to before.
    pub fn of(data: PathBuf, log: ShardLog) -> Self {
        Self { log, data, files: HashMap::new() }
    }

    /// Flushes, and creates the segment for the next block. Returns the position of the last
    /// operation.
    ///
    /// # Errors
    /// A file system operation failed.
    pub fn finish(&mut self) -> io::Result<u64> {
        while self.perform_due()? {}
        self.flush()?;
        Ok(self.log.progress().flushed())
    }

    /// Writes the accepted operations, and waits until they are durable.
    ///
    /// # Errors
    /// A file system operation failed.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.log.progress().flushed() < self.log.progress().accepted() {
            if !self.perform_due()? {
                return Err(io::Error::other("the log requests no operation, but is not durable"));
            }
        }
        self.sync()
    }

    /// Performs the operations that the log requests. Returns false if there were none.
    fn perform_due(&mut self) -> io::Result<bool> {
        let mut ops = Vec::new();
        self.log.poll(i64::MAX, &mut ops);
        let is_due = !ops.is_empty();
        for op in ops {
            if let Some(done) = self.perform(op)? {
                self.log.done(done);
            }
        }
        Ok(is_due)
    }

    fn sync(&self) -> io::Result<()> {
        self.files.values().try_for_each(File::sync_all)
    }

    fn perform(&mut self, op: FileOp) -> io::Result<Option<FileDone>> {
        let data = &self.data;
        Ok(match op {
            FileOp::Open { file, path, .. } => {
                let path = data.join(path);
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                let mut options = File::options();
                let opened = options.read(true).write(true).create(true).truncate(false);
                self.files.insert(file, opened.open(&path)?);
                directories::sync_names(data, &path)?;
                None
            }
            FileOp::Close { file } => {
                self.files.remove(&file).map(|file| file.sync_all()).transpose()?;
                None
            }
            FileOp::Write { token, file, offset, data } => {
                self.file(file)?.write_all_at(&data, offset)?;
                Some(FileDone::Written { token, buffer: data })
            }
            FileOp::Sync { token, file } => {
                self.file(file)?.sync_all()?;
                Some(FileDone::Synced { token })
            }
            FileOp::Read { token, file, offset, len } => {
                let mut bytes = vec![0; len as usize];
                self.file(file)?.read_exact_at(&mut bytes, offset)?;
                Some(FileDone::Read { token, data: bytes })
            }
            FileOp::Truncate { file, len } => self.file(file)?.set_len(len).map(|()| None)?,
            FileOp::Rename { token, from, to } => {
                directories::rename(&data.join(from), &data.join(to))?;
                token.map(|token| FileDone::Renamed { token })
            }
            FileOp::RemoveFile { path } => match fs::remove_file(data.join(path)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => None,
            },
            FileOp::MoveDir { from, to } => {
                directories::move_to(&data.join(from), &data.join(to)).map(|()| None)?
            }
            FileOp::Look { token, path, .. } => {
                let len = fs::metadata(data.join(path)).ok().map(|found| found.len());
                Some(FileDone::Looked { token, len })
            }
            FileOp::Keep { path, name, may_move } => {
                directories::keep(&data.join(path), &data.join(name), may_move).map(|()| None)?
            }
            FileOp::RemoveDir { path } => fs::remove_dir_all(data.join(path)).map(|()| None)?,
        })
    }

    fn file(&self, id: FileId) -> io::Result<&File> {
        self.files.get(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
