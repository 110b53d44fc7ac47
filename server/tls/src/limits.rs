//! Limits of a session. The caller has the limits for all sessions of a shard.

/// The longest ciphertext of a record in TLS 1.2, and the record's header.
pub const RECORD_BYTES_MAX: usize = 5 + (16 << 10) + 2048;

/// The most bytes that a client may send before its handshake is done. Certificates are the longest
/// part of them.
pub const HANDSHAKE_BYTES_MAX: usize = 48 << 10;

/// The most records that a client may send before its handshake is done.
pub const HANDSHAKE_RECORDS_MAX: usize = 64;

/// A record with fewer bytes than this costs much more work than its bytes are worth. If a client
/// sends more than `SMALL_RECORDS_MAX` of these records in a row, its session ends.
pub const SMALL_RECORD_BYTES: usize = 4;
pub const SMALL_RECORDS_MAX: usize = 64;

/// The longest file with keys or certificates, in bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// The plaintext bytes of a full record.
pub(crate) const PLAINTEXT_BYTES_MAX: usize = 16 << 10;

/// The most bytes that a record may have in addition to its plaintext: the header, the nonce (TLS
/// 1.2), the content type (TLS 1.3), and the tag.
pub(crate) const RECORD_OVERHEAD: usize = 5 + 8 + 1 + 16;
