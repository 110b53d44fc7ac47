//! The tables of slots in a snapshot. A row has the position of the slot's index (of groups,
//! transactional ids, transactions, or share states) and the log positions that it covers.

use super::{PART_BYTES, Part, SnapshotRefusal, read_part};
use muster_codec::wire::{Reader, Result};

/// The size of a row in bytes.
pub const SLOT_BYTES: usize = 24 + PART_BYTES;

/// A row: the groups, transactional ids, transactions or share states of one slot. A slot that has
/// none has no row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotIndex {
    /// The partition number in `__consumer_offsets`, `__transaction_state` or
    /// `__share_group_state`.
    pub slot: u32,
    /// All operations of the slot up to this position are in the snapshot.
    pub from: u64,
    /// The latest position of any group, transactional id, transaction or share state of the slot.
    pub newest: u64,
    /// The index of the groups' sections, of the transactional ids, of the transactions, or of the
    /// share states.
    pub index: Part,
}

impl SlotIndex {
    /// Appends the row.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.slot.to_be_bytes());
        out.extend([0; 4]);
        out.extend(self.from.to_be_bytes());
        out.extend(self.newest.to_be_bytes());
        self.index.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let slot = reader.array().map(u32::from_be_bytes)?;
        let _reserved = reader.i32()?;
        let from = reader.array().map(u64::from_be_bytes)?;
        let newest = reader.array().map(u64::from_be_bytes)?;
        Ok(Self { slot, from, newest, index: read_part(reader)? })
    }
}

/// Reads the rows, which are sorted by slot. `what` names the table in errors.
///
/// # Errors
/// The bytes are not a valid table of slots.
pub(super) fn read_slots(
    bytes: &[u8],
    what: &'static str,
) -> std::result::Result<Vec<SlotIndex>, SnapshotRefusal> {
    let damaged = SnapshotRefusal::Damaged(what);
    let (rows, rest) = bytes.as_chunks::<SLOT_BYTES>();
    let rows: Result<Vec<_>> =
        rows.iter().map(|row| SlotIndex::read(&mut Reader::new(row))).collect();
    let rows = rows.map_err(|_| damaged)?;
    let is_in_order = rows.is_sorted_by(|one, next| one.slot < next.slot);
    if is_in_order && rest.is_empty() { Ok(rows) } else { Err(damaged) }
}
