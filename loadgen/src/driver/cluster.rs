//! Asks the cluster for its API versions, its id and its brokers.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::rc::Rc;

use bytes::Buf;
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiVersionsRequest, ApiVersionsResponse,
    ConsumerGroupHeartbeatRequest, CreatePartitionsRequest, CreateTopicsRequest,
    DeleteGroupsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
    DescribeShareGroupOffsetsRequest, EndTxnRequest, FetchRequest, FindCoordinatorRequest,
    HeartbeatRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest,
    LeaveGroupRequest, ListGroupsRequest, ListOffsetsRequest, MetadataRequest, MetadataResponse,
    OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, SaslAuthenticateRequest,
    ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest, SyncGroupRequest,
    TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::{Message, Request, StrBytes, VersionRange};
use tokio::task::spawn_local;

use super::channel::{CallError, Channel};
use super::command::Cluster;
use super::configs;
use super::dial::{Dialer, host_and_port};
use crate::member::{STREAMS_HEARTBEAT, Versions};
use crate::wire::{self, Malformed, SHARE_FETCH_VERSIONS, STREAMS_HEARTBEAT_VERSIONS};

/// Sent first: the newest that brokers of the last years know. Older brokers answer in version 0.
const API_VERSIONS: i16 = 3;
const UNSUPPORTED_VERSION: i16 = 35;
/// The feature that says how clients of the cluster end transactions.
const TRANSACTIONS: &str = "transaction.version";
/// Brokers that are tried before the start.
const REACHED_MAX: usize = 64;

/// Connects to the first bootstrap server that answers.
///
/// # Errors
/// One sentence about the last server that was tried.
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

/// Connects to the brokers at their advertised addresses, where members will connect to. Brokers
/// that are reached are asked for the configuration that results depend on.
///
/// # Errors
/// One sentence, if none can be reached.
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
                let times = |api, keys| {
                    let is_offered = cluster.versions.of(api).is_some();
                    is_offered.then(|| configs::times(keys, &configs)).flatten()
                };
                let consumers = times(ConsumerGroupHeartbeatRequest::KEY, configs::OF_CONSUMERS);
                let streams = times(STREAMS_HEARTBEAT, configs::OF_STREAMS);
                let known = (cluster.consumer_times, cluster.streams_times);
                cluster.consumer_times = consumers.map(|it| it.and(known.0)).or(known.0);
                cluster.streams_times = streams.map(|it| it.and(known.1)).or(known.1);
                // Brokers of a cluster are configured alike; if not, the first one stands.
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

/// Nothing if the broker does not answer.
async fn configs_of(
    dialer: &Dialer,
    channel: &mut Channel,
    broker: i32,
    host: &str,
    port: u16,
) -> BTreeMap<String, String> {
    let version = dialer.versions.borrow().of(DescribeConfigsRequest::KEY);
    let Some(version) = version else { return BTreeMap::new() };
    // Members will report why, if the login fails.
    match dialer.authenticate(channel, host, port).await {
        Ok(()) => configs::describe(channel, version, broker).await,
        Err(_) => BTreeMap::new(),
    }
}

async fn ask(dialer: &Dialer, host: &str, port: u16) -> Result<Cluster, String> {
    let mut channel = dialer.open(host, port).await?;
    let answer = api_versions(&mut channel).await;
    let answer = answer.map_err(|error| format!("{host}:{port}: {}", no_kafka(&error)))?;
    let versions = negotiate(&answer);
    *dialer.versions.borrow_mut() = versions.clone();
    dialer.authenticate(&mut channel, host, port).await?;
    let version = required::<MetadataRequest>(&versions, "Metadata")?;
    required::<FindCoordinatorRequest>(&versions, "FindCoordinator")?;
    let answer = channel.call(version, &all_brokers(version)).await;
    let answer = answer.map_err(|error| format!("{host}:{port}: {}", no_metadata(&error)))?;
    Ok(Cluster {
        cluster_id: answer.cluster_id.as_ref().map(ToString::to_string),
        brokers: brokers(&answer),
        versions,
        warnings: Vec::new(),
        consumer_times: None,
        streams_times: None,
        configs: BTreeMap::new(),
    })
}

async fn api_versions(channel: &mut Channel) -> Result<ApiVersionsResponse, CallError> {
    let request = ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("muster-load"))
        .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
    let frame = channel.exchange(API_VERSIONS, &request).await?;
    let error = frame.get(4..6).map(|mut bytes| bytes.get_i16());
    let answer = match error {
        Some(UNSUPPORTED_VERSION) => channel.call(0, &ApiVersionsRequest::default()).await?,
        _ => wire::read::<ApiVersionsRequest>(API_VERSIONS, &frame)?,
    };
    match answer.error_code {
        0 => Ok(answer),
        code => Err(Malformed::Body(format!("ApiVersions has error code {code}")).into()),
    }
}

