//! Source records from the log, for letters with copies.

use super::Sources;
use super::batch::Copied;
use muster_codec::record_batch::{Batch, Batches, Compression, Records};
use muster_compression::uncompressed;
use std::ops::RangeInclusive;

/// The maximum decompressed size of the batches of one read. If a single batch is larger, its
/// records are not copied.
const DECOMPRESSED_BYTES_MAX: usize = 16 << 20;

/// Copies records from bytes of the log, if their offsets are in the range. Stops when the copies
/// have `wanted` bytes, but not before a first batch was read. Skips records that are unreadable.
pub(super) fn sources(data: &[u8], range: &RangeInclusive<i64>, wanted: usize) -> Sources {
    let (first, last) = (*range.start(), *range.end());
    let mut copies = Copies { wanted, left: DECOMPRESSED_BYTES_MAX, ..Copies::default() };
    let (mut upto, mut is_first) = (None, true);
    for batch in Batches::new(data).map_while(Result::ok) {
        let header = &batch.header;
        if header.base_offset > last {
            upto = Some(last);
            break;
        }
        let end = header.last_offset().min(last);
        if header.is_control() || header.last_offset() < first {
            upto = Some(end);
            continue;
        }
        match copies.add(&batch, range) {
            Some(Added::Whole) => upto = Some(end),
            Some(Added::Upto(offset)) => {
                upto = Some(offset);
                break;
            }
            // The records of this batch cannot be copied. Their letters have only headers.
            None if is_first => {
                upto = Some(end);
                break;
            }
            // If the next read begins with this batch, it may have room for the batch.
            None => break,
        }
        is_first = false;
    }
    Sources { records: copies.records, upto: upto.filter(|upto| *upto >= first) }
}

/// The copies of a read.
#[derive(Debug, Default)]
struct Copies {
    records: Vec<Copied>,
    /// The memory of the copies, in bytes.
    bytes: usize,
    wanted: usize,
    /// The number of bytes to which further batches may still be decompressed.
    left: usize,
}

/// The part of a batch that was copied.
enum Added {
    Whole,
    /// The copies have reached the wanted size at this offset.
    Upto(i64),
}

impl Copies {
    /// Copies the records of a batch. None if they cannot be read; then no record is copied.
    fn add(&mut self, batch: &Batch<'_>, range: &RangeInclusive<i64>) -> Option<Added> {
        let before = self.records.len();
        let added = self.add_records(batch, range);
        if added.is_none() {
            self.records.truncate(before);
        }
        added
    }

