//! The tables of a snapshot's slots: where the index of each one's groups, or transactional ids, or
//! its transactions or share states are, and their positions.

use super::{PART_BYTES, Part, SnapshotRefusal, read_part};
use muster_codec::wire::{Reader, Result};

/// The bytes of a row.
pub const SLOT_BYTES: usize = 24 + PART_BYTES;

/// The groups, transactional ids, transactions or share states of a slot in a snapshot. A slot
/// without has no row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotIndex {
    /// The partition of `__consumer_offsets`, of `__transaction_state` or of `__share_group_state`.
    pub slot: u32,
    /// All operations of the slot up to this position are in the snapshot.
    pub from: u64,
    /// The latest position of a group, id, transaction or share state of the slot.
    pub newest: u64,
    /// The index of the groups' sections, or of the ids, or the transactions, or the share states.
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

/// Reads the rows, which are in the order of slots.
///
/// # Errors
/// Bytes that are no such table, which is `what`.
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
