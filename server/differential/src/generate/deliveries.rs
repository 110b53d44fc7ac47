//! ShareFetch and ShareAcknowledge of members of share groups.

use crate::sessions::{Acquired, Partition, ShareSession};
use crate::wire::{Ask, Flaw};
use crate::world::{ALTERED_GROUP, SHARE_GROUP, Topic, World};
use muster_codec::messages::*;
use muster_codec::{Request, Response, Str, Uuid};

pub(super) fn share_fetch(world: &mut World) -> Request<'static> {
    let group = read_group(world);
    let Caller { group_id, member_id, epoch, acquired } = caller(world, group);
    let is_renew_ack = world.chance(6);
    let zero = is_renew_ack && world.chance(80);
    let topics = topics(world, &acquired);
    let topic = |(topic_id, partitions)| ShareFetchTopic { topic_id, partitions };
    ShareFetchRequest {
        group_id,
        member_id,
        share_session_epoch: epoch,
        // A fetch waits, so that Kafka can load a share partition that is fetched for the first
        // time.
        max_wait_ms: if zero { 0 } else { 300 },
        min_bytes: if zero { 0 } else { world.one(&[0, 1, 1, 1, 1, 1_000_000, -1]) },
        max_bytes: if zero { 0 } else { world.one(&[i32::MAX, 1 << 20, 1 << 20, 1 << 20, 0]) },
        max_records: if zero { 0 } else { world.one(&[500, 500, 1, 2, 3, 0, -1]) },
        batch_size: world.one(&[500, 500, 1, 2, 0]),
        share_acquire_mode: world.one(&[0, 0, 0, 1, 1, 2, -1]),
        is_renew_ack,
        topics: topics.into_iter().map(topic).collect(),
        forgotten_topics_data: if world.chance(8) {
            world.some(2, |it| it.topic_id, forgotten)
        } else {
            Vec::new()
        },
    }
    .into()
}

pub(super) fn share_acknowledge(world: &mut World) -> Request<'static> {
    let group = read_group(world);
    let Caller { group_id, member_id, epoch, acquired } = caller(world, group);
    let partition = |it: ShareFetchPartition| ShareAcknowledgePartition {
        partition_index: it.partition_index,
        acknowledgement_batches: it.acknowledgement_batches,
    };
    let topic = |(topic_id, partitions): (Uuid, Vec<ShareFetchPartition>)| ShareAcknowledgeTopic {
        topic_id,
        partitions: partitions.into_iter().map(partition).collect(),
    };
    let topics = topics(world, &acquired);
    ShareAcknowledgeRequest {
        group_id,
        member_id,
        share_session_epoch: epoch,
        is_renew_ack: world.chance(8),
        topics: topics.into_iter().map(topic).collect(),
    }
    .into()
}

fn read_group(world: &mut World) -> usize {
    let kind = world.one(&[SHARE_GROUP, SHARE_GROUP, ALTERED_GROUP]);
    world.group_of(kind)
}

/// The member that fetches or acknowledges.
struct Caller {
    group_id: Option<Str<'static>>,
    member_id: Option<Str<'static>>,
    epoch: i32,
    acquired: Vec<Acquired>,
}

/// A member with an existing session, or with a new one.
fn caller(world: &mut World, group: usize) -> Caller {
    let sessions = world.groups[group].sessions.clone();
    let mut session = if sessions.is_empty() || world.chance(12) {
        ShareSession { member: world.member_id(), ..ShareSession::default() }
    } else {
        world.one(&sessions)
    };
    match world.random.u32(..40) {
        0 => session.next += 1,
        1 => session.next -= 1,
        2 => session.next = 0,
        3 => session.next = world.one(&[-2, i32::MAX, i32::MIN]),
        4 | 5 => session.next = -1,
        _ => {}
    }
    let group_id = match world.random.u32(..60) {
        0 => None,
        1 => Some(world.group_name()),
        _ => Some(world.groups[group].id.clone()),
    };
    let member_id = if world.chance(2) { None } else { Some(session.member.into()) };
    Caller {
        group_id: group_id.map(Into::into),
        member_id,
        epoch: session.next,
        acquired: session.acquired,
    }
}

