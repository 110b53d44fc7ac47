//! Limits of output between files and sockets.

/// Bytes of a fetch answer that are read and sent at once: they stay in the core's cache in
/// between.
pub(crate) const SLICE_BYTES: usize = 256 << 10;

/// Parts of files, and bytes between them, in one slice.
pub(crate) const SLICE_PIECES_MAX: usize = 256;

/// Slices under way on all connections of a shard; further ones wait for their turn.
pub const SLICES_MAX: usize = 32;

/// Bytes of all slices under way.
pub(crate) const SLICE_BYTES_MAX: usize = SLICES_MAX * SLICE_BYTES;

const _: () = assert!(SLICE_BYTES_MAX <= 16 << 20);
