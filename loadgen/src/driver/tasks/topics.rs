//! Tasks on topics: creating, growing, describing and deleting them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_codec::messages::{
    CreatableTopic, CreatePartitionsRequest, CreatePartitionsTopic, CreateTopicsRequest,
    DeleteTopicState, DeleteTopicsRequest, MetadataResponseTopic,
};
use muster_codec::{ApiKey, ErrorCode, Str};
use tokio::time::sleep;

use super::{
    PATIENCE, RETRY_AFTER, any_server, call, controller, is, metadata, millis, refused, version,
};
use crate::driver::channel::Channel;
use crate::driver::core::Shared;
use crate::topics::{Topic, Topics};

/// The maximum number of partitions in a request. Kafka refuses more than 10,000.
const PARTITIONS_A_REQUEST: u32 = 5_000;
/// The maximum number of topics in a request.
const TOPICS_A_REQUEST: usize = 500;
/// How long the controller may take for a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Errors that may pass: the metadata of the topics is read again, and then what is still missing
/// is requested again.
const PASSING: &[ErrorCode] = &[
    ErrorCode::TopicAlreadyExists,
    ErrorCode::InvalidPartitions,
    ErrorCode::NotController,
    ErrorCode::RequestTimedOut,
    ErrorCode::ThrottlingQuotaExceeded,
];
/// Metadata's errors for a topic that does not exist (yet).
const ABSENT: &[ErrorCode] =
    &[ErrorCode::UnknownTopicOrPartition, ErrorCode::LeaderNotAvailable, ErrorCode::UnknownTopicId];

/// The number of partitions of each topic, by its name.
type Wanted = BTreeMap<Arc<str>, u32>;

struct Found {
    topic: Topic,
    /// The number of the first partition that is missing or has no leader. All partitions before it
    /// have leaders.
    led: u32,
}

/// Partitions to create in the next request.
struct Growth {
    name: Arc<str>,
    from: u32,
    to: u32,
}

