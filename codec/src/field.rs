//! How each type reads and writes itself in a given version of a message.

use crate::limits::STRING_BYTES_MAX;
use crate::types::{Bytes, Records, SecretBytes, Str, Uuid};
use crate::wire::{DecodeError, Reader, Result, put_i8, put_i16, put_i32, put_i64, put_uvarint};

/// The version of the message that contains a field. A flexible version has compact lengths and
/// tagged fields (KIP-482).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub number: i16,
    pub flexible: bool,
}

/// A type that a field of a message may have.
pub trait Field<'a>: Sized {
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self>;
    fn write(&self, out: &mut Vec<u8>, version: Version);

    /// Bytes of memory that the value points to, in addition to `size_of` its type.
    #[inline]
    fn held(&self) -> usize {
        0
    }

    /// The length in bytes of the longest string in the value.
    #[inline]
    fn longest_string(&self) -> usize {
        0
    }

    /// Visits all error codes in the field, except NONE. An integer is an error code if `is_code`.
    #[inline]
    fn errors(&self, _is_code: bool, _visit: &mut impl FnMut(i16)) {}

    /// The integer itself, if the field is an `i32`.
    #[inline]
    fn as_i32(&mut self) -> Option<&mut i32> {
        None
    }
}

/// A type `T` that has a representation of null on the wire. For each such type, `Option<T>` is a
/// [`Field`], too.
pub trait Nullable<'a>: Field<'a> {
    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>>;
    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version);

    /// Like [`Field::held`].
    fn held_by(value: &Self) -> usize;

    /// Like [`Field::longest_string`].
    fn longest_string_of(value: &Self) -> usize;

    /// Like [`Field::errors`].
    #[inline]
    fn errors_of(_value: &Self, _visit: &mut impl FnMut(i16)) {}
}

macro_rules! fixed_size {
    ($($ty:ty, $read:ident, $put:ident;)*) => {$(
        impl<'a> Field<'a> for $ty {
            #[inline]
            fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self> {
                reader.$read()
            }

            #[inline]
            fn write(&self, out: &mut Vec<u8>, _: Version) {
                $put(out, *self);
            }
        }
    )*};
}

fixed_size! {
    i8, i8, put_i8;
    i64, i64, put_i64;
}

/// Boxes a large body, so that the enum of all bodies stays small.
impl<'a, T: Field<'a>> Field<'a> for Box<T> {
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self> {
        T::read(reader, version).map(Self::new)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        T::write(self, out, version);
    }

    fn held(&self) -> usize {
        size_of::<T>() + T::held(self)
    }

    fn longest_string(&self) -> usize {
        T::longest_string(self)
    }

    fn errors(&self, is_code: bool, visit: &mut impl FnMut(i16)) {
        T::errors(self, is_code, visit);
    }
}

impl<'a> Field<'a> for i32 {
    #[inline]
    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self> {
        reader.i32()
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>, _: Version) {
        put_i32(out, *self);
    }

    #[inline]
    fn as_i32(&mut self) -> Option<&mut i32> {
        Some(self)
    }
}

impl<'a> Field<'a> for i16 {
    #[inline]
    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self> {
        reader.i16()
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>, _: Version) {
        put_i16(out, *self);
    }

    #[inline]
    fn errors(&self, is_code: bool, visit: &mut impl FnMut(Self)) {
        if is_code && *self != 0 {
            visit(*self);
        }
    }
}

impl<'a> Field<'a> for u16 {
    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self> {
        reader.array().map(Self::from_be_bytes)
    }

    fn write(&self, out: &mut Vec<u8>, _: Version) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl<'a> Field<'a> for f64 {
    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self> {
        reader.array().map(Self::from_be_bytes)
    }

    fn write(&self, out: &mut Vec<u8>, _: Version) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl<'a> Field<'a> for bool {
    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self> {
        Ok(reader.u8()? != 0)
    }

    fn write(&self, out: &mut Vec<u8>, _: Version) {
        out.push(u8::from(*self));
    }
}

impl<'a> Field<'a> for Uuid {
    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self> {
        reader.array().map(Self)
    }

    fn write(&self, out: &mut Vec<u8>, _: Version) {
        out.extend_from_slice(&self.0);
    }
}

impl<'a> Nullable<'a> for Str<'a> {
    #[inline]
    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>> {
        let length =
            if version.flexible { reader.compact_length()? } else { reader.i16_length()? };
        match length {
            None => Ok(None),
            Some(0) => Ok(Some(Str::Borrowed(""))),
            Some(length) if length > STRING_BYTES_MAX => Err(DecodeError::StringTooLong),
            Some(length) => decode_utf8(reader.take(length)?).map(Some),
        }
    }

    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version) {
        let text = value.map(|text| longest_prefix(text));
        match (version.flexible, text) {
            (true, text) => put_compact_length(out, text.map(str::len)),
            (false, Some(text)) => put_i16(out, text.len() as i16),
            (false, None) => put_i16(out, -1),
        }
        out.extend_from_slice(text.unwrap_or_default().as_bytes());
    }

