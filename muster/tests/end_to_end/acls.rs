//! ACLs: the refusals of each API, the parts that are omitted from answers, and changes of ACLs.
//! Every shard applies a change as soon as it is answered, and still does so after a restart.

use crate::support::alice;
use crate::support::attacks::dense::{self, Form, Target};
use crate::support::rules::all_acls;
use crate::support::streams::{CHANGELOG, REPARTITION, StreamsMember, WORDS};
use crate::support::{Client, Server, batch, create_topic, topic_id};
use muster_codec::messages::*;
use muster_codec::{ApiKey, ErrorCode, Request, Response};
use std::collections::BTreeSet;
use std::path::Path;

const CONFIGS: [&str; 4] = [
    "group.initial.rebalance.delay.ms=0",
    "group.coordinator.rebalance.protocols=classic,consumer,streams",
    "group.streams.initial.rebalance.delay.ms=0",
    "auto.create.topics.enable=true",
];

const DENIED: i16 = ErrorCode::TopicAuthorizationFailed as i16;
const NONE: i16 = 0;

/// A server with two shards. Clients without a password may do everything, and the user alice may
/// do what ACLs allow.
struct Secured {
    server: Server,
    outside: u16,
}

impl Secured {
    fn start(data: &Path) -> Self {
        let (server, outside) = alice::start(data, 2, &CONFIGS);
        Self { server, outside }
    }

    fn admin(&self) -> Client {
        self.server.client(0)
    }

    /// A connection of alice to a shard.
    fn alice(&self, shard: u16) -> Client {
        let mut client = Client::connect(self.outside + shard);
        assert_eq!(alice::log_in(&mut client, "secret"), NONE);
        client
    }

    /// A connection of alice to the shard that coordinates this group.
    fn alice_of(&self, group: &str) -> Client {
        let coordinators = self.server.coordinators();
        self.alice(coordinators.shard(group).expect("a coordinator"))
    }

    /// Allows alice an operation on a resource. The operation is Kafka's number.
    fn allow(&self, of: i8, name: &'static str, operation: i8) {
        self.add(creation(of, name, operation));
    }

    fn add(&self, acl: AclCreation<'static>) {
        let request = CreateAclsRequest { creations: vec![acl] };
        let answer = self.admin().call(3, request.into());
        assert!(errors(&answer).is_empty(), "{answer:?}");
    }

    fn revoke(&self, of: i8, name: &'static str, operation: i8) {
        let filter = DeleteAclsFilter {
            resource_type_filter: of,
            resource_name_filter: Some(name.into()),
            principal_filter: None,
            host_filter: None,
            operation,
            permission_type: ALLOW,
            ..Default::default()
        };
        let request = DeleteAclsRequest { filters: vec![filter] };
        let Response::DeleteAcls(body) = self.admin().call(3, request.into()) else { panic!() };
        assert_eq!(body.filter_results[0].matching_acls.len(), 1, "{body:?}");
    }
}

const TOPIC: i8 = 2;
const GROUP: i8 = 3;
const READ: i8 = 3;
const WRITE: i8 = 4;
const DESCRIBE: i8 = 8;
const CREATE: i8 = 5;
const ALLOW: i8 = 3;
const PREFIXED: i8 = 4;

/// A status in the answers of a streams group.
const MISSING_INTERNAL_TOPICS: i8 = 3;

