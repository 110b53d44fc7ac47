//! The changes of share partitions on their way to the log: acknowledgements, expired locks and
//! ended sessions. All changes of a share partition between two flushes are one record.

use super::{Inputs, Shares};
use crate::net::VisibleAt;
use crate::placement::Slot;
use muster_codec::ErrorCode;
use muster_codec::records::ShareRecord;
use muster_faults::Fault;
use muster_shares::sessions::Ended;
use muster_shares::state::Refusal;
use muster_shares::{SharePartition, SharePartitionKey};
use muster_storage::AppendError;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Shares {
    /// Ends the locks that were due at `handled_until` or before. (All input up to this time was
    /// handled, so no acknowledgement of these records is waiting.)
    pub(super) fn expire_locks(&mut self, inputs: &Inputs<'_>, handled_until: i64) {
        while let Some(key) = self.open.due(handled_until) {
            let settings = self.config(inputs, &key.group_id).settings;
            let expired = self.open.on(&key, |it| it.expire(handled_until, &settings));
            self.counters.lock_timeouts += u64::from(expired == Some(true));
        }
    }

    /// Releases the records of a member whose session has ended.
    pub(super) fn release(&mut self, inputs: &Inputs<'_>, group_id: &Arc<str>, ended: &Ended) {
        if Fault::ForgottenRelease.is_injected() {
            return;
        }
        let settings = self.config(inputs, group_id).settings;
        for at in &ended.partitions {
            let key = SharePartitionKey::new(group_id.clone(), at.topic_id, at.partition);
            self.open.on(&key, |it| it.release(&ended.member_id, &settings));
        }
    }

    /// Writes records of the changes of all share partitions, and answers requests that waited for
    /// nothing else. While a flush is under way, changes gather for a later record.
    pub(crate) fn write_changes(&mut self, inputs: &mut Inputs<'_>) {
        self.letters.have_ended = false;
        if self.open.has_changes() && can_write(inputs) {
            let written = self.write_records(inputs);
            self.answer_written(&written);
            self.drop_groups();
        } else if !self.open.has_changes() {
            self.drop_groups();
        }
    }

    /// Writes a record for each changed share partition. Returns the records' positions.
    fn write_records(&mut self, inputs: &mut Inputs<'_>) -> BTreeMap<SharePartitionKey, VisibleAt> {
        let mut written = BTreeMap::new();
        while let Some((key, log)) = self.open.next_changed() {
            let slot = Slot(log);
            let position = inputs.runtime.next_position(slot.log_slot());
            let Some(change) = self.open.take_change(&key) else { continue };
            if Fault::LostUpdate.is_injected() && is_eighth(inputs) {
                self.open.written(&key, slot.0, position);
                written.insert(key, VisibleAt::Now);
                continue;
            }
            let mut write = change.as_write();
            if Fault::ShareStartTooFar.is_injected() && is_eighth(inputs) {
                write.start_offset += 1;
            }
            let states = self.states.of(slot).filter(|it| it.fits(&key, &write));
            let record = states.and_then(|it| it.change(&key, &write, inputs.times.wall));
            match record.map(|record| self.append(inputs, slot, &record)) {
                Some(Ok(visible_at)) => drop(written.insert(key, visible_at)),
                // The share state was deleted, or the change is too large for it or for the log.
                // After the drop, records that members had acquired can be acquired again.
                Some(Err(_)) | None => self.drop_partition(&key, ErrorCode::UnknownServerError),
            }
        }
        written
    }

    /// Appends a record, and replays it.
    ///
    /// # Errors
    /// The record is too large for the log. Nothing has changed.
    pub(super) fn append(
        &mut self,
        inputs: &mut Inputs<'_>,
        slot: Slot,
        record: &ShareRecord<'_>,
    ) -> Result<VisibleAt, AppendError> {
        let (now, records) = (inputs.times.now, std::slice::from_ref(record));
        let position = self.states.write(inputs.runtime, slot, now, records).inspect_err(|error| {
            tracing::warn!(target: "shares", "a record of share state was not written: {error}");
        })?;
        self.counters.state_records += 1;
        self.open.written(&SharePartitionKey::of_record(&record.key), slot.0, position);
        Ok(VisibleAt::position(slot.log_slot(), position))
    }

    /// Notes in each request the positions of the records with its acknowledgements. Answers the
    /// requests that waited for nothing else.
    fn answer_written(&mut self, written: &BTreeMap<SharePartitionKey, VisibleAt>) {
        for id in self.requests.unwritten() {
            let is_over = self.requests.on(id, |request| {
                request.written(written);
                request.unwritten.is_empty() && request.is_complete
            });
            if is_over == Some(true)
                && let Some(request) = self.requests.take(id)
            {
                self.answer(request);
            }
        }
    }

    /// Drops a share partition whose state was replaced or deleted, or could not be written.
    /// Acknowledgements that are in no record yet fail with an error.
    pub(super) fn drop_partition(&mut self, key: &SharePartitionKey, error: ErrorCode) {
        self.open.remove(key);
        self.letters.forget(key);
        let at = super::opening::topic_partition(key);
        for id in self.requests.unwritten() {
            self.requests.on(id, |request| {
                if request.unwritten.remove(key) {
                    request.acknowledged(BTreeMap::from([(at, error)]));
                }
            });
        }
        self.answer_written(&BTreeMap::new());
    }

    /// Drops the share partitions of groups without sessions. But a share partition whose letters
    /// have not ended is kept until they have, because otherwise these letters would be sent twice.
    fn drop_groups(&mut self) {
        for group_id in std::mem::take(&mut self.left_groups) {
            if self.sessions.has_group(&group_id) {
                continue;
            }
            for key in self.open.of_group(&group_id) {
                if !self.open.get(&key).is_some_and(SharePartition::awaits_letters) {
                    self.open.remove(&key);
                }
            }
        }
    }

    /// Writes the record for a request about share state, if there is one. Returns the position
    /// that the answer has to wait for.
    pub(super) fn write_state(
        &mut self,
        inputs: &mut Inputs<'_>,
        slot: Slot,
        record: Option<ShareRecord<'static>>,
    ) -> Result<VisibleAt, Refusal> {
        const NOT_WRITTEN: Refusal = Refusal {
            error: ErrorCode::UnknownServerError,
            message: "Unable to write share group state: the record is too large.",
        };
        match record {
            Some(record) => self.append(inputs, slot, &record).map_err(|_| NOT_WRITTEN),
            // The state may not be durable yet.
            None => {
                let position = inputs.runtime.position(slot.share_state());
                Ok(VisibleAt::position(slot.log_slot(), position))
            }
        }
    }
}

/// Whether an injected fault affects the next operation of the log: every eighth operation.
fn is_eighth(inputs: &Inputs<'_>) -> bool {
    (inputs.runtime.log().progress().accepted() + 1).is_multiple_of(8)
}

/// Whether changes may be written. While a flush is under way, they gather.
fn can_write(inputs: &Inputs<'_>) -> bool {
    let progress = inputs.runtime.log().progress();
    progress.submitted() == progress.flushed() && !inputs.runtime.is_closed()
}
