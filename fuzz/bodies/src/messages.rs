//! Bodies of requests and responses. Input: API key, version, body.

use crate::memory::within;
use muster_codec::limits::{ARRAY_BYTES_MIN, ARRAY_BYTES_PER_BYTE};
use muster_codec::{ApiKey, Reader, Request, Response};

/// A byte that is no UTF-8 becomes the three of U+FFFD, in a string that doubles as it grows and
/// for a moment is there twice.
const TEXT_BYTES_PER_BYTE: usize = 9;

macro_rules! body {
    ($name:ident, $message:ident) => {
        /// Reads a body; what was read is written and read again.
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
            // Text that was no UTF-8 may have become too long.
            if written.len() <= body.len() {
                assert_eq!(again.as_ref(), Ok(&message), "{} v{version}", api.name());
            }
        }
    };
}

body!(requests, Request);
body!(responses, Response);

fn granted(body: &[u8]) -> usize {
    body.len() * (ARRAY_BYTES_PER_BYTE + TEXT_BYTES_PER_BYTE) + ARRAY_BYTES_MIN
}
