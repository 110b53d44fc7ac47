//! Limits of a session. Those of all sessions of a shard are with the caller.

/// The longest ciphertext of a record that TLS 1.2 allows, and the header before it.
pub const RECORD_BYTES_MAX: usize = 5 + (16 << 10) + 2048;

/// Bytes that a client may send until its handshake is done: its certificates are the longest part.
pub const HANDSHAKE_BYTES_MAX: usize = 48 << 10;

/// Records in which it may send them.
pub const HANDSHAKE_RECORDS_MAX: usize = 64;

/// Records of fewer bytes than this cost much more than they are worth. This number of them in
/// a row ends the session.
pub const SMALL_RECORD_BYTES: usize = 4;
pub const SMALL_RECORDS_MAX: usize = 64;

/// Bytes of a file with keys or certificates.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// The plaintext of the records that are written.
pub(crate) const PLAINTEXT_BYTES_MAX: usize = 16 << 10;

/// Bytes that a record adds to its plaintext: header, nonce of TLS 1.2, type of TLS 1.3, and tag.
pub(crate) const RECORD_OVERHEAD: usize = 5 + 8 + 1 + 16;
