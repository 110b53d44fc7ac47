//! Writes the loaded state of a shard to an empty log, which takes the place of the damaged log.

use crate::Failure;
use crate::groups::{ShareStates, TransactionCoordinators};
use crate::offline::OfflineLog;
use crate::shard::Loaded;
use crate::topics;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{BatchHeader, WriteRecord};
use muster_coordinator::{Producer, StateWalk};
use muster_storage::LogPartition;

/// Records between two looks at whether the log is full.
const SLICE_RECORDS: usize = 1_000;

/// Appends all state to a new log, as records with the time `now`; partitions continue with the
/// offsets that they had reached.
///
/// # Errors
/// The file system refuses, a record is too large for the log, or a group of the snapshot is
/// damaged.
pub fn write_state(loaded: &mut Loaded, log: &mut OfflineLog, now: i64) -> Result<(), Failure> {
    let ends: Vec<_> = loaded.recovered().partitions().collect();
    for (partition, end) in ends {
        let mut batch = vec![0; RECORD_BATCH_HEADER_BYTES];
        BatchHeader::empty(end - 1).write(&mut batch);
        log.log.append_batch_at(partition, &batch)?;
    }
    let image = loaded.image().cloned();
    for record in image.iter().flat_map(|image| image.records(&loaded.common().config)) {
        append(log, topics::CLUSTER, now, &record)?;
    }
    write_ids(loaded, log, now)?;
    write_shares(loaded, log, now)?;
    write_groups(loaded, log, now)
}

fn write_ids(loaded: &mut Loaded, log: &mut OfflineLog, now: i64) -> Result<(), Failure> {
    let (_, transactions, _) = loaded.parts();
    let mut partition = transactions.next_with_ids(None);
    while let Some(at) = partition {
        let coordinator = transactions.coordinator(at);
        for record in coordinator.into_iter().flat_map(|it| it.durable_records()) {
            append(log, at.log_partition(), now, &record)?;
        }
        partition = transactions.next_with_ids(partition);
    }
    transactions.damage().map_or(Ok(()), |damage| Err(damage.to_string().into()))
}

fn write_shares(loaded: &mut Loaded, log: &mut OfflineLog, now: i64) -> Result<(), Failure> {
    let (slots, _, shares) = loaded.parts();
    for slot in slots.iter() {
        let states = shares.states(slot).into_iter();
        for (_, record) in states.flat_map(|it| it.restated_after(None)) {
            append(log, slot.share_state(), now, &record)?;
        }
    }
    Ok(())
}

fn write_groups(loaded: &mut Loaded, log: &mut OfflineLog, now: i64) -> Result<(), Failure> {
    let (slots, ..) = loaded.parts();
    let all: Vec<_> = slots.iter().collect();
    for slot in all {
        let (mut walk, mut has_more) = (StateWalk::default(), true);
        while has_more {
            let (partition, mut appended) = (slot.log_partition(), Ok(()));
            let restated = slots.on(slot, |coordinator, _| {
                coordinator.restate(&mut walk, SLICE_RECORDS, |producer, record| {
                    let position = match producer {
                        None => log.log.append(partition, now, [record]),
                        Some(Producer { id, epoch }) => {
                            log.log.append_in_transaction(partition, now, (id, epoch), [record])
                        }
                    };
                    if let Err(error) = position {
                        appended = Err(error);
                    }
                })
            });
            appended?;
            has_more = restated?;
            flush_if_full(log)?;
        }
    }
    Ok(())
}

fn append(
    log: &mut OfflineLog,
    partition: LogPartition,
    now: i64,
    record: &impl WriteRecord,
) -> Result<(), Failure> {
    log.log.append(partition, now, [record])?;
    flush_if_full(log)
}

fn flush_if_full(log: &mut OfflineLog) -> Result<(), Failure> {
    if log.log.is_full() { Ok(log.flush()?) } else { Ok(()) }
}