    #[inline]
    fn held_by(value: &Self) -> usize {
        value.len()
    }

    #[inline]
    fn longest_string_of(value: &Self) -> usize {
        value.len()
    }
}

/// Decodes a string and replaces invalid UTF-8. `from_utf8` is tried first because it is faster: it
/// checks ASCII a word at a time. In place of an invalid byte the result may have three bytes
/// (U+FFFD). If it is then too long to be written again, it is refused.
fn decode_utf8(bytes: &[u8]) -> Result<Str<'_>> {
    if let Ok(text) = str::from_utf8(bytes) {
        return Ok(Str::Borrowed(text));
    }
    let text = String::from_utf8_lossy(bytes);
    if text.len() > STRING_BYTES_MAX { Err(DecodeError::StringTooLong) } else { Ok(text) }
}

/// The longest prefix of a string that fits on the wire. A decoded string always fits. An error
/// message that quotes a client's input may be too long, and is cut.
fn longest_prefix(text: &str) -> &str {
    &text[..text.floor_char_boundary(STRING_BYTES_MAX)]
}

impl<'a> Nullable<'a> for Bytes<'a> {
    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>> {
        let length = read_length(reader, version)?;
        length.map(|length| reader.take(length).map(Self::borrowed)).transpose()
    }

    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version) {
        put_length(out, version, value.map(|bytes| bytes.len()));
        out.extend_from_slice(value.map(|bytes| &bytes.0[..]).unwrap_or_default());
    }

    #[inline]
    fn held_by(value: &Self) -> usize {
        value.len()
    }

    #[inline]
    fn longest_string_of(_: &Self) -> usize {
        0
    }
}

impl<'a> Nullable<'a> for SecretBytes<'a> {
    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>> {
        Ok(Bytes::read_nullable(reader, version)?.map(Self))
    }

    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version) {
        Bytes::write_nullable(value.map(|secret| &secret.0), out, version);
    }

    #[inline]
    fn held_by(value: &Self) -> usize {
        value.len()
    }

    #[inline]
    fn longest_string_of(_: &Self) -> usize {
        0
    }
}

impl<'a> Nullable<'a> for Records<'a> {
    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>> {
        Ok(Bytes::read_nullable(reader, version)?.map(Self::Here))
    }

    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version) {
        match value {
            None => Bytes::write_nullable(None, out, version),
            Some(Self::Here(bytes)) => Bytes::write_nullable(Some(bytes), out, version),
            Some(Self::Elsewhere(gap)) => {
                put_length(out, version, Some(gap.len as usize));
                gap.at.set(out.len());
            }
        }
    }

    fn held_by(value: &Self) -> usize {
        value.len()
    }

    fn longest_string_of(_: &Self) -> usize {
        0
    }
}

impl<'a, T: Field<'a>> Nullable<'a> for Vec<T> {
    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>> {
        let Some(length) = read_length(reader, version)? else { return Ok(None) };
        reader.claim_array::<T>(length)?;
        let mut elements = Self::with_capacity(length);
        for _ in 0..length {
            elements.push(T::read(reader, version)?);
        }
        Ok(Some(elements))
    }

    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version) {
        put_length(out, version, value.map(Self::len));
        for element in value.into_iter().flatten() {
            element.write(out, version);
        }
    }

    #[inline]
    fn held_by(value: &Self) -> usize {
        value.len() * size_of::<T>() + value.iter().map(T::held).sum::<usize>()
    }

    #[inline]
    fn longest_string_of(value: &Self) -> usize {
        value.iter().map(T::longest_string).max().unwrap_or(0)
    }

    #[inline]
    fn errors_of(value: &Self, visit: &mut impl FnMut(i16)) {
        value.iter().for_each(|element| element.errors(false, visit));
    }
}

