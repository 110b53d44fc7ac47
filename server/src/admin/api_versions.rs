//! ApiVersions (KIP-35, KIP-511, KIP-1242).

use crate::cluster::View;
use crate::config::Config;
use muster_codec::messages::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use muster_codec::{ApiKey, ErrorCode};

/// The feature of consumer groups (KIP-848).
const GROUP_VERSION: &str = "group.version";

/// The feature of transactions. At level 2 producers have an epoch for each transaction, and add
/// partitions and groups by what they send to them (KIP-890).
const TRANSACTION_VERSION: &str = "transaction.version";

/// The feature of share groups (KIP-932). At level 2 they may have a dead letter queue (KIP-1191).
const SHARE_VERSION: &str = "share.version";

/// The feature of streams groups (KIP-1071).
const STREAMS_VERSION: &str = "streams.version";

/// The features with their highest levels, which are finalized, in the order in which Kafka names
/// the finalized ones.
const FEATURES: [(&str, i16); 4] =
    [(GROUP_VERSION, 1), (STREAMS_VERSION, 1), (TRANSACTION_VERSION, 2), (SHARE_VERSION, 2)];

/// The first version whose clients accept a feature with minimum level 0 (KAFKA-17492).
const FEATURES_AT_ZERO_FROM: i16 = 4;

/// The node id of a client that names none.
const NO_NODE: i32 = -1;

/// The APIs and features that are served.
///
/// Each of Kafka's other features makes clients rely on APIs that are not in the table. Without it
/// clients behave as with a broker that has not finalized it. APIs that the config switches off are
/// left out.
pub fn api_versions(
    view: &View<'_>,
    version: i16,
    request: &ApiVersionsRequest<'_>,
) -> ApiVersionsResponse<'static> {
    if let Err(error) = check(view, version, request) {
        return ApiVersionsResponse { error_code: error.code(), ..Default::default() };
    }
    let config = view.config;
    let supported = |(name, max_version): (&'static str, i16)| SupportedFeatureKey {
        name: name.into(),
        min_version: 0,
        max_version,
    };
    let finalized = |(name, level): (&'static str, i16)| FinalizedFeatureKey {
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

/// A client that means another cluster, or another node of it, is to look the nodes up again: its
/// address has come to this server since it learned it.
fn check(view: &View<'_>, version: i16, request: &ApiVersionsRequest<'_>) -> Result<(), ErrorCode> {
    let node = (request.node_id != NO_NODE).then_some(request.node_id);
    if request.cluster_id.is_some() != node.is_some() {
        return Err(ErrorCode::InvalidRequest);
    }
    let software = [&request.client_software_name, &request.client_software_version];
    if version >= 3 && !software.iter().all(|text| is_software(text)) {
        return Err(ErrorCode::InvalidRequest);
    }
    let is_meant =
        |cluster_id: &str| cluster_id == view.cluster_id && node == i32::try_from(view.shard).ok();
    match &request.cluster_id {
        Some(cluster_id) if !is_meant(cluster_id) => Err(ErrorCode::RebootstrapRequired),
        _ => Ok(()),
    }
}

/// The level at which a feature is finalized, if muster has it.
pub(super) fn finalized_level(config: &Config, feature: &str) -> Option<i16> {
    let found = FEATURES.iter().find(|(name, _)| *name == feature);
    found.map(|feature| if is_on(config, feature) { feature.1 } else { 0 })
}

fn is_on(config: &Config, (name, _): &(&str, i16)) -> bool {
    match *name {
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

/// `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`, Kafka's pattern of a client's name and version.
fn is_software(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}
