//! The log of a partition on an in-memory disk.

use super::Disk;
use muster_codec::record_batch::BatchBuilder;
use muster_storage::partition_log::{
    PartitionFiles, START_OFFSET_FILE, is_left_by_compaction, partition_files, segment_end,
    segment_file_name,
};
use muster_storage::{
    Appended, FileDone, FileOp, FileRange, FileToken, Find, Found, OpenFiles, PartitionError,
    PartitionLog, PartitionPlace, PartitionRecovery, RecoveredPartition, RecoveryPoint, Searched,
    TimestampSearch, TopicConfig, VisitedBatch,
};
use std::path::PathBuf;

pub const READ: FileToken = FileToken(1);
const SYNC: FileToken = FileToken(2);

/// A log, the files of its shard, and the disk.
pub struct World {
    pub log: PartitionLog,
    pub files: OpenFiles,
    pub disk: Disk,
    pub segment_bytes: u64,
    /// The facts that compaction needs.
    pub known: super::compacting::Known,
}

pub fn small_config() -> TopicConfig {
    TopicConfig { segment_bytes: 20_000, ..TopicConfig::default() }
}

pub fn place() -> PartitionPlace {
    PartitionPlace { dir: "topics/t-0".into(), number: 77, token_tag: 9 }
}

/// A batch with a record for each timestamp. Each value has `value_bytes` bytes.
pub fn batch(times: &[i64], value_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    for time in times {
        builder.append(*time, &(&b"key"[..], Some(&vec![1; value_bytes][..])));
    }
    // Arbitrary values, because clients may send any base offset and leader epoch.
    builder.seal(123, 5).to_vec()
}

impl World {
    pub fn new(config: TopicConfig) -> Self {
        let log = PartitionLog::create(place(), config, 0);
        Self {
            log,
            files: OpenFiles::new(0, 4),
            disk: Disk::default(),
            segment_bytes: config.segment_bytes,
            known: super::compacting::Known::default(),
        }
    }

    pub fn perform(&mut self, ops: Vec<FileOp>) {
        for done in self.disk.perform_all(ops) {
            self.log.done(&done);
        }
    }

    pub fn append(&mut self, bytes: Vec<u8>) -> Appended {
        let mut ops = Vec::new();
        let appended = self.log.append(bytes, 0, &mut self.files, &mut ops).unwrap();
        self.perform(ops);
        appended
    }

    /// Reads as a fetch does. The last batch in the result may be incomplete.
    pub fn read(&mut self, offset: i64, max_bytes: u32) -> Vec<u8> {
        let Some(range) = self.range(offset, max_bytes) else { return Vec::new() };
        self.log.hold(&range, &mut self.files);
        let mut ops = Vec::new();
        let file = self.files.open_held(&[range.file], &mut ops)[0];
        ops.push(FileOp::Read { token: READ, file, offset: range.offset, len: range.len });
        let data = self.read_bytes(ops);
        assert_eq!(data.len(), range.len as usize);
        let mut ops = Vec::new();
        self.files.release(range.file, &mut ops);
        self.perform(ops);
        data
    }

    pub fn range(&mut self, offset: i64, max_bytes: u32) -> Option<FileRange> {
        let mut ops = Vec::new();
        let mut find = self.log.find(offset, READ, &mut self.files, &mut ops)?;
        let place = loop {
            let search = match find {
                Find::At(place) => break place,
                Find::Read(search) => search,
                Find::Damaged { .. } => return None,
            };
            let data = self.read_bytes(std::mem::take(&mut ops));
            assert!(data.len() < 5_000, "reads are small");
            find = match search.look(&data).unwrap() {
                Found::Batch(place) => Find::At(place),
                Found::ReadOn(on) => {
                    let on = self.log.find_on(on, READ, &mut self.files, &mut ops);
                    Find::Read(on.unwrap())
                }
            };
        };
        self.log.range(place, None, max_bytes, true).unwrap()
    }

    pub fn read_bytes(&mut self, ops: Vec<FileOp>) -> Vec<u8> {
        match self.disk.perform_all(ops).pop() {
            Some(FileDone::Read { token: READ, data }) => data,
            other => panic!("{other:?}"),
        }
    }

    /// Offset and timestamp of the first record with timestamp `target` or later.
    pub fn offset_for(&mut self, target: i64) -> Option<(i64, i64)> {
        self.search(target).0
    }

    /// Like [`World::offset_for`], and also returns the number of bytes read.
    pub fn search(&mut self, target: i64) -> (Option<(i64, i64)>, usize) {
        self.search_on(self.log.search(target))
    }

