//! The check copy of transactional ids, and their digests.

use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_codec::records::{TransactionLogKey, TransactionRecord};
use muster_coordinator::Sample;
use muster_coordinator::check_copy::CHECK_COPY_BYTES_MAX;
use muster_runtime::{CheckCopy, Digest};
use muster_transactions::{Config, Coordinator};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The transactional ids of a sample, as the log produces them.
#[derive(Debug)]
pub(super) struct IdsCopy {
    ids: Coordinator,
    sample: Sample,
}

impl IdsCopy {
    pub(super) fn new(sample: Sample) -> Self {
        Self { ids: Coordinator::new(Config::default(), 0), sample }
    }

    /// Continues with half of the ids.
    fn halve(&mut self) {
        self.sample.halvings += 1;
        let gone = self.ids.ids_after(None).filter(|id| !self.sample.has(id));
        let gone: Vec<String> = gone.map(str::to_owned).collect();
        for id in gone {
            let key = TransactionLogKey { transactional_id: id.into() };
            self.ids.replay(&TransactionRecord { key, value: None }, 0);
        }
    }
}

impl CheckCopy for IdsCopy {
    fn noun(&self) -> &'static str {
        "transactional id"
    }

    fn halvings(&self) -> u32 {
        self.sample.halvings
    }

    fn has(&self, id: &str) -> bool {
        self.sample.has(id)
    }

    fn replay(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        for record in batch.records()? {
            let record = record?;
            let read = record.key.map(|key| TransactionRecord::read(key, record.value));
            if let Some(record) = read.transpose()?.flatten()
                && self.sample.has(&record.key.transactional_id)
            {
                self.ids.replay(&record, 0);
            }
        }
        while self.ids.bytes() > CHECK_COPY_BYTES_MAX && self.sample.halvings < u64::BITS {
            self.halve();
        }
        Ok(())
    }

    fn next(&self, after: Option<&Arc<str>>) -> Option<Arc<str>> {
        self.ids.ids_after(after.map(|it| &**it)).next().map(Arc::from)
    }

    fn digest(&mut self, id: &str) -> Digest {
        digest(&self.ids, id, usize::MAX).unwrap_or_default()
    }
}

/// The digest of an id; None if its transaction has more partitions than the given number.
pub(super) fn digest(ids: &Coordinator, id: &str, partitions_max: usize) -> Option<Digest> {
    let record = ids.record(id, partitions_max).ok()?;
    let items = record.iter().map(|_| 1).sum();
    let fingerprint = record.map(|record| {
        let mut value = Vec::new();
        record.write_value(&mut value);
        xxh3_64(&value)
    });
    Some(Digest { fingerprint, items })
}
