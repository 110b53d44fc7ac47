//! Limits of the wire format itself; the configuration of a server has more limits.

/// The longest string: its length is a signed 16-bit number, and Kafka's compact strings have the
/// same limit.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Bytes of memory that the arrays of a frame may take, nested ones included, for each byte of the
/// frame. Elements are larger in memory than on the wire: the worst ratio of a meaningful request
/// is 16 (OffsetFetch of all offsets of groups with names of two letters: 80 bytes for 5). Arrays
/// of empty strings would need 24, and array lengths that no elements follow could claim any
/// amount.
pub const ARRAY_BYTES_PER_BYTE: usize = 16;

/// Bytes of memory that the arrays of a frame may take in addition, however short it is.
pub const ARRAY_BYTES_MIN: usize = 4096;

/// Bytes of memory that the arrays of the longest request may take: a request that names 200,000
/// groups or 500,000 partitions is below it.
pub const REQUEST_ARRAY_BYTES_MAX: usize = 32 << 20;

/// Bytes of a request that is short: a group, member, instance and client id of the largest size,
/// and some numbers.
pub const SHORT_REQUEST_BYTES_MAX: usize = 256 << 10;

/// Bytes of a request with names: 130,000 of 30 bytes. The answer takes some 200 bytes for each.
pub const NAME_REQUEST_BYTES_MAX: usize = 4 << 20;

/// Bytes of a request with lists: 260,000 names of 30 bytes, or partitions by the million.
pub const LIST_REQUEST_BYTES_MAX: usize = 8 << 20;

/// Bytes of a request whose content a group keeps: above the largest operation of a log.
pub const STATE_REQUEST_BYTES_MAX: usize = 16 << 20;

/// Bytes of memory that the content of an answer may take while it is built: a million groups with
/// names of 30 characters, or a million offsets with 80 bytes of metadata each.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;

/// Bytes of a response, its length field included: far from 2 GiB, where the length would be
/// negative, and above what [`ANSWER_BYTES_MAX`] allows.
pub const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// The header of Kafka's record batch.
pub const RECORD_BATCH_HEADER_BYTES: usize = 61;

const _: () = assert!(2 * ANSWER_BYTES_MAX <= RESPONSE_BYTES_MAX);
const _: () = assert!(RESPONSE_BYTES_MAX < i32::MAX as usize);
