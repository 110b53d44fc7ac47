//! Stories: a member in virtual time, with the test as its coordinator. Each request that a member
//! sends is also encoded, to check that its version has all fields that are set.

mod classic;
mod consumer;
mod offsets;
mod producer;
mod random;
mod reader;
mod share;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, FetchRequest,
    FindCoordinatorRequest, FindCoordinatorResponse, InitProducerIdRequest, JoinGroupRequest,
    LeaveGroupRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, ProduceRequest, ShareAcknowledgeRequest, ShareGroupHeartbeatRequest,
    SyncGroupRequest, TxnOffsetCommitRequest,
};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, HeartbeatRequest};
use kafka_protocol::protocol::{Encodable, Message, StrBytes, VersionRange};
use muster_codec::ApiKey;
use uuid::Uuid;

use super::*;
use crate::plan::{
    Backoff, ClassicAssignor, GroupIndex, GroupPlan, MemberIndex, Partition, Protocol,
    Subscription, TopicIndex,
};
use crate::topics::{Topic, Topics};

pub(super) const APIS: [(ApiKey, VersionRange); 20] = [
    (ApiKey::FindCoordinator, FindCoordinatorRequest::VERSIONS),
    (ApiKey::JoinGroup, JoinGroupRequest::VERSIONS),
    (ApiKey::SyncGroup, SyncGroupRequest::VERSIONS),
    (ApiKey::Heartbeat, HeartbeatRequest::VERSIONS),
    (ApiKey::LeaveGroup, LeaveGroupRequest::VERSIONS),
    (ApiKey::OffsetCommit, OffsetCommitRequest::VERSIONS),
    (ApiKey::OffsetFetch, OffsetFetchRequest::VERSIONS),
    (ApiKey::ConsumerGroupHeartbeat, ConsumerGroupHeartbeatRequest::VERSIONS),
    (ApiKey::Metadata, MetadataRequest::VERSIONS),
    (ApiKey::InitProducerId, InitProducerIdRequest::VERSIONS),
    (ApiKey::AddPartitionsToTxn, AddPartitionsToTxnRequest::VERSIONS),
    (ApiKey::AddOffsetsToTxn, AddOffsetsToTxnRequest::VERSIONS),
    (ApiKey::Produce, ProduceRequest::VERSIONS),
    (ApiKey::TxnOffsetCommit, TxnOffsetCommitRequest::VERSIONS),
    (ApiKey::EndTxn, EndTxnRequest::VERSIONS),
    (ApiKey::ListOffsets, ListOffsetsRequest::VERSIONS),
    (ApiKey::Fetch, FetchRequest::VERSIONS),
    (ApiKey::ShareGroupHeartbeat, ShareGroupHeartbeatRequest::VERSIONS),
    (ApiKey::ShareFetch, VersionRange { min: 1, max: 2 }),
    (ApiKey::ShareAcknowledge, ShareAcknowledgeRequest::VERSIONS),
];

/// Milliseconds.
pub(super) const fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Partitions of the first topic.
pub(super) fn set(numbers: &[u32]) -> Arc<[Partition]> {
    numbers.iter().map(|number| Partition { topic: TopicIndex(0), number: *number }).collect()
}

pub(super) fn topic_id(index: u32) -> Uuid {
    Uuid::from_u128(0x70 + u128::from(index))
}

pub(super) fn classic(assignors: &[ClassicAssignor]) -> Protocol {
    Protocol::Classic { assignors: assignors.to_vec() }
}

pub(super) fn group(protocol: Protocol) -> GroupPlan {
    GroupPlan {
        index: GroupIndex(0),
        id: text("g"),
        protocol,
        subscription: Subscription::Topics([TopicIndex(0)].into()),
        session_timeout: Duration::from_secs(45),
        heartbeat_interval: Duration::from_secs(3),
        rebalance_timeout: Duration::from_secs(60),
        revocation_takes: Duration::ZERO,
        fetches_on_assignment: false,
        backoff: Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(1) },
    }
}

pub(super) fn member(group: GroupPlan) -> MemberPlan {
    MemberPlan {
        index: MemberIndex(0),
        group: Arc::new(group),
        client_id: text("c"),
        instance_id: None,
        rack: None,
        process: 0,
        workload: Workload::default(),
    }
}

