//! A part of a snapshot's file.

use muster_codec::wire::{Reader, Result};
use std::ops::Range;

/// The bytes that describe a part.
pub(super) const PART_BYTES: usize = 24;

/// A part of the file with its own checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    pub at: u64,
    pub len: u64,
    /// CRC-32C.
    pub crc: u32,
}

impl Part {
    /// The part that contains `bytes` at file position `at`.
    pub fn of(at: u64, bytes: &[u8]) -> Self {
        Self { at, len: bytes.len() as u64, crc: crc32c::crc32c(bytes) }
    }

    /// Lets `write` append bytes to `out`, and returns the part that they form. `at` is the file
    /// position of the first appended byte.
    pub fn appended(at: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let from = out.len();
        write(out);
        Self::of(at, &out[from..])
    }

    /// This part, extended by more bytes at its end.
    #[must_use]
    pub fn followed_by(self, bytes: &[u8]) -> Self {
        let (len, crc) = (self.len + bytes.len() as u64, crc32c::crc32c_append(self.crc, bytes));
        Self { len, crc, ..self }
    }

    /// The range of the part in the bytes of the file. The file may be shorter.
    pub fn range(&self) -> Range<usize> {
        let from = usize::try_from(self.at).unwrap_or(usize::MAX);
        from..from.saturating_add(usize::try_from(self.len).unwrap_or(usize::MAX))
    }

    /// The bytes of the part in a file; None if the checksum does not match.
    pub fn of_file<'f>(&self, file: &'f [u8]) -> Option<&'f [u8]> {
        file.get(self.range()).filter(|bytes| crc32c::crc32c(bytes) == self.crc)
    }

    /// Appends position, length, checksum and four zero bytes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.at.to_be_bytes());
        out.extend(self.len.to_be_bytes());
        out.extend(self.crc.to_be_bytes());
        out.extend([0; 4]);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let part = Self {
            at: reader.array().map(u64::from_be_bytes)?,
            len: reader.array().map(u64::from_be_bytes)?,
            crc: reader.array().map(u32::from_be_bytes)?,
        };
        let _reserved = reader.i32()?;
        Ok(part)
    }
}