fn creation(resource_type: i8, name: &'static str, operation: i8) -> AclCreation<'static> {
    AclCreation {
        resource_type,
        resource_name: name.into(),
        principal: "User:alice".into(),
        host: "*".into(),
        operation,
        permission_type: ALLOW,
        ..Default::default()
    }
}

/// The distinct error codes in an answer.
fn errors(response: &Response<'_>) -> Vec<i16> {
    let mut errors = BTreeSet::new();
    response.errors(&mut |code| {
        errors.insert(code);
    });
    errors.into_iter().collect()
}

/// The error of each API for a client without ACLs. `None` for an API that is not refused.
fn denial_of(api: ApiKey) -> Option<ErrorCode> {
    use ErrorCode::{
        ClusterAuthorizationFailed as OnCluster, DelegationTokenAuthDisabled as Disabled,
        GroupAuthorizationFailed as OnGroup, TopicAuthorizationFailed as OnTopic,
        TransactionalIdAuthorizationFailed as OnId,
    };
    match api {
        ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate => None,
        ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry => None,
        // These APIs are not refused. They return only what the client may see.
        ApiKey::DescribeCluster | ApiKey::ListGroups | ApiKey::ListTransactions => None,
        ApiKey::Produce | ApiKey::Fetch | ApiKey::ListOffsets | ApiKey::DeleteRecords => {
            Some(OnTopic)
        }
        ApiKey::OffsetForLeaderEpoch | ApiKey::DescribeProducers | ApiKey::Metadata => {
            Some(OnTopic)
        }
        ApiKey::CreateTopics | ApiKey::DeleteTopics | ApiKey::CreatePartitions => Some(OnTopic),
        ApiKey::DescribeTopicPartitions => Some(OnTopic),
        ApiKey::DescribeConfigs | ApiKey::AlterConfigs | ApiKey::IncrementalAlterConfigs => {
            Some(OnGroup)
        }
        ApiKey::OffsetCommit | ApiKey::OffsetFetch | ApiKey::OffsetDelete => Some(OnGroup),
        ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Heartbeat | ApiKey::LeaveGroup => {
            Some(OnGroup)
        }
        ApiKey::DescribeGroups | ApiKey::DeleteGroups | ApiKey::FindCoordinator => Some(OnGroup),
        ApiKey::ConsumerGroupHeartbeat | ApiKey::ConsumerGroupDescribe => Some(OnGroup),
        ApiKey::ShareGroupHeartbeat | ApiKey::ShareGroupDescribe => Some(OnGroup),
        ApiKey::StreamsGroupHeartbeat
        | ApiKey::StreamsGroupDescribe
        | ApiKey::StreamsGroupTopologyDescriptionUpdate => Some(OnGroup),
        ApiKey::ShareFetch | ApiKey::ShareAcknowledge => Some(OnGroup),
        ApiKey::InitializeShareGroupState
        | ApiKey::ReadShareGroupState
        | ApiKey::WriteShareGroupState
        | ApiKey::DeleteShareGroupState
        | ApiKey::ReadShareGroupStateSummary => Some(OnCluster),
        ApiKey::DescribeShareGroupOffsets
        | ApiKey::AlterShareGroupOffsets
        | ApiKey::DeleteShareGroupOffsets => Some(OnGroup),
        ApiKey::AddOffsetsToTxn | ApiKey::EndTxn | ApiKey::TxnOffsetCommit => Some(OnId),
        ApiKey::DescribeTransactions => Some(OnId),
        ApiKey::AddPartitionsToTxn | ApiKey::WriteTxnMarkers | ApiKey::InitProducerId => {
            Some(OnCluster)
        }
        ApiKey::DescribeAcls | ApiKey::CreateAcls | ApiKey::DeleteAcls => Some(OnCluster),
        ApiKey::DescribeLogDirs | ApiKey::AlterReplicaLogDirs => Some(OnCluster),
        ApiKey::ListPartitionReassignments | ApiKey::AlterPartitionReassignments => Some(OnCluster),
        ApiKey::ElectLeaders | ApiKey::DescribeQuorum | ApiKey::UpdateFeatures => Some(OnCluster),
        ApiKey::AlterClientQuotas | ApiKey::DescribeClientQuotas => Some(OnCluster),
        ApiKey::ListConfigResources | ApiKey::UnregisterBroker => Some(OnCluster),
        ApiKey::UnregisterController => Some(OnCluster),
        ApiKey::CreateDelegationToken => Some(ErrorCode::DelegationTokenAuthorizationFailed),
        ApiKey::RenewDelegationToken
        | ApiKey::ExpireDelegationToken
        | ApiKey::DescribeDelegationToken => Some(Disabled),
        ApiKey::AlterUserScramCredentials | ApiKey::DescribeUserScramCredentials => Some(OnCluster),
    }
}

#[test]
fn a_client_without_acls_is_denied_every_api() {
    let data = tempfile::tempdir().unwrap();
    let secured = Secured::start(data.path());
    create_topic(&secured.server, "t", 4);
    let target = Target {
        group: "g".into(),
        classic: "g".into(),
        consumer: "g".into(),
        topic: "t".into(),
        topic_id: topic_id(&mut secured.admin(), "t"),
        partitions: 4,
    };
    for api in ApiKey::ALL {
        // Later versions of SyncGroup have a protocol. The request lacks it, and would be refused
        // for this instead.
        let newest = *api.versions().end();
        let version = if *api == ApiKey::SyncGroup { 4 } else { newest };
        let request = dense::request(*api, Form::Repeated(1), &target);
        // Every client may send these requests.
        let is_open =
            matches!(api, ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate);
        let answer = secured.alice(0).call(version, request);
        let expected = denial_of(*api).map(ErrorCode::code);
        if !is_open {
            assert_eq!(errors(&answer), expected.into_iter().collect::<Vec<_>>(), "{answer:?}");
        }
    }
    secured.server.says(
        "WARN denied principal=User:alice client=test host=/127.0.0.1 api=\"Produce\" \
         operation=Write resource=Topic name=t",
    );
}

fn produce(client: &mut Client, acks: i16, topics: &[&'static str]) -> Option<Vec<(String, i16)>> {
    let data = |name: &&'static str| TopicProduceData {
        name: (*name).into(),
        partition_data: vec![PartitionProduceData {
            index: 0,
            records: Some(batch(b"value").into()),
        }],
        ..Default::default()
    };
    let topic_data = topics.iter().map(data).collect();
    let request = ProduceRequest { acks, timeout_ms: 1_000, topic_data, ..Default::default() };
    let Response::Produce(body) = client.try_call(9, request.into())? else { panic!() };
    let mut results: Vec<_> = body
        .responses
        .into_iter()
        .map(|it| (it.name.into_owned(), it.partition_responses[0].error_code))
        .collect();
    results.sort();
    Some(results)
}

/// The leader of the only partition of a topic.
fn leader(client: &mut Client, topic: &'static str) -> u16 {
    let topics = vec![MetadataRequestTopic { name: Some(topic.into()), ..Default::default() }];
    let request = MetadataRequest { topics: Some(topics), ..Default::default() };
    let Response::Metadata(body) = client.call(9, request.into()) else { panic!() };
    body.topics[0].partitions[0].leader_id as u16
}

#[test]
fn the_denied_parts_of_a_request_are_refused_and_the_others_done() {
    let data = tempfile::tempdir().unwrap();
    let secured = Secured::start(data.path());
    let admin = &mut secured.admin();
    // With two shards, two of the three topics have the same leader.
    let topics = ["a", "b", "c"];
    topics.iter().for_each(|name| create_topic(&secured.server, name, 1));
    let [first, second] = [0, 1, 2]
        .iter()
        .flat_map(|one| [0, 1, 2].map(|other| [topics[*one], topics[other]]))
        .find(|[one, other]| one != other && leader(admin, one) == leader(admin, other))
        .unwrap();
    let shard = leader(admin, first);
    secured.allow(TOPIC, first, WRITE);
    let mut alice = secured.alice(shard);
    let mut expected = vec![(first.to_owned(), NONE), (second.to_owned(), DENIED)];
    expected.sort();
    assert_eq!(produce(&mut alice, 1, &[second, first]), Some(expected));
    assert_eq!(produce(&mut alice, 0, &[second, first]), None, "no answer could say so");
    secured.server.says("a produce with acks=0 was denied");
    let mut alice = secured.alice(shard);
    let partitions = || vec![FetchPartition { partition_max_bytes: 1_000, ..Default::default() }];
    let topic = |name: &'static str| FetchTopic {
        topic: name.into(),
        partitions: partitions(),
        ..Default::default()
    };
    let topics = vec![topic(second), topic(first)];
    let request = || FetchRequest { topics: topics.clone(), min_bytes: 1, ..Default::default() };
    assert_eq!(errors(&alice.call(12, request().into())), [DENIED], "to write is not to read");
    secured.allow(TOPIC, first, READ);
    let Response::Fetch(body) = alice.call(12, request().into()) else { panic!() };
    let facts = |it: &FetchableTopicResponse<'_>| {
        let partition = &it.partitions[0];
        let is_empty = partition.records.as_ref().is_none_or(|records| records.is_empty());
        (it.topic.to_string(), partition.error_code, is_empty)
    };
    let facts: Vec<_> = body.responses.iter().map(facts).collect();
    let expected = [(first.to_owned(), NONE, false), (second.to_owned(), DENIED, true)];
    assert_eq!(facts, expected, "what is denied comes last, as in Kafka");
}

