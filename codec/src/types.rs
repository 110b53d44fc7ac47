//! Values of fields: strings, bytes and uuids. They borrow from the frame if possible.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

/// A string, borrowed from the frame or owned. As in Java, invalid UTF-8 becomes U+FFFD.
pub type Str<'a> = Cow<'a, str>;

/// A byte string, borrowed from the frame or owned.
#[derive(Clone, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Bytes<'a>(pub Cow<'a, [u8]>);

impl<'a> Bytes<'a> {
    pub fn borrowed(bytes: &'a [u8]) -> Self {
        Self(Cow::Borrowed(bytes))
    }

    pub fn into_owned(self) -> Bytes<'static> {
        Bytes(Cow::Owned(self.0.into_owned()))
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::borrowed(bytes)
    }
}

impl From<Vec<u8>> for Bytes<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Cow::Owned(bytes))
    }
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Base64(&self.0, STANDARD))
    }
}

/// A byte string that is never printed: a password or a value derived from one.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretBytes<'a>(pub Bytes<'a>);

const HIDDEN: &str = "[hidden]";

impl Deref for SecretBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for SecretBytes<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for SecretBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// The records in an answer: either their bytes, or a gap that the sender fills with the records'
/// bytes from a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Records<'a> {
    Here(Bytes<'a>),
    Elsewhere(Gap),
}

/// A gap in an encoded answer, into which the sender inserts bytes of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The number of bytes.
    pub len: u32,
    /// The byte position of the gap in the encoded answer. It is set each time the answer is
    /// encoded.
    pub at: Cell<usize>,
}

impl Records<'_> {
    /// Stands for `len` bytes of a file.
    pub fn elsewhere(len: u32) -> Self {
        Self::Elsewhere(Gap { len, at: Cell::new(0) })
    }

    pub fn gap(&self) -> Option<&Gap> {
        match self {
            Self::Here(_) => None,
            Self::Elsewhere(gap) => Some(gap),
        }
    }
}

impl Deref for Records<'_> {
    type Target = [u8];

    /// The bytes of `Here`; empty for `Elsewhere`.
    fn deref(&self) -> &[u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Elsewhere(_) => &[],
        }
    }
}

impl Default for Records<'_> {
    fn default() -> Self {
        Self::Here(Bytes::default())
    }
}

impl From<Vec<u8>> for Records<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Here(bytes.into())
    }
}

/// An id of 16 bytes, such as a topic id. It is printed as in Kafka: url-safe base64 without
/// padding.
#[derive(Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    pub const ZERO: Self = Self([0; 16]);

    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Parses what [`Uuid`]'s `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        decode_base64(text)?.try_into().ok().map(Self)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Base64(&self.0, URL_SAFE))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const STANDARD: [u8; 2] = *b"+/";
const URL_SAFE: [u8; 2] = *b"-_";

struct Base64<'a>(&'a [u8], [u8; 2]);

impl fmt::Display for Base64<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for chunk in self.0.chunks(3) {
            let bits = chunk.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b));
            let bits = bits << (8 * (3 - chunk.len()));
            for i in 0..=chunk.len() {
                f.write_char(base64_digit((bits >> (18 - 6 * i)) as u8 & 0x3f, self.1))?;
            }
            if self.1 == STANDARD {
                f.write_str(&"=="[..3 - chunk.len()])?;
            }
        }
        Ok(())
    }
}

fn base64_digit(value: u8, last_two: [u8; 2]) -> char {
    char::from(match value {
        0..=25 => b'A' + value,
        26..=51 => b'a' + value - 26,
        52..=61 => b'0' + value - 52,
        _ => last_two[usize::from(value & 1)],
    })
}

/// Decodes both base64 alphabets, with or without padding.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let mut bits = 0u32;
        for digit in chunk {
            bits = bits << 6 | u32::from(base64_value(*digit)?);
        }
        bits <<= 6 * (4 - chunk.len());
        out.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Some(out)
}

fn base64_value(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

/// The forms in Kafka's JSON: bytes in base64, uuids in url-safe base64.
#[cfg(feature = "serde")]
mod json {
    use super::{Bytes, HIDDEN, Records, SecretBytes, Uuid, decode_base64};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    impl Serialize for Bytes<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(&format_args!("{self:?}"))
        }
    }

    impl<'de> Deserialize<'de> for Bytes<'_> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            decode_base64(&text).map(Self::from).ok_or_else(|| D::Error::custom("not base64"))
        }
    }

    impl Serialize for SecretBytes<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(HIDDEN)
        }
    }

    impl<'de> Deserialize<'de> for SecretBytes<'_> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Bytes::deserialize(deserializer).map(Self)
        }
    }

    impl Serialize for Records<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            Bytes::borrowed(self).serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for Records<'_> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Bytes::deserialize(deserializer).map(Self::Here)
        }
    }

    impl Serialize for Uuid {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Uuid {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            Self::parse(&text).ok_or_else(|| D::Error::custom("not a uuid in base64"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_print_as_kafka_prints_them() {
        let text = "toYP0eoE998YawRoXrICWA";
        assert_eq!(Uuid::parse(text).unwrap().to_string(), text);
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(Uuid::parse("short"), None);
    }

    #[test]
    fn secrets_do_not_print() {
        let secret = SecretBytes::from(b"secret".to_vec());
        assert_eq!((format!("{secret:?}"), &*secret), ("[hidden]".to_owned(), &b"secret"[..]));
    }

    #[test]
    fn bytes_print_in_padded_base64() {
        assert_eq!(format!("{:?}", Bytes::borrowed(b"a")), "YQ==");
        assert_eq!(format!("{:?}", Bytes::borrowed(b"ab")), "YWI=");
        assert_eq!(format!("{:?}", Bytes::borrowed(b"abc")), "YWJj");
        assert_eq!(decode_base64("YWI=").unwrap(), b"ab");
    }
}
