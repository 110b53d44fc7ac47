//! Generates requests about groups from the input. There are few names, so that requests interact.

use arbitrary::{Arbitrary, Result, Unstructured};
use muster_codec::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions,
};
use muster_codec::messages::*;
use muster_codec::{ApiKey, Bytes, GroupRequest, Str, Uuid};

pub(crate) const TOPICS: [&str; 3] = ["orders", "clicks", "audit"];
const GROUPS: [&str; 3] = ["g", "h", "regex"];
const INSTANCES: [&str; 2] = ["i0", "i1"];
const ASSIGNORS: [&str; 4] = ["range", "uniform", "cooperative-sticky", "nonsense"];
const SUBTOPOLOGIES: [&str; 2] = ["0", "1"];
/// Internal topics of a streams group. The internal topics of one group may be read by another.
const INTERNAL: [&str; 4] = ["g-repartition", "g-changelog", "orders", "h-repartition"];
const PATTERNS: [&str; 5] = ["", "o.*", ".*", "(", "[a-c]+|orders"];

/// Ids that a client received, for use in later requests.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) members: Vec<String>,
    pub(crate) topic_ids: Vec<Uuid>,
}

impl Known {
    /// Remembers the member id in an answer.
    pub(crate) fn learn(&mut self, response: &muster_codec::Response<'_>) {
        use muster_codec::Response::{ConsumerGroupHeartbeat, JoinGroup, StreamsGroupHeartbeat};
        let id = match response {
            JoinGroup(body) => body.member_id.to_string(),
            StreamsGroupHeartbeat(body) => body.member_id.to_string(),
            ConsumerGroupHeartbeat(body) => body.member_id.as_deref().unwrap_or("").to_owned(),
            _ => return,
        };
        if !id.is_empty() && !self.members.contains(&id) && self.members.len() < 16 {
            self.members.push(id);
        }
    }
}

/// Generates a request, mostly in the newest version, which has all fields.
pub(crate) fn ask(u: &mut Unstructured<'_>, known: &Known) -> Result<(i16, GroupRequest<'static>)> {
    let request: GroupRequest<'static> =
        match u.int_in_range(0..=13)? {
            0 => join(u, known)?.into(),
            1 => sync(u, known)?.into(),
            2 => heartbeat(u, known)?.into(),
            3 => leave(u, known)?.into(),
            4 => commit(u, known)?.into(),
            5 => fetch(u, known)?.into(),
            6 => delete_offsets(u)?.into(),
            7 => DeleteGroupsRequest { groups_names: vec![group(u)?, group(u)?] }.into(),
            8 => DescribeGroupsRequest { groups: vec![group(u)?], ..Default::default() }.into(),
            9 => ConsumerGroupDescribeRequest { group_ids: vec![group(u)?], ..Default::default() }
                .into(),
            10 => ListGroupsRequest::default().into(),
            11 => streams_heartbeat(u, known)?.into(),
            12 => StreamsGroupDescribeRequest { group_ids: vec![group(u)?], ..Default::default() }
                .into(),
            _ => consumer_heartbeat(u, known)?.into(),
        };
    Ok((version(u, request.api_key())?, request))
}

fn version(u: &mut Unstructured<'_>, api: ApiKey) -> Result<i16> {
    let newest = *api.versions().end();
    if u.ratio(1, 4)? { u.int_in_range(api.versions()) } else { Ok(newest) }
}