/// Creates missing topics and partitions, and waits until each partition of each topic has a
/// leader.
///
/// # Errors
/// The error is a sentence for the user.
pub(super) async fn ensure(
    shared: &Shared,
    wanted: &Wanted,
    replication: i16,
) -> Result<Arc<Topics>, String> {
    let mut anyone = any_server(shared).await?;
    let mut until = shared.core.borrow().clock.now() + PATIENCE;
    loop {
        let found = describe(shared, &mut anyone, wanted.keys()).await?;
        let led = |name: &Arc<str>| found.get(name).map_or(0, |found| found.led);
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

/// Deletes topics. A topic that does not exist is not an error.
///
/// # Errors
/// The error is a sentence for the user.
pub(super) async fn delete(shared: &Shared, names: &[Arc<str>]) -> Result<(), String> {
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
    names: &[Arc<str>],
) -> Result<(), String> {
    let version = version(shared, ApiKey::DeleteTopics)?;
    let mut request = DeleteTopicsRequest { timeout_ms: millis(TIMEOUT), ..Default::default() };
    let names = names.iter().map(|name| Str::from(&**name));
    if version >= 6 {
        let state = |name| DeleteTopicState { name: Some(name), ..Default::default() };
        request.topics = names.map(state).collect();
    } else {
        request.topic_names = names.collect();
    }
    let refused = call(controller, version, &request, |answer| {
        let mut topics = answer.responses.iter();
        let topic = topics.find(|it| it.error_code != 0 && !is(it.error_code, ABSENT))?;
        let name = topic.name.as_deref().unwrap_or_default();
        let what = format!("topic {name} cannot be deleted");
        Some(refused(&what, topic.error_code, topic.error_message.as_deref()))
    });
    refused.await?.map_or(Ok(()), Err)
}

/// Describes these topics. Topics that do not exist are left out.
async fn describe(
    shared: &Shared,
    server: &mut Channel,
    names: impl Iterator<Item = &Arc<str>>,
) -> Result<BTreeMap<Arc<str>, Found>, String> {
    let names: Vec<_> = names.collect();
    let mut all = BTreeMap::new();
    for names in names.chunks(TOPICS_A_REQUEST) {
        let found = metadata(shared, server, names, |answer| {
            answer.topics.iter().filter_map(|it| found(it).transpose()).collect::<Result<_, _>>()
        });
        let found: Vec<Found> = found.await??;
        all.extend(found.into_iter().map(|found| (found.topic.name.clone(), found)));
    }
    Ok(all)
}

fn found(topic: &MetadataResponseTopic<'_>) -> Result<Option<Found>, String> {
    let name = Arc::<str>::from(topic.name.as_deref().unwrap_or_default());
    match topic.error_code {
        0 => {}
        code if is(code, ABSENT) => return Ok(None),
        code => return Err(refused(&format!("topic {name}"), code, None)),
    }
    let partitions = topic.partitions.len() as u32;
    let with_leader = topic.partitions.iter().filter(|partition| partition.leader_id >= 0);
    let mut numbers: Vec<i32> = with_leader.map(|partition| partition.partition_index).collect();
    numbers.sort_unstable();
    let led = (0..).zip(&numbers).take_while(|(at, number)| at == *number).count() as u32;
    Ok(Some(Found { topic: Topic { name, id: topic.topic_id, partitions }, led }))
}

/// The partitions to create next. If a topic lacks too many for one request, the rest of them is
/// left for later calls.
fn growths(wanted: &Wanted, found: &BTreeMap<Arc<str>, Found>) -> Vec<Growth> {
    let growth = |(name, wants): (&Arc<str>, &u32)| {
        let from = found.get(name).map_or(0, |found| found.topic.partitions);
        let to = (*wants).min(from.saturating_add(PARTITIONS_A_REQUEST));
        (from < *wants).then(|| Growth { name: name.clone(), from, to })
    };
    wanted.iter().filter_map(growth).collect()
}

/// Creates topics and partitions. Returns whether any was created.
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

/// Splits the growths into parts, one for each request. Each part is as large as the limits allow.
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
    let version = version(shared, ApiKey::CreateTopics)?;
    let topic = |growth: &Growth| CreatableTopic {
        name: growth.name.to_string().into(),
        num_partitions: growth.to as i32,
        replication_factor: replication,
        ..Default::default()
    };
    let request = CreateTopicsRequest {
        topics: growths.iter().map(topic).collect(),
        timeout_ms: millis(TIMEOUT),
        ..Default::default()
    };
    let created = call(controller, version, &request, |answer| {
        let topics = answer.topics.iter();
        made("created", topics.map(|it| (&*it.name, it.error_code, it.error_message.as_deref())))
    });
    created.await?
}

async fn add_partitions(
    shared: &Shared,
    controller: &mut Channel,
    growths: &[Growth],
) -> Result<bool, String> {
    let version = version(shared, ApiKey::CreatePartitions)?;
    let topic = |growth: &Growth| CreatePartitionsTopic {
        name: growth.name.to_string().into(),
        count: growth.to as i32,
        assignments: None,
    };
    let request = CreatePartitionsRequest {
        topics: growths.iter().map(topic).collect(),
        timeout_ms: millis(TIMEOUT),
        ..Default::default()
    };
    let grown = call(controller, version, &request, |answer| {
        let topics = answer.results.iter();
        let results = topics.map(|it| (&*it.name, it.error_code, it.error_message.as_deref()));
        made("given more partitions", results)
    });
    grown.await?
}

/// Reads the results of a request. Returns whether any topic was created or grew.
/// # Errors
/// A result has an error that is not in [`PASSING`]. The error is a sentence for the user.
fn made<'a>(
    what: &str,
    results: impl Iterator<Item = (&'a str, i16, Option<&'a str>)>,
) -> Result<bool, String> {
    let mut any = false;
    for (name, code, message) in results {
        match code {
            0 => any = true,
            code if is(code, PASSING) => {}
            code => return Err(refused(&format!("topic {name} cannot be {what}"), code, message)),
        }
    }
    Ok(any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_stay_below_kafkas_limit() {
        let growth = |to| Growth { name: Arc::from("t"), from: 0, to };
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
        let name: Arc<str> = Arc::from("t");
        let wanted = Wanted::from([(name.clone(), 12_000)]);
        let mut found = BTreeMap::new();
        let mut steps = Vec::new();
        while let [growth] = &*growths(&wanted, &found) {
            steps.push((growth.from, growth.to));
            let topic =
                Topic { name: name.clone(), id: muster_codec::Uuid::ZERO, partitions: growth.to };
            found.insert(name.clone(), Found { topic, led: growth.to });
        }
        assert_eq!(steps, [(0, 5_000), (5_000, 10_000), (10_000, 12_000)]);
    }
}
