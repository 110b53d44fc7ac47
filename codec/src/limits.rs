//! Limits of the wire format itself; what a server allows beyond is its own configuration.

/// The longest string: its length is a signed 16-bit number, and Kafka holds compact strings to it.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// What a record batch of Kafka takes before its first record.
pub const RECORD_BATCH_HEADER_BYTES: usize = 61;
