//! Snapshots of a coordinator: how they are written and opened.

use crate::context::Held;
use crate::coordinator::Coordinator;
use crate::snapshot::{IdsWalk, Stage, Unloaded};
use crate::text::Text;
use alloc::vec::Vec;
use core::ops::{Bound, Range};
use muster_snapshot_index::{SnapshotBytes, SnapshotPart};

impl Coordinator {
    /// Starts with the ids of a snapshot. The coordinator must be empty. `place` and `crc` are the
    /// fields of [`SnapshotPart`](crate::SnapshotPart); `position` is the snapshot's position.
    /// After that, the caller replays the log by [`Self::replay`] and calls [`Self::loaded`].
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

    /// The damage that a look-up found in the snapshot. After that, no answer or record of this
    /// coordinator may be used.
    pub fn damage(&self) -> Option<&'static str> {
        self.ids.is_damaged().then_some("the transactional ids were changed after they were opened")
    }

    /// Number of unloaded ids.
    pub fn unloaded_ids(&self) -> usize {
        self.ids.unloaded()
    }

    /// Appends the next part of the ids, about `bytes` at most, to `out`. The coordinator's last
    /// record must be the last of its block in the log. Returns the part's place when it is
    /// complete; the checksum covers only the end of the part.
    ///
    /// # Errors
    /// The opened snapshot is damaged. [`Self::damage`] returns the damage then.
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
