//! Members of streams groups (KIP-1071).

use super::learn::take;
use crate::wire::{Ask, Flaw};
use crate::world::{Group, Member, STREAMS_GROUP, World};
use muster_codec::messages::*;
use muster_codec::{Request, Response, Str, Uuid};

pub(super) fn streams_group_heartbeat(world: &mut World) -> Request<'static> {
    let group = world.group_of(STREAMS_GROUP);
    let group_id =
        if world.chance(3) { world.group_name() } else { world.groups[group].id.clone() };
    if world.chance(25) || world.groups[group].members.is_empty() {
        return join(world, group, group_id);
    }
    let member = world.member(group);
    let mut request = alive(world, group_id, &member);
    match world.random.u32(..24) {
        0 | 1 => request.member_epoch = world.one(&[-1, -1, -1, -2, -3]),
        6 if member.instance.is_some() => request.member_epoch = -2,
        2 => request.topology = Some(topology(world, group)),
        3 | 4 => profile(world, &mut request),
        5 => request.shutdown_application = true,
        _ => {}
    }
    if world.chance(6) {
        spoil(world, &mut request);
    }
    request.into()
}

fn join(world: &mut World, group: usize, group_id: String) -> Request<'static> {
    let mut request = StreamsGroupHeartbeatRequest {
        group_id: group_id.into(),
        member_id: world.member_id().into(),
        endpoint_information_epoch: -1,
        rebalance_timeout_ms: if world.chance(5) { world.one(&[-1, 0, -2]) } else { 1_800_000 },
        instance_id: instance(world),
        topology: if world.chance(4) { None } else { Some(topology(world, group)) },
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..Default::default()
    };
    profile(world, &mut request);
    if world.chance(8) {
        spoil(world, &mut request);
    }
    request.into()
}

/// A heartbeat of a member that stays. It reports its assigned tasks, or has no list of tasks.
fn alive(
    world: &mut World,
    group_id: String,
    member: &Member,
) -> StreamsGroupHeartbeatRequest<'static> {
    let tasks = member.tasks.clone();
    let reports = world.chance(70);
    StreamsGroupHeartbeatRequest {
        group_id: group_id.into(),
        member_id: member.id.clone().into(),
        member_epoch: member.epoch,
        instance_id: member.instance.clone().map(Into::into),
        endpoint_information_epoch: world.one(&[-1, 0, 1, 2]),
        active_tasks: reports.then_some(tasks.active_tasks),
        standby_tasks: reports.then_some(tasks.standby_tasks),
        warmup_tasks: reports.then(Vec::new),
        ..Default::default()
    }
}

/// Adds the fields about the member's process.
fn profile(world: &mut World, request: &mut StreamsGroupHeartbeatRequest<'static>) {
    request.process_id = match world.random.u32(..8) {
        0 => None,
        1 => Some("".into()),
        _ => Some(format!("p{}", world.random.u32(..3)).into()),
    };
    request.rack_id = world.one(&[None, None, None, Some("rack"), Some("")]).map(Into::into);
    let endpoint = |world: &mut World| StreamsGroupEndpoint {
        host: world.one(&["h1", "h2", ""]).into(),
        port: world.one(&[1, 8080, 0, u16::MAX]),
    };
    // Kafka fails on an endpoint while the topology is not ready.
    let is_ready = request.active_tasks.as_ref().is_some_and(|tasks| !tasks.is_empty());
    request.user_endpoint = world.chance(if is_ready { 40 } else { 4 }).then(|| endpoint(world));
    let tag = |world: &mut World| pair(world, &["zone", "rack", ""], &["a", "b"]);
    request.client_tags = world.chance(30).then(|| world.distinct(2, |it| it.key.clone(), tag));
}

/// Sets a field to a value that is not allowed, or that contradicts other fields.
fn spoil(world: &mut World, request: &mut StreamsGroupHeartbeatRequest<'static>) {
    match world.random.u32(..12) {
        0 => request.instance_id = Some("i".into()),
        1 => request.active_tasks = None,
        2 => request.standby_tasks = None,
        3 => request.warmup_tasks = Some(vec![tasks(world)]),
        4 => request.task_offsets = Some(world.some(3, |it| it.partition, task_offset)),
        5 => request.task_end_offsets = Some(world.some(3, |it| it.partition, task_offset)),
        6 => request.member_id = "".into(),
        7 => request.group_id = "".into(),
        8 => request.instance_id = Some("".into()),
        9 => request.standby_tasks.get_or_insert_default().push(tasks(world)),
        _ => request.active_tasks.get_or_insert_default().push(tasks(world)),
    }
}

