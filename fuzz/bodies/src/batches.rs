//! Record batches of producers. Input: whether to repair length, magic and checksum; the batches.
//!
//! Compressed records are not decompressed here, so this attacks no decompressor.

use crate::memory::within;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{
    Batch, BatchBuilder, Batches, TimestampType, set_base_offset, set_max_timestamp, validate,
};

/// The end of the length field. The length does not count the bytes up to here (base offset and
/// length).
const LENGTH_END: usize = 12;

pub fn run(input: &[u8]) {
    let Some((repair, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if *repair != 0 {
        repair_batch(&mut bytes);
    }
    within(4096, || read(&bytes));
    if let Ok(batch) = Batch::read(&bytes) {
        within(bytes.len() * 16 + 4096, || patch(&batch));
    }
}

/// Turns the bytes after the last readable batch into a valid batch: sets its length, magic and
/// checksum. If no bytes follow that batch, turns all bytes into one valid batch.
pub(crate) fn repair_batch(bytes: &mut [u8]) {
    let mut batches = Batches::new(bytes);
    while batches.by_ref().any(|batch| batch.is_ok()) {}
    let start = batches.consumed();
    let start = if start == bytes.len() { 0 } else { start };
    let last = &mut bytes[start..];
    if last.len() >= RECORD_BATCH_HEADER_BYTES {
        seal(last);
    }
}

/// Sets magic and checksum of each batch to valid values. A batch with an impossible length takes
/// all remaining bytes.
pub(crate) fn repair_each(mut rest: &mut [u8]) {
    while rest.len() >= RECORD_BATCH_HEADER_BYTES {
        let claimed = [rest[8], rest[9], rest[10], rest[11]];
        let len = (u32::from_be_bytes(claimed) as usize).saturating_add(LENGTH_END);
        let is_possible = (RECORD_BATCH_HEADER_BYTES..=rest.len()).contains(&len);
        let (batch, behind) = rest.split_at_mut(if is_possible { len } else { rest.len() });
        seal(batch);
        rest = behind;
    }
}

/// Turns the bytes into one batch: sets length, magic and checksum.
fn seal(batch: &mut [u8]) {
    let length = (batch.len() - LENGTH_END) as i32;
    batch[8..LENGTH_END].copy_from_slice(&length.to_be_bytes());
    batch[16] = 2;
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

fn read(bytes: &[u8]) {
    for batch in Batches::new(bytes).flatten() {
        let header = &batch.header;
        let _ = (batch.validate(), header.validate_from_client(), header.last_sequence());
        let _ = (header.next_offset(), header.compression(), header.delete_horizon());
        let Ok(records) = batch.records() else { continue };
        let mut count = 0;
        for record in records {
            let Ok(record) = record else { break };
            let _ = (batch.offset(&record), batch.timestamp(&record));
            count += 1;
            assert!(count <= header.records_count, "more records than the header says");
        }
    }
}

/// Changes a valid batch as a log does, and checks that it is still valid. Also builds a new batch
/// from those records that have keys, and checks that it contains exactly these records.
fn patch(batch: &Batch<'_>) {
    if batch.validate().is_err() {
        return;
    }
    let mut patched = batch.bytes.to_vec();
    set_base_offset(&mut patched, 1 << 40);
    set_max_timestamp(&mut patched, TimestampType::LogAppendTime, 77);
    let header = validate(&patched).unwrap();
    assert_eq!((header.base_offset, header.max_timestamp), (1 << 40, 77));
    assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
    let Ok(records) = batch.records() else { return };
    let records: Vec<_> = records.map_while(Result::ok).collect();
    let keyed = records.iter().filter_map(|record| Some((record.key?, record.value)));
    let keyed: Vec<_> = keyed.collect();
    if keyed.is_empty() {
        return;
    }
    let mut builder = BatchBuilder::default();
    keyed.iter().for_each(|record| builder.append(5, record));
    let rebuilt = builder.seal(3, -1).to_vec();
    let rebuilt = Batch::read(&rebuilt).unwrap();
    rebuilt.validate().unwrap();
    let again = rebuilt.records().unwrap().map(|record| record.unwrap());
    assert!(again.map(|record| (record.key.unwrap(), record.value)).eq(keyed));
}
