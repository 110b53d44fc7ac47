//! An answer may have effects on groups that follow later: share state is initialized, records of
//! an ended session are released, internal topics are created. This waits for them.

use crate::settle::{wait_for_coordinators, wait_for_leaders};
use crate::wire::{Answer, Ask, Flaw, Side};
use muster_codec::messages::*;
use muster_codec::{Request, Str, Uuid};
use serde_json::Value;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The wait after a share session ends. Within it, the server must release the session's records.
const RELEASED_WITHIN: Duration = Duration::from_millis(100);
/// The time after which no further effects are expected.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(3);

/// Waits after the answer of either server.
///
/// # Errors
/// A server cannot be reached.
pub fn settle_groups(side: &Side, ask: &Ask, answer: &Answer) -> io::Result<()> {
    match (&ask.request, answer) {
        // The sessions of the connection have ended with it.
        (_, Answer::Closed) => sleep(RELEASED_WITHIN),
        (Request::ShareFetch(body), _) if body.share_session_epoch <= 0 => sleep(RELEASED_WITHIN),
        (Request::ShareAcknowledge(body), _) if body.share_session_epoch < 0 => {
            sleep(RELEASED_WITHIN);
        }
        (Request::ShareGroupHeartbeat(body), Answer::Body(answer))
            if answer["ShareGroupHeartbeat"]["errorCode"] == 0 =>
        {
            await_share_state(side, &body.group_id)?;
        }
        (Request::StreamsGroupHeartbeat(_), Answer::Body(answer)) => {
            await_internal_topics(side, &answer["StreamsGroupHeartbeat"])?;
        }
        _ => {}
    }
    Ok(())
}

/// Waits until the state of all partitions to which a share group subscribes is initialized.
fn await_share_state(side: &Side, group: &Str<'static>) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let subscribed = partitions_subscribed(side, group)?;
        let initialized = partitions_initialized(side, group)?;
        if subscribed.iter().all(|one| initialized.contains(one)) {
            break;
        }
        sleep(PAUSE);
    }
    Ok(())
}

fn partitions_subscribed(side: &Side, group: &Str<'static>) -> io::Result<Vec<(String, usize)>> {
    let request =
        ShareGroupDescribeRequest { group_ids: vec![group.clone()], ..Default::default() };
    let body = call(side, 1, request.into())?;
    let members = list(&body["ShareGroupDescribe"]["groups"][0]["members"]);
    let names = members.iter().flat_map(|member| list(&member["subscribedTopicNames"]));
    let topic = |name: &Value| MetadataRequestTopic {
        topic_id: Uuid::ZERO,
        name: Some(name.as_str().unwrap_or_default().to_owned().into()),
    };
    let request = MetadataRequest {
        topics: Some(names.map(topic).collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let body = call(side, 12, request.into())?;
    Ok(counts(&body["Metadata"]["topics"], "name"))
}

fn partitions_initialized(side: &Side, group: &Str<'static>) -> io::Result<Vec<(String, usize)>> {
    let group = DescribeShareGroupOffsetsRequestGroup { group_id: group.clone(), topics: None };
    let request = DescribeShareGroupOffsetsRequest { groups: vec![group] };
    let body = call(side, 0, request.into())?;
    Ok(counts(&body["DescribeShareGroupOffsets"]["groups"][0]["topics"], "topicName"))
}

/// Topics with their numbers of partitions.
fn counts(topics: &Value, name: &str) -> Vec<(String, usize)> {
    let there = list(topics).iter().filter(|topic| !list(&topic["partitions"]).is_empty());
    let count = |topic: &Value| (topic[name].to_string(), list(&topic["partitions"]).len());
    there.map(count).collect()
}

/// Waits for the internal topics that a streams group lacks, unless the server cannot create them.
fn await_internal_topics(side: &Side, answer: &Value) -> io::Result<()> {
    const MISSING: &str = "Internal topics are missing: ";
    let mut details = list(&answer["status"]).iter().filter_map(|it| it["statusDetail"].as_str());
    let Some(detail) = details.find_map(|detail| detail.strip_prefix(MISSING)) else {
        return Ok(());
    };
    // If the creation of topics failed, a semicolon and the reason follow their names.
    if detail.contains(';') {
        return Ok(());
    }
    let listed: Vec<&str> = detail.split(" and ").next().unwrap_or_default().split(", ").collect();
    for name in await_one(side, &listed)? {
        let count = wait_for_leaders(side, name, 1)?;
        wait_for_coordinators(side, name, count)?;
    }
    Ok(())
}

/// Waits until any of the topics exists, and returns those that exist. One is enough, because one
/// request creates all topics of a group.
fn await_one<'n>(side: &Side, names: &[&'n str]) -> io::Result<Vec<&'n str>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut existing = Vec::new();
        for name in names {
            if exists(side, name)? {
                existing.push(*name);
            }
        }
        if !existing.is_empty() || Instant::now() > deadline {
            return Ok(existing);
        }
        sleep(PAUSE);
    }
}

fn exists(side: &Side, topic: &str) -> io::Result<bool> {
    let topic = MetadataRequestTopic { topic_id: Uuid::ZERO, name: Some(topic.to_owned().into()) };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let body = call(side, 12, request.into())?;
    Ok(body["Metadata"]["topics"][0]["errorCode"] == 0)
}

fn call(side: &Side, version: i16, request: Request<'static>) -> io::Result<Value> {
    match side.call(&Ask { version, request, flaw: Flaw::None })? {
        Answer::Body(body) => Ok(body),
        Answer::Unreadable(_) | Answer::Closed => Ok(Value::Null),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
