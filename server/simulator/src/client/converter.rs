//! A client with a group that is converted between the protocols while it has members: a classic
//! member joins, a consumer joins and leaves, and the classic member stays.

use super::{NextRequest, Surroundings};
use muster_codec::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions,
};
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
    SyncGroupRequest, SyncGroupRequestAssignment,
};
use muster_codec::{Bytes, ErrorCode, Request, Response};

/// The maximum number of bytes of user data that the classic member adds to its subscription.
const USER_DATA_MAX: u64 = 2_000;

const SESSION_MS: i32 = 6_000;
const REBALANCE_MS: i32 = 1_000;
const JOIN_VERSION: i16 = 7;
const SYNC_VERSION: i16 = 5;
/// The version since which a consumer chooses its own id.
const HEARTBEAT_VERSION: i16 = 1;
const CONSUMER: &str = "consumer-of-a-converter";

#[derive(Debug)]
pub(crate) struct Converter {
    group: String,
    topic: (String, i32),
    step: Step,
    /// The id and the generation of the classic member.
    member_id: String,
    generation: i32,
    conversions: u64,
}

/// The next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Join,
    Sync,
    /// The consumer joins: the group becomes a consumer group.
    Upgrade,
    /// The consumer leaves: the group becomes a classic group.
    Downgrade,
}

impl Converter {
    pub(crate) fn new(number: u32, topic: (String, i32)) -> Self {
        Self {
            group: format!("converter-{number}"),
            topic,
            step: Step::Join,
            member_id: String::new(),
            generation: 0,
            conversions: 0,
        }
    }

    /// The number of conversions that were answered.
    pub(crate) fn conversions(&self) -> u64 {
        self.conversions
    }

    pub(super) fn next_request(&self, around: &mut Surroundings<'_>) -> NextRequest {
        let (version, request) = match self.step {
            Step::Join => (JOIN_VERSION, self.join(around.random.below(USER_DATA_MAX) as usize)),
            Step::Sync => (SYNC_VERSION, self.sync()),
            Step::Upgrade => (HEARTBEAT_VERSION, self.heartbeat(0)),
            Step::Downgrade => (HEARTBEAT_VERSION, self.heartbeat(-1)),
        };
        NextRequest { shard: around.placement.group_shard(&self.group), version, request }
    }

    /// Chooses the next request according to the answer. (The judge checks the content of answers.)
    /// The classic member joins again if the consumer has left, if the answer is an error, and if
    /// no answer came.
    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) {
        let step = std::mem::replace(&mut self.step, Step::Join);
        match response {
            Some(Response::JoinGroup(response)) => self.joined(response),
            Some(Response::SyncGroup(response)) if response.error_code == 0 => {
                self.step = Step::Upgrade;
            }
            Some(Response::ConsumerGroupHeartbeat(response)) if response.error_code == 0 => {
                self.conversions += 1;
                if step == Step::Upgrade {
                    self.step = Step::Downgrade;
                }
            }
            _ => {}
        }
    }

    fn joined(&mut self, response: &JoinGroupResponse<'_>) {
        let code = response.error_code;
        if code == 0 {
            self.generation = response.generation_id;
            self.step = Step::Sync;
        }
        if code == 0 || code == ErrorCode::MemberIdRequired.code() {
            self.member_id = response.member_id.to_string();
        } else if code == ErrorCode::UnknownMemberId.code() {
            self.member_id.clear();
        }
    }

    fn join(&self, user_data: usize) -> Request<'static> {
        let mut metadata = Vec::new();
        ConsumerProtocolSubscription {
            topics: vec![self.topic.0.clone().into()],
            user_data: Some(Bytes::from(vec![0; user_data])),
            ..Default::default()
        }
        .write(1, &mut metadata);
        JoinGroupRequest {
            group_id: self.group.clone().into(),
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: REBALANCE_MS,
            member_id: self.member_id.clone().into(),
            protocol_type: "consumer".into(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "range".into(),
                metadata: metadata.into(),
            }],
            ..Default::default()
        }
        .into()
    }

    fn sync(&self) -> Request<'static> {
        let (topic, partitions) = &self.topic;
        let all =
            TopicPartitions { topic: topic.clone().into(), partitions: (0..*partitions).collect() };
        let mut assignment = Vec::new();
        ConsumerProtocolAssignment { assigned_partitions: vec![all], ..Default::default() }
            .write(1, &mut assignment);
        SyncGroupRequest {
            group_id: self.group.clone().into(),
            generation_id: self.generation,
            member_id: self.member_id.clone().into(),
            protocol_type: Some("consumer".into()),
            protocol_name: Some("range".into()),
            assignments: vec![SyncGroupRequestAssignment {
                member_id: self.member_id.clone().into(),
                assignment: assignment.into(),
            }],
            ..Default::default()
        }
        .into()
    }

    fn heartbeat(&self, member_epoch: i32) -> Request<'static> {
        ConsumerGroupHeartbeatRequest {
            group_id: self.group.clone().into(),
            member_id: CONSUMER.into(),
            member_epoch,
            rebalance_timeout_ms: REBALANCE_MS,
            subscribed_topic_names: Some(vec![self.topic.0.clone().into()]),
            topic_partitions: Some(Vec::new()),
            ..Default::default()
        }
        .into()
    }
}
