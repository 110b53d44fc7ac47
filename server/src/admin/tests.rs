//! Requests for the cluster's metadata, with the expected answers of Kafka 4.3.

mod describe_configs;
mod moves;
mod offline;
mod tokens;

use super::*;
use crate::cluster::{Brokers, ClusterImage, OFFSETS_TOPIC, OfflinePartitions};
use crate::config::Config;
use crate::placement::Placement;
use crate::topics::InternalTopic;
use ErrorCode::{
    InvalidRequest, InvalidTopicException, MismatchedEndpointType, UnknownServerError,
    UnknownTopicId, UnknownTopicOrPartition, UnsupportedEndpointType,
};
use muster_codec::messages::*;
use muster_codec::records::{ClusterRecord, ConfigKey, ConfigValue, TopicKey, TopicValue};
use muster_codec::{ApiKey, ErrorCode, Str, Uuid};

const T1: Uuid = Uuid([1; 16]);
const UNKNOWN: Uuid = Uuid([9; 16]);
const NO_ID: Uuid = Uuid::ZERO;

/// A cluster of two shards with the topics t1 (three partitions) and x.y (one).
struct Cluster {
    image: ClusterImage,
    offline: OfflinePartitions,
    config: Config,
    endpoints: Vec<Endpoint>,
}

impl Cluster {
    fn new(words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let config = Config::load("", &words).unwrap();
        let mut image = ClusterImage::new(&config);
        for (id, name, partitions) in [(T1, "t1", 3), (Uuid([2; 16]), "x.y", 1)] {
            let value = TopicValue { name: name.into(), partitions, ..Default::default() };
            image.apply(&ClusterRecord::Topic(TopicKey { topic_id: id }, Some(value)));
        }
        let endpoint = |port| Endpoint { host: "h".to_owned(), port };
        Self {
            image,
            offline: OfflinePartitions::default(),
            config,
            endpoints: [9092, 9093].map(endpoint).to_vec(),
        }
    }

    fn view(&self) -> View<'_> {
        View {
            image: &self.image,
            offline: &self.offline,
            config: &self.config,
            placement: Placement::of_equal(2, 50),
            brokers: Brokers::alone(&self.endpoints),
            shard: 0,
            cluster_id: "cluster",
        }
    }

    fn set(&mut self, resource_type: i8, resource: &str, name: &str, value: &str) {
        let key = ConfigKey { resource_type, resource_name: resource.into(), name: name.into() };
        let value = ConfigValue { value: value.into() };
        self.image.apply(&ClusterRecord::Config(key, Some(value)));
    }
}

