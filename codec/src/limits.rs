//! Limits of the wire format. The server's configuration has further limits.
//!
//! Records hold strings of up to [`STRING_BYTES_MAX`] bytes. Decoded strings have the same limit;
//! each byte of invalid UTF-8 counts as three.

/// The longest string in bytes: its length is a signed 16-bit number. Kafka limits compact strings
/// to the same length.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Limit on the memory of all arrays of a frame, nested arrays included, in bytes for each byte of
/// the frame. Elements are larger in memory than on the wire. The worst ratio of a meaningful
/// request is 16: an OffsetFetch of all offsets, for groups with names of two letters, takes 80
/// bytes for 5. Arrays of empty strings would need 24. Without the limit an array length without
/// elements could claim any amount.
pub const ARRAY_BYTES_PER_BYTE: usize = 16;

/// Bytes of memory that the arrays of a frame may take in addition, even of a very short frame.
pub const ARRAY_BYTES_MIN: usize = 4096;

/// Limit on the memory of all arrays of one request, in bytes. A request that names 200,000 groups
/// or 500,000 partitions stays below it.
pub const REQUEST_ARRAY_BYTES_MAX: usize = 32 << 20;

/// Limit of a short request, in bytes: enough for a group, member, instance and client id of the
/// largest size, and some numbers.
pub const SHORT_REQUEST_BYTES_MAX: usize = 256 << 10;

/// Limit of a request that lists names, in bytes: 130,000 names of 30 bytes. The answer takes some
/// 200 bytes for each name.
pub const NAME_REQUEST_BYTES_MAX: usize = 4 << 20;

/// Limit of a request with lists, in bytes: 260,000 names of 30 bytes, or millions of partitions.
pub const LIST_REQUEST_BYTES_MAX: usize = 8 << 20;

/// Limit of a request whose content becomes part of a group's state, in bytes. It is above the
/// largest operation of a log.
pub const STATE_REQUEST_BYTES_MAX: usize = 16 << 20;

/// Limit on the memory of an answer while it is built, in bytes: a million groups with names of 30
/// characters, or a million offsets with 80 bytes of metadata each.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;

/// Limit of a response in bytes, its length field included, but not the records that are sent from
/// files. It is above what [`ANSWER_BYTES_MAX`] allows, and far below 2 GiB, where the length would
/// become negative.
pub const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// The size of the header of Kafka's record batch.
pub const RECORD_BATCH_HEADER_BYTES: usize = 61;

const _: () = assert!(2 * ANSWER_BYTES_MAX <= RESPONSE_BYTES_MAX);
const _: () = assert!(RESPONSE_BYTES_MAX < i32::MAX as usize);
