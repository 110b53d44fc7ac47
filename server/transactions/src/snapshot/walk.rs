//! The walk over all ids that writes a snapshot, in slices.

use super::{Ends, IdRow};
use crate::state::{Durable, record};
use crate::text::Text;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use muster_snapshot_index::{PageSums, Pieces, SnapshotPart};

/// The most ids that one call visits.
const IDS_OF_A_VISIT: usize = 256;

/// The progress of writing the ids of a coordinator.
#[derive(Debug)]
pub struct IdsWalk {
    stage: Stage,
    /// The last id that was visited in this stage.
    after: Option<Text>,
    ends: Ends,
    names: Pieces,
    sums: PageSums,
    /// The place in the file at which the walk writes its first byte.
    at: u64,
}

/// The part that is written next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage {
    /// The records of ids that are not at rest.
    Open,
    /// The rows of ids at rest.
    Rows,
    /// The names of the ids at rest. The number is how many of their bytes are written.
    Names(usize),
}

impl IdsWalk {
    /// A walk that writes its first byte at `at` in the file.
    pub fn new(at: u64) -> Self {
        Self {
            stage: Stage::Open,
            after: None,
            ends: Ends::default(),
            names: Pieces::default(),
            sums: PageSums::default(),
            at,
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// The last id that was visited in this stage.
    pub(crate) fn after(&self) -> Option<Text> {
        self.after.clone()
    }

    /// Writes the records of the next ids that are not at rest, about `bytes` of them. `ids` are
    /// all that follow the last visited id; those at rest are skipped.
    pub(crate) fn write_open<'i>(
        &mut self,
        ids: impl Iterator<Item = (&'i Text, &'i Durable)>,
        bytes: usize,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        let (mut visited, mut last) = (0, None);
        for (id, durable) in ids {
            if visited == IDS_OF_A_VISIT || out.len() - start >= bytes {
                return self.written(start, last, out);
            }
            if !durable.is_at_rest() {
                write_record(id, durable, out);
            }
            (visited, last) = (visited + 1, Some(id.clone()));
        }
        self.written(start, None, out);
        self.stage = Stage::Rows;
    }

    fn written(&mut self, start: usize, last: Option<Text>, out: &[u8]) {
        let written = &out[start..];
        self.ends.open += written.len();
        self.sums.add(written);
        self.after = last;
    }

    /// Writes the rows of the next ids at rest. `ids` are all that follow the last visited id.
    pub(crate) fn write_rows<'i>(
        &mut self,
        ids: impl Iterator<Item = (&'i str, Cow<'i, Durable>)>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        let (mut visited, mut last) = (0, None);
        for (id, durable) in ids.take(IDS_OF_A_VISIT) {
            (visited, last) = (visited + 1, Some(id));
            if durable.is_at_rest() {
                let (name_at, id_len) = (self.names.len() as u64, id.len() as u16);
                IdRow { name_at, id_len, durable: durable.into_owned() }.write(out);
                self.names.extend(id.as_bytes());
                self.ends.count += 1;
            }
        }
        self.sums.add(&out[start..]);
        self.after = last.map(Text::from);
        if visited < IDS_OF_A_VISIT {
            self.ends.names = self.names.len();
            self.stage = Stage::Names(0);
        }
    }

    /// Writes the next `bytes` of the names; the first `given` bytes are written already. After the
    /// last name, writes the end of the index, and returns the place of the whole index.
    pub(crate) fn write_names(
        &mut self,
        given: usize,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<SnapshotPart> {
        let names = self.names.from(given, bytes);
        out.extend_from_slice(names);
        self.sums.add(names);
        let given = given + names.len();
        self.stage = Stage::Names(given);
        (given == self.names.len()).then(|| self.end(out))
    }

    /// Writes the end: the checksums, and the sizes of the parts.
    fn end(&self, out: &mut Vec<u8>) -> SnapshotPart {
        let start = out.len();
        out.extend(self.sums.to_bytes());
        out.extend(self.ends.to_bytes());
        let end = &out[start..];
        let body = self.ends.body().unwrap_or_default();
        SnapshotPart { at: self.at, len: (body + end.len()) as u64, crc: crc32c::crc32c(end) }
    }
}

/// Appends a record: key and value, each preceded by its length.
fn write_record(id: &str, durable: &Durable, out: &mut Vec<u8>) {
    let record = record(id, Some(durable));
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.write_key(&mut key);
    let has_value = record.write_value(&mut value);
    debug_assert!(has_value, "a tombstone is no state");
    for part in [key, value] {
        out.extend((part.len() as i32).to_be_bytes());
        out.extend(part);
    }
}
