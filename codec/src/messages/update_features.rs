//! UpdateFeatures (key 57), versions 0-2, all flexible.
//!
//! - v1: request `upgrade_type` in place of `allow_downgrade`, `validate_only`.
//! - v2: response without `results`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct UpdateFeaturesRequest<'a> {
        timeout_ms: i32 = 60_000, 0..;
        feature_updates: Vec<FeatureUpdateKey<'a>>, 0..;
        validate_only: bool, 1..;
    }

    pub struct FeatureUpdateKey<'a> {
        feature: Str<'a>, 0..;
        max_version_level: i16, 0..;
        allow_downgrade: bool, 0..=0;
        /// 1 for an upgrade, 2 for a safe downgrade, 3 for an unsafe downgrade.
        upgrade_type: i8 = 1, 1..;
    }

    pub struct UpdateFeaturesResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        results: Vec<UpdatableFeatureResult<'a>>, 0..=1;
    }

    pub struct UpdatableFeatureResult<'a> {
        feature: Str<'a>, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }
}
