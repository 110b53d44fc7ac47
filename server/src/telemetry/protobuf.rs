//! The part of the protocol buffers wire format that OTLP needs. Fields are read in place.

/// The number and the content of a field.
pub(super) type Field<'a> = (u32, Content<'a>);

/// The content of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Content<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// A string, bytes, or an embedded message.
    Bytes(&'a [u8]),
}

impl<'a> Content<'a> {
    /// The bytes of a length-delimited field.
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed64(_) | Self::Fixed32(_) => Err(Malformed),
        }
    }

    /// A string; invalid UTF-8 becomes U+FFFD.
    pub(super) fn text(self) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    /// A number of any integer type.
    pub(super) fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Varint(number) | Self::Fixed64(number) => Ok(number),
            Self::Fixed32(number) => Ok(number.into()),
            Self::Bytes(_) => Err(Malformed),
        }
    }
}

/// The bytes are not a valid message of the expected type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// The fields of a message, in order. After an error the iteration ends.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Option<Field<'a>> {
        let tag = u32::try_from(self.varint()?).ok()?;
        let number = tag >> 3;
        let content = match tag & 7 {
            0 => Content::Varint(self.varint()?),
            1 => Content::Fixed64(u64::from_le_bytes(*self.chunk()?)),
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(len)?;
                self.rest = rest;
                Content::Bytes(bytes)
            }
            5 => Content::Fixed32(u32::from_le_bytes(*self.chunk()?)),
            // Groups were deprecated before OTLP, which does not use them.
            _ => return None,
        };
        (number > 0).then_some((number, content))
    }

    fn chunk<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (chunk, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(chunk)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read().ok_or(Malformed);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Appends a length-delimited field.
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number << 3 | 2));
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field unchanged.
pub(super) fn put(out: &mut Vec<u8>, (number, content): Field<'_>) {
    let tag = |of_type: u32| u64::from(number << 3 | of_type);
    match content {
        Content::Varint(value) => {
            put_varint(out, tag(0));
            put_varint(out, value);
        }
        Content::Fixed64(value) => {
            put_varint(out, tag(1));
            out.extend(value.to_le_bytes());
        }
        Content::Fixed32(value) => {
            put_varint(out, tag(5));
            out.extend(value.to_le_bytes());
        }
        Content::Bytes(bytes) => put_bytes(out, number, bytes),
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_put() {
        let fields = [
            (1, Content::Varint(u64::MAX)),
            (2, Content::Fixed64(1)),
            (536_870_911, Content::Bytes(b"text")),
            (4, Content::Fixed32(7)),
        ];
        let mut message = Vec::new();
        fields.into_iter().for_each(|field| put(&mut message, field));
        let read: Result<Vec<_>, _> = Fields::of(&message).collect();
        assert_eq!(read, Ok(fields.to_vec()));
        for len in 1..message.len() {
            let whole = [11, 20, 30].contains(&len);
            assert_eq!(Fields::of(&message[..len]).all(|field| field.is_ok()), whole, "{len}");
        }
    }

    #[test]
    fn what_is_no_field_ends_the_message() {
        // Field number 0, an unknown type, and a varint that is too long.
        for bytes in [
            &[0u8, 0][..],
            &[0x0b],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            let read: Vec<_> = Fields::of(bytes).collect();
            assert_eq!(read, [Err(Malformed)], "{bytes:?}");
        }
    }
}
