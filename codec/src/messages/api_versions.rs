//! ApiVersions (key 18), versions 0-5, flexible from 3.
//!
//! Added by each version:
//! - v1: response `throttle_time_ms`.
//! - v3: request `client_software_name`, `client_software_version`; response
//!   `supported_features`, `finalized_features_epoch`, `finalized_features`,
//!   `zk_migration_ready`.
//! - v5: request `cluster_id`, `node_id` (KIP-1242).

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct ApiVersionsRequest<'a> {
        client_software_name: Str<'a>, 3..;
        client_software_version: Str<'a>, 3..;
        /// The cluster id and the node id that the client expects the server to have. A client that
        /// expects nothing sends null and -1.
        cluster_id: Option<Str<'a>>, 5..;
        node_id: i32 = -1, 5..;
    }

    pub struct ApiVersionsResponse<'a> {
        error_code: i16, 0..;
        api_keys: Vec<ApiVersion>, 0..;
        throttle_time_ms: i32, 1..;
        supported_features: Vec<SupportedFeatureKey<'a>>, 3.., tag 0;
        finalized_features_epoch: i64 = -1, 3.., tag 1;
        finalized_features: Vec<FinalizedFeatureKey<'a>>, 3.., tag 2;
        zk_migration_ready: bool, 3.., tag 3;
    }

    pub struct ApiVersion {
        api_key: i16, 0..;
        min_version: i16, 0..;
        max_version: i16, 0..;
    }

    pub struct SupportedFeatureKey<'a> {
        name: Str<'a>, 3..;
        min_version: i16, 3..;
        max_version: i16, 3..;
    }

    pub struct FinalizedFeatureKey<'a> {
        name: Str<'a>, 3..;
        max_version_level: i16, 3..;
        min_version_level: i16, 3..;
    }
}
