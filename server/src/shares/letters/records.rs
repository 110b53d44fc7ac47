//! Source records out of the log, for letters that have copies of them.

use super::Sources;
use super::batch::Copied;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{Batch, BatchHeader, Compression, Records};
use muster_compression::decompress;

/// The records from the first to the last offset in bytes of the log. What cannot be read has no
/// copy. `max` is the most bytes that compressed records may have altogether: more would not fit
/// into the queue.
pub(super) fn sources(data: &[u8], (first, last): (i64, i64), max: usize) -> Sources {
    let mut sources = Sources::default();
    let (mut at, mut left) = (0, max);
    while let Some(rest) = data.get(at..).filter(|it| it.len() >= RECORD_BATCH_HEADER_BYTES) {
        let Ok(header) = BatchHeader::read(rest) else { break };
        let Some(bytes) = rest.get(..header.total_len()) else { break };
        at += bytes.len();
        if header.base_offset > last {
            sources.upto = Some(last);
            break;
        }
        let is_copied = !header.is_control() && header.last_offset() >= first;
        if is_copied && copy(bytes, (first, last), &mut left, &mut sources.records).is_none() {
            // Its records, and those after it, have headers alone.
            sources.upto = None;
            break;
        }
        sources.upto = Some(header.last_offset().min(last));
    }
    sources.upto = sources.upto.filter(|upto| *upto >= first);
    sources
}

/// Copies the records of a batch; None if they cannot be read.
fn copy(
    bytes: &[u8],
    (first, last): (i64, i64),
    left: &mut usize,
    out: &mut Vec<Copied>,
) -> Option<()> {
    let batch = Batch::read(bytes).ok()?;
    let compression = batch.header.compression()?;
    let mut buffer = Vec::new();
    if compression != Compression::None {
        decompress(compression, batch.payload(), *left, &mut buffer).ok()?;
        *left -= buffer.len();
    }
    let payload = if compression == Compression::None { batch.payload() } else { &buffer };
    for record in Records::new(payload, batch.header.records_count) {
        let record = record.ok()?;
        let offset = batch.offset(&record);
        if (first..=last).contains(&offset) {
            let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
            out.push(Copied { offset, key, value });
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::record_batch::BatchBuilder;

    /// A batch of records `k0`, `k1` and so on, with its records compressed.
    fn batch(base: i64, count: usize, compression: Compression) -> Vec<u8> {
        let mut builder = BatchBuilder::default();
        for n in 0..count {
            builder.append(7, &(format!("k{n}").as_bytes(), Some(&[b'v'; 1_000][..])));
        }
        let plain = builder.seal(base, 0);
        let header = BatchHeader::read(plain).unwrap();
        let mut bytes = plain[..RECORD_BATCH_HEADER_BYTES].to_vec();
        muster_compression::compress(compression, &plain[RECORD_BATCH_HEADER_BYTES..], &mut bytes)
            .unwrap();
        BatchHeader { attributes: compression as i16, ..header }.write(&mut bytes);
        bytes
    }

    /// The offsets of the copies, and the last offset that was read.
    fn found(data: &[u8], range: (i64, i64), max: usize) -> (Vec<i64>, Option<i64>) {
        let sources = sources(data, range, max);
        (sources.records.iter().map(|it| it.offset).collect(), sources.upto)
    }

    #[test]
    fn records_are_those_of_the_offsets_however_they_are_compressed() {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let data = [batch(0, 3, compression), batch(5, 3, compression)].concat();
            assert_eq!(found(&data, (1, 6), 10_000), (vec![1, 2, 5, 6], Some(6)));
            assert_eq!(found(&data, (1, 9), 10_000), (vec![1, 2, 5, 6, 7], Some(7)));
            assert_eq!(found(&data, (3, 4), 10_000), (vec![], Some(4)), "no records there");
            let one = sources(&data, (6, 6), 10_000).records.pop().unwrap();
            assert_eq!((one.key.unwrap(), one.value.unwrap().len()), (b"k1".to_vec(), 1_000));
        }
    }

    #[test]
    fn what_would_not_fit_into_the_queue_is_not_decompressed() {
        let data = [batch(0, 3, Compression::Zstd), batch(3, 3, Compression::Zstd)].concat();
        assert_eq!(found(&data, (0, 5), 4_000), (vec![0, 1, 2], None));
        assert_eq!(found(&data, (0, 5), 100), (vec![], None));
    }

    #[test]
    fn bytes_that_are_no_batch_have_no_records() {
        assert_eq!(found(&[0; 200], (0, 5), 100), (vec![], None));
        let mut data = batch(0, 3, Compression::Gzip);
        data.truncate(data.len() - 1);
        assert_eq!(found(&data, (0, 5), 10_000), (vec![], None));
    }
}
