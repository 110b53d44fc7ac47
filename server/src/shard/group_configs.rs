//! Applies the configs of brokers and of single groups to a shard's coordinator.

use crate::cluster::{BROKER_RESOURCE, ClusterImage, GROUP_RESOURCE};
use crate::config::{Config, group_overrides};
use muster_coordinator::Coordinator;

/// Sets the coordinator's configs; `before` is the image whose configs it has so far.
pub(crate) fn configure(
    coordinator: &mut Coordinator,
    config: &Config,
    before: Option<&ClusterImage>,
    image: &ClusterImage,
) {
    let is_same = |before: &&ClusterImage| image.reconfigured(before, BROKER_RESOURCE).is_empty();
    let changed = match before.filter(is_same) {
        Some(before) => image.reconfigured(before, GROUP_RESOURCE),
        // The bounds for all groups may have changed.
        None => {
            coordinator.set_config(config.coordinator());
            before.into_iter().flat_map(all).chain(all(image)).collect()
        }
    };
    for group in changed {
        coordinator.set_group_config(group, group_overrides(config, image, group));
    }
}

fn all(image: &ClusterImage) -> impl Iterator<Item = &str> {
    image.configured(GROUP_RESOURCE, "")
}
