//! Snapshots of a coordinator: how they are written and opened.

use crate::context::Held;
use crate::coordinator::Coordinator;
use crate::snapshot::{IdsWalk, Stage, Unloaded};
use crate::text::Text;
use alloc::vec::Vec;
use core::ops::{Bound, Range};
use muster_snapshot_index::{SnapshotBytes, SnapshotPart};

impl Coordinator {
    /// Opens a snapshot in a coordinator that is empty. `place` and `crc` are the fields of
    /// [`SnapshotPart`](crate::SnapshotPart); `position` is the snapshot's position. Then the
    /// caller replays the log from there by [`Self::replay`], and calls [`Self::loaded`].
    ///
    /// # Errors
    /// The bytes are damaged. The coordinator must not be used then.
    pub fn open_snapshot(
        &mut self,
        bytes: SnapshotBytes,
        place: Range<usize>,
        crc: u32,
        position: u64,
    ) -> Result<(), &'static str> {
        debug_assert_eq!(self.written_at, 0, "before all records");
        let unloaded = Unloaded::open(bytes, place, crc, position)?;
        self.written_at = position;
        self.held = Held { ids: unloaded.len(), id_bytes: unloaded.names_len() };
        let open = unloaded.open_ids()?;
        self.ids.open(unloaded);
        open.into_iter().for_each(|(id, durable)| self.put(&id, durable, position));
        Ok(())
    }

    /// The damage in the opened snapshot, if a look-up has found any. Then no answer or record of
    /// this coordinator may be used any more.
    pub fn damage(&self) -> Option<&'static str> {
        self.ids.is_damaged().then_some("the transactional ids were changed after they were opened")
    }

    /// Number of unloaded ids.
    pub fn unloaded_ids(&self) -> usize {
        self.ids.unloaded()
    }

    /// Writes the next slice of the snapshot to `out`: about `bytes`, or the rows of some ids at
    /// rest. When it is called, all records of the coordinator's last block in the log must be
    /// applied. After the last slice, returns the place of all slices together, and the checksum of
    /// their end.
    ///
    /// # Errors
    /// The snapshot that this coordinator has opened is damaged. [`Self::damage`] returns how.
    pub fn write_snapshot(
        &self,
        walk: &mut IdsWalk,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<SnapshotPart>, &'static str> {
        let after = walk.after();
        let written = match walk.stage() {
            Stage::Open => {
                let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                let ids = self.open.range::<Text, _>((from, Bound::Unbounded));
                let open = ids.filter_map(|id| Some((id, &self.ids.get(id)?.durable)));
                walk.write_open(open, bytes, out);
                None
            }
            Stage::Rows => {
                let ids = self.ids.after(after.as_deref());
                walk.write_rows(ids.map(|seen| (seen.id, seen.durable)), out);
                None
            }
            Stage::Names(given) => walk.write_names(given, bytes, out),
        };
        self.damage().map_or(Ok(written), Err)
    }
}