fn pick(u: &mut Unstructured<'_>, words: &'static [&'static str]) -> Result<Str<'static>> {
    Ok((*u.choose(words)?).into())
}

fn group(u: &mut Unstructured<'_>) -> Result<Str<'static>> {
    pick(u, &GROUPS)
}

fn instance(u: &mut Unstructured<'_>) -> Result<Option<Str<'static>>> {
    u.ratio(1, 4)?.then(|| pick(u, &INSTANCES)).transpose()
}

fn member(u: &mut Unstructured<'_>, known: &Known) -> Result<Str<'static>> {
    if known.members.is_empty() || u.ratio(1, 8)? {
        return pick(u, &["", "m0", "m1", "m2"]);
    }
    Ok(u.choose(&known.members)?.clone().into())
}

/// Mostly a small number, sometimes any.
fn number(u: &mut Unstructured<'_>) -> Result<i32> {
    if u.ratio(1, 16)? { i32::arbitrary(u) } else { u.int_in_range(-2..=12) }
}

fn partitions(u: &mut Unstructured<'_>) -> Result<Vec<i32>> {
    (0..u.int_in_range(0..=4)?).map(|_| number(u)).collect()
}

fn topic(u: &mut Unstructured<'_>) -> Result<Str<'static>> {
    pick(u, &TOPICS)
}

fn topic_id(u: &mut Unstructured<'_>, known: &Known) -> Result<Uuid> {
    if known.topic_ids.is_empty() || u.ratio(1, 8)? {
        return Ok(Uuid(u.arbitrary()?));
    }
    u.choose(&known.topic_ids).copied()
}

fn topic_partitions(u: &mut Unstructured<'_>) -> Result<TopicPartitions<'static>> {
    Ok(TopicPartitions { topic: topic(u)?, partitions: partitions(u)? })
}

fn join(u: &mut Unstructured<'_>, known: &Known) -> Result<JoinGroupRequest<'static>> {
    let protocols: Result<_> = (0..u.int_in_range(0..=3)?).map(|_| protocol(u)).collect();
    Ok(JoinGroupRequest {
        group_id: group(u)?,
        session_timeout_ms: if u.ratio(1, 16)? { number(u)? } else { 10_000 },
        rebalance_timeout_ms: if u.ratio(1, 16)? { number(u)? } else { 10_000 },
        member_id: member(u, known)?,
        group_instance_id: instance(u)?,
        protocol_type: if u.ratio(1, 16)? { "connect" } else { "consumer" }.into(),
        protocols: protocols?,
        ..Default::default()
    })
}

fn protocol(u: &mut Unstructured<'_>) -> Result<JoinGroupRequestProtocol<'static>> {
    let mut metadata = Vec::new();
    if u.ratio(1, 8)? {
        metadata.extend(<Vec<u8>>::arbitrary(u)?);
    } else {
        let subscription = ConsumerProtocolSubscription {
            topics: vec![topic(u)?],
            owned_partitions: vec![topic_partitions(u)?],
            generation_id: number(u)?,
            ..Default::default()
        };
        subscription.write(u.int_in_range(0..=3)?, &mut metadata);
    }
    Ok(JoinGroupRequestProtocol { name: pick(u, &ASSIGNORS)?, metadata: Bytes::from(metadata) })
}

fn sync(u: &mut Unstructured<'_>, known: &Known) -> Result<SyncGroupRequest<'static>> {
    let assignment = |u: &mut Unstructured<'_>| {
        let mut bytes = Vec::new();
        if u.ratio(1, 8)? {
            bytes.extend(<Vec<u8>>::arbitrary(u)?);
        } else {
            let assigned_partitions = vec![topic_partitions(u)?];
            ConsumerProtocolAssignment { assigned_partitions, user_data: None }
                .write(1, &mut bytes);
        }
        Ok(SyncGroupRequestAssignment { member_id: member(u, known)?, assignment: bytes.into() })
    };
    let assignments: Result<_> = (0..u.int_in_range(0..=3)?).map(|_| assignment(u)).collect();
    Ok(SyncGroupRequest {
        group_id: group(u)?,
        generation_id: number(u)?,
        member_id: member(u, known)?,
        group_instance_id: instance(u)?,
        assignments: assignments?,
        ..Default::default()
    })
}

fn heartbeat(u: &mut Unstructured<'_>, known: &Known) -> Result<HeartbeatRequest<'static>> {
    Ok(HeartbeatRequest {
        group_id: group(u)?,
        generation_id: number(u)?,
        member_id: member(u, known)?,
        group_instance_id: instance(u)?,
    })
}

fn leave(u: &mut Unstructured<'_>, known: &Known) -> Result<LeaveGroupRequest<'static>> {
    let leaving = MemberIdentity {
        member_id: member(u, known)?,
        group_instance_id: instance(u)?,
        ..Default::default()
    };
    let (group_id, member_id) = (group(u)?, leaving.member_id.clone());
    Ok(LeaveGroupRequest { group_id, member_id, members: vec![leaving] })
}

fn commit(u: &mut Unstructured<'_>, known: &Known) -> Result<OffsetCommitRequest<'static>> {
    let partition = |partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: i64::from(partition_index) + 5,
        committed_metadata: Some("m".into()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: topic(u)?,
        topic_id: topic_id(u, known)?,
        partitions: partitions(u)?.into_iter().map(partition).collect(),
    };
    Ok(OffsetCommitRequest {
        group_id: group(u)?,
        generation_id_or_member_epoch: number(u)?,
        member_id: member(u, known)?,
        group_instance_id: instance(u)?,
        topics: vec![topic],
        ..Default::default()
    })
}

fn fetch(u: &mut Unstructured<'_>, known: &Known) -> Result<OffsetFetchRequest<'static>> {
    let topic = OffsetFetchRequestTopics {
        name: topic(u)?,
        topic_id: topic_id(u, known)?,
        partition_indexes: partitions(u)?,
    };
    let fetched = OffsetFetchRequestGroup {
        group_id: group(u)?,
        member_id: u.ratio(1, 2)?.then(|| member(u, known)).transpose()?,
        member_epoch: number(u)?,
        topics: u.ratio(1, 2)?.then(|| vec![topic]),
    };
    Ok(OffsetFetchRequest {
        groups: vec![fetched],
        require_stable: u.arbitrary()?,
        ..Default::default()
    })
}

fn delete_offsets(u: &mut Unstructured<'_>) -> Result<OffsetDeleteRequest<'static>> {
    let partition = |partition_index| OffsetDeleteRequestPartition { partition_index };
    let topic = OffsetDeleteRequestTopic {
        name: topic(u)?,
        partitions: partitions(u)?.into_iter().map(partition).collect(),
    };
    Ok(OffsetDeleteRequest { group_id: group(u)?, topics: vec![topic] })
}

fn consumer_heartbeat(
    u: &mut Unstructured<'_>,
    known: &Known,
) -> Result<ConsumerGroupHeartbeatRequest<'static>> {
    let owned = ConsumerGroupHeartbeatTopicPartitions {
        topic_id: topic_id(u, known)?,
        partitions: partitions(u)?,
    };
    let member_epoch = number(u)?;
    // If the member joins, it must send each field for which `sends` is called. Otherwise it sends
    // the field by chance.
    let sends = |u: &mut Unstructured<'_>| Ok(member_epoch == 0 || u.ratio(1, 4)?);
    Ok(ConsumerGroupHeartbeatRequest {
        group_id: group(u)?,
        member_id: member(u, known)?,
        member_epoch,
        instance_id: instance(u)?,
        rebalance_timeout_ms: if sends(u)? { 10_000 } else { -1 },
        subscribed_topic_names: sends(u)?.then(|| Ok(vec![topic(u)?, topic(u)?])).transpose()?,
        subscribed_topic_regex: u.ratio(1, 4)?.then(|| pick(u, &PATTERNS)).transpose()?,
        server_assignor: u.ratio(1, 4)?.then(|| pick(u, &ASSIGNORS)).transpose()?,
        topic_partitions: match (member_epoch, sends(u)?) {
            (0, _) => Some(Vec::new()),
            (_, true) => Some(vec![owned]),
            (_, false) => None,
        },
        ..Default::default()
    })
}

fn streams_heartbeat(
    u: &mut Unstructured<'_>,
    known: &Known,
) -> Result<StreamsGroupHeartbeatRequest<'static>> {
    let member_epoch = number(u)?;
    let joins = member_epoch == 0;
    let topology = joins.then(|| topology(u)).transpose()?;
    let sends_tasks = joins || u.ratio(1, 2)?;
    let mut tasks = || -> Result<_> {
        let tasks = sends_tasks.then(|| if joins { Ok(Vec::new()) } else { tasks(u) });
        tasks.transpose()
    };
    let (active_tasks, standby_tasks) = (tasks()?, tasks()?);
    let endpoint = StreamsGroupEndpoint { host: "h".into(), port: 1 };
    Ok(StreamsGroupHeartbeatRequest {
        group_id: group(u)?,
        member_id: member(u, known)?,
        member_epoch,
        endpoint_information_epoch: number(u)?,
        rebalance_timeout_ms: if joins { 10_000 } else { -1 },
        topology,
        active_tasks,
        standby_tasks,
        warmup_tasks: sends_tasks.then(Vec::new),
        process_id: u.ratio(1, 2)?.then(|| pick(u, &INSTANCES)).transpose()?,
        user_endpoint: u.ratio(1, 2)?.then_some(endpoint),
        shutdown_application: u.ratio(1, 16)?,
        ..Default::default()
    })
}

fn topology(u: &mut Unstructured<'_>) -> Result<StreamsGroupTopology<'static>> {
    let subtopologies: Result<_> = (0..u.int_in_range(0..=2)?).map(|_| subtopology(u)).collect();
    Ok(StreamsGroupTopology { epoch: 0, subtopologies: subtopologies? })
}

fn subtopology(u: &mut Unstructured<'_>) -> Result<StreamsGroupSubtopology<'static>> {
    let internal = |u: &mut Unstructured<'_>, partitions| -> Result<_> {
        let (name, replication_factor) = (pick(u, &INTERNAL)?, -1);
        Ok(StreamsGroupTopicInfo { name, partitions, replication_factor, ..Default::default() })
    };
    let group = StreamsGroupCopartitionGroup {
        source_topics: vec![u.int_in_range(-1..=2)?],
        repartition_source_topics: vec![u.int_in_range(-1..=1)?],
        ..Default::default()
    };
    let count = if u.ratio(1, 4)? { number(u)? } else { 0 };
    Ok(StreamsGroupSubtopology {
        subtopology_id: pick(u, &SUBTOPOLOGIES)?,
        source_topics: vec![topic(u)?, topic(u)?],
        repartition_sink_topics: vec![pick(u, &INTERNAL)?],
        repartition_source_topics: u
            .ratio(1, 2)?
            .then(|| internal(u, count))
            .transpose()?
            .into_iter()
            .collect(),
        state_changelog_topics: vec![internal(u, 0)?],
        copartition_groups: if u.ratio(1, 2)? { vec![group] } else { Vec::new() },
        ..Default::default()
    })
}

fn tasks(u: &mut Unstructured<'_>) -> Result<Vec<StreamsGroupTaskIds<'static>>> {
    let subtopology_id = pick(u, &SUBTOPOLOGIES)?;
    Ok(vec![StreamsGroupTaskIds { subtopology_id, partitions: partitions(u)? }])
}
