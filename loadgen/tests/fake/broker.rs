//! The thread that owns all state. It receives requests, answers them, and expires timers.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, ApiKey, ApiVersionsRequest, ApiVersionsResponse, BrokerId,
    ConsumerGroupHeartbeatRequest, CreatePartitionsRequest, CreateTopicsRequest,
    DeleteGroupsRequest, DeleteTopicsRequest, DescribeConfigsRequest, DescribeConfigsResponse,
    EndTxnRequest, FetchRequest, FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest,
    InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest,
    ListGroupsResponse, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, ProduceRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
    SyncGroupRequest,
};
use kafka_protocol::protocol::{Message, Request, StrBytes};

use super::Config;
use super::classic::ClassicGroup;
use super::consumer::ConsumerGroup;
use super::offsets::Offsets;
use super::reply::{Call, Reply};
use super::topics::Topics;
use super::transactions::Transactions;

pub(super) const NODE: BrokerId = BrokerId(1);
const UNSUPPORTED_VERSION: i16 = 35;

pub(super) enum Question {
    /// A request from a connection.
    Request { call: Call, to: Sender<Vec<u8>> },
    /// The test asks for the names of all topics and groups.
    Names(Sender<Vec<String>>),
    /// The broker stalls for this time, as if its process were stopped.
    Stall(Duration),
}

pub(super) struct Broker {
    /// The number of members of all groups.
    members: Arc<AtomicUsize>,
    pub(super) config: Config,
    port: u16,
    pub(super) now: Instant,
    pub(super) topics: Topics,
    pub(super) groups: BTreeMap<StrBytes, Group>,
    pub(super) transactions: Transactions,
}

/// A group of one kind at a time: at most one of `classic` and `consumer` has members.
#[derive(Default)]
pub(super) struct Group {
    pub(super) classic: Option<ClassicGroup>,
    pub(super) consumer: Option<ConsumerGroup>,
    pub(super) offsets: Offsets,
}

impl Group {
    fn members(&self) -> usize {
        let classic = self.classic.as_ref().map_or(0, ClassicGroup::len);
        classic + self.consumer.as_ref().map_or(0, ConsumerGroup::len)
    }
}

impl Broker {
    pub(super) fn new(config: Config, port: u16, members: Arc<AtomicUsize>) -> Self {
        let (topics, groups) = (Topics::default(), BTreeMap::new());
        let (now, transactions) = (Instant::now(), Transactions::default());
        Self { members, config, port, now, topics, groups, transactions }
    }

