//! Bodies of requests and responses. Input: API key, version, body.

use crate::memory::within;
use muster_codec::limits::{ARRAY_BYTES_MIN, ARRAY_BYTES_PER_BYTE};
use muster_codec::{ApiKey, Reader, Request, Response};
use std::fmt::Debug;

/// The memory for a string, for each of its bytes in the input. Each invalid byte becomes three
/// bytes (U+FFFD). The string's buffer doubles when it grows, and the old buffer exists until its
/// content is copied.
const TEXT_BYTES_PER_BYTE: usize = 9;

macro_rules! body {
    ($name:ident, $message:ident) => {
        /// Decodes a body. If this succeeds, encodes it and decodes it again.
        pub fn $name(input: &[u8]) {
            let Some(([key, version], body)) = input.split_first_chunk() else { return };
            let (Some(api), version) = (ApiKey::from_key((*key).into()), (*version).into()) else {
                return;
            };
            let read =
                within(granted(body), || $message::read(api, version, &mut Reader::new(body)));
            let Ok(message) = read else { return };
            let mut written = Vec::new();
            message.write(version, &mut written).unwrap();
            let again = $message::read(api, version, &mut Reader::new(&written));
            // Invalid UTF-8 may have become too long to be encoded.
            if written.len() <= body.len() {
                assert_same(&again, &Ok(message), &format!("{} v{version}", api.name()));
            }
        }
    };
}

body!(requests, Request);
body!(responses, Response);

/// Compares unequal values by their text, because NaN does not equal itself.
fn assert_same<T: PartialEq + Debug>(left: &T, right: &T, name: &str) {
    if left != right {
        assert_eq!(format!("{left:?}"), format!("{right:?}"), "{name}");
    }
}

fn granted(body: &[u8]) -> usize {
    body.len() * (ARRAY_BYTES_PER_BYTE + TEXT_BYTES_PER_BYTE) + ARRAY_BYTES_MIN
}