#[test]
fn a_change_holds_on_every_shard_once_it_is_answered() {
    let data = tempfile::tempdir().unwrap();
    let secured = Secured::start(data.path());
    let groups = ["g0", "g1", "g2", "g3", "g4", "g5"];
    let mut clients: Vec<_> = groups.iter().map(|group| secured.alice_of(group)).collect();
    let mut heartbeats = || {
        let of = |(client, group): (&mut Client, &&'static str)| {
            let group_id = (*group).into();
            errors(&client.call(4, HeartbeatRequest { group_id, ..Default::default() }.into()))
        };
        clients.iter_mut().zip(&groups).flat_map(of).collect::<BTreeSet<_>>()
    };
    let denied = BTreeSet::from([ErrorCode::GroupAuthorizationFailed.code()]);
    let unknown = BTreeSet::from([ErrorCode::UnknownMemberId.code()]);
    for _ in 0..50 {
        assert_eq!(heartbeats(), denied);
        secured.allow(GROUP, "*", READ);
        assert_eq!(heartbeats(), unknown);
        secured.revoke(GROUP, "*", READ);
    }
}

fn described_topics(client: &mut Client) -> Vec<(String, i32)> {
    let request = MetadataRequest {
        topics: None,
        include_topic_authorized_operations: true,
        ..Default::default()
    };
    let Response::Metadata(body) = client.call(12, request.into()) else { panic!() };
    let name = |it: MetadataResponseTopic<'_>| {
        (it.name.unwrap_or_default().into_owned(), it.topic_authorized_operations)
    };
    body.topics.into_iter().map(name).collect()
}

