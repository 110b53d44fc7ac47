//! The form of transactional ids in a snapshot.
//!
//! A snapshot is a cache of the log. A [walk](IdsWalk) visits all ids, some at a time while the
//! shard serves requests. It first writes the ids with an open transaction or kept commits, as
//! records. These are loaded when the snapshot is opened, because transactions have deadlines. It
//! then writes the ids at rest, as rows that stay [unloaded](Unloaded) until they are needed. If an
//! id changes during the walk, its new state is in a record that follows the snapshot's position in
//! the log.
//!
//! Opening the file reads nothing of an id at rest, so that startup takes as long with 1,000,000
//! ids as without. The file also contains checksums of its pages, and each access verifies them.

mod row;
mod unloaded;
mod walk;

pub(crate) use row::IdRow;
pub(crate) use unloaded::Unloaded;
pub use walk::IdsWalk;
pub(crate) use walk::Stage;

use muster_codec::wire::{Reader, Result};
use muster_snapshot_index::{PAGE_BYTES, Row, SUM_BYTES};

/// The size of [`Ends`].
pub const ENDS_BYTES: usize = 24;

/// The sizes of the parts of an index. They are written at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    /// The bytes of the records of ids that are not at rest.
    pub(crate) open: usize,
    /// The number of rows.
    pub(crate) count: usize,
    /// The bytes of the names.
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

    /// The bytes of records, rows and names; None if the sum overflows.
    pub(crate) fn body(self) -> Option<usize> {
        let rows = self.count.checked_mul(IdRow::BYTES)?;
        self.open.checked_add(rows)?.checked_add(self.names)
    }

    /// How many bytes the checksums of these parts take.
    pub(crate) fn sums(self) -> Option<usize> {
        self.body()?.div_ceil(PAGE_BYTES).checked_mul(SUM_BYTES)
    }
}
