//! Learns the state of a history from Kafka's answers, such as topics, members and producers.

use super::{deliveries, shares, streams, transactions};
use crate::wire::Ask;
use crate::world::{Group, Member, Producer, Topic, World};
use muster_codec::messages::*;
use muster_codec::{Request, Response, Str};

/// Forgets the state that ended with the connection.
pub fn disconnected(world: &mut World) {
    deliveries::disconnected(world);
}

/// Learns from the answer to a request.
pub fn learn(world: &mut World, ask: &Ask, response: &Response<'static>) {
    transactions::learn(world, ask, response);
    shares::learn(world, &ask.request, response);
    deliveries::learn(world, &ask.request, response);
    streams::learn(world, &ask.request, response);
    match (&ask.request, response) {
        (Request::CreateTopics(asked), Response::CreateTopics(answer)) if !asked.validate_only => {
            for result in answer.topics.iter().filter(|result| result.error_code == 0) {
                let asked = asked.topics.iter().find(|topic| topic.name == result.name);
                created(world, result, asked.map_or(0, |asked| asked.num_partitions));
            }
        }
        (Request::DeleteTopics(_), Response::DeleteTopics(answer)) => {
            for result in answer.responses.iter().filter(|result| result.error_code == 0) {
                world.topics.retain(|topic| Some(topic.name.as_str()) != result.name.as_deref());
            }
        }
        (Request::CreatePartitions(asked), Response::CreatePartitions(answer)) => {
            for result in answer.results.iter().filter(|result| result.error_code == 0) {
                let count = asked.topics.iter().find(|topic| topic.name == result.name);
                let known = world.topics.iter_mut().find(|topic| topic.name == result.name);
                if let (Some(asked), Some(known), false) = (count, known, asked.validate_only) {
                    known.partitions = asked.count;
                }
            }
        }
        (_, Response::Metadata(answer)) => {
            answer.topics.iter().for_each(|topic| seen(world, topic));
            world.cluster = answer.cluster_id.as_ref().map(Str::to_string).or(world.cluster.take());
        }
        (Request::JoinGroup(asked), Response::JoinGroup(answer)) => joined(world, asked, answer),
        (Request::LeaveGroup(asked), Response::LeaveGroup(answer)) => left(world, asked, answer),
        (Request::ConsumerGroupHeartbeat(asked), Response::ConsumerGroupHeartbeat(answer)) => {
            beaten(world, asked, answer);
        }
        (Request::InitProducerId(asked), Response::InitProducerId(answer))
            if answer.error_code == 0 && asked.transactional_id.is_none() =>
        {
            let (id, epoch) = (answer.producer_id, answer.producer_epoch);
            world.producers.push(Producer { id, epoch, next: 0 });
        }
        (Request::Fetch(asked), Response::Fetch(answer)) => fetched(world, asked, answer),
        _ => {}
    }
}

fn created(world: &mut World, result: &CreatableTopicResult<'_>, asked: i32) {
    let partitions = if result.num_partitions > 0 { result.num_partitions } else { asked.max(1) };
    let name = result.name.to_string();
    world.topics.retain(|topic| topic.name != name);
    world.topics.push(Topic { name, id: result.topic_id, partitions });
}

fn seen(world: &mut World, topic: &MetadataResponseTopic<'_>) {
    let Some(name) = topic.name.as_deref().filter(|name| name.starts_with(&world.prefix)) else {
        return;
    };
    let partitions = topic.partitions.len() as i32;
    let known = world.topics.iter_mut().find(|known| known.name == name);
    match known {
        Some(known) if topic.error_code == 0 => {
            known.partitions = partitions;
            if !topic.topic_id.is_zero() {
                known.id = topic.topic_id;
            }
        }
        None if topic.error_code == 0 => {
            world.topics.push(Topic { name: name.to_owned(), id: topic.topic_id, partitions });
        }
        _ => {}
    }
}

/// The members of a group, if the group belongs to the history.
fn members<'w>(world: &'w mut World, group: &str) -> Option<&'w mut Vec<Member>> {
    let group = world.groups.iter_mut().find(|known| known.id == group)?;
    Some(&mut group.members)
}

fn joined(world: &mut World, asked: &JoinGroupRequest<'_>, answer: &JoinGroupResponse<'_>) {
    // NONE or MEMBER_ID_REQUIRED.
    if !matches!(answer.error_code, 0 | 79) {
        return;
    }
    let member = Member {
        id: answer.member_id.to_string(),
        instance: asked.group_instance_id.as_ref().map(Str::to_string),
        epoch: answer.generation_id,
        ..Member::default()
    };
    let Some(members) = members(world, &asked.group_id) else { return };
    for other in members.iter_mut().filter(|_| answer.error_code == 0) {
        other.epoch = answer.generation_id;
    }
    take(members, member);
}

fn left(world: &mut World, asked: &LeaveGroupRequest<'_>, answer: &LeaveGroupResponse<'_>) {
    let Some(members) = members(world, &asked.group_id) else { return };
    let gone = |member: &Member| {
        let mut gone = answer.members.iter().filter(|member| member.error_code == 0);
        gone.any(|one| one.member_id == member.id.as_str())
    };
    members.retain(|member| !gone(member));
    if answer.error_code == 0 && answer.members.is_empty() {
        members.retain(|member| asked.member_id != member.id.as_str());
    }
}

fn beaten(
    world: &mut World,
    asked: &ConsumerGroupHeartbeatRequest<'_>,
    answer: &ConsumerGroupHeartbeatResponse<'_>,
) {
    let group = world.groups.iter_mut().find(|known| known.id == asked.group_id);
    let Some(Group { members, had_consumers, .. }) = group else { return };
    *had_consumers |= answer.error_code == 0;
    let id = answer.member_id.as_ref().map(Str::to_string);
    let id = id.unwrap_or_else(|| asked.member_id.to_string());
    if answer.error_code != 0 || answer.member_epoch < 0 {
        members.retain(|member| answer.error_code != 0 || member.id != id);
        return;
    }
    let known = members.iter().find(|member| member.id == id).cloned().unwrap_or_default();
    let assigned = |assignment: &ConsumerGroupHeartbeatAssignment| {
        let partitions = assignment.topic_partitions.iter();
        partitions.map(|one| (one.topic_id, one.partitions.clone())).collect()
    };
    let member = Member {
        id,
        instance: asked.instance_id.as_ref().map(Str::to_string).or(known.instance),
        epoch: answer.member_epoch,
        is_consumer: true,
        assigned: answer.assignment.as_ref().map_or(known.assigned, assigned),
        ..Member::default()
    };
    take(members, member);
}

/// Adds a member, or replaces the known member that has its id.
pub(super) fn take(members: &mut Vec<Member>, member: Member) {
    match members.iter_mut().find(|known| known.id == member.id) {
        Some(known) => *known = member,
        None => members.push(member),
    }
}

fn fetched(world: &mut World, asked: &FetchRequest<'_>, answer: &FetchResponse<'_>) {
    if answer.error_code == 0 && answer.session_id != 0 {
        let epoch = if asked.session_epoch <= 0 { 1 } else { asked.session_epoch + 1 };
        world.session = (answer.session_id, epoch);
    }
}
