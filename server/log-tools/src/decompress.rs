//! Decompresses the records of a batch.

use muster_codec::record_batch::{Batch, Records};
use muster_compression::uncompressed;

/// The most decompressed bytes of a batch.
const RECORDS_BYTES_MAX: usize = 256 << 20;

/// Returns the records. If they are compressed, `buffer` receives the decompressed bytes.
///
/// # Errors
/// The reason why the records cannot be read.
pub(super) fn records<'a>(
    batch: &Batch<'a>,
    buffer: &'a mut Vec<u8>,
) -> Result<Records<'a>, String> {
    let (payload, count) = (batch.payload(), batch.header.records_count);
    let compression = batch.header.compression().ok_or("an unknown compression")?;
    let records = uncompressed(compression, payload, RECORDS_BYTES_MAX, buffer)
        .map_err(|error| format!("its records cannot be decompressed: {error}"))?;
    Ok(Records::new(records, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
    use muster_codec::record_batch::{BatchBuilder, BatchHeader};
    use std::io::{Read, Write};

    /// A batch of one record. `payload` converts the record's bytes, for which the header says
    /// `codec`.
    fn batch_of(codec: u8, payload: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut builder = BatchBuilder::default();
        builder.append(0, &(&b"key"[..], Some(&[b'v'; 100][..])));
        let plain = builder.seal(0, 0);
        let mut batch = plain[..RECORD_BATCH_HEADER_BYTES].to_vec();
        batch.extend(payload(&plain[RECORD_BATCH_HEADER_BYTES..]));
        let header = Batch::read(plain).unwrap().header;
        let header = BatchHeader { attributes: i16::from(codec), ..header };
        header.write(&mut batch);
        batch
    }

    fn value(batch: &[u8]) -> Result<Vec<u8>, String> {
        let mut buffer = Vec::new();
        let mut records = records(&Batch::read(batch).unwrap(), &mut buffer)?;
        let record = records.next().unwrap().map_err(|error| error.to_string())?;
        Ok(record.value.unwrap().to_vec())
    }

    #[test]
    fn snappy_comes_in_blocks_or_alone() {
        let alone = batch_of(2, |records| snap::raw::Encoder::new().compress_vec(records).unwrap());
        let blocks = batch_of(2, |records| {
            let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            for part in records.chunks(40) {
                let block = snap::raw::Encoder::new().compress_vec(part).unwrap();
                out.extend((block.len() as u32).to_be_bytes());
                out.extend(block);
            }
            out
        });
        assert_eq!(value(&alone).unwrap(), [b'v'; 100]);
        assert_eq!(value(&blocks).unwrap(), [b'v'; 100]);
    }

    #[test]
    fn gzip_and_lz4_are_read() {
        let gzip = batch_of(1, |records| {
            let mut out = Vec::new();
            let mut encoder = flate2::read::GzEncoder::new(records, flate2::Compression::fast());
            encoder.read_to_end(&mut out).unwrap();
            out
        });
        let lz4 = batch_of(3, |records| {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(records).unwrap();
            encoder.finish().unwrap()
        });
        assert_eq!(value(&gzip).unwrap(), [b'v'; 100]);
        assert_eq!(value(&lz4).unwrap(), [b'v'; 100]);
    }

    #[test]
    fn malformed_compressed_records_are_refused() {
        for codec in 1..8 {
            for noise in
                [&b""[..], b"\0", &[0xff; 300], b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff"]
            {
                let batch = batch_of(codec, |_| noise.to_vec());
                assert!(value(&batch).is_err(), "codec {codec}, {noise:?}");
            }
        }
    }

    #[test]
    fn a_false_length_reserves_no_memory() {
        let batch = batch_of(2, |_| vec![0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert!(value(&batch).unwrap_err().contains("larger than it may be"));
    }
}
