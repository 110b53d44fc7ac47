//! The primitive types of the Kafka protocol: a bounded [`Reader`] and the `put_*` functions.

use crate::limits::{ARRAY_BYTES_MIN, ARRAY_BYTES_PER_BYTE, REQUEST_ARRAY_BYTES_MAX};
use std::fmt;

/// The reason why bytes cannot be decoded, or why a response cannot be encoded. If the bytes are a
/// request, the connection that sent them is closed, as in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The frame ends before the value does.
    UnexpectedEnd,
    /// A length, count or size is larger than the rest of the frame, or the arrays of the frame
    /// exceed their memory budget.
    LengthTooLong,
    /// A string is longer than 32,767 bytes.
    StringTooLong,
    /// A field that is not nullable is null.
    UnexpectedNull,
    /// A 32-bit varint has more than five bytes, or a 64-bit varint more than ten.
    VarintTooLong,
    /// muster does not serve this API key.
    UnknownApiKey(i16),
    /// muster does not serve this version of the API.
    UnsupportedVersion { api_key: i16, version: i16 },
    /// This build does not know the type or the version of a record.
    UnknownRecord { record_type: i16, version: i16 },
    /// The response would be longer than [`RESPONSE_BYTES_MAX`](crate::limits::RESPONSE_BYTES_MAX).
    ResponseTooLong(usize),
    /// A record batch breaks a rule, which the text names.
    InvalidBatch(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedEnd => f.write_str("ends too early"),
            Self::LengthTooLong => f.write_str("a length exceeds the frame"),
            Self::StringTooLong => f.write_str("a string is longer than 32767 bytes"),
            Self::UnexpectedNull => f.write_str("null where a value is required"),
            Self::VarintTooLong => f.write_str("a varint is too long"),
            Self::UnknownApiKey(key) => write!(f, "unknown API key {key}"),
            Self::UnsupportedVersion { api_key, version } => {
                write!(f, "API key {api_key} is not served in version {version}")
            }
            Self::UnknownRecord { record_type, version } => {
                write!(f, "unknown record type {record_type} version {version}")
            }
            Self::ResponseTooLong(bytes) => write!(f, "a response of {bytes} bytes is too long"),
            Self::InvalidBatch(rule) => write!(f, "invalid record batch: {rule}"),
        }
    }
}

impl std::error::Error for DecodeError {}

pub type Result<T> = std::result::Result<T, DecodeError>;

/// A cursor over one frame. Each read takes bytes from the front and never reads past the end.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The memory that arrays may still take, in bytes.
    array_bytes: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, array_bytes: array_bytes_max(bytes.len()) }
    }

    /// Reads a request, whose arrays may take at most [`REQUEST_ARRAY_BYTES_MAX`] of memory.
    #[inline]
    pub fn of_request(bytes: &'a [u8]) -> Self {
        Self::limited(bytes, REQUEST_ARRAY_BYTES_MAX)
    }

    /// Reads a frame whose arrays may take at most `array_bytes` of memory, even if it is long.
    #[inline]
    pub fn limited(bytes: &'a [u8], array_bytes: usize) -> Self {
        Self { rest: bytes, array_bytes: array_bytes_max(bytes.len()).min(array_bytes) }
    }

    /// Reads the body of a request that was read before as part of its frame. `bytes` is shorter
    /// than that frame, on whose length the memory budget of the first read depended. So this
    /// reader gets the largest budget.
    #[inline]
    pub fn of_accepted_request(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, array_bytes: REQUEST_ARRAY_BYTES_MAX }
    }

    /// The number of bytes that are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The bytes that are left; they are not consumed.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(DecodeError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub fn i8(&mut self) -> Result<i8> {
        self.array().map(i8::from_be_bytes)
    }

    #[inline]
    pub fn i16(&mut self) -> Result<i16> {
        self.array().map(i16::from_be_bytes)
    }

    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads an unsigned 32-bit varint. As in Kafka, a sixth byte is an error and bits above the
    /// 32nd are dropped.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32> {
        match self.rest.split_first() {
            Some((byte, rest)) if byte & 0x80 == 0 => {
                self.rest = rest;
                Ok(u32::from(*byte))
            }
            _ => self.longer_uvarint(),
        }
    }

    fn longer_uvarint(&mut self) -> Result<u32> {
        let mut value = 0u32;
        for shift in (0..35).step_by(7) {
            let byte = self.u8()?;
            value |= u32::from(byte & 0x7f).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintTooLong)
    }

    /// Reads a zigzag 64-bit varint, as records use it.
    #[inline]
    pub fn varlong(&mut self) -> Result<i64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(DecodeError::VarintTooLong)
    }

    /// Reads a zigzag 32-bit varint, as records use it.
    #[inline]
    pub fn varint(&mut self) -> Result<i32> {
        let value = self.uvarint()?;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// Reads the length of a compact type, whose varint is the length plus one. A varint of 0 is
    /// null (None). As in Kafka, varints from 2^31 + 1 on are null, too, because they wrap to a
    /// negative number.
    #[inline]
    pub fn compact_length(&mut self) -> Result<Option<usize>> {
        let length = (self.uvarint()? as i32).wrapping_sub(1);
        self.checked_length(i64::from(length))
    }

    /// Reads a 16-bit length; a negative length is null.
    #[inline]
    pub fn i16_length(&mut self) -> Result<Option<usize>> {
        let length = self.i16()?;
        self.checked_length(i64::from(length))
    }

    /// Reads a 32-bit length; a negative length is null.
    pub fn i32_length(&mut self) -> Result<Option<usize>> {
        let length = self.i32()?;
        self.checked_length(i64::from(length))
    }

    /// Subtracts the memory of an array from the frame's budget. Must be called before the memory
    /// is reserved.
    ///
    /// # Errors
    /// `LengthTooLong` if the array exceeds the budget.
    pub fn claim_array<T>(&mut self, length: usize) -> Result<()> {
        let claimed = length.checked_mul(size_of::<T>());
        let left = claimed.and_then(|claimed| self.array_bytes.checked_sub(claimed));
        self.array_bytes = left.ok_or(DecodeError::LengthTooLong)?;
        Ok(())
    }

    /// Calls `read` with a reader of the next `length` bytes only. It shares this reader's memory
    /// budget.
    pub fn within<T>(
        &mut self,
        length: usize,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let mut part = Self { rest: self.take(length)?, array_bytes: self.array_bytes };
        let value = read(&mut part)?;
        self.array_bytes = part.array_bytes;
        Ok(value)
    }

    /// Checks a length. A negative length is null (None). A length above the number of bytes that
    /// are left is an error, even that of an array: each of its elements takes at least one byte.
    #[inline]
    fn checked_length(&self, length: i64) -> Result<Option<usize>> {
        match usize::try_from(length) {
            Err(_) => Ok(None),
            Ok(length) if length > self.rest.len() => Err(DecodeError::LengthTooLong),
            Ok(length) => Ok(Some(length)),
        }
    }
}

