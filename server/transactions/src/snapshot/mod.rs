//! The form of transactional ids in a snapshot.
//!
//! A snapshot is a cache of the log. A [walk](IdsWalk) visits all ids, some at a time while the
//! shard serves: first those with an open transaction, which are written as their records and
//! loaded when the snapshot is opened, as they have deadlines; then those at rest, as rows that are
//! [unloaded](Unloaded) until one is needed. An id that changes between its visits has a record
//! after the position of the snapshot, which leads to its state.
//!
//! Nothing of an id at rest is read when the file is opened, so that a start takes as long with a
//! million ids as without: the checksums of the pages are in the file, too, and each access is
//! verified with them.

mod row;
mod unloaded;
mod walk;

pub(crate) use row::IdRow;
pub(crate) use unloaded::Unloaded;
pub use walk::IdsWalk;
pub(crate) use walk::Stage;

use muster_codec::wire::{Reader, Result};
use muster_snapshot_index::{PAGE_BYTES, Row, SUM_BYTES};

/// The bytes of [`Ends`].
pub const ENDS_BYTES: usize = 24;

/// The sizes of the parts of an index, at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Bytes of the records of open transactions.
    pub(crate) open: usize,
    /// Number of rows.
    pub(crate) count: usize,
    /// Bytes of the names.
    pub(crate) names: usize,
}

impl Ends {
    pub(crate) fn to_bytes(self) -> [u8; ENDS_BYTES] {
        let mut bytes = [0; ENDS_BYTES];
        let (fields, _) = bytes.as_chunks_mut::<8>();
        for (field, value) in fields.iter_mut().zip([self.open, self.count, self.names]) {
            *field = (value as u64).to_be_bytes();
        }
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let mut size = || reader.array().map(u64::from_be_bytes).map(|it| it as usize);
        Ok(Self { open: size()?, count: size()?, names: size()? })
    }

    /// The bytes of records, rows and names; None if no file can have them.
    pub(crate) fn body(self) -> Option<usize> {
        let rows = self.count.checked_mul(IdRow::BYTES)?;
        self.open.checked_add(rows)?.checked_add(self.names)
    }

    /// The bytes of the checksums of these.
    pub(crate) fn sums(self) -> Option<usize> {
        self.body()?.div_ceil(PAGE_BYTES).checked_mul(SUM_BYTES)
    }
}