/// Partitions with acknowledgements, mostly of records that were acquired.
fn topics(world: &mut World, acquired: &[Acquired]) -> Vec<(Uuid, Vec<ShareFetchPartition>)> {
    let topic = |world: &mut World| {
        let (topic, _) = place(world, acquired);
        let partition = |world: &mut World| {
            let (_, index) = match place(world, acquired) {
                (other, index) if other.id == topic.id => (other, index),
                _ => (topic.clone(), world.partition(&topic)),
            };
            partition(world, topic.id, index, acquired)
        };
        (topic.id, world.some(2, |it| it.partition_index, partition))
    };
    world.some(2, |it| it.0, topic)
}

/// A partition with acquired records, or any partition.
fn place(world: &mut World, acquired: &[Acquired]) -> (Topic, i32) {
    if !acquired.is_empty() && world.chance(60) {
        let one = world.one(acquired);
        return (Topic { id: one.topic_id, partitions: 1, ..Topic::default() }, one.partition);
    }
    // Kafka fails if a fetch names an unknown topic, so that is rare.
    let topics = world.topics.clone();
    let topic =
        if topics.is_empty() || world.chance(3) { world.topic() } else { world.one(&topics) };
    let index = world.partition(&topic);
    (topic, index)
}

fn partition(
    world: &mut World,
    topic_id: Uuid,
    partition_index: i32,
    acquired: &[Acquired],
) -> ShareFetchPartition {
    let here = |one: &&Acquired| (one.topic_id, one.partition) == (topic_id, partition_index);
    let mut here: Vec<Acquired> = acquired.iter().filter(here).copied().collect();
    here.sort_by_key(|one| one.first);
    if here.is_empty() && world.chance(6) {
        let first = world.offset();
        here.push(Acquired { topic_id, partition: partition_index, first, last: first });
    }
    if world.chance(30) {
        here.clear();
    }
    let acknowledgement_batches = here.into_iter().map(|one| batch(world, one)).collect();
    ShareFetchPartition { partition_index, acknowledgement_batches }
}

fn batch(world: &mut World, of: Acquired) -> AcknowledgementBatch {
    let (mut first_offset, mut last_offset) = (of.first, of.last);
    match world.random.u32(..20) {
        0 => first_offset = first_offset.saturating_sub(1),
        1 => last_offset = last_offset.saturating_add(1),
        2 => (first_offset, last_offset) = (last_offset, first_offset),
        3..7 => last_offset = world.random.i64(first_offset..=last_offset),
        7..9 => first_offset = world.random.i64(first_offset..=last_offset),
        _ => {}
    }
    let kind = |world: &mut World| world.one(&[1, 1, 1, 1, 2, 2, 2, 3, 0, 4, 5, -1]);
    let count = usize::try_from(last_offset.saturating_sub(first_offset)).unwrap_or(0) + 1;
    let acknowledge_types = match world.random.u32(..30) {
        0 => Vec::new(),
        1 => (0..=count.min(9)).map(|_| 1).collect(),
        2..8 => (0..count.min(9)).map(|_| world.one(&[1, 1, 2, 3, 0])).collect(),
        8..12 => vec![kind(world)],
        _ => vec![world.one(&[1, 1, 2, 3])],
    };
    AcknowledgementBatch { first_offset, last_offset, acknowledge_types }
}

fn forgotten(world: &mut World) -> ShareForgottenTopic {
    let topic = world.topic();
    let partitions = world.some(2, |it| *it, |world| world.partition(&topic));
    ShareForgottenTopic { topic_id: topic.id, partitions }
}

