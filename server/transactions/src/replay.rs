//! Applies records to the state. Only replay changes durable state.

use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::entry::{Entry, Phase};
use crate::message::Stamp;
use crate::output::Output;
use crate::partition_set::PartitionSet;
use crate::state::{Durable, NO_EPOCH, State};
use crate::text::Text;
use alloc::vec::Vec;
use muster_codec::records::TransactionRecord;

impl Coordinator {
    /// Applies a record. A record with a state that Kafka never writes is skipped.
    pub fn replay(&mut self, record: &TransactionRecord<'_>, position: u64) {
        self.written_at = position;
        self.records = self.records.saturating_add(1);
        let id = &*record.key.transactional_id;
        match record.value.as_ref().map(Durable::from_record) {
            Some(Some(durable)) => self.put(id, durable, position),
            Some(None) => {}
            None => self.remove(id, position),
        }
    }

    pub(crate) fn put(&mut self, id: &str, durable: Durable, position: u64) {
        let bytes = open_bytes(&durable);
        let before = match self.ids.get_mut(id) {
            Some(entry) => {
                self.beginnings.recorded(id, entry, durable.state);
                self.written_markers.recorded(id, &durable);
                entry.recorded(durable, position, self.records)
            }
            None => {
                let record = self.records;
                self.insert(id, Entry { written_at: position, record, ..Entry::new(durable) });
                0
            }
        };
        self.open_bytes = self.open_bytes + bytes - before;
        self.note_open(id);
        let is_pending = self.ids.get(id).is_some_and(Entry::is_pending);
        if !is_pending {
            self.waits.transaction_ended(id);
        }
    }

    fn insert(&mut self, id: &str, entry: Entry) {
        if self.ids.insert(id, entry) {
            self.held.ids += 1;
            self.held.id_bytes += id.len();
        }
    }

    fn remove(&mut self, id: &str, position: u64) {
        self.removed_at = position;
        if let Some(loaded) = self.ids.remove(id) {
            (self.held.ids, self.held.id_bytes) =
                (self.held.ids - 1, self.held.id_bytes - id.len());
            if let Some(entry) = loaded {
                self.forget(&entry);
            }
        }
        self.open.remove(id);
        self.beginnings.remove(id);
        self.written_markers.remove(id);
        self.waits.transaction_ended(id);
    }

    /// Updates the indexes and counts after an id was removed.
    fn forget(&mut self, entry: &Entry) {
        self.open_bytes -= open_bytes(&entry.durable);
        if let Some(sequence) = entry.phase().sequence() {
            self.under_way.remove(&sequence);
        }
    }

    /// Frees the volatile state of an id if it is idle, and updates the index of open ids.
    pub(crate) fn note_open(&mut self, id: &str) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        entry.settle();
        match (entry.is_open(), self.open.contains(id)) {
            (true, false) => drop(self.open.insert(id.into())),
            (false, true) => drop(self.open.remove(id)),
            (true, true) | (false, false) => {}
        }
    }

    /// Called instead of [`Self::replay`] for records of an [`Output`] that the log refused. The
    /// caller replaces the answers of that output by errors, and drops its messages.
    pub fn not_written(&mut self, records: &[TransactionRecord<'_>]) {
        for record in records {
            let id = &*record.key.transactional_id;
            let Some(entry) = self.ids.get_mut(id) else { continue };
            entry.last_epoch = NO_EPOCH;
            let sequence = entry.phase().sequence();
            let is_marking = matches!(entry.phase(), Phase::Marking { .. });
            if entry.durable.state.prepared().is_some() {
                self.mark(id, PartitionSet::default());
            } else if is_marking {
                sequence.map(|it| self.under_way.remove(&it));
                entry.active().phase = Phase::Idle;
                self.note_open(id);
                self.waits.transaction_ended(id);
            }
        }
    }

    /// Called when all records of the log are replayed. Asks each slot for its open transactions,
    /// and continues the commits and aborts that the log has as decided.
    pub fn loaded(&mut self, context: &mut Context<'_>) -> Output {
        let mut output = Output::default();
        self.enter_call(context);
        let is_prepared = |id: &Text| {
            let durable = &self.ids.get(id)?.durable;
            durable.state.prepared()?;
            Some((id.clone(), durable.partitions().cloned().unwrap_or_default()))
        };
        let prepared: Vec<_> = self.open.iter().filter_map(is_prepared).collect();
        for (id, remaining) in prepared {
            self.mark(&id, remaining);
        }
        self.ask_for_reports(context, &mut output);
        self.timers.resend_after(context.now);
        let config = &self.config;
        self.timers.timeouts_at =
            Some(context.now.saturating_add(config.abort_timed_out_interval_ms));
        self.timers.expiry_at = Some(context.now.saturating_add(config.remove_expired_interval_ms));
        output
    }

    /// Notes that these partitions need markers, but does not send them yet. A slot gets its
    /// markers when it reports, or at the next [`crate::Reason::Resend`].
    fn mark(&mut self, id: &str, remaining: PartitionSet) {
        let Stamp { sequence, .. } = self.stamp();
        let Some(entry) = self.ids.get_mut(id) else { return };
        entry.active().phase = Phase::Marking { sequence, remaining };
        entry.active().sent_at = i64::MIN;
        self.under_way.insert(sequence, id.into());
        self.open.insert(id.into());
    }
}

impl Entry {
    /// Takes over the state of a record. Returns the bytes of the previous partitions.
    fn recorded(&mut self, durable: Durable, position: u64, record: u32) -> usize {
        (self.written_at, self.record) = (position, record);
        if let Some(active) = self.active.as_mut().filter(|_| durable.state == State::Ongoing) {
            active.joined = PartitionSet::default();
        }
        open_bytes(&core::mem::replace(&mut self.durable, durable))
    }
}

fn open_bytes(durable: &Durable) -> usize {
    durable.partitions().map_or(0, PartitionSet::bytes)
}
