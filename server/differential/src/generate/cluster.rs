//! Requests about configs, and descriptions of the cluster.

use super::topics::config_of_topic;
use crate::world::World;
use muster_codec::messages::*;
use muster_codec::{Request, Str};
use std::collections::HashSet;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

const SUBSCRIPTION_CONFIGS: &[(&str, &[&str])] = &[
    ("interval.ms", &["1000", "1", "3600001", "x"]),
    ("metrics", &["*", "org.apache.kafka.", "b,a", "a,,b", ""]),
    ("match", &["client_id=a.*", "client_source_port=1,client_id=b=", "client_id=[", "x=y", ""]),
    ("nope", &["1"]),
];

/// The type and the name of a resource.
fn resource(world: &mut World) -> (i8, Str<'static>) {
    let kind = match world.random.u32(..24) {
        0..10 => TOPIC,
        10..14 => BROKER,
        14..19 => GROUP,
        19..21 => CLIENT_METRICS,
        21 => BROKER_LOGGER,
        _ => world.one(&[0, 1, 3, 5, 64, -1, 127]),
    };
    let name = match kind {
        BROKER | BROKER_LOGGER => world.one(&["0", "0", "0", "", "2", "x", "-1"]).to_owned(),
        GROUP => world.group_name(),
        CLIENT_METRICS => world.one(&[format!("{}metrics", world.prefix), String::new()]),
        _ => world.topic().name,
    };
    (kind, name.into())
}

pub(super) fn describe_configs(world: &mut World) -> Request<'static> {
    DescribeConfigsRequest {
        resources: world.some(2, |it| (it.resource_type, it.resource_name.clone()), described),
        include_synonyms: world.chance(40),
        include_documentation: world.chance(10),
    }
    .into()
}

fn described(world: &mut World) -> DescribeConfigsResource<'static> {
    let (resource_type, resource_name) = resource(world);
    // A broker's configs are never all requested, because each server has its own.
    let all = resource_type != BROKER && world.chance(40);
    let configuration_keys =
        (!all).then(|| world.some(3, Clone::clone, |world| key(world, resource_type)));
    let asks_all = configuration_keys.as_ref().is_none_or(Vec::is_empty);
    let configuration_keys = if resource_type == BROKER && asks_all {
        Some(vec!["num.partitions".into()])
    } else {
        configuration_keys
    };
    DescribeConfigsResource { resource_type, resource_name, configuration_keys }
}

fn key(world: &mut World, resource_type: i8) -> Str<'static> {
    match resource_type {
        BROKER => world.one(BROKER_KEYS).into(),
        GROUP => world.one(GROUP_CONFIGS).0.into(),
        CLIENT_METRICS => world.one(SUBSCRIPTION_CONFIGS).0.into(),
        _ => config_of_topic(world).0,
    }
}

const BROKER_KEYS: &[&str] = &[
    "num.partitions",
    "log.retention.hours",
    "log.retention.ms",
    "log.segment.bytes",
    "message.max.bytes",
    "group.max.session.timeout.ms",
    "group.initial.rebalance.delay.ms",
    "group.consumer.session.timeout.ms",
    "offsets.retention.minutes",
    "default.replication.factor",
    "no.such.config",
];

const GROUP_CONFIGS: &[(&str, &[&str])] = &[
    ("consumer.session.timeout.ms", &["45000", "+50000", "1", "x", "60001"]),
    ("consumer.heartbeat.interval.ms", &["5000", "6000", "1", "15001"]),
    ("share.session.timeout.ms", &["45000", "1"]),
    (
        "share.auto.offset.reset",
        &["earliest", "earliest", "latest", "LATEST", " earliest", "by_duration:pt1h"],
    ),
    ("share.renew.acknowledge.enable", &["TRUE", "no"]),
    ("streams.num.standby.replicas", &["0", "1", "9"]),
    ("no.such.config", &["1"]),
];

pub(super) fn incremental_alter_configs(world: &mut World) -> Request<'static> {
    let resources = world.some(2, |it| (it.resource_type, it.resource_name.clone()), altered);
    // All histories share the broker configs, so changes of these are only validated.
    let on_broker =
        |one: &AlterConfigsResource<'_>| one.resource_type & (BROKER | BROKER_LOGGER) != 0;
    let validate_only = resources.iter().any(on_broker) || world.chance(15);
    IncrementalAlterConfigsRequest { resources, validate_only }.into()
}

fn altered(world: &mut World) -> AlterConfigsResource<'static> {
    let (resource_type, resource_name) = resource(world);
    let configs = world.some(
        2,
        |it: &AlterableConfig<'_>| it.name.clone(),
        |world| {
            let (name, value) = match resource_type {
                GROUP => {
                    let (name, values) = world.one(GROUP_CONFIGS);
                    (name.into(), Some(world.one(values).into()))
                }
                BROKER => {
                    (world.one(BROKER_KEYS).into(), Some(world.one(&["1", "x", "100000"]).into()))
                }
                CLIENT_METRICS => {
                    let (name, values) = world.one(SUBSCRIPTION_CONFIGS);
                    (name.into(), Some(world.one(values).into()))
                }
                _ => config_of_topic(world),
            };
            AlterableConfig { name, config_operation: world.one(&[0, 0, 0, 1, 2, 3, 4, -1]), value }
        },
    );
    AlterConfigsResource { resource_type, resource_name, configs }
}