#[test]
fn lists_leave_out_what_may_not_be_described() {
    let data = tempfile::tempdir().unwrap();
    let secured = Secured::start(data.path());
    ["a", "b", "c"].iter().for_each(|name| create_topic(&secured.server, name, 1));
    secured.allow(TOPIC, "b", READ);
    let mut alice = secured.alice(0);
    assert_eq!(described_topics(&mut alice), [("b".to_owned(), 1 << READ | 1 << DESCRIBE)]);
    let request = DescribeTopicPartitionsRequest::default();
    let Response::DescribeTopicPartitions(body) = alice.call(0, request.into()) else { panic!() };
    let names: Vec<_> = body.topics.iter().map(|it| it.name.as_deref().unwrap()).collect();
    assert_eq!((names, body.next_cursor), (vec!["b"], None));
    let by_id = MetadataRequestTopic {
        topic_id: topic_id(&mut secured.admin(), "a"),
        ..Default::default()
    };
    let request = MetadataRequest { topics: Some(vec![by_id]), ..Default::default() };
    let Response::Metadata(body) = alice.call(12, request.into()) else { panic!() };
    assert_eq!((body.topics[0].error_code, &body.topics[0].name), (DENIED, &None));
    let named = MetadataRequestTopic { name: Some("new".into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![named]), ..Default::default() };
    assert_eq!(errors(&alice.call(12, request.clone().into())), [DENIED]);
    secured.allow(TOPIC, "new", DESCRIBE);
    assert_eq!(errors(&alice.call(12, request.into())), [DENIED], "it may not be created");
    let names: Vec<_> = described_topics(&mut secured.admin()).into_iter().map(|it| it.0).collect();
    assert!(!names.contains(&"new".to_owned()), "{names:?}");
}