/// The instance id of a member; a few members are static.
fn instance(world: &mut World) -> Option<Str<'static>> {
    if !world.chance(30) {
        return None;
    }
    let name = format!("{}s{}", world.prefix, world.random.u32(..2));
    Some(name.into())
}

/// An offset that a member reports for a task. The task may not exist.
fn task_offset(world: &mut World) -> StreamsGroupTaskOffset<'static> {
    StreamsGroupTaskOffset {
        subtopology_id: world.one(&["0", "0", "1", "7", ""]).into(),
        partition: world.one(&[0, 0, 1, 2, 9, -1]),
        offset: world.offset(),
    }
}

/// A list of tasks that may not exist.
fn tasks(world: &mut World) -> StreamsGroupTaskIds<'static> {
    StreamsGroupTaskIds {
        subtopology_id: world.one(&["0", "0", "1", "7", ""]).into(),
        partitions: world.some(2, |it| *it, |world| world.one(&[0, 0, 1, 2, 9, -1, i32::MAX])),
    }
}

/// The known topology of the group, or another one.
fn topology(world: &mut World, group: usize) -> StreamsGroupTopology<'static> {
    if let Some(known) = world.groups[group].topology.clone()
        && world.chance(90)
    {
        let epoch = if world.chance(4) { world.one(&[-1, 1, 2]) } else { known.epoch };
        return StreamsGroupTopology { epoch, ..known };
    }
    let name = world.groups[group].id.clone();
    let count = world.random.usize(0..=3).max(1);
    let subtopologies = (0..count).map(|at| subtopology(world, &name, at)).collect();
    StreamsGroupTopology {
        epoch: if world.chance(8) { world.one(&[1, -1]) } else { 0 },
        subtopologies,
    }
}

/// A subtopology. Mostly it reads user topics, or the topic that the previous one writes.
fn subtopology(world: &mut World, group: &str, at: usize) -> StreamsGroupSubtopology<'static> {
    let source_topics = if at > 0 && world.chance(50) {
        Vec::new()
    } else {
        world.distinct(2, Clone::clone, source)
    };
    let between = |at: usize| format!("{group}-r{at}-repartition");
    let reads = at > 0 && (source_topics.is_empty() || world.chance(40));
    let writes = world.chance(45);
    let subtopology_id = if world.chance(3) { "0".into() } else { at.to_string() };
    let mut one = StreamsGroupSubtopology {
        subtopology_id: subtopology_id.into(),
        source_topics,
        source_topic_regex: if world.chance(2) { vec!["t.*".into()] } else { Vec::new() },
        state_changelog_topics: changelogs(world, group, at),
        repartition_sink_topics: if writes { vec![between(at).into()] } else { Vec::new() },
        repartition_source_topics: if reads {
            vec![repartition(world, between(at - 1))]
        } else {
            Vec::new()
        },
        copartition_groups: Vec::new(),
    };
    if world.chance(30) {
        one.copartition_groups.push(copartition_group(world, &one));
    }
    one
}

fn source(world: &mut World) -> Str<'static> {
    let topics = world.topics.clone();
    let is_own = topics.is_empty() || world.chance(12);
    if is_own { world.topic_name().into() } else { world.one(&topics).name.into() }
}

fn changelogs(world: &mut World, group: &str, at: usize) -> Vec<StreamsGroupTopicInfo<'static>> {
    if world.chance(50) {
        return Vec::new();
    }
    let name = match world.random.u32(..40) {
        0 => "__consumer_offsets".to_owned(),
        1 => "a b".to_owned(),
        2 => String::new(),
        _ => format!("{group}-c{at}-changelog"),
    };
    let partitions = if world.chance(3) { 1 } else { 0 };
    vec![internal(world, name, partitions)]
}

fn repartition(world: &mut World, name: String) -> StreamsGroupTopicInfo<'static> {
    let partitions = if world.chance(30) { world.one(&[1, 1, 2, 2, 3, 3, 3, -1]) } else { 0 };
    internal(world, name, partitions)
}

