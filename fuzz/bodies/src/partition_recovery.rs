//! Recovery of a user topic's partition. Input: whether to repair the last batch of each segment;
//! the file of the log start offset; segments, each with its base offset and its length.

use crate::batches::repair_batch;
use crate::memory::within;
use muster_storage::{
    FileId, OpenFiles, PartitionLog, PartitionPlace, PartitionRecovery, TopicConfig,
};

const GRANTED_PER_BYTE: usize = 64;
const GRANTED_BYTES: usize = 256 << 10;
const SEGMENTS_MAX: usize = 4;
const START_OFFSET_BYTES: usize = 28;

pub fn run(input: &[u8]) {
    let Some((repair, rest)) = input.split_first() else { return };
    let Some((start_offset, rest)) = rest.split_at_checked(START_OFFSET_BYTES) else { return };
    let segments = split(rest, *repair != 0);
    within(input.len() * GRANTED_PER_BYTE + GRANTED_BYTES, || open(start_offset, &segments));
}

/// The base offset and the bytes of each segment.
fn split(mut rest: &[u8], repair: bool) -> Vec<(i64, Vec<u8>)> {
    let mut segments: Vec<(i64, Vec<u8>)> = Vec::new();
    while let Some(([base_offset, high, low], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (bytes, after) = after.split_at(length.min(after.len()));
        let mut bytes = bytes.to_vec();
        if repair {
            repair_batch(&mut bytes);
        }
        segments.push(((*base_offset).into(), bytes));
        rest = after;
        if segments.len() == SEGMENTS_MAX {
            break;
        }
    }
    segments.sort_by_key(|(base_offset, _)| *base_offset);
    segments.dedup_by_key(|(base_offset, _)| *base_offset);
    segments
}

/// Opens a partition's log. If this succeeds, checks that the log start offset is not after the
/// end, and that the next record is appended at the end.
fn open(start_offset: &[u8], segments: &[(i64, Vec<u8>)]) {
    let bases = segments.iter().map(|(base_offset, _)| *base_offset).collect();
    let mut recovery = PartitionRecovery::new(bases, None);
    for (_, bytes) in segments {
        if recovery.segment(&bytes[..], 0, |_| {}).is_err() {
            return;
        }
    }
    let Ok(recovered) = recovery.finish() else { return };
    let place = PartitionPlace { dir: "partition".into(), number: 1, token_tag: 2 };
    let (mut files, mut ops) = (OpenFiles::new(FileId(0).0, 16), Vec::new());
    let config = TopicConfig::default();
    let mut log =
        PartitionLog::open(place, config, 0, recovered, start_offset, &mut files, &mut ops);
    let end = log.log_end_offset();
    assert!(log.log_start_offset() <= end && log.high_watermark() == end);
    let mut builder = muster_codec::record_batch::BatchBuilder::default();
    builder.append(0, &(&b"key"[..], Some(&b"value"[..])));
    let batch = builder.seal(0, -1).to_vec();
    if let Ok(appended) = log.append(batch, 0, &mut files, &mut ops) {
        assert_eq!((appended.base_offset, appended.next_offset), (end, end + 1));
    }
}
