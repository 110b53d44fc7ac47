//! Writes the loaded state of a shard to an empty log, which takes the place of the damaged log.

use crate::Failure;
use crate::offline::OfflineLog;
use crate::shard::Loaded;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::BatchHeader;
use muster_runtime::Restating;

/// The log is checked each time after this number of records: if it is full, it is flushed.
const SLICE_RECORDS: usize = 1_000;

/// Appends all state to a new log, as records with the time `now`; partitions continue with the
/// offsets that they had reached.
///
/// # Errors
/// The file system refuses, a record is too large for the log, or a part of the snapshot is
/// damaged.
pub fn write_state(loaded: &mut Loaded, log: &mut OfflineLog, now: i64) -> Result<(), Failure> {
    let ends: Vec<_> = loaded.recovered().partitions().collect();
    for (partition, end) in ends {
        let mut batch = vec![0; RECORD_BATCH_HEADER_BYTES];
        BatchHeader::empty(end - 1).write(&mut batch);
        log.log.append_batch_at(partition, &batch)?;
    }
    let topics = loaded.topics();
    let mut restating = Restating::new(topics);
    while restating.append(topics, &mut log.log, now, SLICE_RECORDS)? {
        if log.log.is_full() {
            log.flush()?;
        }
    }
    Ok(())
}