/// Fetches that make Kafka load share partitions, and return no records. A fetch of several
/// partitions is answered as soon as one has records, and would lack those that are not loaded yet.
pub(super) fn loads_before(world: &World, ask: &Ask) -> Vec<Ask> {
    let Request::ShareFetch(body) = &ask.request else { return Vec::new() };
    let is_there = |name: &String| Some(name.as_str()) == body.group_id.as_deref();
    let Some(group) = world.groups.iter().find(|group| is_there(&group.id)) else {
        return Vec::new();
    };
    let is_own = |it: &&ShareSession| Some(it.member.as_str()) == body.member_id.as_deref();
    let session = group.sessions.iter().find(is_own).filter(|_| body.share_session_epoch > 0);
    let mut fetched = named(&body.topics);
    fetched.extend(session.into_iter().flat_map(|session| &session.partitions));
    let topics = world.topics.iter();
    let exists = |(id, partition): &Partition| {
        topics.clone().any(|topic| topic.id == *id && (0..topic.partitions).contains(partition))
    };
    fetched.retain(exists);
    fetched.sort_unstable();
    fetched.dedup();
    if fetched.len() < 2 {
        return Vec::new();
    }
    let cold = fetched.into_iter().filter(|one| !group.loaded.contains(one));
    cold.map(|(topic_id, partition_index)| {
        let partition = ShareFetchPartition { partition_index, ..Default::default() };
        let request = ShareFetchRequest {
            group_id: Some(group.id.clone().into()),
            member_id: Some("load".into()),
            max_wait_ms: 300,
            min_bytes: 1,
            max_records: -1,
            topics: vec![ShareFetchTopic { topic_id, partitions: vec![partition] }],
            ..Default::default()
        };
        Ask { version: 1, request: request.into(), flaw: Flaw::None }
    })
    .collect()
}

fn named(topics: &[ShareFetchTopic]) -> Vec<Partition> {
    let each = topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| (topic.topic_id, partition.partition_index))
    });
    each.collect()
}

/// A request that ends the connection. It is sent before a request that changes the share state of
/// a group with sessions. Kafka's leaders keep share partitions in memory, and do not notice such a
/// change, until the connections of all sessions have ended.
pub(super) fn end_before(world: &World, ask: &Ask) -> Option<Ask> {
    let changed: Vec<&str> = match &ask.request {
        Request::AlterShareGroupOffsets(body) => vec![&body.group_id],
        Request::DeleteShareGroupOffsets(body) => vec![&body.group_id],
        Request::DeleteGroups(body) => body.groups_names.iter().map(|name| &**name).collect(),
        _ => return None,
    };
    let mut groups = world.groups.iter().filter(|group| changed.contains(&group.id.as_str()));
    let request = ShareAcknowledgeRequest::default().into();
    let has_loaded = groups.any(|group| !group.loaded.is_empty() || !group.sessions.is_empty());
    has_loaded.then_some(Ask { version: 1, request, flaw: Flaw::Cut })
}

/// Forgets the sessions of a connection that ended.
pub(super) fn disconnected(world: &mut World) {
    for group in &mut world.groups {
        group.sessions.clear();
        group.loaded.clear();
    }
}

/// Learns about a session from an answer.
pub(super) fn learn(world: &mut World, ask: &Request<'static>, answer: &Response<'static>) {
    match (ask, answer) {
        (Request::ShareFetch(asked), Response::ShareFetch(answer)) => {
            fetched(world, asked, answer);
        }
        (Request::ShareAcknowledge(asked), Response::ShareAcknowledge(answer)) => {
            acknowledged(world, asked, answer);
        }
        _ => {}
    }
}

