//! Makes the members whose requests are measured: a topic, and one classic group for each member.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, CreateTopicsRequest,
    FindCoordinatorRequest, GroupId, JoinGroupRequest, JoinGroupResponse, MetadataRequest,
    OffsetFetchRequest, SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::{Encodable, StrBytes};

use crate::wire::{CLIENT_ID, Caller, Error, Refused, Result};

/// The partition of the topic to which all offsets are committed.
pub(crate) const PARTITION: i32 = 0;

const TOPIC: &str = "muster-bench";
const PROTOCOL_TYPE: &str = "consumer";
const ASSIGNOR: &str = "range";
/// No member is to expire while the others are still being set up.
const SESSION_TIMEOUT_MS: i32 = 300_000;
/// A new cluster first has to create `__consumer_offsets`.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_DELAY: Duration = Duration::from_millis(50);

pub(crate) fn topic_name() -> TopicName {
    TopicName(StrBytes::from_static_str(TOPIC))
}

/// Who a request comes from.
pub(crate) struct Member {
    pub(crate) group: GroupId,
    pub(crate) generation: i32,
    pub(crate) id: StrBytes,
}

impl Member {
    /// A member for servers without groups, whose frames are as long as a real one's.
    pub(crate) fn made_up(index: usize) -> Self {
        let id = format!("{CLIENT_ID}-00000000-0000-0000-0000-{index:012}");
        Self { group: group_id(index), generation: 1, id: StrBytes::from_string(id) }
    }
}

/// Connects one member of a group of its own, `count` times, each to the group's coordinator.
pub(crate) fn join_groups(bootstrap: &str, count: usize) -> Result<Vec<(Member, TcpStream)>> {
    create_topic(bootstrap)?;
    let coordinators = until_ready(|| find_coordinators(bootstrap, count))?;
    let joined = coordinators.iter().enumerate().map(|(index, coordinator)| {
        let mut caller = Caller::connect(coordinator.as_str())?;
        let member = until_ready(|| join(&mut caller, group_id(index)))?;
        Ok((member, caller.into_stream()))
    });
    joined.collect()
}

/// An error if the group's offset is not the one that was acknowledged last.
pub(crate) fn check_committed(caller: &mut Caller, group: &GroupId, offset: i64) -> Result<()> {
    let topic = OffsetFetchRequestTopics::default()
        .with_name(topic_name())
        .with_partition_indexes(vec![PARTITION]);
    let of_group = OffsetFetchRequestGroup::default()
        .with_group_id(group.clone())
        .with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_groups(vec![of_group]);
    let response = caller.call(8, &request)?;
    let group_response = response.groups.first().ok_or("OffsetFetch without the group")?;
    Refused::check("OffsetFetch", group_response.error_code)?;
    let partitions = group_response.topics.iter().flat_map(|topic| &topic.partitions);
    let fetched: Vec<i64> = partitions.map(|partition| partition.committed_offset).collect();
    if fetched == [offset] {
        return Ok(());
    }
    let group = group.as_str();
    Err(format!("group {group}: offset {offset} was acknowledged, {fetched:?} is stored").into())
}

/// The process id keeps runs against the same server apart; the width keeps frames equally long.
fn group_id(index: usize) -> GroupId {
    GroupId(StrBytes::from_string(format!("bench-{:07}-{index:06}", std::process::id())))
}

fn create_topic(bootstrap: &str) -> Result<()> {
    let topic = CreatableTopic::default()
        .with_name(topic_name())
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
    let mut caller = Caller::connect(bootstrap)?;
    let response = caller.call(7, &request)?;
    for topic in &response.topics {
        match Refused::check("CreateTopics", topic.error_code) {
            Err(error) if !is(&error, ResponseError::TopicAlreadyExists) => return Err(error),
            _ => {}
        }
    }
    until_ready(|| check_topic(&mut caller))
}

fn check_topic(caller: &mut Caller) -> Result<()> {
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name()));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(false);
    for topic in caller.call(12, &request)?.topics {
        Refused::check("Metadata of the topic", topic.error_code)?;
        for partition in topic.partitions {
            Refused::check("Metadata of the partition", partition.error_code)?;
        }
    }
    Ok(())
}

