//! Kafka's compression types. Decompression is bounded: a length claimed by the input reserves no
//! memory.

#![forbid(unsafe_code)]

use muster_codec::record_batch::Compression;
use std::io::{self, Read, Write};

/// The magic bytes of xerial's snappy framing, which Java clients write. Two version numbers
/// follow.
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
const XERIAL_VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
const XERIAL_HEADER_BYTES: usize = 16;

/// The largest number of gzip members or zstd frames in one batch. Clients write only one. The
/// limit is needed because even an empty one takes microseconds to read.
const FRAMES_MAX: usize = 1_000;

/// Uncompressed bytes in each block of xerial's framing.
const XERIAL_BLOCK_BYTES: usize = 32 << 10;

/// Decompresses `bytes` into `out`, which must be empty. After an error `out` may have a part of
/// the content.
///
/// # Errors
/// The bytes are damaged, or their content is longer than `max` ([`is_too_long`] tests for the
/// latter).
pub fn decompress(
    compression: Compression,
    bytes: &[u8],
    max: usize,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    match compression {
        Compression::None if bytes.len() > max => Err(too_long()),
        Compression::None => {
            out.extend_from_slice(bytes);
            Ok(())
        }
        Compression::Gzip => gzip(bytes, max, out),
        Compression::Lz4 => read_all(lz4_flex::frame::FrameDecoder::new(bytes), max, out),
        Compression::Zstd => zstd(bytes, max, out),
        Compression::Snappy => snappy(bytes, max, out),
    }
}

/// Returns the content of `bytes`. If `bytes` is not compressed, this is `bytes` itself. Otherwise
/// it is decompressed into `buffer`, whose former content is lost, and has at most `max` bytes.
///
/// # Errors
/// The errors of [`decompress`].
pub fn uncompressed<'a>(
    compression: Compression,
    bytes: &'a [u8],
    max: usize,
    buffer: &'a mut Vec<u8>,
) -> io::Result<&'a [u8]> {
    if compression == Compression::None {
        return Ok(bytes);
    }
    buffer.clear();
    decompress(compression, bytes, max, buffer)?;
    Ok(buffer.as_slice())
}

/// Compresses `content` and appends the result to `out`.
///
/// # Errors
/// None are known: the encoders write to memory only.
pub fn compress(compression: Compression, content: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    match compression {
        Compression::None => out.extend_from_slice(content),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
            encoder.write_all(content)?;
            encoder.finish()?;
        }
        Compression::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(out);
            encoder.write_all(content)?;
            encoder.finish().map_err(io::Error::other)?;
        }
        Compression::Zstd => {
            ruzstd::encoding::compress(content, out, ruzstd::encoding::CompressionLevel::Fastest);
        }
        Compression::Snappy => compress_snappy(content, out)?,
    }
    Ok(())
}

/// Whether [`decompress`] failed because the content is longer than `max`.
pub fn is_too_long(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}

fn read_all(reader: impl Read, max: usize, out: &mut Vec<u8>) -> io::Result<()> {
    let left = max.saturating_sub(out.len());
    reader.take(left as u64 + 1).read_to_end(out)?;
    if out.len() > max { Err(too_long()) } else { Ok(()) }
}

/// Decompresses a sequence of gzip members.
fn gzip(mut bytes: &[u8], max: usize, out: &mut Vec<u8>) -> io::Result<()> {
    for _ in 0..FRAMES_MAX {
        let mut member = flate2::bufread::GzDecoder::new(bytes);
        read_all(&mut member, max, out)?;
        bytes = member.into_inner();
        if bytes.is_empty() {
            return Ok(());
        }
    }
    Err(too_many())
}