fn fetched(world: &mut World, asked: &ShareFetchRequest<'_>, answer: &ShareFetchResponse<'_>) {
    let (group, member) = (asked.group_id.as_deref(), asked.member_id.as_deref());
    let epoch = asked.share_session_epoch;
    let Some(session) = advance(world, group, member, epoch, answer.error_code) else { return };
    fetch_from(session, asked);
    for topic in &answer.responses {
        for partition in topic.partitions.iter().filter(|it| it.acknowledge_error_code == 0) {
            let asked = asked.topics.iter().filter(|asked| asked.topic_id == topic.topic_id);
            let asked = asked.flat_map(|asked| &asked.partitions);
            let asked = asked.filter(|asked| asked.partition_index == partition.partition_index);
            for batch in asked.flat_map(|asked| &asked.acknowledgement_batches) {
                given_up(session, topic.topic_id, partition.partition_index, batch);
            }
        }
    }
    for topic in &answer.responses {
        for partition in &topic.partitions {
            for records in &partition.acquired_records {
                session.acquire(Acquired {
                    topic_id: topic.topic_id,
                    partition: partition.partition_index,
                    first: records.first_offset,
                    last: records.last_offset,
                });
            }
        }
    }
    let fetched = session.partitions.clone();
    let group = world.groups.iter_mut().find(|known| Some(known.id.as_str()) == group);
    if let (Some(group), true) = (group, asked.max_records != 0 && asked.max_bytes > 0) {
        group.loaded.extend(fetched);
    }
}

/// Adds and removes the partitions that a request names.
fn fetch_from(session: &mut ShareSession, asked: &ShareFetchRequest<'_>) {
    for one in named(&asked.topics) {
        if !session.partitions.contains(&one) {
            session.partitions.push(one);
        }
    }
    for topic in &asked.forgotten_topics_data {
        let gone = |one: &Partition| one.0 == topic.topic_id && topic.partitions.contains(&one.1);
        session.partitions.retain(|one| !gone(one));
    }
}

fn acknowledged(
    world: &mut World,
    asked: &ShareAcknowledgeRequest<'_>,
    answer: &ShareAcknowledgeResponse<'_>,
) {
    let (group, member) = (asked.group_id.as_deref(), asked.member_id.as_deref());
    let epoch = asked.share_session_epoch;
    let Some(session) = advance(world, group, member, epoch, answer.error_code) else { return };
    for topic in &asked.topics {
        for partition in &topic.partitions {
            let answers = answer.responses.iter().filter(|it| it.topic_id == topic.topic_id);
            let mut answers = answers.flat_map(|it| &it.partitions);
            let of = |index, code| index == partition.partition_index && code == 0;
            if answers.any(|it| of(it.partition_index, it.error_code)) {
                for batch in &partition.acknowledgement_batches {
                    given_up(session, topic.topic_id, partition.partition_index, batch);
                }
            }
        }
    }
}

/// The session of a request, after setting its next epoch. None if the request failed, if it ended
/// the session, or if the session is unknown.
fn advance<'w>(
    world: &'w mut World,
    group: Option<&str>,
    member: Option<&str>,
    epoch: i32,
    error: i16,
) -> Option<&'w mut ShareSession> {
    const SHARE_SESSION_NOT_FOUND: i16 = 122;
    let (group, member) = (group?, member?);
    let group = world.groups.iter_mut().find(|known| known.id == group)?;
    let is_over = error == SHARE_SESSION_NOT_FOUND || error == 0 && epoch <= 0;
    if is_over {
        group.sessions.retain(|session| session.member != member);
    }
    if error != 0 || epoch < 0 {
        return None;
    }
    if epoch == 0 {
        group.sessions.push(ShareSession::new(member.to_owned()));
    }
    let session = group.sessions.iter_mut().find(|session| session.member == member)?;
    session.next = epoch.checked_add(1).unwrap_or(1);
    Some(session)
}

/// Notes that the member no longer has these records, unless the acknowledgement renews them.
fn given_up(
    session: &mut ShareSession,
    topic_id: Uuid,
    partition: i32,
    batch: &AcknowledgementBatch,
) {
    const RENEW: i8 = 4;
    if !batch.acknowledge_types.contains(&RENEW) {
        let (first, last) = (batch.first_offset, batch.last_offset);
        session.give_up(&Acquired { topic_id, partition, first, last });
    }
}
