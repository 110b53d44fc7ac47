//! Tasks on topics: creating, growing, describing and deleting them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use tokio::time::sleep;

use super::{
    PATIENCE, RETRY_AFTER, any_server, controller, failed, is, metadata, millis, refused, version,
};
use crate::driver::channel::Channel;
use crate::driver::core::Shared;
use crate::topics::{Topic, Topics};

/// Kafka refuses requests that create more than 10,000 partitions.
const PARTITIONS_A_REQUEST: u32 = 5_000;
/// Topics in one request of any kind.
const TOPICS_A_REQUEST: usize = 500;
/// The time that the controller may take for one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Errors after which the metadata is read again.
const PASSING: &[ResponseError] = &[
    ResponseError::TopicAlreadyExists,
    ResponseError::InvalidPartitions,
    ResponseError::NotController,
    ResponseError::RequestTimedOut,
    ResponseError::ThrottlingQuotaExceeded,
];
/// Metadata's errors for a topic that does not exist, or not yet.
const ABSENT: &[ResponseError] = &[
    ResponseError::UnknownTopicOrPartition,
    ResponseError::LeaderNotAvailable,
    ResponseError::UnknownTopicId,
];

/// Names and partitions.
type Wanted = BTreeMap<StrBytes, u32>;

struct Found {
    topic: Topic,
    /// The number of partitions, from the first on, that have a leader.
    led: u32,
}

/// Partitions to ask for next.
struct Growth {
    name: StrBytes,
    from: u32,
    to: u32,
}

/// Creates missing topics and partitions, and waits until each partition of each topic has a
/// leader.
///
/// # Errors
/// One sentence.
pub(super) async fn ensure(
    shared: &Shared,
    wanted: &Wanted,
    replication: i16,
) -> Result<Arc<Topics>, String> {
    let mut anyone = any_server(shared).await?;
    let mut until = shared.core.borrow().clock.now() + PATIENCE;
    loop {
        let found = describe(shared, &mut anyone, wanted.keys()).await?;
        let led = |name: &StrBytes| found.get(name).map_or(0, |found| found.led);
        let Some(leaderless) = wanted.iter().find(|(name, wants)| led(name) < **wants) else {
            let topics = found.into_values().map(|found| found.topic).collect();
            return Ok(shared.core.borrow_mut().learn(topics));
        };
        let now = shared.core.borrow().clock.now();
        if grow(shared, growths(wanted, &found), replication).await? {
            until = now + PATIENCE;
        } else if now > until {
            let (patience, name) = (PATIENCE.as_secs(), leaderless.0);
            return Err(format!("topic {name} has partitions without a leader after {patience} s"));
        }
        sleep(RETRY_AFTER).await;
    }
}

/// Deletes topics. Topics that do not exist are no error.
///
/// # Errors
/// One sentence.
pub(super) async fn delete(shared: &Shared, names: &[StrBytes]) -> Result<(), String> {
    let mut controller = controller(shared).await?;
    for names in names.chunks(TOPICS_A_REQUEST) {
        delete_some(shared, &mut controller, names).await?;
    }
    let mut anyone = any_server(shared).await?;
    let until = shared.core.borrow().clock.now() + PATIENCE;
    loop {
        let left = describe(shared, &mut anyone, names.iter()).await?;
        let Some(name) = left.keys().next() else { return Ok(()) };
        if shared.core.borrow().clock.now() > until {
            return Err(format!("topic {name} still exists after {} s", PATIENCE.as_secs()));
        }
        sleep(RETRY_AFTER).await;
    }
}

async fn delete_some(
    shared: &Shared,
    controller: &mut Channel,
    names: &[StrBytes],
) -> Result<(), String> {
    let version = version::<DeleteTopicsRequest>(shared, "DeleteTopics")?;
    let request = DeleteTopicsRequest::default().with_timeout_ms(millis(TIMEOUT));
    let names = names.iter().cloned().map(TopicName);
    let request = if version >= 6 {
        let state = |name| DeleteTopicState::default().with_name(Some(name));
        request.with_topics(names.map(state).collect())
    } else {
        request.with_topic_names(names.collect())
    };
    let answer = controller.call(version, &request).await;
    for topic in answer.map_err(|error| failed("DeleteTopics", &error))?.responses {
        if topic.error_code != 0 && !is(topic.error_code, ABSENT) {
            let what = format!("topic {} cannot be deleted", &**topic.name.unwrap_or_default());
            return Err(refused(&what, topic.error_code, topic.error_message.as_ref()));
        }
    }
    Ok(())
}

/// Describes those of these topics that exist.
async fn describe(
    shared: &Shared,
    server: &mut Channel,
    names: impl Iterator<Item = &StrBytes>,
) -> Result<BTreeMap<StrBytes, Found>, String> {
    let names: Vec<_> = names.collect();
    let mut all = BTreeMap::new();
    for names in names.chunks(TOPICS_A_REQUEST) {
        for topic in metadata(shared, server, names).await?.topics {
            if let Some(found) = found(topic)? {
                all.insert(found.topic.name.clone(), found);
            }
        }
    }
    Ok(all)
}

fn found(topic: MetadataResponseTopic) -> Result<Option<Found>, String> {
    let name = topic.name.map(|name| name.0).unwrap_or_default();
    match topic.error_code {
        0 => {}
        code if is(code, ABSENT) => return Ok(None),
        code => return Err(refused(&format!("topic {name}"), code, None)),
    }
    let partitions = topic.partitions.len() as u32;
    let with_leader = topic.partitions.iter().filter(|partition| partition.leader_id.0 >= 0);
    let mut numbers: Vec<i32> = with_leader.map(|partition| partition.partition_index).collect();
    numbers.sort_unstable();
    let led = (0..).zip(&numbers).take_while(|(at, number)| at == *number).count() as u32;
    Ok(Some(Found { topic: Topic { name, id: topic.topic_id, partitions }, led }))
}