/// Decompresses a sequence of zstd frames.
fn zstd(mut bytes: &[u8], max: usize, out: &mut Vec<u8>) -> io::Result<()> {
    for _ in 0..FRAMES_MAX {
        if bytes.is_empty() {
            return Ok(());
        }
        // The decoder may buffer a whole window before it returns anything, so a large window alone
        // could use more memory than `max`.
        if window_bytes(bytes).is_some_and(|window| window > max as u64) {
            return Err(too_long());
        }
        let frame = ruzstd::decoding::StreamingDecoder::new(&mut bytes);
        read_all(frame.map_err(io::Error::other)?, max, out)?;
    }
    if bytes.is_empty() { Ok(()) } else { Err(too_many()) }
}

/// The window size of a zstd frame, from its header. Returns None if the window is at most 8 MiB,
/// which every decoder supports, or if the header is not valid.
fn window_bytes(frame: &[u8]) -> Option<u64> {
    const MAGIC: &[u8] = &0xfd2f_b528_u32.to_le_bytes();
    const SINGLE_SEGMENT: u8 = 1 << 5;
    const EVERY_DECODER_BYTES: u64 = 8 << 20;
    let [descriptor, rest @ ..] = frame.strip_prefix(MAGIC)? else { return None };
    let window = if descriptor & SINGLE_SEGMENT == 0 {
        let [window, ..] = rest else { return None };
        let base = 1u64 << (10 + (window >> 3));
        base + base / 8 * u64::from(window & 7)
    } else {
        content_bytes(*descriptor, rest)?
    };
    (window > EVERY_DECODER_BYTES).then_some(window)
}

/// The content size, which the header of a single-segment frame has in place of a window size.
fn content_bytes(descriptor: u8, rest: &[u8]) -> Option<u64> {
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let size = rest.get(dictionary_bytes..dictionary_bytes + size_bytes)?;
    let number = size.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    Some(if size_bytes == 2 { number + 256 } else { number })
}

/// Decompresses snappy. Java clients write xerial's framing: each block follows its length. Other
/// clients write one raw block without framing.
fn snappy(bytes: &[u8], max: usize, out: &mut Vec<u8>) -> io::Result<()> {
    if !bytes.starts_with(XERIAL_MAGIC) {
        return snappy_block(bytes, max, out);
    }
    let mut rest = bytes.get(XERIAL_HEADER_BYTES..).ok_or_else(cut_off)?;
    while !rest.is_empty() {
        let (len, after) = rest.split_first_chunk().ok_or_else(cut_off)?;
        let len = u32::from_be_bytes(*len) as usize;
        let (block, after) = after.split_at_checked(len).ok_or_else(cut_off)?;
        snappy_block(block, max, out)?;
        rest = after;
    }
    Ok(())
}

fn snappy_block(block: &[u8], max: usize, out: &mut Vec<u8>) -> io::Result<()> {
    // A byte of snappy expands to at most 64 bytes, so a false length is recognised before anything
    // is reserved.
    let len = snap::raw::decompress_len(block)?;
    if len > block.len().saturating_mul(64) || out.len() + len > max {
        return Err(too_long());
    }
    let start = out.len();
    out.resize(start + len, 0);
    let written = snap::raw::Decoder::new().decompress(block, &mut out[start..])?;
    out.truncate(start + written);
    Ok(())
}

/// Writes xerial's framing, as Java clients do. All clients can read it.
fn compress_snappy(content: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    out.extend_from_slice(XERIAL_MAGIC);
    out.extend_from_slice(&XERIAL_VERSIONS);
    let mut encoder = snap::raw::Encoder::new();
    for block in content.chunks(XERIAL_BLOCK_BYTES) {
        let compressed = encoder.compress_vec(block)?;
        out.extend((compressed.len() as u32).to_be_bytes());
        out.extend(compressed);
    }
    Ok(())
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "the content is larger than it may be")
}

fn too_many() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "more frames than a client writes")
}

