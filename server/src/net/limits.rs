//! Limits of output between files and sockets, and of clients that are not authenticated.

/// Bytes of a fetch answer that are read and sent at once: they stay in the core's cache in
/// between.
pub(crate) const SLICE_BYTES: usize = 256 << 10;

/// Bytes of a slice that is encrypted: what the socket does not accept is held in memory, and not
/// read again.
pub(crate) const ENCRYPTED_SLICE_BYTES: usize = 64 << 10;

/// Parts of files, and bytes between them, in one slice.
pub(crate) const SLICE_PIECES_MAX: usize = 256;

/// Slices under way on all connections of a shard; further ones wait for their turn.
pub const SLICES_MAX: usize = 32;

/// Bytes of all slices under way.
pub(crate) const SLICE_BYTES_MAX: usize = SLICES_MAX * SLICE_BYTES;

const _: () = assert!(SLICE_BYTES_MAX <= 16 << 20);

/// Clients of a shard that are not authenticated; beyond it those that have waited longest are
/// closed.
pub(crate) const UNAUTHENTICATED_MAX: usize = 4_096;

/// The time that a client may take to authenticate.
pub(crate) const AUTHENTICATION_PATIENCE_MS: i64 = 30_000;
