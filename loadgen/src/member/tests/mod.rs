//! Stories: a member in virtual time, with the test as its coordinator. The crate `kafka-protocol`
//! writes the answers and reads the requests.

mod classic;
mod consumer;
mod consuming;
mod offsets;
mod producer;
mod random;
mod reader;
mod share;
mod streams;
mod subscribe;

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, Message, StrBytes, VersionRange};
use muster_codec::messages::StreamsGroupHeartbeatResponse;
use muster_codec::{ApiKey, Field, Uuid};

use super::*;
use crate::event::Event;
use crate::plan::{
    Backoff, ClassicAssignor, GroupIndex, GroupPlan, MemberIndex, Partition, Protocol,
    Subscription, TopicIndex,
};
use crate::topics::{Topic, Topics};
use crate::wire;

/// The time after this many milliseconds.
pub(super) const fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

pub(super) fn str_bytes(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Partitions of the first topic.
pub(super) fn set(numbers: &[u32]) -> Arc<[Partition]> {
    numbers.iter().map(|number| Partition { topic: TopicIndex(0), number: *number }).collect()
}

pub(super) fn topic_id(index: u32) -> Uuid {
    Uuid((0x70 + u128::from(index)).to_be_bytes())
}

pub(super) fn wire_id(index: u32) -> uuid::Uuid {
    uuid::Uuid::from_bytes(topic_id(index).0)
}

pub(super) fn classic(assignors: &[ClassicAssignor]) -> Protocol {
    Protocol::Classic { assignors: assignors.to_vec() }
}

pub(super) fn group(protocol: Protocol) -> GroupPlan {
    GroupPlan {
        index: GroupIndex(0),
        id: "g".into(),
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
        client_id: "c".into(),
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
            let (name, id) = (name.into(), topic_id(index as u32));
            topics.learn(Topic { name, id, partitions: 4 });
        }
        let mut versions = Versions::default();
        for (api, range) in APIS {
            versions.set(*api, range.max);
        }
        versions.set(ApiKey::ShareFetch, 2);
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
            check(&outgoing);
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

    /// The only unanswered request.
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
        assert!(self.member.awaits(to.token));
        self.hear(to, sent, self.now, outcome);
    }

    /// Passes an answer to the member, even if it no longer waits for one. The request was sent at
    /// `sent`.
    pub(super) fn hear(
        &mut self,
        to: &Outgoing,
        sent: Time,
        arrived: Time,
        outcome: Result<Response, Failure>,
    ) {
        let frame = outcome.map(|response| (response.api(), response.frame(to.version)));
        let outcome = match &frame {
            Ok((api, frame)) => Ok(wire::read_response(*api, to.version, frame).unwrap()),
            Err(failure) => Err(*failure),
        };
        let answer = Answer { token: to.token, sent, arrived, delayed: Duration::ZERO, outcome };
        self.call(|member, context, output| member.answered(answer, context, output));
    }

    /// Answers the only unanswered request.
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
    located(0, port)
}

/// A coordinator's address, in the form of a list.
pub(super) fn located(error: i16, port: i32) -> Response {
    let one = Coordinator::default().with_error_code(error).with_host(str_bytes("h"));
    let all = vec![one.with_port(port)];
    Response::FindCoordinator(FindCoordinatorResponse::default().with_coordinators(all))
}

/// Converts an answer to this version: removes the fields that the version does not have.
fn in_version(answer: &Response, version: i16) -> Response {
    match answer {
        Response::FindCoordinator(of) if version < 4 => {
            let one = of.coordinators[0].clone();
            let answer = FindCoordinatorResponse::default().with_error_code(one.error_code);
            Response::FindCoordinator(answer.with_host(one.host).with_port(one.port))
        }
        Response::OffsetFetch(of) if version < 8 && of.topics.is_empty() => {
            let error = of.groups.first().map_or(0, |group| group.error_code);
            let error = if version >= 2 { error } else { 0 };
            Response::OffsetFetch(OffsetFetchResponse::default().with_error_code(error))
        }
        Response::JoinGroup(of) if version < 9 => {
            Response::JoinGroup(of.clone().with_skip_assignment(false))
        }
        other => other.clone(),
    }
}

