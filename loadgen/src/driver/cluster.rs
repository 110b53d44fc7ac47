//! Asks the cluster for its API versions, its id and its brokers.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::rc::Rc;

use muster_codec::messages::{ApiVersionsRequest, ApiVersionsResponse, MetadataRequest};
use muster_codec::messages::{MetadataResponse, MetadataResponseBroker};
use muster_codec::{ApiKey, ErrorCode};
use tokio::task::spawn_local;

use super::channel::{CallError, Channel};
use super::command::Cluster;
use super::configs;
use super::dial::{Dialer, host_and_port};
use crate::member::Versions;
use crate::wire::{self, Malformed};

/// The version of the first ApiVersions request. All brokers of recent years support it. Older
/// brokers answer in version 0.
const API_VERSIONS: i16 = 3;
/// The feature that decides how clients end transactions.
const TRANSACTIONS: &str = "transaction.version";
/// The maximum number of brokers that are tried before the run starts.
const REACHED_MAX: usize = 64;

/// Asks the bootstrap servers, one after the other, until one reports its cluster. Then connects to
/// the brokers.
/// # Errors
/// The address of a bootstrap server is malformed, no bootstrap server answers as needed, or no
/// broker can be reached. The error is a sentence for the user about one of these servers.
pub(super) async fn probe(dialer: Dialer) -> Result<Cluster, String> {
    let mut reason = "no bootstrap server is given".to_owned();
    for server in &dialer.target.bootstrap {
        let (host, port) = host_and_port(server)?;
        match ask(&dialer, host, port).await {
            Ok(cluster) => return reach(Rc::new(dialer), cluster).await,
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

/// Connects to the brokers at their advertised addresses, which members will use, too. Reads from
/// each broker the configs that results depend on.
/// # Errors
/// No broker can be reached. The error is a sentence for the user.
async fn reach(dialer: Rc<Dialer>, mut cluster: Cluster) -> Result<Cluster, String> {
    let attempt = |(id, host, port): &(i32, String, u16)| {
        let (dialer, id, host, port) = (Rc::clone(&dialer), *id, host.clone(), *port);
        spawn_local(async move {
            let reached = dialer.open(&host, port).await;
            let mut channel = reached.map_err(|error| {
                format!("broker {id} is advertised as {host}:{port}, but {error}")
            })?;
            Ok::<_, String>(configs_of(&dialer, &mut channel, id, &host, port).await)
        })
    };
    let attempts: Vec<_> = cluster.brokers.iter().take(REACHED_MAX).map(attempt).collect();
    let tried = attempts.len();
    for attempt in attempts {
        match attempt.await.unwrap_or_else(|error| resume_unwind(error.into_panic())) {
            Ok(configs) => {
                let times = |api: ApiKey, keys| {
                    let is_offered = cluster.versions.of(api).is_some();
                    is_offered.then(|| configs::times(keys, &configs)).flatten()
                };
                let consumers = times(ApiKey::ConsumerGroupHeartbeat, configs::OF_CONSUMERS);
                let streams = times(ApiKey::StreamsGroupHeartbeat, configs::OF_STREAMS);
                let known = (cluster.consumer_times, cluster.streams_times);
                cluster.consumer_times = consumers.map(|it| it.and(known.0)).or(known.0);
                cluster.streams_times = streams.map(|it| it.and(known.1)).or(known.1);
                // Brokers of a cluster should be configured alike. If they are not, the first value
                // counts.
                configs.into_iter().for_each(|(name, value)| {
                    cluster.configs.entry(name).or_insert(value);
                });
            }
            Err(warning) => cluster.warnings.push(warning),
        }
    }
    match cluster.warnings.first() {
        Some(warning) if cluster.warnings.len() == tried => Err(warning.clone()),
        _ => Ok(cluster),
    }
}

/// The configs of a broker. Empty if the broker does not report them.
async fn configs_of(
    dialer: &Dialer,
    channel: &mut Channel,
    broker: i32,
    host: &str,
    port: u16,
) -> BTreeMap<String, String> {
    let version = dialer.versions.borrow().of(ApiKey::DescribeConfigs);
    let Some(version) = version else { return BTreeMap::new() };
    // If the login fails, members will report the cause.
    match dialer.authenticate(channel, host, port).await {
        Ok(()) => configs::describe(channel, version, broker).await,
        Err(_) => BTreeMap::new(),
    }
}

async fn ask(dialer: &Dialer, host: &str, port: u16) -> Result<Cluster, String> {
    let mut channel = dialer.open(host, port).await?;
    let versions = api_versions(&mut channel).await;
    let versions = versions.map_err(|error| format!("{host}:{port}: {}", no_kafka(&error)))?;
    *dialer.versions.borrow_mut() = versions.clone();
    dialer.authenticate(&mut channel, host, port).await?;
    let version = required(&versions, ApiKey::Metadata)?;
    required(&versions, ApiKey::FindCoordinator)?;
    let request = all_brokers(version);
    let known = channel.call(version, &request, |answer| {
        (answer.cluster_id.as_deref().map(str::to_owned), brokers(&answer))
    });
    let known = known.await;
    let (cluster_id, brokers) =
        known.map_err(|error| format!("{host}:{port}: {}", no_metadata(&error)))?;
    Ok(Cluster {
        cluster_id,
        brokers,
        versions,
        warnings: Vec::new(),
        consumer_times: None,
        streams_times: None,
        configs: BTreeMap::new(),
    })
}

async fn api_versions(channel: &mut Channel) -> Result<Versions, CallError> {
    let request = ApiVersionsRequest {
        client_software_name: "muster-load".into(),
        client_software_version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    };
    let mut frame = channel.exchange(API_VERSIONS, &request).await?;
    // A broker that does not support this version answers in version 0.
    let unsupported = frame.get(4..6) == Some(&ErrorCode::UnsupportedVersion.code().to_be_bytes());
    let version = if unsupported { 0 } else { API_VERSIONS };
    if unsupported {
        frame = channel.exchange(version, &ApiVersionsRequest::default()).await?;
    }
    let answer = wire::read::<ApiVersionsRequest<'_>>(version, &frame)?;
    match answer.error_code {
        0 => Ok(negotiate(&answer)),
        code => Err(Malformed::Body(format!("ApiVersions has error code {code}")).into()),
    }
}

/// The highest version of each API that both sides support.
fn negotiate(answer: &ApiVersionsResponse<'_>) -> Versions {
    let mut versions = Versions::default();
    for api in OURS {
        let ours = wire::versions(*api);
        let mut theirs = answer.api_keys.iter().filter(|theirs| theirs.api_key == *api as i16);
        let common = theirs.next_back().map(|theirs| {
            (theirs.min_version.max(*ours.start()), theirs.max_version.min(*ours.end()))
        });
        if let Some((_, max)) = common.filter(|(min, max)| min <= max) {
            versions.set(*api, max);
        }
    }
    let mut finalized = answer.finalized_features.iter();
    let transactions = finalized.find(|feature| feature.name == TRANSACTIONS);
    versions.transactions = transactions.map_or(0, |feature| feature.max_version_level);
    versions
}

const OURS: &[ApiKey] = &[
    ApiKey::Metadata,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::SyncGroup,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::SaslAuthenticate,
    ApiKey::CreatePartitions,
    ApiKey::DeleteGroups,
    ApiKey::ListGroups,
    ApiKey::DescribeConfigs,
    ApiKey::ConsumerGroupHeartbeat,
    ApiKey::Produce,
    ApiKey::InitProducerId,
    ApiKey::AddPartitionsToTxn,
    ApiKey::AddOffsetsToTxn,
    ApiKey::EndTxn,
    ApiKey::ListOffsets,
    ApiKey::Fetch,
    ApiKey::TxnOffsetCommit,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::ShareGroupHeartbeat,
    ApiKey::ShareFetch,
    ApiKey::StreamsGroupHeartbeat,
    ApiKey::ShareAcknowledge,
    ApiKey::DescribeShareGroupOffsets,
];

/// The version of an API without which the run can't start.
/// # Errors
/// The cluster has no version of the API that muster-load supports. The error is a sentence for the
/// user.
pub(super) fn required(versions: &Versions, api: ApiKey) -> Result<i16, String> {
    versions.of(api).ok_or_else(|| {
        let ours = wire::versions(api);
        let (name, oldest, newest) = (api.name(), ours.start(), ours.end());
        format!("the other side has no {name} of version {oldest}..{newest}")
    })
}

/// A request for the list of all brokers. The empty list of topics means no topics, except in
/// version 0, where it means all topics.
fn all_brokers(version: i16) -> MetadataRequest<'static> {
    MetadataRequest {
        topics: Some(Vec::new()),
        // Even if the field is true, the request creates no topic, because it names none. Before
        // version 4 the field is always true.
        allow_auto_topic_creation: version < 4,
        ..MetadataRequest::default()
    }
}

/// The brokers: node id, host, port.
pub(super) fn brokers(answer: &MetadataResponse<'_>) -> Vec<(i32, String, u16)> {
    let broker = |broker: &MetadataResponseBroker<'_>| {
        let port = u16::try_from(broker.port).ok()?;
        Some((broker.node_id, broker.host.to_string(), port))
    };
    answer.brokers.iter().filter_map(broker).collect()
}

fn no_kafka(error: &CallError) -> String {
    match error {
        // The bytes of the length field are the start of a TLS record: an alert or a handshake.
        CallError::Malformed(Malformed::Length(length))
            if matches!(length.to_be_bytes(), [0x15 | 0x16, 3, ..]) =>
        {
            "it speaks TLS: turn TLS on (--tls)".into()
        }
        error if error.is_hang_up() => {
            "it accepted the connection and closed it without an answer: is this a Kafka listener, \
             and does it expect TLS?"
                .into()
        }
        // In TLS 1.3 this error comes after our side has finished the handshake: only then does the
        // server check our certificate.
        CallError::Broken(error) if error.to_string().contains("fatal alert") => {
            format!("it refuses our certificate, or requires one: {error}")
        }
        CallError::Malformed(reason) => {
            format!("its answers are not Kafka's protocol: {reason}")
        }
        error => error.to_string(),
    }
}

fn no_metadata(error: &CallError) -> String {
    match error {
        error if error.is_hang_up() => {
            "it closed the connection at Metadata: does this listener expect a user name and \
             password (SASL)?"
                .into()
        }
        error => format!("Metadata failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use muster_codec::messages::ApiVersion;

    use super::*;

    #[test]
    fn the_highest_common_version_counts() {
        let api =
            |api_key, min_version, max_version| ApiVersion { api_key, min_version, max_version };
        // muster-load lacks version 10 of OffsetCommit, versions 5 and 6 of Heartbeat, and an API
        // with the key 999.
        let api_keys = vec![api(8, 2, 10), api(12, 5, 6), api(68, 0, 0), api(999, 0, 1)];
        let versions = negotiate(&ApiVersionsResponse { api_keys, ..Default::default() });
        let apis = [
            ApiKey::OffsetCommit,
            ApiKey::Heartbeat,
            ApiKey::ConsumerGroupHeartbeat,
            ApiKey::Metadata,
        ];
        assert_eq!(apis.map(|api| versions.of(api)), [Some(9), None, Some(0), None]);
        let missing = required(&versions, ApiKey::Heartbeat).unwrap_err();
        assert_eq!(missing, "the other side has no Heartbeat of version 0..4");
    }
}