/// The memory that all arrays of a frame of this size may take, in bytes.
const fn array_bytes_max(frame_bytes: usize) -> usize {
    frame_bytes.saturating_mul(ARRAY_BYTES_PER_BYTE).saturating_add(ARRAY_BYTES_MIN)
}

pub fn put_i8(out: &mut Vec<u8>, value: i8) {
    out.push(value as u8);
}

pub fn put_i16(out: &mut Vec<u8>, value: i16) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn put_i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn put_uvarint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_uvarint(out, ((value << 1) ^ (value >> 31)) as u32);
}

pub fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut value = ((value << 1) ^ (value >> 63)) as u64;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number of bytes that [`put_varlong`] takes for `value`.
pub fn varlong_len(value: i64) -> usize {
    let zigzag = ((value << 1) ^ (value >> 63)) as u64;
    (64 - (zigzag | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_their_edges() {
        for value in [0, 1, -1, 63, 64, -64, -65, i64::from(i32::MAX), i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_varlong(&mut out, value);
            assert_eq!(out.len(), varlong_len(value), "{value}");
            assert_eq!(Reader::new(&out).varlong(), Ok(value));
        }
        for value in [0, 1, -1, i32::MAX, i32::MIN] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Reader::new(&out).varint(), Ok(value));
        }
    }

    #[test]
    fn a_sixth_byte_is_refused() {
        assert_eq!(Reader::new(&[0xff; 6]).uvarint(), Err(DecodeError::VarintTooLong));
        assert_eq!(Reader::new(&[0xff, 0xff]).uvarint(), Err(DecodeError::UnexpectedEnd));
    }

    #[test]
    fn the_arrays_of_a_request_have_a_limit_of_their_own() {
        let frame = vec![0; REQUEST_ARRAY_BYTES_MAX];
        let claim = |mut reader: Reader<'_>, bytes| reader.claim_array::<u8>(bytes);
        assert_eq!(claim(Reader::of_request(&frame), REQUEST_ARRAY_BYTES_MAX), Ok(()));
        let over = REQUEST_ARRAY_BYTES_MAX + 1;
        assert_eq!(claim(Reader::of_request(&frame), over), Err(DecodeError::LengthTooLong));
        assert_eq!(claim(Reader::new(&frame), over), Ok(()));
    }

    #[test]
    fn a_length_is_checked_before_it_is_used() {
        assert_eq!(Reader::new(&[0, 5, 1]).i16_length(), Err(DecodeError::LengthTooLong));
        assert_eq!(Reader::new(&[0xff, 0xff]).i16_length(), Ok(None));
        let wraps = [0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(Reader::new(&wraps).compact_length(), Ok(None), "2^32-1 wraps to null");
    }
}