/// The addresses of the coordinators of the first `count` groups.
fn find_coordinators(bootstrap: &str, count: usize) -> Result<Vec<String>> {
    let keys: Vec<StrBytes> = (0..count).map(|index| group_id(index).0).collect();
    let request = FindCoordinatorRequest::default().with_coordinator_keys(keys.clone());
    let mut found = Caller::connect(bootstrap)?.call(4, &request)?.coordinators;
    found.sort_by(|a, b| a.key.cmp(&b.key));
    if !found.iter().map(|coordinator| &coordinator.key).eq(&keys) {
        return Err("FindCoordinator answered for other groups than were asked for".into());
    }
    let addresses = found.iter().map(|coordinator| {
        Refused::check("FindCoordinator", coordinator.error_code)?;
        Ok(format!("{}:{}", coordinator.host, coordinator.port))
    });
    addresses.collect()
}

/// Joins as the only member: first for a member id (KIP-394), then with it, then as the leader.
fn join(caller: &mut Caller, group: GroupId) -> Result<Member> {
    let nobody = StrBytes::from_static_str("");
    let first = caller.call(9, &join_request(&group, nobody)?)?;
    if first.error_code != ResponseError::MemberIdRequired.code() {
        Refused::check("JoinGroup", first.error_code)?;
        return Err("JoinGroup without a member id was accepted".into());
    }
    let joined = caller.call(9, &join_request(&group, first.member_id)?)?;
    Refused::check("JoinGroup", joined.error_code)?;
    sync(caller, &group, &joined)?;
    Ok(Member { group, generation: joined.generation_id, id: joined.member_id })
}

fn join_request(group: &GroupId, member_id: StrBytes) -> Result<JoinGroupRequest> {
    let subscription = ConsumerProtocolSubscription::default().with_topics(vec![topic_name().0]);
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str(ASSIGNOR))
        .with_metadata(versioned(&subscription)?.into());
    Ok(JoinGroupRequest::default()
        .with_group_id(group.clone())
        .with_session_timeout_ms(SESSION_TIMEOUT_MS)
        .with_rebalance_timeout_ms(SESSION_TIMEOUT_MS)
        .with_member_id(member_id)
        .with_protocol_type(StrBytes::from_static_str(PROTOCOL_TYPE))
        .with_protocols(vec![protocol]))
}

fn sync(caller: &mut Caller, group: &GroupId, joined: &JoinGroupResponse) -> Result<()> {
    let partition =
        TopicPartition::default().with_topic(topic_name()).with_partitions(vec![PARTITION]);
    let assigned = ConsumerProtocolAssignment::default().with_assigned_partitions(vec![partition]);
    let assignment = SyncGroupRequestAssignment::default()
        .with_member_id(joined.member_id.clone())
        .with_assignment(versioned(&assigned)?.into());
    let request = SyncGroupRequest::default()
        .with_group_id(group.clone())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_protocol_type(joined.protocol_type.clone())
        .with_protocol_name(joined.protocol_name.clone())
        .with_assignments(vec![assignment]);
    Refused::check("SyncGroup", caller.call(5, &request)?.error_code)
}

/// The consumer protocol puts its version (here 0) before the message.
fn versioned<M: Encodable>(message: &M) -> Result<Vec<u8>> {
    let mut bytes = vec![0; 2];
    message.encode(&mut bytes, 0)?;
    Ok(bytes)
}

/// Repeats what a server that has just started may refuse for a while.
fn until_ready<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        match attempt() {
            Err(error) if is_retriable(&error) && Instant::now() < deadline => {
                std::thread::sleep(RETRY_DELAY);
            }
            outcome => return outcome,
        }
    }
}

fn is_retriable(error: &Error) -> bool {
    error.downcast_ref().is_some_and(Refused::is_retriable)
}

fn is(error: &Error, expected: ResponseError) -> bool {
    error.downcast_ref().is_some_and(|refused: &Refused| refused.is(expected))
}
