//! The acknowledgements that an answer to a member of a share group confirms: records that the
//! member accepted or rejected are done in the durable share state when the answer leaves.

use muster_codec::Uuid;
use muster_codec::messages::{
    AcknowledgementBatch, ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest,
    ShareFetchResponse,
};
use muster_codec::records::ShareRecord;
use muster_shares::limits::UPDATES_PER_SNAPSHOT_MAX;
use muster_shares::{RecordState, SharePartitionKey, State, States};
use std::collections::BTreeSet;

const ACCEPT: i8 = 1;
const REJECT: i8 = 3;

/// The least delivery state of a record that is done: acknowledged. Archived ones follow.
const DONE_FROM: i8 = RecordState::Acknowledged as i8;

/// The durable share states of all shards.
pub(super) struct Acknowledged(States);

/// A partition of a topic, as requests and answers name it.
type Partition = (Uuid, i32);

impl Default for Acknowledged {
    fn default() -> Self {
        Self(States::new(UPDATES_PER_SNAPSHOT_MAX))
    }
}

impl Acknowledged {
    /// Takes a durable record.
    pub(super) fn replay(&mut self, record: &ShareRecord<'_>) {
        self.0.replay(record);
    }

    /// # Errors
    /// An offset that the answer confirms is not done.
    pub(super) fn check(
        &self,
        asked: &ShareAcknowledgeRequest<'_>,
        answer: &ShareAcknowledgeResponse<'_>,
    ) -> Result<(), String> {
        let confirmed = answer.responses.iter().flat_map(|topic| {
            let partitions = topic.partitions.iter().filter(|it| it.error_code == 0);
            partitions.map(|it| (topic.topic_id, it.partition_index))
        });
        let confirmed: BTreeSet<Partition> = confirmed.collect();
        let asked_of = asked.topics.iter().flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions.map(|it| ((topic.topic_id, it.partition_index), &it.acknowledgement_batches))
        });
        for (partition, batches) in asked_of.filter(|(it, _)| confirmed.contains(it)) {
            self.require(asked.group_id.as_deref(), partition, batches)?;
        }
        Ok(())
    }

    /// # Errors
    /// An offset that the answer to a fetch confirms is not done.
    pub(super) fn check_fetch(
        &self,
        asked: &ShareFetchRequest<'_>,
        answer: &ShareFetchResponse<'_>,
    ) -> Result<(), String> {
        let confirmed = answer.responses.iter().flat_map(|topic| {
            let partitions = topic.partitions.iter().filter(|it| it.acknowledge_error_code == 0);
            partitions.map(|it| (topic.topic_id, it.partition_index))
        });
        let confirmed: BTreeSet<Partition> = confirmed.collect();
        let asked_of = asked.topics.iter().flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions.map(|it| ((topic.topic_id, it.partition_index), &it.acknowledgement_batches))
        });
        for (partition, batches) in asked_of.filter(|(it, _)| confirmed.contains(it)) {
            self.require(asked.group_id.as_deref(), partition, batches)?;
        }
        Ok(())
    }

    fn require(
        &self,
        group: Option<&str>,
        (topic_id, partition): Partition,
        batches: &[AcknowledgementBatch],
    ) -> Result<(), String> {
        let group_id = group.unwrap_or_default().into();
        let key = SharePartitionKey { group_id, topic_id, partition };
        // Without a state, the group or the topic was deleted meanwhile.
        let Some(state) = self.0.get(&key) else { return Ok(()) };
        for batch in batches {
            let types = &batch.acknowledge_types;
            for (at, offset) in (batch.first_offset..=batch.last_offset).enumerate() {
                let kind = types.get(at).or(types.first());
                if matches!(kind, Some(&(ACCEPT | REJECT))) && !is_done(state, offset) {
                    return Err(format!("offset {offset} of {key:?} is done"));
                }
            }
        }
        Ok(())
    }
}

fn is_done(state: &State, offset: i64) -> bool {
    let batch = state.batches.iter().find(|it| (it.first..=it.last).contains(&offset));
    offset < state.start_offset || batch.is_some_and(|it| it.delivery_state >= DONE_FROM)
}
