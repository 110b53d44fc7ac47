//! Limits of a session. The caller has the limits for all sessions of a shard.

/// The longest ciphertext of a record in TLS 1.2, and the record's header.
pub const RECORD_BYTES_MAX: usize = 5 + (16 << 10) + 2048;

/// The most bytes that a client may send before its handshake is done. Certificates are the longest
/// part of them.
pub const HANDSHAKE_BYTES_MAX: usize = 48 << 10;

/// The most records in which a client may send these bytes.
pub const HANDSHAKE_RECORDS_MAX: usize = 64;

/// Records of fewer bytes than this cost much more than they are worth. More than
/// `SMALL_RECORDS_MAX` of them in a row end the session.
pub const SMALL_RECORD_BYTES: usize = 4;
pub const SMALL_RECORDS_MAX: usize = 64;

/// The longest file with keys or certificates, in bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// The plaintext bytes of a full record.
pub(crate) const PLAINTEXT_BYTES_MAX: usize = 16 << 10;

/// The most bytes that a record adds to its plaintext: header, nonce (TLS 1.2), content type (TLS
/// 1.3), and tag.
pub(crate) const RECORD_OVERHEAD: usize = 5 + 8 + 1 + 16;
