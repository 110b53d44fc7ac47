//! A compacted partition for tests, and the batches of its producers.

use super::partition::{World, place};
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{
    Batch, BatchBuilder, BatchHeader, Batches, Compression, EndTxnMarker, Record,
    TransactionOutcome,
};
use muster_compression::{compress, decompress};
use muster_storage::partition_log::{
    Compaction, CompactionEnd, CompactionRules, LastOfProducer, Slice,
};
use muster_storage::{CompactionConfig, FileToken, PartitionError, RecoveryPoint};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};

const COMPACT: FileToken = FileToken(3);

/// Offset, key and value of a record.
pub type Read = (i64, Vec<u8>, Option<Vec<u8>>);

/// Facts about a partition that compaction needs and that the server does not get from the log.
#[derive(Debug, Clone)]
pub struct Known {
    pub rules: CompactionConfig,
    pub aborted: Vec<(i64, Range<i64>)>,
    pub producers: BTreeMap<i64, LastOfProducer>,
    /// The last stable offset, if it differs from the high watermark.
    pub stable: Option<i64>,
    /// The last stored recovery point.
    pub stored: Option<RecoveryPoint>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            rules: CompactionConfig { map_bytes: 1, min_dirty_ratio: 0.0, ..Default::default() },
            aborted: Vec::new(),
            producers: BTreeMap::new(),
            stable: None,
            stored: None,
        }
    }
}

impl Deref for World {
    type Target = Known;

    fn deref(&self) -> &Known {
        &self.known
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Known {
        &mut self.known
    }
}

/// Key and value of a record; each may be null.
pub type KeyAndValue = (Option<Vec<u8>>, Option<Vec<u8>>);

/// A batch to be produced.
pub struct Made {
    pub records: Vec<KeyAndValue>,
    pub time: i64,
    pub codec: Compression,
    /// Producer id, epoch and base sequence.
    pub producer: Option<(i64, i16, i32)>,
    /// The producer id of the transaction that the batch belongs to.
    pub transaction: Option<i64>,
}

impl Made {
    pub fn of(records: &[(&str, Option<&str>)]) -> Self {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let record = |(key, value): &(&str, Option<&str>)| (Some(bytes(key)), value.map(bytes));
        Self {
            records: records.iter().map(record).collect(),
            time: 0,
            codec: Compression::None,
            producer: None,
            transaction: None,
        }
    }

    pub fn batch(&self) -> Vec<u8> {
        let mut builder = BatchBuilder::default();
        for (key, value) in &self.records {
            let Some(key) = key else { continue };
            builder.append(self.time, &(&key[..], value.as_deref()));
        }
        let plain = builder.seal(0, 0).to_vec();
        let mut header = Batch::read(&plain).unwrap().header;
        if let Some((id, epoch, sequence)) = self.producer {
            (header.producer_id, header.producer_epoch) = (id, epoch);
            header.base_sequence = sequence;
        } else {
            header.base_sequence = -1;
        }
        if let Some(id) = self.transaction {
            header.set_transaction(id, 0);
        }
        header.attributes |= match self.codec {
            Compression::None => 0,
            Compression::Gzip => 1,
            Compression::Snappy => 2,
            Compression::Lz4 => 3,
            Compression::Zstd => 4,
        };
        let mut out = vec![0; RECORD_BATCH_HEADER_BYTES];
        compress(self.codec, &plain[RECORD_BATCH_HEADER_BYTES..], &mut out).unwrap();
        header.write(&mut out);
        out
    }

    pub fn marker(producer: i64, commits: bool) -> Vec<u8> {
        let outcome = if commits { TransactionOutcome::Commit } else { TransactionOutcome::Abort };
        EndTxnMarker { outcome, coordinator_epoch: 0 }.batch(producer, 0, 0).to_vec()
    }
}

pub fn value_of(read: &Read) -> String {
    String::from_utf8_lossy(read.2.as_deref().unwrap_or_default()).into_owned()
}

/// Compaction of the log of a [`World`].
pub trait Compacting {
    fn seal(&mut self);
    fn store_point(&mut self);
    fn begin(&mut self, now: i64) -> Option<Compaction>;
    fn step(&mut self, pass: &mut Compaction) -> Option<CompactionEnd>;
    fn try_compact(&mut self, now: i64) -> Option<CompactionEnd>;
    fn compact(&mut self, now: i64);
    fn reopen_stored(&mut self) -> Result<Vec<i64>, PartitionError>;
    fn headers(&mut self) -> Vec<BatchHeader>;
    fn all_records(&mut self) -> Vec<Read>;
}

impl Compacting for World {
    /// Appends a record that fills a whole segment. This seals the segment that was active before.
    /// Then stores the recovery point.
    fn seal(&mut self) {
        let filler = vec![b' '; self.segment_bytes as usize - 90];
        let record = (Some(b"filler".to_vec()), Some(filler));
        self.append(Made { records: vec![record], ..Made::of(&[]) }.batch());
        self.store_point();
    }

