//! Limits of the wire format. The server's configuration has further limits.
//!
//! Records hold strings of up to [`STRING_BYTES_MAX`] bytes. Decoded strings have the same limit,
//! after each invalid sequence of UTF-8 was replaced by three bytes.

/// The longest string in bytes: its length is a signed 16-bit number. Kafka limits compact strings
/// to the same length.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Limit on the memory of all arrays of a frame, nested arrays included, in bytes of memory for
/// each byte of the frame. Without it, a frame with a false array length could claim any amount of
/// memory. The limit is above 1 because elements are larger in memory than on the wire. A
/// meaningful request needs 16 at most: in an OffsetFetch of all offsets, a group whose name has
/// two letters takes 5 bytes of the frame and 80 bytes of memory. Only arrays of empty strings
/// would need 24.
pub const ARRAY_BYTES_PER_BYTE: usize = 16;

/// Bytes of memory that the arrays of each frame may take in addition to [`ARRAY_BYTES_PER_BYTE`],
/// so that short frames have enough.
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

/// Limit in bytes of a request whose content becomes part of a group's state. Such content is
/// written as one operation of the shard's log, and the largest operation is smaller than this
/// limit.
pub const STATE_REQUEST_BYTES_MAX: usize = 16 << 20;

/// Limit on the memory of an answer while it is built, in bytes: a million groups with names of 30
/// characters, or a million offsets with 80 bytes of metadata each.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;

/// Limit in bytes of a response. The response's length field counts, the records that are sent from
/// files do not. An answer within [`ANSWER_BYTES_MAX`] never reaches this limit. The limit is far
/// below 2 GiB, where the length would become negative.
pub const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// The size of the header of Kafka's record batch.
pub const RECORD_BATCH_HEADER_BYTES: usize = 61;

const _: () = assert!(2 * ANSWER_BYTES_MAX <= RESPONSE_BYTES_MAX);
const _: () = assert!(RESPONSE_BYTES_MAX < i32::MAX as usize);
