//! The effects of compaction on the log of a history.

use crate::common::RecordBytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// How far compaction has come. In the first `cleaned` thousandths of the log, only the newest
/// record of each key is left. In the first `dropped` thousandths of that part, tombstones are
/// gone, too.
#[derive(Debug, Clone, Copy)]
pub struct Compaction {
    cleaned: usize,
    dropped: usize,
}

pub fn compactions() -> impl Strategy<Value = Compaction> {
    let part = || prop_oneof![1 => Just(1_000), 3 => 0..=1_000usize];
    (part(), part()).prop_map(|(cleaned, dropped)| Compaction { cleaned, dropped })
}

/// The records that a reader gets if the log is compacted while it reads: the first `read` records
/// as they were, and then the compacted rest.
pub fn read_beside(log: &[RecordBytes], read: usize) -> Vec<RecordBytes> {
    let newest: BTreeMap<_, _> = log.iter().map(|(key, _)| key).zip(0..).collect();
    let found = |at: usize, key: &Vec<u8>| at < read || newest[key] == at;
    let found = log.iter().enumerate().filter(|(at, (key, _))| found(*at, key));
    found.map(|(_, record)| record.clone()).collect()
}

impl Compaction {
    /// The compacted log.
    pub fn of(self, log: &[RecordBytes]) -> Vec<RecordBytes> {
        let cleaned = log.len() * self.cleaned / 1_000;
        let dropped = cleaned * self.dropped / 1_000;
        let keys = log[..cleaned].iter().map(|(key, _)| key);
        let newest: BTreeMap<_, _> = keys.zip(0..).collect();
        let survives = |at: usize, (key, value): &RecordBytes| {
            at >= cleaned || (newest[key] == at && (value.is_some() || at >= dropped))
        };
        let kept = log.iter().enumerate().filter(|(at, record)| survives(*at, record));
        kept.map(|(_, record)| record.clone()).collect()
    }
}