fn asked(topics: &[(Option<&'static str>, Uuid)]) -> MetadataRequest<'static> {
    let topic = |(name, topic_id): &(Option<&'static str>, Uuid)| MetadataRequestTopic {
        name: name.map(Str::Borrowed),
        topic_id: *topic_id,
    };
    MetadataRequest { topics: Some(topics.iter().map(topic).collect()), ..Default::default() }
}

/// Name and error of each topic of an answer.
fn answered(response: &MetadataResponse<'_>) -> Vec<(Option<String>, ErrorCode)> {
    let topics = response.topics.iter();
    topics.map(|topic| (topic.name.clone().map(Str::into_owned), code(topic.error_code))).collect()
}

fn code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap()
}

#[test]
fn all_topics_are_asked_for_with_an_empty_list_at_first_and_with_null_later() {
    let cluster = Cluster::new(&[]);
    let all = MetadataRequest { topics: None, ..Default::default() };
    for (version, request, topics) in [(0, &asked(&[]), 5), (1, &asked(&[]), 0), (1, &all, 5)] {
        let (response, to_create) = metadata(&cluster.view(), version, request);
        assert_eq!((response.topics.len(), to_create.len()), (topics, 0));
    }
}

#[test]
fn shards_are_brokers_and_lead_partitions() {
    let cluster = Cluster::new(&[]);
    let request = asked(&[(Some("t1"), NO_ID), (Some(OFFSETS_TOPIC), NO_ID)]);
    let (response, _) = metadata(&cluster.view(), 9, &request);
    let brokers: Vec<_> = response.brokers.iter().map(|b| (b.node_id, &*b.host, b.port)).collect();
    assert_eq!(brokers, [(0, "h", 9092), (1, "h", 9093)]);
    assert_eq!((response.controller_id, response.cluster_id.as_deref()), (0, Some("cluster")));
    assert_eq!(response.cluster_authorized_operations, i32::MIN);
    let [offsets, t1] = &response.topics[..] else { panic!("{:?}", response.topics) };
    assert!(offsets.is_internal && !t1.is_internal);
    assert_eq!((offsets.topic_id, t1.topic_id), (InternalTopic::ConsumerOffsets.id(), T1));
    let leaders = |topic: &MetadataResponseTopic<'_>| -> Vec<i32> {
        topic.partitions.iter().map(|partition| partition.leader_id).collect()
    };
    assert_eq!(leaders(offsets)[..4], [0, 1, 0, 1]);
    assert_eq!(leaders(t1), [0, 1, 0]);
    let partition = &t1.partitions[1];
    assert_eq!((partition.leader_epoch, &partition.replica_nodes[..]), (0, &[1][..]));
    assert_eq!(partition.isr_nodes, [1]);
}

#[test]
fn operations_are_included_on_request() {
    let cluster = Cluster::new(&[]);
    let request = MetadataRequest {
        include_cluster_authorized_operations: true,
        include_topic_authorized_operations: true,
        ..asked(&[(Some("t1"), NO_ID)])
    };
    let (response, _) = metadata(&cluster.view(), 9, &request);
    assert_eq!(response.cluster_authorized_operations, 8096);
    assert_eq!(response.topics[0].topic_authorized_operations, 3576);
}

#[test]
fn unknown_topics_are_created_if_client_and_server_want_it() {
    let named = |name| (Some(name), NO_ID);
    let names = [named("nope"), named("a b"), named(""), named("t1"), named("t1"), named("nope")];
    let also = [named("__cluster_metadata")];
    let request = asked(&[&names[..], &also].concat());
    let refusing = MetadataRequest { allow_auto_topic_creation: false, ..request.clone() };
    let on = Cluster::new(&[]);
    let off = Cluster::new(&["auto.create.topics.enable=false"]);
    for (cluster, request, created) in
        [(&on, &request, 1), (&on, &refusing, 0), (&off, &request, 0)]
    {
        let (response, to_create) = metadata(&cluster.view(), 4, request);
        assert_eq!(to_create, ["nope".to_owned()][..created]);
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(
            answered(&response),
            [
                (name(""), InvalidTopicException),
                (name("__cluster_metadata"), UnknownTopicOrPartition),
                (name("a b"), InvalidTopicException),
                (name("nope"), UnknownTopicOrPartition),
                (name("t1"), ErrorCode::None),
            ]
        );
        assert!(response.topics[1].is_internal);
    }
}

#[test]
fn topics_are_found_by_id_from_version_12_on() {
    let cluster = Cluster::new(&[]);
    let name = |name: &str| Some(name.to_owned());
    let cases = [
        (12, asked(&[(None, T1)]), vec![(name("t1"), ErrorCode::None)]),
        (12, asked(&[(None, UNKNOWN)]), vec![(None, UnknownTopicId)]),
        (12, asked(&[(None, UNKNOWN), (Some("t1"), NO_ID)]), vec![(None, UnknownTopicId)]),
        (12, asked(&[(Some("t1"), UNKNOWN)]), vec![(None, UnknownTopicId)]),
        (12, asked(&[(None, NO_ID)]), vec![(name(""), UnknownServerError)]),
        (12, asked(&[(None, UNKNOWN), (None, NO_ID)]), vec![(None, UnknownTopicId)]),
        (10, asked(&[(Some("t1"), T1)]), vec![(name("t1"), InvalidRequest)]),
        (10, asked(&[(None, NO_ID)]), vec![(name(""), InvalidRequest)]),
    ];
    for (version, request, topics) in cases {
        let (response, to_create) = metadata(&cluster.view(), version, &request);
        assert_eq!((answered(&response), to_create.len()), (topics, 0));
        let refused =
            [InvalidRequest, UnknownServerError].contains(&code(response.topics[0].error_code));
        assert_eq!((response.brokers.is_empty(), response.error_code != 0), (refused, refused));
    }
}

#[test]
fn the_cluster_is_described() {
    let cluster = Cluster::new(&[]);
    let request = |endpoint_type| DescribeClusterRequest {
        include_cluster_authorized_operations: true,
        endpoint_type,
        ..Default::default()
    };
    let response = describe_cluster(&cluster.view(), &request(1));
    assert_eq!((response.error_code, &*response.cluster_id), (0, "cluster"));
    assert_eq!((response.controller_id, response.brokers.len()), (0, 2));
    assert_eq!(response.cluster_authorized_operations, 8096);
    let refusals = [
        (
            2,
            MismatchedEndpointType,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type \
             CONTROLLER",
        ),
        (7, UnsupportedEndpointType, "Unsupported endpoint type 7"),
    ];
    for (endpoint_type, error, words) in refusals {
        let response = describe_cluster(&cluster.view(), &request(endpoint_type));
        assert_eq!(
            (code(response.error_code), response.error_message.as_deref()),
            (error, Some(words))
        );
        assert_eq!((&*response.cluster_id, response.controller_id), ("", -1));
    }
}

type Page<'a> = (&'a [&'static str], i32, Option<(&'static str, i32)>);

