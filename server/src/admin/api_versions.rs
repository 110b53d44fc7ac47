//! ApiVersions (KIP-35, KIP-511).

use crate::config::Config;
use muster_codec::messages::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use muster_codec::{ApiKey, ErrorCode};

/// The feature of consumer groups (KIP-848).
const GROUP_VERSION: &str = "group.version";

/// The first version whose clients accept a feature with minimum level 0 (KAFKA-17492).
const FEATURES_AT_ZERO_FROM: i16 = 4;

/// The APIs and features that are served.
///
/// `group.version` is the only feature: each of Kafka's others (`transaction.version`, ...) makes
/// clients rely on APIs that are not in the table. Without it clients behave as with a broker that
/// has not finalized it. APIs that the config switches off are left out.
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
        supported_features: if version >= FEATURES_AT_ZERO_FROM {
            vec![supported]
        } else {
            Vec::new()
        },
        finalized_features_epoch: 0,
        finalized_features: if config.serves_consumer_groups() {
            vec![finalized]
        } else {
            Vec::new()
        },
        ..Default::default()
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
