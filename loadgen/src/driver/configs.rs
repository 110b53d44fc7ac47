//! The configuration of a broker that stability, the checks and the meaning of results depend on.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_codec::messages::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse,
};

use super::channel::Channel;
use super::command::GroupTimes;

/// The resource type of a broker: only that broker itself can be asked.
const BROKER: i8 = 4;
/// The session timeout and the heartbeat interval of a kind of group.
type TimeKeys = [&'static str; 2];
pub(super) const OF_CONSUMERS: TimeKeys =
    ["group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms"];
pub(super) const OF_STREAMS: TimeKeys =
    ["group.streams.session.timeout.ms", "group.streams.heartbeat.interval.ms"];
/// Configs that make two clusters incomparable if they differ, unless the report says so.
const KEYS: [&str; 16] = [
    OF_CONSUMERS[0],
    OF_CONSUMERS[1],
    OF_STREAMS[0],
    OF_STREAMS[1],
    "group.streams.assignment.interval.ms",
    "group.streams.initial.rebalance.delay.ms",
    "group.streams.num.standby.replicas",
    "group.consumer.assignors",
    "group.consumer.max.size",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "offsets.commit.timeout.ms",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
];

/// The values of those keys that the broker reports. Empty if the broker does not answer: it may
/// lack the keys, or deny DescribeConfigs.
pub(super) async fn describe(
    channel: &mut Channel,
    version: i16,
    broker: i32,
) -> BTreeMap<String, String> {
    let resource = DescribeConfigsResource {
        resource_type: BROKER,
        resource_name: broker.to_string().into(),
        configuration_keys: Some(KEYS.map(Into::into).into()),
    };
    let request =
        DescribeConfigsRequest { resources: vec![resource], ..DescribeConfigsRequest::default() };
    channel.call(version, &request, described).await.unwrap_or_default()
}

fn described(answer: DescribeConfigsResponse<'_>) -> BTreeMap<String, String> {
    let described = answer.results.into_iter().filter(|described| described.error_code == 0);
    let configs = described.flat_map(|described| described.configs);
    let known = configs.filter(|config| KEYS.contains(&&*config.name));
    known
        .filter_map(|config| Some((config.name.into_owned(), config.value?.into_owned())))
        .collect()
}

pub(super) fn times(keys: TimeKeys, configs: &BTreeMap<String, String>) -> Option<GroupTimes> {
    let [session, heartbeat] = keys;
    Some(GroupTimes {
        session_timeout: millis(configs, session)?,
        heartbeat_interval: millis(configs, heartbeat)?,
    })
}

fn millis(configs: &BTreeMap<String, String>, name: &str) -> Option<Duration> {
    // These configs are 32-bit integers.
    let millis = configs.get(name)?.parse::<u32>().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis.into()))
}