fn cut_off() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1 << 20;

    const ALL: [Compression; 5] = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];

    fn content(compression: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decompress(compression, bytes, MAX, &mut out).map(|()| out)
    }

    /// `len` zeros, compressed by each type.
    fn zeros(len: usize) -> Vec<(Compression, Vec<u8>)> {
        let compressed = |compression| {
            let mut out = Vec::new();
            compress(compression, &vec![0; len], &mut out).unwrap();
            (compression, out)
        };
        ALL.into_iter().map(compressed).collect()
    }

    #[test]
    fn what_was_compressed_is_read_again() {
        let noise = (0..100_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 17) as u8);
        for records in [Vec::new(), b"one".to_vec(), vec![7; 70_000], noise.collect()] {
            for compression in ALL {
                let (mut compressed, mut out) = (Vec::new(), Vec::new());
                compress(compression, &records, &mut compressed).unwrap();
                decompress(compression, &compressed, records.len(), &mut out).unwrap();
                assert!(out == records, "{compression:?}, {} bytes", records.len());
            }
        }
    }

    #[test]
    fn content_comes_whole_up_to_the_bound_and_not_beyond() {
        for (compression, bytes) in zeros(MAX) {
            assert_eq!(content(compression, &bytes).unwrap(), vec![0; MAX], "{compression:?}");
        }
        for (compression, bytes) in zeros(MAX + 1).into_iter().chain(zeros(64 * MAX)) {
            let error = content(compression, &bytes).unwrap_err();
            assert!(is_too_long(&error), "{compression:?}: {error}");
        }
    }

    #[test]
    fn damaged_bytes_are_no_content() {
        for (compression, bytes) in zeros(1_000).into_iter().skip(1) {
            let error = content(compression, &bytes[..bytes.len() / 2]).unwrap_err();
            assert!(!is_too_long(&error), "{compression:?}: {error}");
        }
    }

    /// Numbers that look random, the same in each run (xorshift).
    struct Noise(u64);

    impl Noise {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % limit as u64) as usize
        }
    }

    #[test]
    fn changed_bytes_never_give_more_than_the_bound() {
        let mut noise = Noise(1);
        let text: Vec<u8> = (0..3_000).map(|_| b"abcdefgh"[noise.below(8)]).collect();
        for compression in ALL.into_iter().skip(1) {
            let mut whole = Vec::new();
            compress(compression, &text, &mut whole).unwrap();
            for _ in 0..20_000 {
                let mut bytes = whole.clone();
                for _ in 0..=noise.below(3) {
                    // Half of the changes are in the first 32 bytes, which include the headers: a
                    // changed header has the greatest effect.
                    let range = if noise.below(2) == 0 { 32 } else { bytes.len() };
                    bytes[noise.below(range)] = noise.below(256) as u8;
                }
                if noise.below(4) == 0 {
                    bytes.truncate(noise.below(bytes.len()));
                }
                let mut out = Vec::new();
                // `decompress` may write one byte more than `MAX`: it notices by this byte that the
                // content is too long.
                let _ = decompress(compression, &bytes, MAX, &mut out);
                assert!(out.len() <= MAX + 1, "{compression:?}: {} of {bytes:?}", out.len());
            }
        }
    }

    #[test]
    fn a_batch_has_few_frames() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            for content_of_frame in [&b""[..], b"x"] {
                let mut frame = Vec::new();
                compress(compression, content_of_frame, &mut frame).unwrap();
                let all = content_of_frame.repeat(FRAMES_MAX);
                assert_eq!(content(compression, &frame.repeat(FRAMES_MAX)).unwrap(), all);
                let error = content(compression, &frame.repeat(FRAMES_MAX + 1)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{compression:?}");
            }
        }
    }

    #[test]
    fn a_window_is_not_reserved_because_a_header_claims_it() {
        let of_window = [0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3, 1, 0, 0];
        assert!(is_too_long(&content(Compression::Zstd, &of_window).unwrap_err()));
        let of_content = [0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 4, 1, 0, 0];
        assert!(is_too_long(&content(Compression::Zstd, &of_content).unwrap_err()));
    }
}
