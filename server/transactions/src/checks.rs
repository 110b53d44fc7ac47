//! Access for checks: the durable state of ids, and the comparison of an id with its own record.
//! Nothing is loaded.

use crate::coordinator::Coordinator;
use crate::partition_set::PartitionSet;
use crate::state::{Durable, record};
use crate::text::Text;
use alloc::vec::Vec;
use core::ops::Bound;
use muster_codec::records::TransactionRecord;

/// The approximate bytes of an id in memory, without its name and its partitions.
const ID_BYTES: usize = 160;

/// Ids with more partitions are not audited, so that an audit takes less than a millisecond.
const AUDIT_PARTITIONS_MAX: usize = 2_000;

impl Coordinator {
    /// The durable state as records, like a compacted log.
    pub fn durable_records(&self) -> Vec<TransactionRecord<'static>> {
        self.ids.after(None).map(|seen| record(seen.id, Some(&seen.durable))).collect()
    }

    /// The ids of the producers whose open transactions this coordinator will end. Some
    /// transactions have no record yet, or begin while the previous one ends.
    pub fn open_producers(&self) -> impl Iterator<Item = i64> {
        let entries = self.open.iter().filter_map(|id| self.ids.get(id));
        let open = entries.filter(|entry| !entry.durable.state.is_at_rest() || entry.is_pending());
        open.flat_map(|entry| [entry.durable.producer_id, entry.durable.next_identity().id])
    }

    /// The ids with a record after a position.
    pub fn written_after(&self, position: u64) -> impl Iterator<Item = &str> {
        let written = self.ids.loaded().filter(move |(_, entry)| entry.written_at > position);
        written.map(|(id, _)| &**id)
    }

    /// The state of an id as a record, if its transaction has at most `partitions_max` partitions.
    ///
    /// # Errors
    /// The number of partitions, if it exceeds `partitions_max`.
    pub fn record(
        &self,
        id: &str,
        partitions_max: usize,
    ) -> Result<Option<TransactionRecord<'static>>, usize> {
        let Some(durable) = self.ids.durable(id) else { return Ok(None) };
        match durable.partitions().map_or(0, PartitionSet::len) {
            partitions if partitions > partitions_max => Err(partitions),
            _ => Ok(Some(record(id, Some(&durable)))),
        }
    }

    /// The ids after `id`, in order.
    pub fn ids_after(&self, id: Option<&str>) -> impl Iterator<Item = &str> {
        self.ids.after(id).map(|seen| seen.id)
    }

    /// The approximate memory of the ids.
    pub fn bytes(&self) -> usize {
        self.held.ids * ID_BYTES + self.held.id_bytes + self.open_bytes
    }

    /// Audits the first loaded id after `id`: its state must be what its own record produces, and
    /// `open` must list it if and only if it is open. Returns that id, and whether both conditions
    /// hold; None if no id follows. An id with more than [`AUDIT_PARTITIONS_MAX`] partitions passes
    /// unchecked.
    pub fn audit_after(&self, id: Option<&str>) -> Option<(Text, bool)> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        let (id, entry) = self.ids.loaded_from(from).next()?;
        let is_large = entry.durable.partitions().is_some_and(|it| it.len() > AUDIT_PARTITIONS_MAX);
        let is_open = entry.is_open() == self.open.contains(id);
        Some((id.clone(), is_large || (is_open && is_rebuilt(id, &entry.durable))))
    }
}

/// Whether the record of an id, encoded and decoded, produces the same state.
fn is_rebuilt(id: &str, durable: &Durable) -> bool {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let written = record(id, Some(durable));
    written.write_key(&mut key);
    written.write_value(&mut value);
    let read = TransactionRecord::read(&key, Some(&value)).ok().flatten();
    read.is_some_and(|read| {
        let is_same = read.value.as_ref().and_then(Durable::from_record).as_ref() == Some(durable);
        is_same && read.key.transactional_id == *id
    })
}
