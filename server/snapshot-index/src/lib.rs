//! The indexes of a snapshot: fixed-size rows by name. They are read in place in a mapped file: a
//! look-up reads a few rows, and verifies those that prove its result by checksums.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bit_set;
mod index;
mod pages;
mod pieces;

pub use bit_set::BitSet;
pub use index::{Found, Index, Row};
pub use pages::{PAGE_BYTES, PageSums, Pages, SUM_BYTES};
pub use pieces::Pieces;

use alloc::sync::Arc;

/// The bytes of a snapshot file, mapped or read into memory.
pub type SnapshotBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A part of a snapshot file with its own checksum (CRC-32C).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotPart {
    pub at: u64,
    pub len: u64,
    pub crc: u32,
}
