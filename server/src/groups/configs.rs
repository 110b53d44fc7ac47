//! Determines the configs of brokers and of single groups that a new image changes.

use crate::cluster::{BROKER_RESOURCE, ClusterImage, GROUP_RESOURCE};

/// The changes that a coordinator has to know.
pub(super) struct Changed<'i> {
    /// Whether the configs of all groups, and the bounds for the configs of single groups, may have
    /// changed.
    pub(super) is_of_all: bool,
    /// Groups whose own configs may have changed.
    pub(super) groups: Vec<&'i str>,
}

/// Determines what `image` changes. `before` is the image whose configs the coordinators know so
/// far.
pub(super) fn changed<'i>(
    before: Option<&'i ClusterImage>,
    image: &'i ClusterImage,
) -> Changed<'i> {
    let is_same = |before: &&ClusterImage| image.reconfigured(before, BROKER_RESOURCE).is_empty();
    match before.filter(is_same) {
        Some(before) => {
            let groups = image.reconfigured(before, GROUP_RESOURCE);
            Changed { is_of_all: false, groups }
        }
        None => {
            let groups = before.into_iter().flat_map(all).chain(all(image)).collect();
            Changed { is_of_all: true, groups }
        }
    }
}

fn all(image: &ClusterImage) -> impl Iterator<Item = &str> {
    image.configured(GROUP_RESOURCE, "")
}
