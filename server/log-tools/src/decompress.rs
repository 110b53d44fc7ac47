//! The records of a batch, decompressed.

use muster_codec::record_batch::{Batch, Compression, Records};
use std::io::{self, Read};

/// The most bytes of one batch's records. No count in a batch reserves memory: the limit applies to
/// decompressed bytes.
const RECORDS_BYTES_MAX: usize = 256 << 20;

/// The start of xerial's framing, which Java clients write; two version numbers follow.
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;

/// The records; `buffer` holds them if they are compressed.
///
/// # Errors
/// The reason why they cannot be read.
pub(super) fn records<'a>(
    batch: &Batch<'a>,
    buffer: &'a mut Vec<u8>,
) -> Result<Records<'a>, String> {
    let (payload, count) = (batch.payload(), batch.header.records_count);
    let compression = batch.header.compression().ok_or("an unknown compression")?;
    if compression == Compression::None {
        return Ok(Records::new(payload, count));
    }
    buffer.clear();
    let result = match compression {
        Compression::None => Ok(()),
        Compression::Gzip => read_all(flate2::read::MultiGzDecoder::new(payload), buffer),
        Compression::Lz4 => read_all(lz4_flex::frame::FrameDecoder::new(payload), buffer),
        Compression::Zstd => zstd(payload, buffer),
        Compression::Snappy => snappy(payload, buffer),
    };
    result.map_err(|error| format!("its records cannot be decompressed: {error}"))?;
    Ok(Records::new(buffer, count))
}

fn read_all(reader: impl Read, out: &mut Vec<u8>) -> io::Result<()> {
    let left = RECORDS_BYTES_MAX - out.len();
    reader.take(left as u64 + 1).read_to_end(out)?;
    if out.len() > RECORDS_BYTES_MAX { Err(too_long()) } else { Ok(()) }
}

/// One frame after the other.
fn zstd(mut payload: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    while !payload.is_empty() {
        let frame = ruzstd::decoding::StreamingDecoder::new(&mut payload);
        read_all(frame.map_err(io::Error::other)?, out)?;
    }
    Ok(())
}

/// Blocks behind their lengths, or a single block, as clients other than Java's write it.
fn snappy(payload: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    if !payload.starts_with(XERIAL_MAGIC) {
        return snappy_block(payload, out);
    }
    let mut rest = payload.get(XERIAL_HEADER_BYTES..).ok_or_else(cut_off)?;
    while !rest.is_empty() {
        let (len, behind) = rest.split_first_chunk().ok_or_else(cut_off)?;
        let len = u32::from_be_bytes(*len) as usize;
        let (block, behind) = behind.split_at_checked(len).ok_or_else(cut_off)?;
        snappy_block(block, out)?;
        rest = behind;
    }
    Ok(())
}

fn snappy_block(block: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    // A byte of snappy expands to at most 64, so a false length is recognised at once.
    let len = snap::raw::decompress_len(block)?;
    if len > block.len().saturating_mul(64) || out.len() + len > RECORDS_BYTES_MAX {
        return Err(too_long());
    }
    let start = out.len();
    out.resize(start + len, 0);
    let written = snap::raw::Decoder::new().decompress(block, &mut out[start..])?;
    out.truncate(start + written);
    Ok(())
}

fn too_long() -> io::Error {
    io::Error::other("the records are larger than a batch may be")
}

fn cut_off() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
    use muster_codec::record_batch::{BatchBuilder, BatchHeader};

    /// A batch of one record, with its payload replaced.
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
            let mut out = [XERIAL_MAGIC, &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
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
            io::Write::write_all(&mut encoder, records).unwrap();
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
        assert!(value(&batch).unwrap_err().contains("larger than a batch may be"));
    }
}
