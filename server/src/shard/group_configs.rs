//! What the configs of brokers and of single groups mean for a shard's coordinator.

use crate::cluster::{ClusterImage, GROUP_RESOURCE};
use crate::config::{Config, group_overrides};
use muster_coordinator::{Coordinator, GroupOverrides};

/// Has the coordinator obey these configs; `before` is the image whose configs it obeyed so far.
pub(crate) fn configure(
    coordinator: &mut Coordinator,
    config: &Config,
    before: Option<&ClusterImage>,
    image: &ClusterImage,
) {
    if before.is_some_and(|before| before.shares_configs_with(image)) {
        return;
    }
    coordinator.set_config(config.coordinator());
    for group in before.into_iter().flat_map(|before| before.configured(GROUP_RESOURCE)) {
        coordinator.set_group_config(group, GroupOverrides::default());
    }
    for group in image.configured(GROUP_RESOURCE) {
        coordinator.set_group_config(group, group_overrides(config, image, group));
    }
}
