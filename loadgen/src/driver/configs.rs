//! The configs of a broker that matter for the checks, for stability, or for the meaning of
//! results.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_codec::messages::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse,
};

use super::channel::Channel;
use super::command::GroupTimes;

/// The resource type for the configs of a broker. They are asked of the broker itself, because no
/// other broker knows them.
const BROKER: i8 = 4;
/// The keys of the session timeout and of the heartbeat interval of a kind of group.
type TimeKeys = [&'static str; 2];
pub(super) const OF_CONSUMERS: TimeKeys =
    ["group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms"];
pub(super) const OF_STREAMS: TimeKeys =
    ["group.streams.session.timeout.ms", "group.streams.heartbeat.interval.ms"];
/// The configs that the report must show: if two clusters differ in one of them, their results
/// cannot be compared.
const KEYS: [&str; 17] = [
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
    REPLICAS,
    MUSTERS_OWN,
];
const REPLICAS: &str = "offsets.topic.replication.factor";
/// A key that only muster has. A broker that reports it is muster, which keeps one replica whatever
/// [`REPLICAS`] says.
const MUSTERS_OWN: &str = "admin.lag.top";

/// The values of [`KEYS`], as the broker reports them. A broker may lack some keys. The result is
/// empty if the broker does not answer or denies DescribeConfigs.
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
    let mut found: BTreeMap<_, _> = known
        .filter_map(|config| Some((config.name.into_owned(), config.value?.into_owned())))
        .collect();
    if found.remove(MUSTERS_OWN).is_some() {
        found.remove(REPLICAS);
    }
    found
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

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::messages::{DescribeConfigsResourceResult, DescribeConfigsResult};

    #[test]
    fn a_replication_factor_without_effect_is_no_config_of_a_run() {
        let config = |name: &'static str| DescribeConfigsResourceResult {
            name: name.into(),
            value: Some("3".into()),
            ..Default::default()
        };
        let keys = |configs| {
            let result = DescribeConfigsResult { configs, ..Default::default() };
            let answer = DescribeConfigsResponse { results: vec![result], ..Default::default() };
            Vec::from_iter(described(answer).into_keys())
        };
        let kafkas = || vec![config("group.max.size"), config(REPLICAS), config("num.io.threads")];
        assert_eq!(keys(kafkas()), ["group.max.size", REPLICAS]);
        let musters = [kafkas(), vec![config(MUSTERS_OWN)]].concat();
        assert_eq!(keys(musters), ["group.max.size"]);
    }
}