    pub fn search_on(&mut self, mut search: TimestampSearch) -> (Option<(i64, i64)>, usize) {
        let mut read = 0;
        loop {
            let mut ops = Vec::new();
            if !self.log.search_read(&mut search, READ, &mut self.files, &mut ops) {
                return (None, read);
            }
            let data = self.read_bytes(ops);
            read += data.len();
            assert!(data.len() <= 32 << 10, "reads are small");
            match search.look(&data).unwrap() {
                Searched::Record { offset, timestamp } => return (Some((offset, timestamp)), read),
                Searched::ReadOn => {}
            }
        }
    }

    /// Closes the files of the log. The log opens them again when it needs them.
    pub fn close_files(&mut self) {
        let mut ops = Vec::new();
        self.log.close(&mut self.files, &mut ops);
        self.perform(ops);
    }

    pub fn retain(&mut self, now: i64) -> usize {
        let mut ops = Vec::new();
        let dropped = self.log.retain(now, &mut self.files, &mut ops);
        self.perform(ops);
        dropped
    }

    pub fn delete_records(&mut self, offset: i64) -> Option<i64> {
        let mut ops = Vec::new();
        let start = self.log.delete_records(offset, 0, &mut self.files, &mut ops);
        self.perform(ops);
        start
    }

    pub fn segments(&self) -> Vec<i64> {
        let names = self.disk.dir(&place().dir).into_keys();
        partition_files(names).into_iter().map(|(base_offset, _)| base_offset).collect()
    }

    pub fn path(&self, base_offset: i64) -> PathBuf {
        place().dir.join(segment_file_name(base_offset))
    }

    /// Opens the log again from its files, without a recovery point. Returns the base offsets of
    /// the batches that recovery visited.
    pub fn reopen(&mut self) -> Result<Vec<i64>, PartitionError> {
        self.reopen_from(None)
    }

    /// Syncs all writes, as a clean shutdown does.
    pub fn sync(&mut self) -> RecoveryPoint {
        let mut ops = Vec::new();
        let end = self.log.sync(SYNC, &mut self.files, &mut ops);
        ops.retain(|op| !matches!(op, FileOp::Sync { token: SYNC, .. }));
        self.perform(ops);
        assert!(!self.log.is_sync_behind());
        self.log.synced(end);
        self.log.recovery_point().unwrap()
    }

    /// Recovers the log as the server does at startup.
    pub fn recover(
        &self,
        point: Option<RecoveryPoint>,
        visited: &mut Vec<i64>,
    ) -> Result<RecoveredPartition, PartitionError> {
        let files = self.disk.dir(&place().dir);
        let names = files.keys().cloned().collect();
        let PartitionFiles { segments, .. } =
            PartitionFiles::of(names, |base_offset, name| segment_end(base_offset, files[name]))?;
        let bases = segments.iter().map(|(base_offset, _)| *base_offset).collect();
        let mut recovery = PartitionRecovery::new(bases, point);
        for (_, name) in &segments {
            let visit = |batch: &VisitedBatch| {
                visited.push(batch.header.base_offset);
            };
            recovery.segment(files[name], 0, visit)?;
        }
        recovery.finish()
    }

    /// Does what the server does first at startup: completes swaps of compacted segments, and
    /// removes files that compaction left.
    fn finish_swaps(&mut self) -> Result<(), PartitionError> {
        let dir = place().dir;
        let files = self.disk.dir(&dir);
        let names: Vec<_> = files.keys().cloned().collect();
        let found = PartitionFiles::of(names.clone(), |base_offset, name| {
            segment_end(base_offset, files[name])
        })?;
        self.disk.close_all();
        let mut ops = Vec::new();
        for swap in found.swaps {
            let replaced = swap.replaced.iter().map(|name| dir.join(name));
            ops.extend(replaced.map(|path| FileOp::RemoveFile { path }));
            let to = dir.join(segment_file_name(swap.base_offset));
            ops.push(FileOp::Rename { token: None, from: dir.join(swap.name), to });
        }
        let left = names.iter().filter(|name| is_left_by_compaction(name));
        ops.extend(left.map(|name| FileOp::RemoveFile { path: dir.join(name) }));
        self.perform(ops);
        Ok(())
    }

    pub fn reopen_from(
        &mut self,
        point: Option<RecoveryPoint>,
    ) -> Result<Vec<i64>, PartitionError> {
        let mut visited = Vec::new();
        self.finish_swaps()?;
        let recovered = self.recover(point, &mut visited)?;
        let files = self.disk.dir(&place().dir);
        let start = files.get(START_OFFSET_FILE).map(|bytes| bytes.to_vec()).unwrap_or_default();
        self.files = OpenFiles::new(0, 4);
        self.disk.close_all();
        let mut ops = Vec::new();
        self.log = PartitionLog::open(
            place(),
            TopicConfig { segment_bytes: self.segment_bytes, ..small_config() },
            0,
            recovered,
            &start,
            &mut self.files,
            &mut ops,
        );
        self.perform(ops);
        Ok(visited)
    }
}