    fn store_point(&mut self) {
        self.retain(0);
        if let Some(point) = self.log.recovery_point() {
            self.log.point_stored(&point);
            self.stored = Some(point);
        }
    }

    fn begin(&mut self, now: i64) -> Option<Compaction> {
        let stable = self.stable.unwrap_or(self.log.high_watermark());
        let cleanable = self.log.cleanable(stable, now, &self.known.rules)?;
        let rules = CompactionRules {
            secret: 7,
            map_bytes: self.rules.map_bytes,
            now,
            delete_retention_ms: self.rules.delete_retention_ms,
            aborted: self.aborted.clone(),
            producers: self.producers.clone(),
        };
        Some(self.log.begin_compaction(&cleanable, rules))
    }

    /// Runs one slice and performs its operations.
    fn step(&mut self, pass: &mut Compaction) -> Option<CompactionEnd> {
        let mut ops = Vec::new();
        let slice = self.log.compact(pass, COMPACT, &mut self.files, &mut ops);
        for done in self.disk.perform_all(ops) {
            pass.done(done);
        }
        match slice {
            Slice::Pause | Slice::Wait { .. } => None,
            Slice::End(end) => Some(end),
        }
    }

    fn try_compact(&mut self, now: i64) -> Option<CompactionEnd> {
        let mut pass = self.begin(now)?;
        loop {
            if let Some(end) = self.step(&mut pass) {
                return Some(end);
            }
        }
    }

    fn compact(&mut self, now: i64) {
        let end = self.try_compact(now);
        assert!(matches!(end, Some(CompactionEnd::Done(_))), "{end:?}");
    }

    fn reopen_stored(&mut self) -> Result<Vec<i64>, PartitionError> {
        self.reopen_from(self.stored)
    }

    /// The headers of all batches in the files.
    fn headers(&mut self) -> Vec<BatchHeader> {
        let files = self.disk.dir(&place().dir);
        let logs = files.into_iter().filter(|(name, _)| name.ends_with(".log"));
        let headers = |bytes| Batches::new(bytes).map(|batch| batch.unwrap().header);
        logs.flat_map(|(_, bytes)| headers(bytes).collect::<Vec<_>>()).collect()
    }

    /// The records from the log start offset on, as a consumer sees them; without markers.
    fn all_records(&mut self) -> Vec<Read> {
        let (mut all, mut offset) = (Vec::new(), self.log.log_start_offset());
        while offset < self.log.high_watermark() {
            let bytes = self.read(offset, 1 << 20);
            let from = offset;
            for batch in Batches::new(&bytes).map_while(Result::ok) {
                batch.validate().unwrap();
                offset = batch.header.next_offset();
                if !batch.header.is_control() {
                    let read = read(&batch);
                    all.extend(read.into_iter().filter(|(offset, ..)| *offset >= from));
                }
            }
            assert!(offset > from, "nothing at {from}");
        }
        all
    }
}

fn read(batch: &Batch<'_>) -> Vec<Read> {
    let mut plain = Vec::new();
    let codec = batch.header.compression().unwrap();
    if decompress(codec, batch.payload(), 1 << 20, &mut plain).is_err() {
        return Vec::new();
    }
    let records = muster_codec::record_batch::Records::new(&plain, batch.header.records_count);
    let read = |record: Record<'_>| {
        let key = record.key.unwrap_or_default().to_vec();
        (batch.offset(&record), key, record.value.map(<[u8]>::to_vec))
    };
    records.map_while(Result::ok).map(read).collect()
}
