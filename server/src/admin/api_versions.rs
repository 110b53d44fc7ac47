//! ApiVersions (KIP-35, KIP-511, KIP-1242).

use crate::cluster::View;
use crate::config::Config;
use muster_codec::messages::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use muster_codec::{ApiKey, ErrorCode};

/// The feature of consumer groups (KIP-848).
const GROUP_VERSION: &str = "group.version";

/// The feature of transactions. At level 2, each transaction has its own producer epoch, and a
/// produce or an offset commit adds its partition or group to the transaction (KIP-890).
const TRANSACTION_VERSION: &str = "transaction.version";

/// The feature of share groups (KIP-932). Level 2 adds dead letter queues (KIP-1191).
const SHARE_VERSION: &str = "share.version";

/// The feature of streams groups (KIP-1071).
const STREAMS_VERSION: &str = "streams.version";

#[derive(Debug, Clone, Copy)]
struct Feature {
    name: &'static str,
    /// The highest supported level. The finalized level is the same.
    level: i16,
}

/// The features. One that the config switches off is not finalized. Kafka lists finalized features
/// in this order.
const FEATURES: [Feature; 4] = [
    Feature { name: GROUP_VERSION, level: 1 },
    Feature { name: STREAMS_VERSION, level: 1 },
    Feature { name: TRANSACTION_VERSION, level: 2 },
    Feature { name: SHARE_VERSION, level: 2 },
];

/// The first version of ApiVersions whose clients accept a feature with the minimum level 0
/// (KAFKA-17492).
const FEATURES_AT_ZERO_FROM: i16 = 4;

/// The node id in a request that addresses no specific node.
const NO_NODE: i32 = -1;

/// The APIs and features of this server, without APIs that the config switches off.
///
/// Kafka has more features, but each one would make clients use APIs that muster does not serve.
/// Clients treat a missing feature like one that the broker has not finalized.
pub fn api_versions(
    view: &View<'_>,
    version: i16,
    request: &ApiVersionsRequest<'_>,
) -> ApiVersionsResponse<'static> {
    if let Err(error) = check(view, version, request) {
        return ApiVersionsResponse { error_code: error.code(), ..Default::default() };
    }
    let config = view.config;
    let supported = |Feature { name, level }| SupportedFeatureKey {
        name: name.into(),
        min_version: 0,
        max_version: level,
    };
    let finalized = |Feature { name, level }| FinalizedFeatureKey {
        name: name.into(),
        max_version_level: level,
        min_version_level: level,
    };
    let finalized_features = FEATURES.into_iter().filter(|feature| is_on(config, feature));
    let mut supported_features = FEATURES.map(supported).to_vec();
    supported_features.sort_by(|one, other| one.name.cmp(&other.name));
    let served = ApiKey::ALL.iter().filter(|api| config.serves(**api));
    ApiVersionsResponse {
        api_keys: served.map(|api| api_version(*api)).collect(),
        supported_features: if version >= FEATURES_AT_ZERO_FROM {
            supported_features
        } else {
            Vec::new()
        },
        finalized_features_epoch: 0,
        finalized_features: finalized_features.map(finalized).collect(),
        ..Default::default()
    }
}

/// Refuses an invalid request, and a client that expects another cluster id or node id (KIP-1242).
/// Such a client learned this address when it belonged to another broker. It then fetches metadata
/// again.
fn check(view: &View<'_>, version: i16, request: &ApiVersionsRequest<'_>) -> Result<(), ErrorCode> {
    let node = (request.node_id != NO_NODE).then_some(request.node_id);
    if request.cluster_id.is_some() != node.is_some() {
        return Err(ErrorCode::InvalidRequest);
    }
    let software = [&request.client_software_name, &request.client_software_version];
    if version >= 3 && !software.iter().all(|text| is_software(text)) {
        return Err(ErrorCode::InvalidRequest);
    }
    let is_meant = |cluster_id: &str| {
        cluster_id == view.cluster_id && node == Some(view.brokers.own_id(view.shard))
    };
    match &request.cluster_id {
        Some(cluster_id) if !is_meant(cluster_id) => Err(ErrorCode::RebootstrapRequired),
        _ => Ok(()),
    }
}

/// The finalized level of a feature; 0 if the config switches it off, None if muster does not have
/// it.
pub(super) fn finalized_level(config: &Config, feature: &str) -> Option<i16> {
    let found = FEATURES.iter().find(|it| it.name == feature);
    found.map(|feature| if is_on(config, feature) { feature.level } else { 0 })
}

fn is_on(config: &Config, feature: &Feature) -> bool {
    match feature.name {
        GROUP_VERSION => config.serves_consumer_groups(),
        STREAMS_VERSION => config.serves_streams_groups(),
        _ => true,
    }
}

/// The announced versions of one API.
pub fn api_version(api: ApiKey) -> ApiVersion {
    let (min_version, max_version) = api.announced().into_inner();
    ApiVersion { api_key: api as i16, min_version, max_version }
}

/// Kafka's pattern of client software names and versions:
/// `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`.
fn is_software(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}
