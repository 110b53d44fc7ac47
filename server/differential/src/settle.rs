//! Waits until a server's answers show a change that it has acknowledged. Kafka's controller
//! answers before its broker knows the change.

use crate::wire::{Answer, Ask, Flaw, Side};
use crate::world;
use muster_codec::messages::*;
use muster_codec::{Request, Uuid};
use serde_json::Value;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The wait after Metadata shows a change. Meanwhile, the change reaches the rest of Kafka's
/// broker: the offsets of groups, and the other coordinators.
const AFTERWARDS: Duration = Duration::from_millis(40);
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits after the answer to a request that changes topics or configs.
///
/// # Errors
/// The server does not show the change for a long time, or cannot be reached.
pub fn settle(side: &Side, ask: &Ask, answer: &Answer) -> io::Result<()> {
    for (topic, count) in await_creation(side, ask, answer)? {
        wait_for_coordinators(side, &topic, count)?;
    }
    let Answer::Body(answer) = answer else { return Ok(()) };
    match &ask.request {
        Request::CreateTopics(body) if !body.validate_only => {
            for topic in done(&answer["CreateTopics"]["topics"]) {
                let count = wait_for_leaders(side, &topic, 1)?;
                wait_for_coordinators(side, &topic, count)?;
            }
        }
        Request::DeleteTopics(_) => {
            for topic in done(&answer["DeleteTopics"]["responses"]) {
                wait_for(side, &topic, |answer| answer["errorCode"] == 3)?;
                wait_for_coordinators(side, &topic, 0)?;
            }
        }
        Request::CreatePartitions(body) if !body.validate_only => {
            for topic in done(&answer["CreatePartitions"]["results"]) {
                let asked = body.topics.iter().find(|asked| asked.name == topic);
                let count = asked.map_or(0, |asked| asked.count);
                let count = wait_for_leaders(side, &topic, count)?;
                wait_for_coordinators(side, &topic, count)?;
            }
        }
        Request::Metadata(body) if creates_topics(ask.version, body) => {}
        Request::IncrementalAlterConfigs(body) if !body.validate_only => {}
        Request::AlterConfigs(body) if !body.validate_only => {}
        _ => return Ok(()),
    }
    sleep(AFTERWARDS);
    Ok(())
}

/// If an answer shows that the server is still creating topics that the request named, waits for
/// them. This is called for both servers, because neither has acknowledged such topics. Returns the
/// topics with their numbers of partitions.
///
/// # Errors
/// The server does not create the topics for a long time, or cannot be reached.
pub fn await_creation(side: &Side, ask: &Ask, answer: &Answer) -> io::Result<Vec<(String, i32)>> {
    let (Request::Metadata(body), Answer::Body(answer)) = (&ask.request, answer) else {
        return Ok(Vec::new());
    };
    if !creates_topics(ask.version, body) {
        return Ok(Vec::new());
    }
    let topics = answer["Metadata"]["topics"].as_array().cloned().unwrap_or_default();
    // UNKNOWN_TOPIC_OR_PARTITION or LEADER_NOT_AVAILABLE: the topic is being created.
    let made = |topic: &&Value| topic["errorCode"] == 3 || topic["errorCode"] == 5;
    let names = topics.iter().filter(made).filter_map(|topic| topic["name"].as_str());
    names.map(|name| Ok((name.to_owned(), wait_for_leaders(side, name, 1)?))).collect()
}

/// Whether requested topics are created if they do not exist.
pub fn creates_topics(version: i16, body: &MetadataRequest<'_>) -> bool {
    version < 4 || body.allow_auto_topic_creation
}

/// The names in results without an error.
fn done(results: &Value) -> Vec<String> {
    let results = results.as_array().map(Vec::as_slice).unwrap_or_default();
    let done = results.iter().filter(|result| result["errorCode"] == 0);
    done.filter_map(|result| Some(result["name"].as_str()?.to_owned())).collect()
}

