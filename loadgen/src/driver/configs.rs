//! The configuration of a broker that stability and the checks depend on.

use std::time::Duration;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use super::channel::Channel;
use super::command::ConsumerTimes;

/// The resource type of a broker: only that broker itself can be asked.
const BROKER: i8 = 4;
const SESSION_TIMEOUT: &str = "group.consumer.session.timeout.ms";
const HEARTBEAT_INTERVAL: &str = "group.consumer.heartbeat.interval.ms";

/// `None` if the broker does not answer: it need not have these keys, nor allow DescribeConfigs on
/// the cluster.
pub(super) async fn consumer_times(
    channel: &mut Channel,
    version: i16,
    broker: i32,
) -> Option<ConsumerTimes> {
    let keys = [SESSION_TIMEOUT, HEARTBEAT_INTERVAL].map(StrBytes::from_static_str);
    let resource = DescribeConfigsResource::default()
        .with_resource_type(BROKER)
        .with_resource_name(broker.to_string().into())
        .with_configuration_keys(Some(keys.into()));
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let answer = channel.call(version, &request).await.ok()?;
    Some(ConsumerTimes {
        session_timeout: millis(&answer, SESSION_TIMEOUT)?,
        heartbeat_interval: millis(&answer, HEARTBEAT_INTERVAL)?,
    })
}

fn millis(answer: &DescribeConfigsResponse, name: &str) -> Option<Duration> {
    let described = answer.results.first().filter(|described| described.error_code == 0)?;
    let config = described.configs.iter().find(|config| config.name.as_str() == name)?;
    // These configs are 32-bit integers.
    let millis = config.value.as_ref()?.parse::<u32>().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis.into()))
}