    /// Runs until all senders are dropped.
    pub(super) fn run(mut self, questions: &Receiver<Question>) {
        loop {
            let question = questions.recv_timeout(Duration::from_millis(10));
            self.now = Instant::now();
            self.expire();
            match question {
                // A request that can't be decoded gets no answer, so the connection closes.
                Ok(Question::Request { call, to }) => drop(self.answer(call, to)),
                Ok(Question::Names(to)) => drop(to.send(self.names())),
                Ok(Question::Stall(time)) => std::thread::sleep(time),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let members = self.groups.values().map(Group::members).sum();
            self.members.store(members, Ordering::Relaxed);
        }
    }

    fn names(&self) -> Vec<String> {
        self.topics.names().chain(self.groups.keys()).map(ToString::to_string).collect()
    }

    fn expire(&mut self) {
        self.answer_waiting();
        for group in self.groups.values_mut() {
            if let Some(classic) = &mut group.classic {
                classic.expire(self.now);
            }
            if let Some(consumer) = &mut group.consumer {
                consumer.expire(self.now);
                consumer.retarget(&self.topics);
            }
        }
    }

    fn answer(&mut self, call: Call, to: Sender<Vec<u8>>) -> io::Result<()> {
        let known = self.apis().iter().any(|known| {
            known.api_key == call.api as i16
                && (known.min_version..=known.max_version).contains(&call.version)
        });
        match call.api {
            ApiKey::ApiVersions => self.api_versions(call.reply(to), known),
            _ if !known => {}
            ApiKey::Metadata => self.metadata(call.parse(to)?),
            ApiKey::FindCoordinator => self.find_coordinator(call.parse(to)?),
            ApiKey::DescribeConfigs => self.describe_configs(call.parse(to)?),
            ApiKey::CreateTopics => self.create_topics(call.parse(to)?),
            ApiKey::CreatePartitions => self.create_partitions(call.parse(to)?),
            ApiKey::DeleteTopics => self.delete_topics(call.parse(to)?),
            ApiKey::JoinGroup => self.join_group(call.parse(to)?),
            ApiKey::SyncGroup => self.sync_group(call.parse(to)?),
            ApiKey::Heartbeat => self.heartbeat(call.parse(to)?),
            ApiKey::LeaveGroup => self.leave_group(call.parse(to)?),
            ApiKey::ConsumerGroupHeartbeat => self.consumer_group_heartbeat(call.parse(to)?),
            ApiKey::OffsetCommit => self.offset_commit(call.parse(to)?),
            ApiKey::OffsetFetch => self.offset_fetch(call.parse(to)?),
            ApiKey::DeleteGroups => self.delete_groups(call.parse(to)?),
            ApiKey::ListGroups => self.list_groups(call.parse(to)?),
            ApiKey::InitProducerId => self.init_producer_id(call.parse(to)?),
            ApiKey::AddPartitionsToTxn => self.add_partitions(call.parse(to)?),
            ApiKey::Produce => self.produce(call.parse(to)?),
            ApiKey::EndTxn => self.end_txn(call.parse(to)?),
            ApiKey::ListOffsets => self.list_offsets(call.parse(to)?),
            ApiKey::Fetch => self.read_records(call.parse(to)?),
            _ => {}
        }
        Ok(())
    }

    /// The error code that the broker's config sets for all answers of this API, or 0.
    pub(super) fn refusal(&self, api: ApiKey) -> i16 {
        self.config.refuses.filter(|(refused, _)| *refused == api).map_or(0, |(_, error)| error)
    }

    fn api_versions(&self, reply: Reply<ApiVersionsRequest>, known: bool) {
        let response = ApiVersionsResponse::default().with_api_keys(self.apis());
        if known {
            reply.send(response)
        } else {
            reply.send_as(0, response.with_error_code(UNSUPPORTED_VERSION))
        }
    }

    /// The supported versions of each API, from the number given here to the newest. Answers of
    /// earlier versions have a layout that this broker does not encode.
    fn apis(&self) -> Vec<ApiVersion> {
        let apis = [
            api::<ApiVersionsRequest>(0),
            api::<MetadataRequest>(9),
            api::<FindCoordinatorRequest>(4),
            api::<CreateTopicsRequest>(5),
            api::<CreatePartitionsRequest>(0),
            api::<DeleteTopicsRequest>(6),
            api::<JoinGroupRequest>(7),
            api::<SyncGroupRequest>(5),
            api::<HeartbeatRequest>(3),
            api::<LeaveGroupRequest>(3),
            api::<ConsumerGroupHeartbeatRequest>(0),
            api::<OffsetCommitRequest>(7),
            api::<OffsetFetchRequest>(8),
            api::<DeleteGroupsRequest>(0),
            api::<ListGroupsRequest>(4),
            api::<DescribeConfigsRequest>(1),
            api::<InitProducerIdRequest>(0),
            api::<AddPartitionsToTxnRequest>(0),
            api::<ProduceRequest>(3),
            api::<EndTxnRequest>(0),
            api::<ListOffsetsRequest>(2),
            api::<FetchRequest>(7),
            api::<SaslHandshakeRequest>(1),
            api::<SaslAuthenticateRequest>(1),
        ];
        let without =
            |api: &ApiVersion| !self.config.without.iter().any(|w| *w as i16 == api.api_key);
        apis.into_iter().filter(without).collect()
    }

    fn find_coordinator(
        &self,
        (request, reply): (FindCoordinatorRequest, Reply<FindCoordinatorRequest>),
    ) {
        let here = |key: &StrBytes| {
            Coordinator::default()
                .with_key(key.clone())
                .with_node_id(NODE)
                .with_host(self.host())
                .with_port(self.port())
        };
        let coordinators = request.coordinator_keys.iter().map(here).collect();
        reply.send(FindCoordinatorResponse::default().with_coordinators(coordinators));
    }

    fn list_groups(&self, (_, reply): (ListGroupsRequest, Reply<ListGroupsRequest>)) {
        let group = |(id, group): (&StrBytes, &Group)| {
            let state = if group.members() == 0 { "Empty" } else { "Stable" };
            ListedGroup::default()
                .with_group_id(id.clone().into())
                .with_group_state(StrBytes::from_static_str(state))
        };
        let groups = self.groups.iter().map(group).collect();
        reply.send(ListGroupsResponse::default().with_groups(groups));
    }

    /// Answers with those of the requested configs that this broker has: two timeouts.
    fn describe_configs(
        &self,
        (request, reply): (DescribeConfigsRequest, Reply<DescribeConfigsRequest>),
    ) {
        let own = [
            ("group.consumer.session.timeout.ms", self.config.session_timeout),
            ("group.consumer.heartbeat.interval.ms", self.config.heartbeat_interval),
        ];
        let described = request.resources.into_iter().map(|resource| {
            let keys = resource.configuration_keys.unwrap_or_default();
            let asked = own.iter().filter(|(name, _)| keys.iter().any(|key| key.as_str() == *name));
            let configs = asked.map(|(name, value)| {
                DescribeConfigsResourceResult::default()
                    .with_name(StrBytes::from_static_str(name))
                    .with_value(Some(value.as_millis().to_string().into()))
            });
            DescribeConfigsResult::default()
                .with_error_code(self.refusal(ApiKey::DescribeConfigs))
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name)
                .with_configs(configs.collect())
        });
        reply.send(DescribeConfigsResponse::default().with_results(described.collect()));
    }

    pub(super) fn host(&self) -> StrBytes {
        StrBytes::from_static_str("127.0.0.1")
    }

    pub(super) fn port(&self) -> i32 {
        self.port.into()
    }
}

fn api<R: Request>(min: i16) -> ApiVersion {
    ApiVersion::default()
        .with_api_key(R::KEY)
        .with_min_version(min)
        .with_max_version(<R as Message>::VERSIONS.max)
}
