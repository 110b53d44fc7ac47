//! Which offsets the periodic sweep removes (KIP-211).

use super::{Committed, Offsets, tombstone};
use crate::turn::Turn;

/// From when the retention of a group's offsets counts; None of it while a group may not lose any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetentionBase {
    /// Each offset's commit.
    Commit,
    /// When the group became empty.
    Empty { since: i64 },
}

/// Tombstones for what is expired; true if nothing is left.
pub(crate) fn expire(
    turn: &mut Turn<'_, '_>,
    offsets: &Offsets,
    group_id: &str,
    base: RetentionBase,
    is_subscribed: impl Fn(&str) -> bool,
) -> bool {
    let mut nothing_left = true;
    for (topic, partitions) in offsets.by_topic() {
        let subscribed = is_subscribed(topic);
        for (partition, committed) in partitions {
            if !subscribed && is_expired(turn, committed, base) {
                turn.write(tombstone(group_id, topic, *partition));
            } else {
                nothing_left = false;
            }
        }
    }
    nothing_left
}

fn is_expired(turn: &Turn<'_, '_>, committed: &Committed, base: RetentionBase) -> bool {
    if committed.expire_timestamp != -1 {
        return turn.now >= committed.expire_timestamp;
    }
    let since = match base {
        RetentionBase::Commit => committed.commit_timestamp,
        RetentionBase::Empty { since } => since,
    };
    turn.now.saturating_sub(since) >= turn.config.offsets_retention_ms
}