fn internal(world: &mut World, name: String, partitions: i32) -> StreamsGroupTopicInfo<'static> {
    let config = |world: &mut World| match world.random.u32(..30) {
        0 => pair(world, &["no.such.config", "retention.ms"], &["x"]),
        1..8 => pair(world, &["retention.ms"], &["-1", "86400000"]),
        _ => pair(world, &["cleanup.policy"], &["compact", "delete"]),
    };
    StreamsGroupTopicInfo {
        name: name.into(),
        partitions,
        replication_factor: if world.chance(6) {
            world.one(&[2, -2])
        } else {
            world.one(&[-1, 0, 1])
        },
        topic_configs: world.distinct(2, |it| it.key.clone(), config),
    }
}

fn pair(
    world: &mut World,
    keys: &[&'static str],
    values: &[&'static str],
) -> StreamsGroupKeyValue<'static> {
    StreamsGroupKeyValue { key: world.one(keys).into(), value: world.one(values).into() }
}

/// A copartition group of all topics that the subtopology reads. Sometimes it also refers to a
/// topic that does not exist.
fn copartition_group(
    world: &mut World,
    of: &StreamsGroupSubtopology<'_>,
) -> StreamsGroupCopartitionGroup {
    let all = |count: usize| (0..count as i16).collect::<Vec<_>>();
    let mut group = StreamsGroupCopartitionGroup {
        source_topics: all(of.source_topics.len()),
        source_topic_regex: Vec::new(),
        repartition_source_topics: all(of.repartition_source_topics.len()),
    };
    if world.chance(8) {
        group.source_topics.push(world.one(&[5, -1, i16::MAX]));
    }
    group
}

pub(super) fn streams_group_describe(world: &mut World) -> Request<'static> {
    StreamsGroupDescribeRequest {
        group_ids: world.some(3, Clone::clone, |it| it.group_name_of(STREAMS_GROUP).into()),
        include_authorized_operations: world.chance(30),
        include_topology_description: world.chance(50),
    }
    .into()
}

/// Learns from an answer which members exist, and which internal topics are missing.
pub(super) fn learn(world: &mut World, ask: &Request<'static>, answer: &Response<'static>) {
    let (Request::StreamsGroupHeartbeat(asked), Response::StreamsGroupHeartbeat(answer)) =
        (ask, answer)
    else {
        return;
    };
    let group = world.groups.iter_mut().find(|known| known.id == asked.group_id);
    let Some(Group { members, topology, .. }) = group else { return };
    if answer.error_code != 0 {
        return;
    }
    if topology.is_none() {
        topology.clone_from(&asked.topology);
    }
    let id = asked.member_id.to_string();
    let instance = asked.instance_id.as_ref().map(Str::to_string);
    // If a static member returns with another id, its old id is no longer a member.
    if instance.is_some() {
        members.retain(|member| member.id == id || member.instance != instance);
    }
    if answer.member_epoch < 0 {
        members.retain(|member| member.id != id);
        return;
    }
    let known = members.iter().find(|member| member.id == id).cloned().unwrap_or_default();
    let mut tasks = known.tasks;
    let lists = (&answer.active_tasks, &answer.standby_tasks);
    if let (Some(active), Some(standby)) = lists {
        (tasks.active_tasks, tasks.standby_tasks) = (active.clone(), standby.clone());
    }
    let instance = instance.or(known.instance);
    let epoch = answer.member_epoch;
    take(members, Member { id, instance, epoch, tasks, ..Member::default() });
    const MISSING_INTERNAL_TOPICS: i8 = 3;
    let mut status = answer.status.iter().flatten();
    if status.any(|it| it.status_code == MISSING_INTERNAL_TOPICS)
        && let Some(topology) = topology
    {
        let look = look(topology);
        world.due.push_back(look);
    }
}

/// A request for the internal topics of a topology.
fn look(topology: &StreamsGroupTopology<'static>) -> Ask {
    let subtopologies = topology.subtopologies.iter();
    let names = subtopologies.flat_map(|it| {
        let infos = it.state_changelog_topics.iter().chain(&it.repartition_source_topics);
        infos.map(|info| info.name.clone())
    });
    let topic =
        |name: Str<'static>| MetadataRequestTopic { topic_id: Uuid::ZERO, name: Some(name) };
    let request = MetadataRequest {
        topics: Some(names.map(topic).collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    Ask { version: 12, request: request.into(), flaw: Flaw::None }
}
