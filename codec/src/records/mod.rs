//! The records of a shard's log: Kafka's coordinator records, and muster's cluster records.
//!
//! A key is a 16-bit type and the key structure. A value is a 16-bit version and the value
//! structure. A record without a value is a tombstone.

mod cluster;
mod consumer_group;
mod group;
mod share;
mod share_group;
mod streams_group;
mod transaction;

pub use cluster::*;
pub use consumer_group::*;
pub use group::*;
pub use share::*;
pub use share_group::*;
pub use streams_group::*;
pub use transaction::*;

use crate::field::{Field, Version};
use crate::limits::STRING_BYTES_MAX;
use crate::wire::{DecodeError, Reader, Result, put_i16};
use std::ops::RangeInclusive;

/// The topic of the group coordinator's records: group metadata and committed offsets.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Asserts that no string is too long: it would be cut when it is written, and the record would
/// differ from what was acknowledged. Decoded strings are short enough, and other strings are
/// checked before they are accepted.
fn assert_whole<'a>(part: &impl Field<'a>) {
    let longest = part.longest_string();
    assert!(longest <= STRING_BYTES_MAX, "a record cannot hold a string of {longest} bytes");
}

/// A record type with its versions.
struct Schema {
    record_type: i16,
    versions: RangeInclusive<i16>,
    flexible_from: i16,
}

/// Keys are always of version 0 and never flexible, so that equal keys have equal bytes.
const KEY: Version = Version { number: 0, flexible: false };

impl Schema {
    fn write_key<'a>(&self, key: &impl Field<'a>, out: &mut Vec<u8>) {
        assert_whole(key);
        put_i16(out, self.record_type);
        key.write(out, KEY);
    }

    fn write_value<'a>(&self, value: &impl Field<'a>, version: i16, out: &mut Vec<u8>) {
        debug_assert!(self.versions.contains(&version));
        assert_whole(value);
        put_i16(out, version);
        value.write(out, Version { number: version, flexible: version >= self.flexible_from });
    }

    fn read_value<'a, T: Field<'a>>(&self, value: Option<&'a [u8]>) -> Result<Option<T>> {
        let Some(value) = value else { return Ok(None) };
        let mut reader = Reader::new(value);
        let version = reader.i16()?;
        if !self.versions.contains(&version) {
            return Err(DecodeError::UnknownRecord { record_type: self.record_type, version });
        }
        let version = Version { number: version, flexible: version >= self.flexible_from };
        T::read(&mut reader, version).map(Some)
    }
}