/// Like [`incremental_alter_configs`], but AlterConfigs replaces all configs of a resource.
pub(super) fn alter_configs(world: &mut World) -> Request<'static> {
    let mut resources = world.some(2, |it| (it.resource_type, it.resource_name.clone()), altered);
    let on_broker =
        |one: &AlterConfigsResource<'_>| one.resource_type & (BROKER | BROKER_LOGGER) != 0;
    let validate_only = resources.iter().any(on_broker) || world.chance(15);
    // Kafka never answers a request that names a resource twice. To Kafka, resources with equal
    // names and any unknown types are the same. So only the first of such resources is kept.
    let mut seen = HashSet::new();
    let known = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];
    let kind =
        |it: &AlterConfigsResource<'_>| known.into_iter().find(|one| *one == it.resource_type);
    resources.retain(|it| seen.insert((kind(it), it.resource_name.clone())));
    let config = |config: AlterableConfig<'static>| ReplacedConfig {
        name: config.name,
        value: config.value,
    };
    let resource = |resource: AlterConfigsResource<'static>| ReplacedConfigsResource {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name,
        configs: resource.configs.into_iter().map(config).collect(),
    };
    let resources = resources.into_iter().map(resource).collect();
    AlterConfigsRequest { resources, validate_only }.into()
}

/// Always names topics. A list of all topics would differ, because histories see each other's
/// topics.
pub(super) fn describe_log_dirs(world: &mut World) -> Request<'static> {
    let topic = |world: &mut World| DescribableLogDirTopic {
        topic: world.topic().name.into(),
        partitions: world.some(2, |it| *it, |world| world.one(&[0, 0, 1, 2, -1, i32::MAX])),
    };
    let topics = world.some(2, |it| it.topic.clone(), topic);
    DescribeLogDirsRequest { topics: Some(topics) }.into()
}

/// Uses only patterns that a broker can read.
pub(super) fn describe_acls(world: &mut World) -> Request<'static> {
    const ANY: i8 = 1;
    DescribeAclsRequest {
        resource_type_filter: world.one(&[ANY, TOPIC, 3]),
        resource_name_filter: world.chance(50).then(|| world.topic().name.into()),
        principal_filter: None,
        host_filter: None,
        operation: world.one(&[ANY, 3]),
        permission_type: world.one(&[ANY, 3]),
        ..Default::default()
    }
    .into()
}

pub(super) fn list_partition_reassignments(world: &mut World) -> Request<'static> {
    let topic = |world: &mut World| ListPartitionReassignmentsTopics {
        name: world.topic().name.into(),
        partition_indexes: world.some(2, |it| *it, |world| world.one(&[0, 1, 7, -1])),
    };
    let topics = world.chance(60).then(|| world.some(2, |it| it.name.clone(), topic));
    ListPartitionReassignmentsRequest { timeout_ms: world.timeout(), topics }.into()
}

pub(super) fn describe_cluster(world: &mut World) -> Request<'static> {
    DescribeClusterRequest {
        include_cluster_authorized_operations: world.chance(40),
        endpoint_type: world.one(&[1, 1, 1, 1, 2, 0, 3]),
        include_fenced_brokers: world.chance(30),
    }
    .into()
}

pub(super) fn list_config_resources(world: &mut World) -> Request<'static> {
    let resource_types = if world.chance(30) {
        Vec::new()
    } else {
        world.some(
            3,
            |it| *it,
            |world| world.one(&[TOPIC, BROKER, GROUP, CLIENT_METRICS, 8, 0, 99]),
        )
    };
    ListConfigResourcesRequest { resource_types }.into()
}

pub(super) fn api_versions(world: &mut World) -> Request<'static> {
    let word = |world: &mut World| match world.random.u32(..3) {
        0 => world.one(&["", "-a", "a b"]),
        _ => world.one(&["muster", "a", "a.b-c", "1.0"]),
    };
    let known = world.cluster.clone().unwrap_or_else(|| "elsewhere".to_owned());
    let other = [None, Some(String::new()), Some("elsewhere".to_owned())];
    let cluster = if world.chance(50) { Some(known) } else { world.one(&other) };
    ApiVersionsRequest {
        client_software_name: word(world).into(),
        client_software_version: word(world).into(),
        cluster_id: cluster.map(Into::into),
        node_id: world.one(&[0, 0, 0, -1, 1, i32::MAX, -2]),
    }
    .into()
}

pub(super) fn find_coordinator(world: &mut World) -> Request<'static> {
    FindCoordinatorRequest {
        key: world.group_name().into(),
        key_type: world.one(&[0, 0, 0, 0, 0, 3, -1, 127]),
        coordinator_keys: world.some(3, Clone::clone, |world| world.group_name().into()),
    }
    .into()
}