macro_rules! field_through_nullable {
    ($([$($generics:tt)*] $ty:ty;)*) => {$(
        impl<'a, $($generics)*> Field<'a> for $ty {
            fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self> {
                Self::read_nullable(reader, version)?.ok_or(DecodeError::UnexpectedNull)
            }

            fn write(&self, out: &mut Vec<u8>, version: Version) {
                Self::write_nullable(Some(self), out, version);
            }

            #[inline]
            fn held(&self) -> usize {
                Self::held_by(self)
            }

            #[inline]
            fn longest_string(&self) -> usize {
                Self::longest_string_of(self)
            }

            #[inline]
            fn errors(&self, _: bool, visit: &mut impl FnMut(i16)) {
                Self::errors_of(self, visit);
            }
        }
    )*};
}

field_through_nullable! {
    [] Str<'a>;
    [] Bytes<'a>;
    [] SecretBytes<'a>;
    [] Records<'a>;
    [T: Field<'a>] Vec<T>;
}

impl<'a, T: Nullable<'a>> Field<'a> for Option<T> {
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self> {
        T::read_nullable(reader, version)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        T::write_nullable(self.as_ref(), out, version);
    }

    #[inline]
    fn held(&self) -> usize {
        self.as_ref().map_or(0, T::held_by)
    }

    #[inline]
    fn longest_string(&self) -> usize {
        self.as_ref().map_or(0, T::longest_string_of)
    }

    #[inline]
    fn errors(&self, _: bool, visit: &mut impl FnMut(i16)) {
        self.iter().for_each(|value| T::errors_of(value, visit));
    }
}

/// Reads the length of bytes, records or an array.
fn read_length(reader: &mut Reader<'_>, version: Version) -> Result<Option<usize>> {
    if version.flexible { reader.compact_length() } else { reader.i32_length() }
}

pub(crate) fn put_length(out: &mut Vec<u8>, version: Version, length: Option<usize>) {
    match (version.flexible, length) {
        (true, length) => put_compact_length(out, length),
        (false, Some(length)) => put_i32(out, length as i32),
        (false, None) => put_i32(out, -1),
    }
}

fn put_compact_length(out: &mut Vec<u8>, length: Option<usize>) {
    put_uvarint(out, length.map_or(0, |length| length as u32 + 1));
}

/// Reads a section of tagged fields and passes each tag with its bytes to `known`. Bytes that
/// `known` leaves unread are skipped.
#[inline]
pub fn read_tagged<'a>(
    reader: &mut Reader<'a>,
    mut known: impl FnMut(u32, &mut Reader<'a>) -> Result<()>,
) -> Result<()> {
    for _ in 0..reader.uvarint()? {
        let tag = reader.uvarint()?;
        let size = reader.uvarint()? as usize;
        reader.within(size, |field| known(tag, field))?;
    }
    Ok(())
}

/// Writes one tagged field: tag, size, value.
pub fn put_tagged<'a>(out: &mut Vec<u8>, tag: u32, value: &impl Field<'a>, version: Version) {
    put_uvarint(out, tag);
    let start = out.len();
    value.write(out, version);
    let size = out.len() - start;
    put_uvarint(out, size as u32);
    let size_len = out.len() - start - size;
    out[start..].rotate_right(size_len);
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSIC: Version = Version { number: 0, flexible: false };

    fn read(bytes: usize, byte: u8) -> Result<usize> {
        let mut frame = (bytes as i16).to_be_bytes().to_vec();
        frame.resize(2 + bytes, byte);
        Str::read(&mut Reader::new(&frame), CLASSIC).map(|text| text.len())
    }

    #[test]
    fn strings_that_were_read_can_be_written() {
        assert_eq!(read(STRING_BYTES_MAX, b'a'), Ok(STRING_BYTES_MAX));
        let invalid = STRING_BYTES_MAX / 3;
        assert_eq!(read(invalid, 0xff), Ok(3 * invalid));
        assert_eq!(read(invalid + 1, 0xff), Err(DecodeError::StringTooLong));
    }

    #[test]
    fn a_string_that_is_too_long_is_cut_where_a_character_ends() {
        let text = Str::from("é".repeat(STRING_BYTES_MAX));
        let mut frame = Vec::new();
        text.write(&mut frame, CLASSIC);
        let read = Str::read(&mut Reader::new(&frame), CLASSIC).unwrap();
        assert_eq!(read.len(), STRING_BYTES_MAX - 1);
    }
}