pub(super) struct Story {
    pub(super) member: Member,
    pub(super) topics: Topics,
    pub(super) versions: Versions,
    pub(super) now: Time,
    pub(super) sent: Vec<(Time, Outgoing)>,
    nodes: Nodes,
    random: fastrand::Rng,
    events: Vec<Event>,
    pub(super) spans: Vec<Span>,
}

impl Story {
    pub(super) fn new(plan: MemberPlan) -> Self {
        let mut topics = Topics::default();
        for (index, name) in ["t", "u"].into_iter().enumerate() {
            let (name, id) = (text(name), topic_id(index as u32));
            topics.learn(Topic { name, id, partitions: 4 });
        }
        let mut versions = Versions::default();
        for (api, range) in APIS {
            versions.set(api, range.max);
        }
        versions.set(ApiKey::StreamsGroupHeartbeat, 0);
        Self {
            member: Member::new(plan),
            topics,
            versions,
            now: Time::ZERO,
            sent: Vec::new(),
            nodes: Nodes::default(),
            random: fastrand::Rng::with_seed(5),
            events: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Calls the member, and keeps its requests and events.
    pub(super) fn call(&mut self, call: impl FnOnce(&mut Member, &mut Context<'_>, &mut Output)) {
        let mut output = Output::default();
        let mut context = Context {
            now: self.now,
            topics: &self.topics,
            versions: &self.versions,
            nodes: &mut self.nodes,
            random: &mut self.random,
        };
        call(&mut self.member, &mut context, &mut output);
        for outgoing in output.requests {
            encode(&outgoing);
            self.sent.push((self.now, outgoing));
        }
        assert!(output.events.iter().all(|event| event.at == self.now));
        self.events.append(&mut output.events);
        self.spans.append(&mut output.spans);
    }

    pub(super) fn start(&mut self) {
        self.call(Member::start);
    }

    pub(super) fn stop(&mut self, how: Stop) {
        self.call(|member, context, output| member.stop(how, context, output));
    }

    /// Advances time until the member sends a request, but not beyond `end`.
    pub(super) fn until(&mut self, end: Time) {
        let quiet = self.sent.len();
        while self.sent.len() == quiet
            && let Some(deadline) = self.member.deadline().filter(|deadline| *deadline <= end)
        {
            self.now = self.now.max(deadline);
            self.call(Member::wake);
            let next = self.member.deadline();
            assert!(next.is_none_or(|next| next > self.now), "{next:?} at {}", self.now);
        }
        if self.sent.len() == quiet {
            self.now = self.now.max(end);
        }
    }

    /// The only request that is not answered yet.
    pub(super) fn request(&mut self) -> Outgoing {
        assert_eq!(self.sent.len(), 1, "requests: {:?}", self.requests());
        self.sent.remove(0).1
    }

    pub(super) fn requests(&self) -> Vec<&Request> {
        self.sent.iter().map(|(_, outgoing)| &outgoing.request).collect()
    }

    pub(super) fn answer(&mut self, to: &Outgoing, outcome: Result<Response, Failure>) {
        let sent = self.now;
        self.now = self.now + Duration::from_millis(1);
        let (arrived, delayed) = (self.now, Duration::ZERO);
        let answer = Answer { token: to.token, sent, arrived, delayed, outcome };
        assert!(self.member.awaits(to.token));
        self.call(|member, context, output| member.answered(answer, context, output));
    }

    /// Answers the only request that is not answered yet.
    pub(super) fn reply(&mut self, response: Response) -> Outgoing {
        let outgoing = self.request();
        self.answer(&outgoing, Ok(response));
        outgoing
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        let outgoing = self.request();
        self.answer(&outgoing, Err(failure));
    }

    /// Answers the lookup of the coordinator.
    pub(super) fn find(&mut self, port: i32) {
        let outgoing = self.request();
        assert!(outgoing.to == Destination::Any);
        self.answer(&outgoing, Ok(found(port)));
    }

    pub(super) fn events(&mut self) -> Vec<EventKind> {
        std::mem::take(&mut self.events).into_iter().map(|event| event.kind).collect()
    }

    /// The last events, without heartbeats.
    pub(super) fn changes(&mut self) -> Vec<EventKind> {
        let mut events = self.events();
        events.retain(|event| !matches!(event, EventKind::Alive { .. }));
        events
    }

    pub(super) fn reason(&mut self) -> String {
        assert_eq!(self.member.state(), State::Failed);
        assert!(self.member.is_done() && self.member.deadline().is_none());
        match self.events().pop() {
            Some(EventKind::Failed { reason }) => reason.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn found(port: i32) -> Response {
    let one = Coordinator::default().with_key(text("g")).with_host(text("h")).with_port(port);
    Response::FindCoordinator(FindCoordinatorResponse::default().with_coordinators(vec![one]))
}

/// Every request must be encodable in the version that was chosen for it.
fn encode(outgoing: &Outgoing) {
    let (version, bytes) = (outgoing.version, &mut bytes::BytesMut::new());
    let encoded = match &outgoing.request {
        Request::FindCoordinator(request) => request.encode(bytes, version),
        Request::JoinGroup(request) => request.encode(bytes, version),
        Request::SyncGroup(request) => request.encode(bytes, version),
        Request::Heartbeat(request) => request.encode(bytes, version),
        Request::LeaveGroup(request) => request.encode(bytes, version),
        Request::ConsumerGroupHeartbeat(request) => request.encode(bytes, version),
        Request::OffsetCommit(request) => request.encode(bytes, version),
        Request::OffsetFetch(request) => request.encode(bytes, version),
        Request::Metadata(request) => request.encode(bytes, version),
        Request::InitProducerId(request) => request.encode(bytes, version),
        Request::AddPartitionsToTxn(request) => request.encode(bytes, version),
        Request::AddOffsetsToTxn(request) => request.encode(bytes, version),
        Request::Produce(request) => request.encode(bytes, version),
        Request::TxnOffsetCommit(request) => request.encode(bytes, version),
        Request::EndTxn(request) => request.encode(bytes, version),
        Request::ListOffsets(request) => request.encode(bytes, version),
        Request::Fetch(request) => request.encode(bytes, version),
        Request::ShareGroupHeartbeat(request) => request.encode(bytes, version),
        // Version 2 differs from it by two fields that are never wrong.
        Request::ShareFetch(fetch) => fetch.request.encode(bytes, version.min(1)),
        Request::ShareAcknowledge(request) => request.encode(bytes, version),
        Request::StreamsHeartbeat(_) => Ok(()),
    };
    assert!(encoded.is_ok(), "{:?} in version {version}: {encoded:?}", outgoing.request);
}

#[test]
fn a_member_takes_little_memory() {
    let member = size_of::<Member>();
    let role = size_of::<super::classic::Classic>().max(size_of::<super::consumer::Consumer>());
    assert!(member <= 768 && role <= 512, "{member} and {role} bytes");
}

#[test]
fn a_failed_lookup_is_reported_and_repeated_with_back_off() {
    let mut story = Story::new(member(group(classic(&[ClassicAssignor::Range]))));
    story.start();
    assert_eq!(story.member.state(), State::Searching);
    let failed = FindCoordinatorResponse::default()
        .with_coordinators(vec![Coordinator::default().with_error_code(15)]);
    story.reply(Response::FindCoordinator(failed));
    let refused = EventKind::Refused { api: 10, error: 15 };
    assert_eq!(story.events(), [EventKind::Started, refused]);
    let asked = story.now;
    story.until(at(1000));
    let waited = story.now.since(asked).as_millis();
    assert!((80..=120).contains(&waited), "{waited} ms");
    story.fail(Failure::Disconnected);
    story.until(at(1000));
    story.find(9092);
    assert_eq!(story.events(), [EventKind::Joining]);
    assert!(story.request().to == Destination::Node(NodeIndex(0)));
}

#[test]
fn a_lookup_without_permission_is_fatal() {
    let mut story = Story::new(member(group(classic(&[ClassicAssignor::Range]))));
    story.start();
    let refused = FindCoordinatorResponse::default()
        .with_coordinators(vec![Coordinator::default().with_error_code(30)]);
    story.reply(Response::FindCoordinator(refused));
    assert_eq!(
        story.reason(),
        "FindCoordinator of group g was refused with GROUP_AUTHORIZATION_FAILED: \
         the user needs READ on the group"
    );
}
