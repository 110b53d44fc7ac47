//! Checks answers to members of share groups that confirm acknowledgements: when such an answer
//! leaves, the accepted and rejected records must be finished in the durable share state.

use muster_codec::messages::AcknowledgementBatch;
use muster_codec::{Request, Response, Uuid};
use muster_shares::{RecordState, SharePartitionKey, State, States};
use std::collections::BTreeSet;

const ACCEPT: i8 = 1;
const REJECT: i8 = 3;

/// The lowest delivery state of a finished record: acknowledged. The higher states, archiving and
/// archived, are finished, too.
const DONE_FROM: i8 = RecordState::Acknowledged as i8;

/// A partition of a topic, as requests and answers name it.
type Partition = (Uuid, i32);

/// Compares an answer with the durable share states of its shard.
///
/// # Errors
/// The answer confirms that an offset was accepted or rejected, but this is not durable.
pub(super) fn check_acknowledged(
    states: &States,
    request: &Request<'_>,
    response: &Response<'_>,
) -> Result<(), String> {
    match (request, response) {
        (Request::ShareAcknowledge(asked), Response::ShareAcknowledge(answer)) => {
            let batches = asked.topics.iter().flat_map(|topic| {
                let of = topic.partitions.iter();
                of.map(|it| ((topic.topic_id, it.partition_index), &it.acknowledgement_batches))
            });
            let errors = answer.responses.iter().flat_map(|topic| {
                let of = topic.partitions.iter();
                of.map(|it| ((topic.topic_id, it.partition_index), it.error_code))
            });
            check_confirmed(states, asked.group_id.as_deref(), batches, errors)
        }
        (Request::ShareFetch(asked), Response::ShareFetch(answer)) => {
            let batches = asked.topics.iter().flat_map(|topic| {
                let of = topic.partitions.iter();
                of.map(|it| ((topic.topic_id, it.partition_index), &it.acknowledgement_batches))
            });
            let errors = answer.responses.iter().flat_map(|topic| {
                let of = topic.partitions.iter();
                of.map(|it| ((topic.topic_id, it.partition_index), it.acknowledge_error_code))
            });
            check_confirmed(states, asked.group_id.as_deref(), batches, errors)
        }
        _ => Ok(()),
    }
}

fn check_confirmed<'r>(
    states: &States,
    group: Option<&str>,
    batches: impl Iterator<Item = (Partition, &'r Vec<AcknowledgementBatch>)>,
    errors: impl Iterator<Item = (Partition, i16)>,
) -> Result<(), String> {
    let confirmed = errors.filter(|(_, error)| *error == 0).map(|(partition, _)| partition);
    let confirmed: BTreeSet<Partition> = confirmed.collect();
    for ((topic_id, partition), batches) in batches.filter(|(it, _)| confirmed.contains(it)) {
        let group_id = group.unwrap_or_default().into();
        let key = SharePartitionKey { group_id, topic_id, partition };
        // Without a state, the group or the topic was deleted meanwhile.
        let Some(state) = states.get(&key) else { continue };
        if let Some(offset) = batches.iter().flat_map(finished_by).find(|it| !is_done(state, *it)) {
            return Err(format!("offset {offset} of {key:?} is done"));
        }
    }
    Ok(())
}

/// The offsets that a batch accepts or rejects.
fn finished_by(batch: &AcknowledgementBatch) -> impl Iterator<Item = i64> {
    let types = &batch.acknowledge_types;
    let offsets = (batch.first_offset..=batch.last_offset).enumerate();
    let finishes = |at: usize| matches!(types.get(at).or(types.first()), Some(&(ACCEPT | REJECT)));
    offsets.filter(move |(at, _)| finishes(*at)).map(|(_, offset)| offset)
}

fn is_done(state: &State, offset: i64) -> bool {
    let batch = state.batches.iter().find(|it| (it.first..=it.last).contains(&offset));
    offset < state.start_offset || batch.is_some_and(|it| it.delivery_state >= DONE_FROM)
}
