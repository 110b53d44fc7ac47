//! The indexes of a snapshot: rows of a fixed size by name. They are read in place, in the bytes of
//! a file that is mapped: a look-up reads a few rows, and verifies each with its checksum.

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

/// The bytes of a snapshot's file, mapped or read.
pub type SnapshotBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A part of a snapshot's file with a checksum of its own (CRC-32C).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotPart {
    pub at: u64,
    pub len: u64,
    pub crc: u32,
}
