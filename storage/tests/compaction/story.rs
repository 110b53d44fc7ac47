//! A compacted log with its disk and clock.

use crate::common::{
    Disk, Found, Replayed, compact, compacting_config, open, part, records, recover, settle,
};
use muster_storage::shard_log::recovery::segment_file_name;
use muster_storage::{LogConfig, ShardLog};
use std::path::PathBuf;

/// A log with its disk and clock.
pub(crate) struct Story {
    pub(crate) log: ShardLog,
    pub(crate) disk: Disk,
    pub(crate) config: LogConfig,
    pub(crate) now: i64,
}

impl Story {
    pub(crate) fn new(config: LogConfig) -> Self {
        let disk = Disk::default();
        let (log, _) = open(&disk, config.clone());
        let mut story = Self { log, disk, config, now: 1_000_000 };
        settle(&mut story.log, &mut story.disk, story.now);
        // Now the first segment takes blocks, and the second is prepared.
        story.write(9, "filler", None);
        story
    }

    /// A log that only [`Story::compact`] compacts.
    pub(crate) fn idle() -> Self {
        Self::new(LogConfig { compaction: None, ..compacting_config() })
    }

    pub(crate) fn put(&mut self, partition: i32, key: &str, value: &str) {
        self.write(partition, key, Some(value.as_bytes()));
    }

    pub(crate) fn delete(&mut self, partition: i32, key: &str) {
        self.write(partition, key, None);
    }

    pub(crate) fn write(&mut self, partition: i32, key: &str, value: Option<&[u8]>) {
        self.log.append(part(partition), self.now, [(key.as_bytes(), value)]).unwrap();
        settle(&mut self.log, &mut self.disk, self.now);
    }

    /// Fills the active segment with filler records, which tests ignore.
    pub(crate) fn roll(&mut self) {
        let before = self.newest();
        while self.newest() == before {
            self.write(9, "filler", Some(&[0; 3_000]));
        }
    }

    /// The file of the newest segment.
    pub(crate) fn newest(&self) -> PathBuf {
        let is_segment = |path: &&PathBuf| path.extension().is_some_and(|it| it == "log");
        self.disk.live.keys().rfind(is_segment).unwrap().clone()
    }

    /// Runs all passes that are due.
    pub(crate) fn compact(&mut self) {
        let config = self.config.compaction.or(compacting_config().compaction);
        self.log.set_compaction(config);
        compact(&mut self.log, &mut self.disk, &mut self.now);
    }

    /// Fills another segment and runs all passes that are due.
    pub(crate) fn compact_again(&mut self) {
        self.roll();
        self.compact();
    }

    pub(crate) fn replayed(&self) -> Vec<Replayed> {
        recover(&self.disk, &self.config.dir).unwrap().1
    }

    /// The records of all partitions except the filler's, in order.
    pub(crate) fn texts(&self) -> Vec<String> {
        let found = records(&self.replayed());
        let text = |((partition, offset), it): (&(i32, i64), &Found)| {
            let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
            let value = it.value.as_ref().map_or("-".to_owned(), text);
            format!("{partition}@{offset} {}={value}", text(&it.key))
        };
        found.iter().filter(|((partition, _), _)| *partition != 9).map(text).collect()
    }

    pub(crate) fn batches(&self, partition: i32) -> Vec<Vec<u8>> {
        let of = |it: &Replayed| it.partition == partition;
        self.replayed().into_iter().filter(of).map(|it| it.bytes).collect()
    }

    pub(crate) fn crash(&mut self) {
        self.disk.crash();
        self.log = open(&self.disk, self.config.clone()).0;
        settle(&mut self.log, &mut self.disk, self.now);
    }

    pub(crate) fn path(&self, sequence: u64) -> PathBuf {
        self.config.dir.join(segment_file_name(sequence))
    }
}
