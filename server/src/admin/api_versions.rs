//! ApiVersions (KIP-35, KIP-511).

use crate::config::Config;
use muster_codec::messages::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use muster_codec::{ApiKey, ErrorCode};

/// Consumer groups (KIP-848) are on.
const GROUP_VERSION: &str = "group.version";

/// From here on clients can read that a feature may be at level 0 (KAFKA-17492).
const FEATURES_AT_ZERO_FROM: i16 = 4;

/// What is served.
///
/// No feature but `group.version` is announced: each one of Kafka's others
/// (`transaction.version`, ...) makes clients count on APIs that are not in the table, and without it
/// they do as with a broker that has not finalized it. What the config switches off is not there.
pub fn api_versions(
    config: &Config,
    version: i16,
    request: &ApiVersionsRequest<'_>,
) -> ApiVersionsResponse<'static> {
    let software = [&request.client_software_name, &request.client_software_version];
    if version >= 3 && !software.iter().all(|text| is_software(text)) {
        let error_code = ErrorCode::InvalidRequest.code();
        return ApiVersionsResponse { error_code, ..Default::default() };
    }
    let supported =
        SupportedFeatureKey { name: GROUP_VERSION.into(), min_version: 0, max_version: 1 };
    let finalized = FinalizedFeatureKey {
        name: GROUP_VERSION.into(),
        max_version_level: 1,
        min_version_level: 1,
    };
    let served = ApiKey::ALL.iter().filter(|api| config.serves(**api));
    ApiVersionsResponse {
        api_keys: served.map(|api| api_version(*api)).collect(),
        supported_features: match version >= FEATURES_AT_ZERO_FROM {
            true => vec![supported],
            false => Vec::new(),
        },
        finalized_features_epoch: 0,
        finalized_features: match config.serves_consumer_groups() {
            true => vec![finalized],
            false => Vec::new(),
        },
        ..Default::default()
    }
}

/// The versions of one API that are announced.
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