/// The missing partitions; those of a large topic step by step.
fn growths(wanted: &Wanted, found: &BTreeMap<StrBytes, Found>) -> Vec<Growth> {
    let growth = |(name, wants): (&StrBytes, &u32)| {
        let from = found.get(name).map_or(0, |found| found.topic.partitions);
        let to = (*wants).min(from.saturating_add(PARTITIONS_A_REQUEST));
        (from < *wants).then(|| Growth { name: name.clone(), from, to })
    };
    wanted.iter().filter_map(growth).collect()
}

/// Returns whether any topic or partition was created.
async fn grow(shared: &Shared, growths: Vec<Growth>, replication: i16) -> Result<bool, String> {
    if growths.is_empty() {
        return Ok(false);
    }
    let mut controller = controller(shared).await?;
    let (new, old): (Vec<_>, Vec<_>) = growths.into_iter().partition(|growth| growth.from == 0);
    let mut grown = false;
    for some in requests(&new) {
        grown |= create(shared, &mut controller, some, replication).await?;
    }
    for some in requests(&old) {
        grown |= add_partitions(shared, &mut controller, some).await?;
    }
    Ok(grown)
}

/// Puts as many into each request as are allowed.
fn requests(growths: &[Growth]) -> impl Iterator<Item = &[Growth]> {
    let mut partitions = 0;
    let mut topics = 0;
    growths.chunk_by(move |before, next| {
        (partitions, topics) = (partitions + before.to - before.from, topics + 1);
        let together =
            partitions + next.to - next.from <= PARTITIONS_A_REQUEST && topics < TOPICS_A_REQUEST;
        if !together {
            (partitions, topics) = (0, 0);
        }
        together
    })
}

async fn create(
    shared: &Shared,
    controller: &mut Channel,
    growths: &[Growth],
    replication: i16,
) -> Result<bool, String> {
    let version = version::<CreateTopicsRequest>(shared, "CreateTopics")?;
    let topic = |growth: &Growth| {
        CreatableTopic::default()
            .with_name(TopicName(growth.name.clone()))
            .with_num_partitions(growth.to as i32)
            .with_replication_factor(replication)
    };
    let request = CreateTopicsRequest::default()
        .with_topics(growths.iter().map(topic).collect())
        .with_timeout_ms(millis(TIMEOUT));
    let answer = controller.call(version, &request).await;
    let topics = answer.map_err(|error| failed("CreateTopics", &error))?.topics;
    let results =
        topics.iter().map(|topic| (&topic.name, topic.error_code, topic.error_message.as_ref()));
    made("created", results)
}

async fn add_partitions(
    shared: &Shared,
    controller: &mut Channel,
    growths: &[Growth],
) -> Result<bool, String> {
    let version = version::<CreatePartitionsRequest>(shared, "CreatePartitions")?;
    let topic = |growth: &Growth| {
        CreatePartitionsTopic::default()
            .with_name(TopicName(growth.name.clone()))
            .with_count(growth.to as i32)
            .with_assignments(None)
    };
    let request = CreatePartitionsRequest::default()
        .with_topics(growths.iter().map(topic).collect())
        .with_timeout_ms(millis(TIMEOUT));
    let answer = controller.call(version, &request).await;
    let topics = answer.map_err(|error| failed("CreatePartitions", &error))?.results;
    let results =
        topics.iter().map(|topic| (&topic.name, topic.error_code, topic.error_message.as_ref()));
    made("given more partitions", results)
}

/// Returns whether any topic was created or grew; an error if one never will.
fn made<'a>(
    what: &str,
    results: impl Iterator<Item = (&'a TopicName, i16, Option<&'a StrBytes>)>,
) -> Result<bool, String> {
    let mut any = false;
    for (name, code, message) in results {
        match code {
            0 => any = true,
            code if is(code, PASSING) => {}
            code => {
                return Err(refused(&format!("topic {} cannot be {what}", &**name), code, message));
            }
        }
    }
    Ok(any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_stay_below_kafkas_limit() {
        let growth = |to| Growth { name: StrBytes::from_static_str("t"), from: 0, to };
        let growths: Vec<_> = [3_000, 2_000, 1, 5_000, 10, 10].map(growth).into();
        let sizes: Vec<Vec<u32>> =
            requests(&growths).map(|some| some.iter().map(|growth| growth.to).collect()).collect();
        assert_eq!(sizes, [vec![3_000, 2_000], vec![1], vec![5_000], vec![10, 10]]);

        let many: Vec<_> = (0..1_200).map(|_| growth(1)).collect();
        let sizes: Vec<usize> = requests(&many).map(<[_]>::len).collect();
        assert_eq!(sizes, [500, 500, 200]);
    }

    #[test]
    fn a_topic_grows_in_steps_to_what_is_wanted() {
        let name = StrBytes::from_static_str("t");
        let wanted = Wanted::from([(name.clone(), 12_000)]);
        let mut found = BTreeMap::new();
        let mut steps = Vec::new();
        while let [growth] = &*growths(&wanted, &found) {
            steps.push((growth.from, growth.to));
            let topic = Topic { name: name.clone(), id: uuid::Uuid::nil(), partitions: growth.to };
            found.insert(name.clone(), Found { topic, led: growth.to });
        }
        assert_eq!(steps, [(0, 5_000), (5_000, 10_000), (10_000, 12_000)]);
    }
}