/// Whether Metadata shows leaders for this number of partitions.
fn leads(topic: &Value, count: i32) -> bool {
    let partitions = topic["partitions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let led = partitions.iter().filter(|partition| partition["errorCode"] == 0);
    topic["errorCode"] == 0 && led.count() >= count as usize
}

/// Waits until Metadata names leaders for `at_least` partitions, and then until the leaders of all
/// partitions answer. Returns the number of partitions.
pub fn wait_for_leaders(side: &Side, topic: &str, at_least: i32) -> io::Result<i32> {
    let count = wait_for(side, topic, |answer| leads(answer, at_least))?;
    let partition = |partition_index| ListOffsetsPartition {
        partition_index,
        current_leader_epoch: -1,
        timestamp: -1,
    };
    let partitions = (0..count).map(partition).collect();
    let topics = vec![ListOffsetsTopic { name: topic.to_owned().into(), partitions }];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
    let ask = Ask { version: 7, request: request.into(), flaw: Flaw::None };
    poll(side, topic, || {
        let Answer::Body(body) = side.call(&ask)? else { return Ok(None) };
        let partitions = &body["ListOffsets"]["topics"][0]["partitions"];
        let led =
            partitions.as_array().is_some_and(|all| all.iter().all(|it| it["errorCode"] == 0));
        Ok(led.then_some(count))
    })
}

/// Waits until the group coordinators know that a topic has this number of partitions (0 if it was
/// deleted). In Kafka's broker, they are notified last. The group used here is in no history.
pub fn wait_for_coordinators(side: &Side, topic: &str, partitions: i32) -> io::Result<()> {
    let group = format!("{}0x0-{topic}", world::PREFIX);
    let heartbeat = |member_epoch| {
        let names = (member_epoch == 0).then(|| vec![topic.to_owned().into()]);
        let request = ConsumerGroupHeartbeatRequest {
            group_id: group.clone().into(),
            member_id: "settle".into(),
            member_epoch,
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: names,
            topic_partitions: Some(Vec::new()),
            ..Default::default()
        };
        Ask { version: 1, request: request.into(), flaw: Flaw::None }
    };
    let (join, leave) = (heartbeat(0), heartbeat(-1));
    poll(side, topic, || {
        let Answer::Body(body) = side.call(&join)? else { return Ok(None) };
        let answer = &body["ConsumerGroupHeartbeat"];
        let known = answer["errorCode"] == 0 && assigned(answer) == partitions as usize;
        Ok(known.then_some(()))
    })?;
    side.call(&leave)?;
    let request = DeleteGroupsRequest { groups_names: vec![group.into()] };
    side.call(&Ask { version: 2, request: request.into(), flaw: Flaw::None })?;
    Ok(())
}

/// The number of partitions that are assigned to a member.
fn assigned(answer: &Value) -> usize {
    let topics = answer["assignment"]["topicPartitions"].as_array().into_iter().flatten();
    topics.filter_map(|topic| Some(topic["partitions"].as_array()?.len())).sum()
}

/// Waits until Metadata shows the expected state of a topic. Returns the number of its partitions.
fn wait_for(side: &Side, topic: &str, shown: impl Fn(&Value) -> bool) -> io::Result<i32> {
    let name = Some(topic.to_owned().into());
    let topics = Some(vec![MetadataRequestTopic { topic_id: Uuid::ZERO, name }]);
    let request =
        MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
    let ask = Ask { version: 12, request: request.into(), flaw: Flaw::None };
    poll(side, topic, || {
        let Answer::Body(body) = side.call(&ask)? else { return Ok(None) };
        let topic = &body["Metadata"]["topics"][0];
        let count = topic["partitions"].as_array().map_or(0, Vec::len) as i32;
        Ok(shown(topic).then_some(count))
    })
}

fn poll<T>(
    side: &Side,
    topic: &str,
    mut look: impl FnMut() -> io::Result<Option<T>>,
) -> io::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(found) = look()? {
            return Ok(found);
        }
        sleep(Duration::from_millis(3));
    }
    let server = side.address();
    Err(io::Error::other(format!("{topic} is not as {server} has acknowledged it")))
}