/// The highest version of each API that both sides know.
fn negotiate(answer: &ApiVersionsResponse) -> Versions {
    let theirs: BTreeMap<i16, VersionRange> = answer
        .api_keys
        .iter()
        .map(|api| (api.api_key, VersionRange { min: api.min_version, max: api.max_version }))
        .collect();
    let mut versions = Versions::default();
    for (key, ours) in OURS {
        let common = theirs.get(key).map(|theirs| theirs.intersect(ours));
        if let Some(common) = common.filter(|common| !common.is_empty()) {
            versions.set(*key, common.max);
        }
    }
    let mut finalized = answer.finalized_features.iter();
    let transactions = finalized.find(|feature| feature.name.as_str() == TRANSACTIONS);
    versions.transactions = transactions.map_or(0, |feature| feature.max_version_level);
    versions
}

const OURS: &[(i16, VersionRange)] = &[
    ours::<MetadataRequest>(),
    ours::<OffsetCommitRequest>(),
    ours::<OffsetFetchRequest>(),
    ours::<FindCoordinatorRequest>(),
    ours::<JoinGroupRequest>(),
    ours::<HeartbeatRequest>(),
    ours::<LeaveGroupRequest>(),
    ours::<SyncGroupRequest>(),
    ours::<CreateTopicsRequest>(),
    ours::<DeleteTopicsRequest>(),
    ours::<SaslAuthenticateRequest>(),
    ours::<CreatePartitionsRequest>(),
    ours::<DeleteGroupsRequest>(),
    ours::<ListGroupsRequest>(),
    ours::<DescribeConfigsRequest>(),
    ours::<ConsumerGroupHeartbeatRequest>(),
    ours::<ProduceRequest>(),
    ours::<InitProducerIdRequest>(),
    ours::<AddPartitionsToTxnRequest>(),
    ours::<AddOffsetsToTxnRequest>(),
    ours::<EndTxnRequest>(),
    ours::<ListOffsetsRequest>(),
    ours::<FetchRequest>(),
    ours::<TxnOffsetCommitRequest>(),
    ours::<IncrementalAlterConfigsRequest>(),
    ours::<ShareGroupHeartbeatRequest>(),
    (ShareFetchRequest::KEY, SHARE_FETCH_VERSIONS),
    (STREAMS_HEARTBEAT, STREAMS_HEARTBEAT_VERSIONS),
    ours::<ShareAcknowledgeRequest>(),
    ours::<DescribeShareGroupOffsetsRequest>(),
];

const fn ours<R: Request>() -> (i16, VersionRange) {
    (R::KEY, <R as Message>::VERSIONS)
}

/// The version of an API that the cluster must have.
///
/// # Errors
/// One sentence.
pub(super) fn required<R: Request>(versions: &Versions, name: &str) -> Result<i16, String> {
    versions.of(R::KEY).ok_or_else(|| {
        format!("the other side has no {name} of version {}", <R as Message>::VERSIONS)
    })
}

/// In version 0 no topics meant all of them.
fn all_brokers(version: i16) -> MetadataRequest {
    MetadataRequest::default().with_topics(Some(Vec::new())).with_allow_auto_topic_creation(
        // Has no effect without topics, but before version 4 it can only be true.
        version < 4,
    )
}

/// Node id, host, port.
pub(super) fn brokers(answer: &MetadataResponse) -> Vec<(i32, String, u16)> {
    let broker = |broker: &kafka_protocol::messages::metadata_response::MetadataResponseBroker| {
        let port = u16::try_from(broker.port).ok()?;
        Some((broker.node_id.0, broker.host.to_string(), port))
    };
    answer.brokers.iter().filter_map(broker).collect()
}

fn no_kafka(error: &CallError) -> String {
    match error {
        // The length field holds the start of a TLS record: an alert or a handshake.
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
        // In TLS 1.3 the server checks our certificate after our side of the handshake is done.
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
    use kafka_protocol::messages::api_versions_response::ApiVersion;

    use super::*;

    #[test]
    fn the_highest_common_version_counts() {
        let api = |key, min, max| {
            ApiVersion::default().with_api_key(key).with_min_version(min).with_max_version(max)
        };
        // OffsetCommit 10 is only in our answers; Heartbeat is too new; 999 is unknown.
        let keys = vec![api(8, 2, 10), api(12, 5, 6), api(68, 0, 0), api(999, 0, 1)];
        let versions = negotiate(&ApiVersionsResponse::default().with_api_keys(keys));
        assert_eq!(
            [8, 12, 68, 999, 3].map(|key| versions.of(key)),
            [Some(9), None, Some(0), None, None]
        );
        assert!(required::<HeartbeatRequest>(&versions, "Heartbeat").is_err());
    }
}
