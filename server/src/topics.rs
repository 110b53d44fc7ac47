//! The topics whose records are in the shards' logs.

use muster_codec::records::{SHARE_SNAPSHOT_TYPE, SHARE_UPDATE_TYPE};
use muster_storage::{KeyRule, TopicRule, TopicRules};

/// The key of share state differs by its type alone between the snapshot of a share partition and
/// the updates of it.
const SHARE_STATE_KEYS: KeyRule = KeyRule::SnapshotsAndUpdates {
    snapshot: SHARE_SNAPSHOT_TYPE.to_be_bytes(),
    update: SHARE_UPDATE_TYPE.to_be_bytes(),
};

/// The rules for the log: of the cluster's records, of groups and offsets, of transactional ids,
/// and of share state. Only records of groups linger: `group.coordinator.append.linger.ms` is a
/// config of the group coordinator.
pub const RULES: TopicRules = TopicRules::new(&[
    TopicRule { number: 255, lingers: false, keys: KeyRule::SameKey },
    TopicRule { number: 0, lingers: true, keys: KeyRule::SameKey },
    TopicRule { number: 1, lingers: false, keys: KeyRule::SameKey },
    TopicRule { number: 2, lingers: false, keys: SHARE_STATE_KEYS },
]);
