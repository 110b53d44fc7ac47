//! What may be on its way from files to sockets.

/// What of a fetch answer is read and given to the socket at once. It stays in the core's cache
/// between the two.
pub(crate) const SLICE_BYTES: usize = 256 << 10;

/// Parts of files, and bytes between them, in one slice.
pub(crate) const SLICE_PIECES_MAX: usize = 256;

/// Slices under way, of all connections of a shard; the others wait for their turn.
pub(crate) const SLICES_MAX: usize = 32;

/// What may be between files and sockets.
pub(crate) const SLICE_BYTES_MAX: usize = SLICES_MAX * SLICE_BYTES;

const _: () = assert!(SLICE_BYTES_MAX <= 16 << 20);