macro_rules! apis {
    ($($name:ident: $request:ident => $response:ident;)*) => {
        /// The APIs of members, with the versions that `kafka-protocol` supports.
        pub(super) const APIS: &[(ApiKey, VersionRange)] =
            &[$((ApiKey::$name, $request::VERSIONS),)*];

        /// An answer of a cluster. An independent implementation of the protocol encodes it.
        #[derive(Clone)]
        pub(super) enum Response {
            $($name($response),)*
            StreamsGroupHeartbeat(StreamsGroupHeartbeatResponse<'static>),
        }

        impl Response {
            pub(super) fn api(&self) -> ApiKey {
                match self {
                    $(Self::$name(_) => ApiKey::$name,)*
                    Self::StreamsGroupHeartbeat(_) => ApiKey::StreamsGroupHeartbeat,
                }
            }

            /// The encoded frame, without its length.
            pub(super) fn frame(&self, version: i16) -> Vec<u8> {
                let mut frame = vec![0; 4];
                if self.api().flexible_response_header(version) {
                    frame.push(0);
                }
                match in_version(self, version) {
                    $(Self::$name(answer) => {
                        answer.encode(&mut frame, version.min($response::VERSIONS.max)).unwrap();
                    })*
                    Self::StreamsGroupHeartbeat(answer) => {
                        answer.write(&mut frame, self.api().version(version).unwrap());
                    }
                }
                frame
            }
        }

        /// Checks that the independent implementation reads the request to its last byte. It lacks
        /// the newest versions.
        fn check(outgoing: &Outgoing) {
            let (version, mut bytes) = (outgoing.version, Vec::new());
            outgoing.request.write(version, &mut bytes).unwrap();
            let mut rest = &bytes[..];
            match outgoing.request.api_key() {
                $(ApiKey::$name if version <= $request::VERSIONS.max => {
                    $request::decode(&mut rest, version).unwrap();
                    assert!(rest.is_empty(), "{:?} in version {version}", outgoing.request);
                })*
                _ => {}
            }
        }
    };
}

apis! {
    FindCoordinator: FindCoordinatorRequest => FindCoordinatorResponse;
    JoinGroup: JoinGroupRequest => JoinGroupResponse;
    SyncGroup: SyncGroupRequest => SyncGroupResponse;
    Heartbeat: HeartbeatRequest => HeartbeatResponse;
    LeaveGroup: LeaveGroupRequest => LeaveGroupResponse;
    ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest => ConsumerGroupHeartbeatResponse;
    OffsetCommit: OffsetCommitRequest => OffsetCommitResponse;
    OffsetFetch: OffsetFetchRequest => OffsetFetchResponse;
    Metadata: MetadataRequest => MetadataResponse;
    InitProducerId: InitProducerIdRequest => InitProducerIdResponse;
    AddPartitionsToTxn: AddPartitionsToTxnRequest => AddPartitionsToTxnResponse;
    AddOffsetsToTxn: AddOffsetsToTxnRequest => AddOffsetsToTxnResponse;
    Produce: ProduceRequest => ProduceResponse;
    TxnOffsetCommit: TxnOffsetCommitRequest => TxnOffsetCommitResponse;
    EndTxn: EndTxnRequest => EndTxnResponse;
    ListOffsets: ListOffsetsRequest => ListOffsetsResponse;
    Fetch: FetchRequest => FetchResponse;
    ShareGroupHeartbeat: ShareGroupHeartbeatRequest => ShareGroupHeartbeatResponse;
    ShareFetch: ShareFetchRequest => ShareFetchResponse;
    ShareAcknowledge: ShareAcknowledgeRequest => ShareAcknowledgeResponse;
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
    story.reply(located(15, -1));
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
    story.reply(located(30, -1));
    assert_eq!(
        story.reason(),
        "FindCoordinator of group g was refused with GROUP_AUTHORIZATION_FAILED: \
         the user needs READ on the group"
    );
}
