//! UpdateFeatures, as Kafka's `FeatureControlManager` decides it. A feature is finalized at its
//! highest level, or at level 0 if the config switches it off. No request changes a level. The
//! timeout is ignored, as in Kafka.

use super::View;
use super::api_versions::finalized_level;
use muster_codec::messages::{
    FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse,
};
use muster_codec::{ErrorCode, Str};
use std::cmp::Ordering;

const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

/// The first version that has one result for the request instead of one for each feature.
const ONE_RESULT_FROM: i16 = 2;

pub fn update_features<'r>(
    view: &View<'_>,
    version: i16,
    request: &'r UpdateFeaturesRequest<'_>,
) -> UpdateFeaturesResponse<'r> {
    let updates = request.feature_updates.iter();
    let denied = updates.clone().find_map(|update| check(view, version, update).err());
    if let Some(words) = denied {
        return refused(ErrorCode::InvalidUpdateVersion, Some(words.into()));
    }
    let result = |update: &'r FeatureUpdateKey<'_>| UpdatableFeatureResult {
        feature: Str::Borrowed(&update.feature),
        ..Default::default()
    };
    let results = updates.filter(|_| version < ONE_RESULT_FROM).map(result).collect();
    UpdateFeaturesResponse { error_message: None, results, ..Default::default() }
}

/// The answer that refuses the whole request.
pub fn refused(error: ErrorCode, words: Option<Str<'static>>) -> UpdateFeaturesResponse<'static> {
    UpdateFeaturesResponse { error_code: error.code(), error_message: words, ..Default::default() }
}

/// # Errors
/// The reason why the update is refused.
fn check(view: &View<'_>, version: i16, update: &FeatureUpdateKey<'_>) -> Result<(), &'static str> {
    let Some(present) = finalized_level(view.config, &update.feature) else {
        return Err("The feature is not one that muster has.");
    };
    let upgrade_type = match (version, update.allow_downgrade) {
        (0, true) => SAFE_DOWNGRADE,
        (0, false) => UPGRADE,
        _ => update.upgrade_type,
    };
    if !(UPGRADE..=UNSAFE_DOWNGRADE).contains(&upgrade_type) {
        return Err("The controller does not support the given upgrade type.");
    }
    match update.max_version_level.cmp(&present) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err("The feature has no such level."),
        Ordering::Less => Err("muster always has the highest level of a feature."),
    }
}
