//! Walks the body of an answer along its layout, without reserving memory, before the codec decodes
//! it: `kafka-protocol` 0.18 calls `Vec::with_capacity` with any length that it reads, and one
//! answer of five bytes would end the process.

use super::ELEMENTS_MAX;
use super::layouts::layout;

/// The layout of an answer's body over all its versions.
pub(super) struct Layout {
    pub(super) flexible_from: i16,
    pub(super) fields: &'static [Field],
    /// Tagged fields of the body itself, by tag. Others are skipped by their size.
    pub(super) tagged: &'static [(u64, Kind)],
}

pub(super) struct Field {
    pub(super) kind: Kind,
    pub(super) from: i16,
    pub(super) to: i16,
}

pub(super) enum Kind {
    Fixed(usize),
    String,
    Bytes,
    /// An array of structures.
    Array(&'static [Field]),
    /// An array of numbers or strings.
    Plain(&'static Self),
    Structure(&'static [Field]),
    /// An optional structure, with a byte in front that says whether it is present.
    Nullable(&'static [Field]),
}

/// Checks that every length in `body` is backed by bytes, and the elements are not too many.
///
/// # Errors
/// A sentence on what is wrong. An API without a layout is an error, too, and is not decoded.
pub(super) fn check(api_key: i16, version: i16, body: &[u8]) -> Result<(), &'static str> {
    walk(api_key, version, body).map(|_| ())
}

/// Like [`check`], but returns the number of bytes that are left over.
pub(super) fn walk(api_key: i16, version: i16, body: &[u8]) -> Result<usize, &'static str> {
    let layout = layout(api_key).ok_or("an answer of an API that is not used here")?;
    let flexible = version >= layout.flexible_from;
    let mut walk = Walk { rest: body, version, flexible, elements: 0 };
    walk.fields(layout.fields)?;
    if flexible {
        walk.tagged(layout.tagged)?;
    }
    Ok(walk.rest.len())
}

struct Walk<'a> {
    rest: &'a [u8],
    version: i16,
    flexible: bool,
    elements: usize,
}

type Step<T = ()> = Result<T, &'static str>;

const SHORT: &str = "the answer ends too early";

impl Walk<'_> {
    fn structure(&mut self, fields: &[Field]) -> Step {
        self.fields(fields)?;
        if self.flexible { self.tagged(&[]) } else { Ok(()) }
    }

    fn fields(&mut self, fields: &[Field]) -> Step {
        let version = self.version;
        let there = fields.iter().filter(|field| (field.from..=field.to).contains(&version));
        for field in there {
            self.field(&field.kind)?;
        }
        Ok(())
    }

    fn field(&mut self, kind: &Kind) -> Step {
        match kind {
            Kind::Fixed(size) => self.skip(*size),
            Kind::String => {
                let length = if self.flexible { self.compact_length()? } else { self.short()? };
                self.skip(length)
            }
            Kind::Bytes => {
                let length = self.length()?;
                self.skip(length)
            }
            Kind::Array(fields) => self.elements(|walk| walk.structure(fields)),
            Kind::Plain(kind) => self.elements(|walk| walk.field(kind)),
            Kind::Structure(fields) => self.structure(fields),
            Kind::Nullable(fields) => match self.byte()? {
                1 => self.structure(fields),
                _ => Ok(()),
            },
        }
    }

    /// Each element takes at least a byte, so that this ends with the bytes.
    fn elements(&mut self, mut element: impl FnMut(&mut Self) -> Step) -> Step {
        let length = self.length()?;
        self.elements = self.elements.saturating_add(length);
        if self.elements > ELEMENTS_MAX || length > self.rest.len() {
            return Err("the answer announces more elements than it can hold");
        }
        (0..length).try_for_each(|_| element(self))
    }

    fn tagged(&mut self, known: &[(u64, Kind)]) -> Step {
        for _ in 0..self.uvarint()? {
            let tag = self.uvarint()?;
            let size = usize::try_from(self.uvarint()?).map_err(|_| SHORT)?;
            if size > self.rest.len() {
                return Err(SHORT);
            }
            match known.iter().find(|(known, _)| *known == tag) {
                Some((_, kind)) => self.field(kind)?,
                None => self.skip(size)?,
            }
        }
        Ok(())
    }

    /// The length of an array or bytes; null counts as empty.
    fn length(&mut self) -> Step<usize> {
        if self.flexible {
            return self.compact_length();
        }
        let bytes = self.rest.first_chunk::<4>().ok_or(SHORT)?;
        let length = i32::from_be_bytes(*bytes);
        self.rest = &self.rest[4..];
        Ok(usize::try_from(length).unwrap_or(0))
    }

    fn compact_length(&mut self) -> Step<usize> {
        usize::try_from(self.uvarint()?.saturating_sub(1)).map_err(|_| SHORT)
    }

    fn short(&mut self) -> Step<usize> {
        let bytes = self.rest.first_chunk::<2>().ok_or(SHORT)?;
        let length = i16::from_be_bytes(*bytes);
        self.rest = &self.rest[2..];
        Ok(usize::try_from(length).unwrap_or(0))
    }

    fn uvarint(&mut self) -> Step<u64> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a length of more than five bytes")
    }

    fn byte(&mut self) -> Step<u8> {
        let (byte, rest) = self.rest.split_first().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn skip(&mut self, size: usize) -> Step {
        self.rest = self.rest.get(size..).ok_or(SHORT)?;
        Ok(())
    }
}