    fn add_records(&mut self, batch: &Batch<'_>, range: &RangeInclusive<i64>) -> Option<Added> {
        let compression = batch.header.compression()?;
        let mut buffer = Vec::new();
        let payload = uncompressed(compression, batch.payload(), self.left, &mut buffer).ok()?;
        if compression != Compression::None {
            self.left -= payload.len();
        }
        // A client may write anything into a compressed batch, so offsets are checked.
        let mut next = batch.header.base_offset;
        for record in Records::new(payload, batch.header.records_count) {
            let record = record.ok()?;
            let offset = batch.offset(&record);
            if !(next..=batch.header.last_offset()).contains(&offset) {
                return None;
            }
            next = offset + 1;
            if range.contains(&offset) {
                let key = record.key.map(<[u8]>::to_vec);
                let value = record.value.map(<[u8]>::to_vec);
                self.bytes += size_of::<Copied>()
                    + key.as_ref().map_or(0, Vec::len)
                    + value.as_ref().map_or(0, Vec::len);
                self.records.push(Copied { offset, key, value });
                if self.bytes >= self.wanted {
                    return Some(Added::Upto(offset));
                }
            }
        }
        Some(Added::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
    use muster_codec::record_batch::{BatchBuilder, BatchHeader};

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
    fn found(data: &[u8], range: RangeInclusive<i64>, max: usize) -> (Vec<i64>, Option<i64>) {
        let sources = sources(data, &range, max);
        (sources.records.iter().map(|it| it.offset).collect(), sources.upto)
    }

    #[test]
    fn records_are_those_of_the_offsets_however_they_are_compressed() {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let data = [batch(0, 3, compression), batch(5, 3, compression)].concat();
            assert_eq!(found(&data, 1..=6, 10_000), (vec![1, 2, 5, 6], Some(6)));
            assert_eq!(found(&data, 1..=9, 10_000), (vec![1, 2, 5, 6, 7], Some(7)));
            assert_eq!(found(&data, 3..=4, 10_000), (vec![], Some(4)), "no records there");
            let one = sources(&data, &(6..=6), 10_000).records.pop().unwrap();
            assert_eq!((one.key.unwrap(), one.value.unwrap().len()), (b"k1".to_vec(), 1_000));
        }
    }

    #[test]
    fn copies_end_once_they_fill_a_batch_of_letters_and_none_is_lost() {
        for compression in [Compression::None, Compression::Zstd] {
            let data = [batch(0, 3, compression), batch(3, 3, compression)].concat();
            assert_eq!(found(&data, 0..=5, 4_000), (vec![0, 1, 2, 3], Some(3)));
            assert_eq!(found(&data, 4..=5, 4_000), (vec![4, 5], Some(5)));
            assert_eq!(found(&data, 0..=5, 100), (vec![0], Some(0)));
        }
    }

    /// Only two of the three equal batches fit into the memory of a read. A fourth batch is larger
    /// than this memory.
    #[test]
    fn batches_are_decompressed_while_there_is_room_and_the_next_read_begins_with_the_others() {
        let count = DECOMPRESSED_BYTES_MAX / 2 / 1_100;
        let of = |base: usize, count| batch(base as i64, count, Compression::Zstd);
        let data = [of(0, count), of(count, count), of(2 * count, count)].concat();
        let last = 3 * count as i64 - 1;
        let first = 2 * count as i64;
        // The third batch has the wanted records, and is read with the second.
        let data_from_second = &data[of(0, count).len()..];
        assert_eq!(found(data_from_second, first..=last, usize::MAX).1, Some(last));
        let (offsets, upto) = found(&data, first - 1..=last, usize::MAX);
        assert_eq!((offsets.len(), upto), (count + 1, Some(last)));
        let (offsets, upto) = found(&data, 0..=last, usize::MAX);
        assert_eq!((offsets.len(), upto), (2 * count, Some(first - 1)));
        let never = [of(0, 2 * count + count / 2), of(2 * count + count / 2, 1)].concat();
        let end = 2 * count as i64 + count as i64 / 2;
        assert_eq!(found(&never, 0..=end, usize::MAX), (vec![], Some(end - 1)));
        assert_eq!(found(&of(end as usize, 1), end..=end, usize::MAX), (vec![end], Some(end)));
    }

    /// A producer may write anything into a compressed batch.
    #[test]
    fn a_batch_whose_records_have_wrong_offsets_is_not_copied() {
        let header_of = |bytes: &[u8]| BatchHeader::read(bytes).unwrap();
        let good = batch(0, 3, Compression::Gzip);
        // The header claims fewer offsets than the records have.
        let mut outside = good.clone();
        BatchHeader { last_offset_delta: 1, ..header_of(&good) }.write(&mut outside);
        assert_eq!(found(&outside, 0..=1, 10_000), (vec![], Some(1)));
        // Two records of the same offset.
        let mut builder = BatchBuilder::default();
        builder.append(7, &(&b"k"[..], Some(&b"v"[..])));
        let one = builder.seal(0, 0)[RECORD_BATCH_HEADER_BYTES..].to_vec();
        let mut twice = good[..RECORD_BATCH_HEADER_BYTES].to_vec();
        twice.extend([&one[..], &one[..]].concat());
        let header = BatchHeader { attributes: 0, records_count: 2, ..header_of(&good) };
        header.write(&mut twice);
        assert_eq!(found(&twice, 0..=2, 10_000), (vec![], Some(2)));
        let data = [twice, batch(3, 1, Compression::None)].concat();
        assert_eq!(found(&data, 3..=3, 10_000), (vec![3], Some(3)));
    }

    #[test]
    fn bytes_that_are_no_batch_have_no_records() {
        assert_eq!(found(&[0; 200], 0..=5, 100), (vec![], None));
        let mut data = batch(0, 3, Compression::Gzip);
        data.truncate(data.len() - 1);
        assert_eq!(found(&data, 0..=5, 10_000), (vec![], None));
        let mut data = batch(0, 3, Compression::Gzip);
        data[RECORD_BATCH_HEADER_BYTES..].fill(0xff);
        assert_eq!(found(&data, 0..=5, 10_000), (vec![], Some(2)));
    }
}