#[test]
fn internal_topics_of_a_streams_group_are_created_for_clients_that_may() {
    let data = tempfile::tempdir().unwrap();
    let secured = Secured::start(data.path());
    create_topic(&secured.server, WORDS, 1);
    let mut member = StreamsMember::new(secured.alice_of("wc"), "wc", "m");
    let denied = |member: &mut StreamsMember| member.ask().error_code;
    assert_eq!(denied(&mut member), ErrorCode::GroupAuthorizationFailed.code());
    secured.allow(GROUP, "wc", READ);
    assert_eq!(denied(&mut member), DENIED);
    secured.allow(TOPIC, "*", DESCRIBE);
    let detail = |member: &mut StreamsMember| {
        member.beat();
        let detail = member.statuses.iter().find(|(code, _)| *code == MISSING_INTERNAL_TOPICS);
        detail.map(|(_, detail)| detail.clone()).unwrap_or_default()
    };
    let unauthorized = format!("; Unauthorized to CREATE on topics {CHANGELOG}.");
    secured.allow(TOPIC, REPARTITION, CREATE);
    for _ in 0..3 {
        let detail = detail(&mut member);
        assert!(detail.ends_with(&unauthorized), "{detail}: not even one of them is created");
    }
    secured
        .server
        .says("api=\"StreamsGroupHeartbeat\" operation=Create resource=Topic name=wc-counts");
    secured.add(AclCreation { resource_pattern_type: PREFIXED, ..creation(TOPIC, "wc-", CREATE) });
    let has_tasks = |them: &[StreamsMember]| them[0].active.len() == 2;
    StreamsMember::beat_until(&mut [member], "there are tasks", has_tasks);
}

#[test]
fn acls_outlive_the_server() {
    let data = tempfile::tempdir().unwrap();
    let mut secured = Secured::start(data.path());
    secured.allow(TOPIC, "kept", READ);
    secured.allow(TOPIC, "gone", READ);
    secured.revoke(TOPIC, "gone", READ);
    secured.server.kill();
    drop(secured);
    let secured = Secured::start(data.path());
    let request = all_acls();
    let Response::DescribeAcls(body) = secured.admin().call(3, request.into()) else { panic!() };
    let [resource] = &body.resources[..] else { panic!("{body:?}") };
    assert_eq!((&*resource.resource_name, resource.acls.len()), ("kept", 1));
    let request = CreateAclsRequest {
        creations: vec![
            AclCreation { resource_type: 4, ..creation(TOPIC, "t", READ) },
            creation(TOPIC, "", READ),
            AclCreation { principal: "alice".into(), ..creation(TOPIC, "t", READ) },
            AclCreation { resource_type: 1, ..creation(TOPIC, "t", READ) },
            creation(TOPIC, "kept", READ),
        ],
    };
    let Response::CreateAcls(body) = secured.admin().call(3, request.into()) else { panic!() };
    let codes: Vec<_> = body.results.iter().map(|it| it.error_code).collect();
    let invalid = ErrorCode::InvalidRequest.code();
    assert_eq!(codes, [invalid, invalid, invalid, invalid, NONE]);
}

#[test]
fn without_an_authorizer_there_are_no_acls() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), 1, &[]);
    let disabled = ErrorCode::SecurityDisabled.code();
    let creations = vec![creation(TOPIC, "t", READ)];
    let requests = [
        Request::from(CreateAclsRequest { creations }),
        DeleteAclsRequest { filters: vec![DeleteAclsFilter::default()] }.into(),
        DescribeAclsRequest::default().into(),
    ];
    for request in requests {
        assert_eq!(errors(&server.client(0).call(3, request)), [disabled]);
    }
}