/// One page as text: each topic with its error or its partitions, then the cursor.
fn page(cluster: &Cluster, (topics, limit, cursor): Page<'_>) -> String {
    let request = DescribeTopicPartitionsRequest {
        topics: topics.iter().map(|name| TopicRequest { name: (*name).into() }).collect(),
        response_partition_limit: limit,
        cursor: cursor
            .map(|(name, index)| Cursor { topic_name: name.into(), partition_index: index }),
    };
    let response = describe_topic_partitions(&cluster.view(), &request);
    let mut text = String::new();
    for topic in &response.topics {
        text += topic.name.as_deref().unwrap();
        match code(topic.error_code) {
            ErrorCode::None => {
                let indices = topic.partitions.iter().map(|partition| partition.partition_index);
                text += &format!("{:?} ", indices.collect::<Vec<_>>());
            }
            error => text += &format!("({error:?}) "),
        }
    }
    response.next_cursor.map_or(text.clone(), |cursor| {
        format!("{text}-> {} {}", cursor.topic_name, cursor.partition_index)
    })
}

#[test]
fn partitions_are_described_a_page_at_a_time() {
    let cluster = Cluster::new(&[
        "offsets.topic.num.partitions=2",
        "share.coordinator.state.topic.num.partitions=2",
        "transaction.state.log.num.partitions=2",
    ]);
    let cases: &[(Page<'_>, &str)] = &[
        (
            (&[], 2000, None),
            "__consumer_offsets[0, 1] __share_group_state[0, 1] __transaction_state[0, 1] \
             t1[0, 1, 2] x.y[0] ",
        ),
        ((&[], 2, None), "__consumer_offsets[0, 1] -> __share_group_state 0"),
        ((&[], 2, Some(("t1", 1))), "t1[1, 2] -> x.y 0"),
        ((&[], 10, Some(("zzz", 9))), ""),
        (
            (&["t1", "nope", "a b"], 2, None),
            "a b(InvalidTopicException) nope(UnknownTopicOrPartition) t1[0, 1] -> t1 2",
        ),
        ((&["x.y", "t1", "t1"], 2000, None), "t1[0, 1, 2] x.y[0] "),
        ((&["t1"], 2000, Some(("zzz", 0))), "t1(InvalidRequest) "),
        ((&["t1"], 2000, Some(("t1", -1))), "t1(InvalidRequest) "),
        ((&["t1", ""], 2000, None), "t1(UnknownServerError) (UnknownServerError) "),
        ((&["t1"], 0, None), "t1[0] -> t1 1"),
        ((&["t1"], -1, None), "t1[0] -> t1 1"),
        ((&["t1"], 10, Some(("t1", 9))), "t1[] "),
        ((&["t1"], i32::MAX, Some(("t1", i32::MAX))), "t1[] "),
    ];
    for (asked, answer) in cases {
        assert_eq!(page(&cluster, *asked), *answer, "{asked:?}");
    }
    let cluster = Cluster::new(&["max.request.partition.size.limit=1"]);
    assert_eq!(page(&cluster, (&["t1"], 2000, None)), "t1[0] -> t1 1");
}

#[test]
fn a_group_has_the_shard_of_its_offsets_partition() {
    let cluster = Cluster::new(&[]);
    let view = cluster.view();
    let request = FindCoordinatorRequest { key: "g".into(), ..Default::default() };
    let response = find_coordinator(&view, 1, &request);
    let shard = view.placement.group_shard("g") as i32;
    assert_eq!((response.node_id, response.port), (shard, 9092 + shard));
    assert_eq!((response.error_code, response.error_message.as_deref()), (0, Some("NONE")));

    let coordinator_keys = vec!["a".into(), "".into(), "a".into()];
    let request = FindCoordinatorRequest { coordinator_keys, ..Default::default() };
    let response = find_coordinator(&view, 4, &request);
    let found = response.coordinators.iter();
    let found: Vec<_> = found.map(|c| (&*c.key, c.node_id, c.error_message.as_deref())).collect();
    let node = |key| view.placement.group_shard(key) as i32;
    let answer = |key| (key, node(key), Some(""));
    assert_eq!(found, [answer("a"), answer(""), answer("a")]);
}

#[test]
fn the_coordinator_of_a_transactional_id_is_found_by_its_hash() {
    let cluster = Cluster::new(&[]);
    let view = cluster.view();
    let coordinator_keys = ["a", "b", ""].map(Into::into).to_vec();
    let request = FindCoordinatorRequest { key: "".into(), key_type: 1, coordinator_keys };
    let response = find_coordinator(&view, 4, &request);
    for found in &response.coordinators {
        let shard = view.placement.id_shard(&found.key);
        assert_eq!((found.error_code, found.node_id), (0, shard as i32));
    }
    assert_eq!(response.coordinators.len(), 3);
}

#[test]
fn coordinators_of_other_types_are_refused_with_a_final_error() {
    let cluster = Cluster::new(&[]);
    let kinds = [
        (2, InvalidRequest, "A share partition key is"),
        (-1, InvalidRequest, "This most likely occurs because of"),
    ];
    for (key_type, error, words) in kinds {
        let coordinator_keys = vec!["a".into()];
        let request = FindCoordinatorRequest { key: "a".into(), key_type, coordinator_keys };
        let many = find_coordinator(&cluster.view(), 6, &request);
        let Coordinator { error_code, node_id, port, error_message, .. } = &many.coordinators[0];
        assert_eq!((code(*error_code), *node_id, *port), (error, -1, -1));
        assert!(error_message.as_deref().unwrap().starts_with(words));
        let one = find_coordinator(&cluster.view(), 3, &request);
        assert_eq!(one.error_code, *error_code);
        assert_eq!((one.node_id, one.port), (-1, -1));
    }
}

#[test]
fn versions_are_answered_to_clients_with_a_valid_software_name() {
    let cases = [
        ("ab", true),
        ("a-b.c", true),
        ("x", true),
        ("", false),
        ("-a", false),
        ("a.", false),
        ("a b", false),
    ];
    let cluster = Cluster::new(&[]);
    for (software, served) in cases {
        let request = ApiVersionsRequest {
            client_software_name: software.into(),
            client_software_version: "1".into(),
            ..Default::default()
        };
        let response = api_versions(&cluster.view(), 3, &request);
        let error = if served { ErrorCode::None } else { InvalidRequest };
        assert_eq!(code(response.error_code), error, "{software}");
        let all = ApiKey::ALL.iter().filter(|api| Config::default().serves(**api));
        let apis = if served { all.count() } else { 0 };
        assert_eq!(response.api_keys.len(), apis);
        assert_eq!(api_versions(&cluster.view(), 2, &request).error_code, 0);
    }
    let produce = api_version(ApiKey::Produce);
    assert_eq!((produce.api_key, produce.min_version, produce.max_version), (0, 0, 13));
}

#[test]
fn a_client_that_means_another_node_is_to_look_the_nodes_up_again() {
    let cluster = Cluster::new(&[]);
    let cases = [
        (None, -1, "a", ErrorCode::None),
        (Some("cluster"), 0, "a", ErrorCode::None),
        (Some("other"), 0, "a", ErrorCode::RebootstrapRequired),
        (Some("cluster"), 1, "a", ErrorCode::RebootstrapRequired),
        (Some("cluster"), -2, "a", ErrorCode::RebootstrapRequired),
        (Some(""), 0, "a", ErrorCode::RebootstrapRequired),
        (None, 0, "a", InvalidRequest),
        (Some("cluster"), -1, "a", InvalidRequest),
        (Some("other"), 0, "-", InvalidRequest),
    ];
    for (cluster_id, node_id, software, error) in cases {
        let request = ApiVersionsRequest {
            client_software_name: software.into(),
            client_software_version: "1".into(),
            cluster_id: cluster_id.map(Into::into),
            node_id,
        };
        let response = api_versions(&cluster.view(), 5, &request);
        assert_eq!(code(response.error_code), error, "{request:?}");
        assert_eq!(response.api_keys.is_empty(), error != ErrorCode::None);
    }
}

#[test]
fn config_resources_are_listed_by_type() {
    let mut cluster = Cluster::new(&[]);
    cluster.set(32, "g", "consumer.session.timeout.ms", "50000");
    cluster.set(16, "m", "interval.ms", "1000");
    let view = cluster.view();
    let list = |version, types: &[i8]| {
        let request = ListConfigResourcesRequest { resource_types: types.to_vec() };
        let response = list_config_resources(&view, version, &request);
        let resources = response.config_resources.iter();
        let names = resources.map(|r| format!("{}:{}", r.resource_type, r.resource_name));
        (response.error_code, names.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(list(1, &[32]), (0, "32:g".to_owned()));
    assert_eq!(list(1, &[16, 4]), (0, "16:m 4:0 4:1".to_owned()));
    let all = "32:g 16:m 8:0 8:1 4:0 4:1 2:__consumer_offsets 2:__share_group_state \
               2:__transaction_state 2:t1 2:x.y";
    assert_eq!(list(1, &[]), (0, all.to_owned()));
    assert_eq!(list(0, &[]), (0, "16:m".to_owned()));
    assert_eq!(list(1, &[3]), (ErrorCode::UnsupportedVersion.code(), String::new()));
}

#[test]
fn consumer_groups_and_transactions_are_finalized_features() {
    let cluster = Cluster::new(&[]);
    let features = |version| {
        let response = api_versions(
            &cluster.view(),
            version,
            &ApiVersionsRequest {
                client_software_name: "x".into(),
                client_software_version: "1".into(),
                ..Default::default()
            },
        );
        let supported = response.supported_features.iter();
        let supported: Vec<_> =
            supported.map(|f| format!("{} {}-{}", f.name, f.min_version, f.max_version)).collect();
        let finalized = response.finalized_features.iter();
        let finalized: Vec<_> =
            finalized.map(|f| format!("{} {}", f.name, f.max_version_level)).collect();
        (supported, finalized)
    };
    let (supported, finalized) = features(4);
    assert_eq!(
        supported,
        [
            "group.version 0-1",
            "share.version 0-2",
            "streams.version 0-1",
            "transaction.version 0-2",
        ]
    );
    assert_eq!(
        finalized,
        ["group.version 1", "streams.version 1", "transaction.version 2", "share.version 2",]
    );
    // Older clients cannot decode a minimum level of 0.
    assert_eq!(features(3), (vec![], finalized));
}

#[test]
fn the_coordinator_of_a_share_partition_is_the_leader_of_the_partition() {
    let cluster = Cluster::new(&[]);
    let view = cluster.view();
    let topic = view.image.topics().next().unwrap();
    let ask = |key: String, version| {
        let coordinator_keys = vec![key.into()];
        let request = FindCoordinatorRequest { key_type: 2, coordinator_keys, key: "".into() };
        let found = find_coordinator(&view, version, &request).coordinators.remove(0);
        (found.error_code, found.node_id)
    };
    let leader = crate::cluster::leader(topic, 0, view.placement);
    assert_eq!(ask(format!("group:with:colons:{}:0", topic.id), 6), (0, leader as i32));
    let invalid = (InvalidRequest.code(), -1);
    assert_eq!(ask(format!("g:{}:0", topic.id), 5), invalid, "before version 6");
    for key in ["g:t:0".to_owned(), format!("g:{}:-1", topic.id), format!(":{}:0", topic.id)] {
        assert_eq!(ask(key.clone(), 6), invalid, "{key}");
    }
}
