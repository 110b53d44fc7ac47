//! Ids of a snapshot that are not loaded yet. They are looked up in its index, in place.

use super::{ENDS_BYTES, Ends, IdRow};
use crate::limits::IDS_MAX;
use crate::state::Durable;
use crate::text::Text;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use muster_codec::records::TransactionRecord;
use muster_codec::wire::Reader;
use muster_snapshot_index::{BitSet, Found, Index, Pages, SnapshotBytes};

/// The unloaded ids of a snapshot. There are none without a snapshot.
#[derive(Default)]
pub(crate) struct Unloaded {
    index: Index<IdRow>,
    /// The rows whose ids are unloaded.
    rows: BitSet,
    /// The length of the records of ids that are not at rest, in bytes.
    open: usize,
    /// The position of the snapshot.
    position: u64,
}

impl fmt::Debug for Unloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unloaded").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Unloaded {
    /// Opens the index at `place` in a snapshot whose position is `position`. Reads only the end of
    /// the index, which has the checksum `crc`.
    ///
    /// # Errors
    /// The checksum is not `crc`, the sizes in the index do not fit together or into the file, or
    /// the index has more than [`IDS_MAX`] ids.
    pub(crate) fn open(
        bytes: SnapshotBytes,
        place: Range<usize>,
        crc: u32,
        position: u64,
    ) -> Result<Self, &'static str> {
        let all = (*bytes).as_ref().get(place.clone()).ok_or("the index is not in the file")?;
        let cut_off = "the index is cut off";
        let (rest, ends) = all.split_last_chunk::<ENDS_BYTES>().ok_or(cut_off)?;
        let ends = Ends::read(ends).map_err(|_| cut_off)?;
        let body = ends.body().filter(|body| *body <= rest.len()).ok_or(cut_off)?;
        let sums = &rest[body..];
        if ends.sums() != Some(sums.len()) {
            return Err(cut_off);
        }
        if crc32c::crc32c(&all[body..]) != crc {
            return Err("the checksum of its end does not match");
        }
        if ends.count > IDS_MAX {
            return Err("the index has too many ids");
        }
        let (pages, place) = (Pages::read(sums), place.start..place.start + body);
        let index = Index::new(bytes, place, pages, ends.open, ends.count).ok_or(cut_off)?;
        Ok(Self { index, rows: BitSet::all(ends.count), open: ends.open, position })
    }

    /// The ids that are not at rest.
    ///
    /// # Errors
    /// The bytes are damaged.
    pub(crate) fn open_ids(&self) -> Result<Vec<(Text, Durable)>, &'static str> {
        let bytes = self.index.bytes(0..self.open).ok_or("its records fail their checksum")?;
        let (mut reader, mut ids) = (Reader::new(bytes), Vec::new());
        while !reader.rest().is_empty() {
            ids.push(read_record(&mut reader).ok_or("a record cannot be read")?);
        }
        Ok(ids)
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.index.is_damaged()
    }

    /// Number of unloaded ids.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of the names when the snapshot was opened.
    pub(crate) fn names_len(&self) -> usize {
        self.index.names_len()
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.find(id).is_some()
    }

    /// The state of an id. The id stays unloaded.
    pub(crate) fn read(&self, id: &str) -> Option<Durable> {
        self.index.row(self.find(id)?).map(|row| row.durable)
    }

    /// Removes an unloaded id so that it can be loaded. Returns its state and the position of the
    /// snapshot; None if the id is not unloaded.
    pub(crate) fn take(&mut self, id: &str) -> Option<(Durable, u64)> {
        let number = self.find(id)?;
        let row = self.index.row(number)?;
        self.remove_row(number);
        Some((row.durable, self.position))
    }

    /// Removes an id. Returns whether it was unloaded.
    pub(crate) fn remove(&mut self, id: &str) -> bool {
        let found = self.find(id);
        found.into_iter().for_each(|number| self.remove_row(number));
        found.is_some()
    }

    /// All unloaded ids after `id`, in order.
    pub(crate) fn after(&self, id: Option<&str>) -> impl Iterator<Item = Found<'_, IdRow>> {
        let from = id.filter(|_| self.len() > 0);
        let from = from.map_or(0, |id| self.index.search(|other| other <= id));
        self.rows_from(from).filter_map(|number| self.index.get(number))
    }

    /// The ids whose current or previous producer id is wanted.
    pub(crate) fn of_producers(
        &self,
        is_wanted: impl Fn(i64) -> bool,
    ) -> impl Iterator<Item = &str> {
        let has_wanted = move |number: &usize| {
            let durable = self.index.row(*number).map(|row| row.durable);
            durable
                .is_some_and(|it| is_wanted(it.producer_id) || is_wanted(it.previous_producer_id))
        };
        let rows = self.rows_from(0).filter(has_wanted);
        rows.filter_map(|number| self.index.get(number)).map(|found| found.id)
    }

    fn rows_from(&self, from: usize) -> impl Iterator<Item = usize> {
        core::iter::successors(self.rows.next(from), |it| self.rows.next(it + 1))
    }

    fn find(&self, id: &str) -> Option<usize> {
        if self.len() == 0 {
            return None;
        }
        self.index.number(id).filter(|number| self.rows.has(*number))
    }

    fn remove_row(&mut self, number: usize) {
        self.rows.remove(number);
        if self.rows.is_empty() {
            self.index.close();
        }
    }
}

/// Reads an id and its record as [`super::IdsWalk`] writes them.
fn read_record(reader: &mut Reader<'_>) -> Option<(Text, Durable)> {
    let mut part = || {
        let len = usize::try_from(reader.i32().ok()?).ok()?;
        reader.take(len).ok()
    };
    let (key, value) = part().zip(part())?;
    let TransactionRecord { key, value } = TransactionRecord::read(key, Some(value)).ok()??;
    Some((Text::from(&*key.transactional_id), Durable::from_record(&value?)?))
}
