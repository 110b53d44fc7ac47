//! The changes of share partitions on their way to the log: acknowledgements, locks that end,
//! sessions that do. All of a share partition's changes between two flushes are one record.

use super::{Inputs, Shares};
use crate::net::VisibleAt;
use crate::placement::Slot;
use muster_codec::ErrorCode;
use muster_codec::records::ShareRecord;
use muster_shares::sessions::Ended;
use muster_shares::{SharePartitionKey, state::Refusal};
use std::collections::BTreeMap;

impl Shares {
    /// Ends the locks whose time has come by a time at which all input was handled.
    pub(super) fn expire_locks(&mut self, inputs: &Inputs<'_>, handled_until: i64) {
        while let Some(key) = self.open.due(handled_until) {
            let settings = self.config(inputs, &key.group_id).settings;
            let expired = self.open.on(&key, |it| it.expire(handled_until, &settings));
            self.counters.lock_timeouts += u64::from(expired == Some(true));
        }
    }

    /// Releases what a member holds, because its session has ended.
    pub(super) fn release(&mut self, inputs: &Inputs<'_>, group_id: &str, ended: &Ended) {
        let settings = self.config(inputs, group_id).settings;
        for at in &ended.partitions {
            let key = SharePartitionKey::new(group_id, at.topic_id, at.partition);
            self.open.on(&key, |it| it.release(&ended.member_id, &settings));
        }
    }

    /// Writes the changes of all share partitions, unless a flush is under way: they gather until
    /// it has ended. Requests that wait for a record alone are answered.
    pub(super) fn write_changes(&mut self, inputs: &mut Inputs<'_>) {
        if self.open.has_changes() && can_write(inputs) {
            let written = self.write_records(inputs);
            self.answer_written(&written);
            self.drop_groups();
        } else if !self.open.has_changes() {
            self.drop_groups();
        }
    }

    /// Returns the position of each share partition's record.
    fn write_records(&mut self, inputs: &mut Inputs<'_>) -> BTreeMap<SharePartitionKey, VisibleAt> {
        let mut written = BTreeMap::new();
        while let Some((key, log)) = self.open.next_changed() {
            let slot = Slot(log);
            let position = inputs.log.log().progress_of(slot.share_state()).accepted() + 1;
            let Some(change) = self.open.take_change(&key, position) else { continue };
            let states = self.states.of(slot);
            let record =
                states.and_then(|it| it.change(&key, &change.as_write(), inputs.times.wall));
            let visible_at = match record {
                Some(record) => self.append(inputs, slot, &record),
                // The state is gone, and the share partition with it.
                None => {
                    self.open.remove(&key);
                    VisibleAt::Now
                }
            };
            written.insert(key, visible_at);
        }
        written
    }

    /// Appends a record, and replays it.
    pub(super) fn append(
        &mut self,
        inputs: &mut Inputs<'_>,
        slot: Slot,
        record: &ShareRecord<'_>,
    ) -> VisibleAt {
        let (now, records) = (inputs.times.now, std::slice::from_ref(record));
        match self.states.write(inputs.log, slot, now, records) {
            Ok(position) => {
                self.counters.state_records += 1;
                VisibleAt::position(slot.share_state(), position)
            }
            // Its size is limited: nothing that a client does makes it too large.
            Err(error) => {
                inputs.log.give_up(&format!("share state was not written: {error}"));
                VisibleAt::Now
            }
        }
    }

    fn answer_written(&mut self, written: &BTreeMap<SharePartitionKey, VisibleAt>) {
        let waiting = std::mem::take(&mut self.acknowledging);
        for id in waiting {
            let Some(request) = self.requests.get_mut(id) else { continue };
            request.unwritten.retain(|key| match written.get(key) {
                Some(visible_at) => {
                    request.visible_at.join(visible_at.clone());
                    false
                }
                None => true,
            });
            if !request.unwritten.is_empty() {
                self.acknowledging.push(id);
            } else if request.is_complete
                && let Some(request) = self.requests.take(id)
            {
                self.answer(request);
            }
        }
    }

    /// Drops a share partition whose state was replaced or deleted. Acknowledgements that have no
    /// record yet fail, as those of a share partition that is fenced do in Kafka.
    pub(super) fn drop_partition(&mut self, key: &SharePartitionKey) {
        self.open.remove(key);
        for id in self.acknowledging.clone() {
            let Some(request) = self.requests.get_mut(id) else { continue };
            if request.unwritten.remove(key) {
                let at = super::opening::topic_partition(key);
                request.acknowledged(BTreeMap::from([(at, ErrorCode::NotLeaderOrFollower)]));
            }
        }
        self.answer_written(&BTreeMap::new());
    }

    /// Drops the share partitions of groups that have no session left.
    fn drop_groups(&mut self) {
        for group_id in std::mem::take(&mut self.left_groups) {
            if !self.sessions.has_group(&group_id) {
                let keys = self.open.of_group(&group_id);
                keys.iter().for_each(|key| {
                    self.open.remove(key);
                });
            }
        }
    }

    /// The result of a request about share state: a record to append, if it needs one.
    pub(super) fn write_state(
        &mut self,
        inputs: &mut Inputs<'_>,
        slot: Slot,
        record: Result<Option<ShareRecord<'static>>, Refusal>,
    ) -> Result<VisibleAt, Refusal> {
        Ok(match record? {
            Some(record) => self.append(inputs, slot, &record),
            // The state may not be durable yet.
            None => {
                let position = inputs.log.log().progress_of(slot.share_state()).accepted();
                VisibleAt::position(slot.share_state(), position)
            }
        })
    }
}

/// While a flush is under way, changes gather.
fn can_write(inputs: &Inputs<'_>) -> bool {
    let progress = inputs.log.log().progress();
    progress.submitted() == progress.flushed() && !inputs.log.is_closed()
}
