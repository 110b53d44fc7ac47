//! CreatePartitions, as Kafka's `ReplicationControlManager` decides it.

use super::change::{Change, Refused, is_timed_out, timed_out};
use super::create_topics::{
    excessive, only_replica, slots, too_many_in_a_topic, too_many_partitions,
};
use super::limits::{PARTITIONS_MAX, PARTITIONS_PER_REQUEST_MAX, PARTITIONS_PER_TOPIC_MAX};
use super::{MutationQuota, View};
use muster_codec::ErrorCode;
use muster_codec::messages::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsResponse,
    CreatePartitionsTopic, CreatePartitionsTopicResult,
};
use muster_codec::records::{ClusterRecord, TopicKey, TopicValue};
use std::collections::BTreeMap;

/// Adds partitions to topics. A topic that is named twice is answered once, with an error. But if
/// the request has timed out, and names at least one topic only once, each entry of the request is
/// answered with REQUEST_TIMED_OUT.
pub fn create_partitions(
    view: &View<'_>,
    quota: &mut MutationQuota<'_>,
    request: &CreatePartitionsRequest<'_>,
) -> Change<CreatePartitionsResponse<'static>> {
    let mut topics: BTreeMap<&str, Vec<&CreatePartitionsTopic<'_>>> = BTreeMap::new();
    for topic in &request.topics {
        topics.entry(&topic.name).or_default().push(topic);
    }
    if is_timed_out(request.timeout_ms) && topics.values().any(|asked| asked.len() == 1) {
        let late = |asked: &CreatePartitionsTopic<'_>| result(&asked.name, Some(timed_out()));
        let results = request.topics.iter().map(late).collect();
        let response = CreatePartitionsResponse { results, ..Default::default() };
        return Change { records: Vec::new(), response };
    }
    let mut budget = Budget {
        in_request: PARTITIONS_PER_REQUEST_MAX,
        in_cluster: PARTITIONS_MAX - view.image.partition_count(),
    };
    let mut records = Vec::new();
    let mut results = Vec::with_capacity(topics.len());
    for (name, asked) in topics {
        let grown = match asked[..] {
            [topic] => grow(view, topic, quota, &mut budget),
            _ => Err(Refused::new(ErrorCode::InvalidRequest, "Duplicate topic name.")),
        };
        results.push(result(name, grown.as_ref().err().cloned()));
        records.extend(grown.ok().filter(|_| !request.validate_only));
    }
    let throttle_time_ms = quota.throttle_time_ms();
    Change { records, response: CreatePartitionsResponse { results, throttle_time_ms } }
}

/// How many partitions may still be created.
struct Budget {
    in_request: i64,
    in_cluster: i64,
}

fn grow(
    view: &View<'_>,
    asked: &CreatePartitionsTopic<'_>,
    quota: &mut MutationQuota<'_>,
    budget: &mut Budget,
) -> Result<ClusterRecord<'static>, Refused> {
    let topic = view
        .image
        .topic(&asked.name)
        .ok_or_else(|| Refused::without_message(ErrorCode::UnknownTopicOrPartition))?;
    if topic.is_internal() {
        let words = format!("Extension of internal topic {} is prohibited.", topic.name);
        return Err(Refused::new(ErrorCode::InvalidRequest, words));
    }
    let added = increase(&topic.name, topic.partitions, asked.count)?;
    if added > budget.in_request {
        return Err(excessive());
    }
    if i64::from(asked.count) > PARTITIONS_PER_TOPIC_MAX {
        return Err(too_many_in_a_topic());
    }
    if added > budget.in_cluster {
        return Err(too_many_partitions(PARTITIONS_MAX - budget.in_cluster));
    }
    let nodes = asked.assignments.as_ref().map(|nodes| assigned(view, added, nodes)).transpose()?;
    let new = topic.partitions..asked.count;
    let added_slots = nodes.unwrap_or_else(|| slots(view, topic.id, new));
    quota.take(added)?;
    budget.in_request -= added;
    budget.in_cluster -= added;
    let value = TopicValue {
        name: topic.name.to_string().into(),
        partitions: asked.count,
        slots: topic.slots_with(added_slots),
    };
    Ok(ClusterRecord::Topic(TopicKey { topic_id: topic.id }, Some(value)))
}

fn increase(name: &str, partitions: i32, count: i32) -> Result<i64, Refused> {
    let words = match i64::from(count) - i64::from(partitions) {
        0 => format!("Topic already has {partitions} partition(s)."),
        ..0 => format!(
            "The topic {name} currently has {partitions} partition(s); {count} would not be an \
             increase."
        ),
        added => return Ok(added),
    };
    Err(Refused::new(ErrorCode::InvalidPartitions, words))
}

/// The nodes of the new partitions, as the request assigns them.
fn assigned(
    view: &View<'_>,
    added: i64,
    assignments: &[CreatePartitionsAssignment],
) -> Result<Vec<i32>, Refused> {
    if assignments.len() as i64 != added {
        let words = format!(
            "Attempted to add {added} additional partition(s), but only {} assignment(s) were \
             specified.",
            assignments.len()
        );
        return Err(Refused::new(ErrorCode::InvalidReplicaAssignment, words));
    }
    assignments.iter().map(|assignment| only_replica(view, &assignment.broker_ids)).collect()
}

fn result(name: &str, refused: Option<Refused>) -> CreatePartitionsTopicResult<'static> {
    let error_code = refused.as_ref().map_or(ErrorCode::None, |refused| refused.error).code();
    let error_message = refused.and_then(Refused::error_message);
    CreatePartitionsTopicResult { name: name.to_owned().into(), error_code, error_message }
}
