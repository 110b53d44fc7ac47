//! Which offsets the periodic sweep removes (KIP-211).

use super::{Committed, Offsets, tombstone};
use crate::turn::Turn;
use muster_codec::Wall;

/// From when the retention of a group's offsets counts; None of it while a group may not lose any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetentionBase {
    /// Each offset's commit.
    Commit,
    /// When the group became empty.
    Empty { since: i64 },
}

/// When the sweep has something to do with a group, as far as can be said without its offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// The first time that a commit asked for.
    pub(crate) at: i64,
    /// From when the retention of the others counts; `i64::MIN` if there are no offsets at all.
    pub(crate) since: i64,
}

impl Expiry {
    pub(crate) const NEVER: Self = Self { at: i64::MAX, since: i64::MAX };

    /// Of no offsets at all.
    pub(crate) const OF_NONE: Self = Self { at: i64::MAX, since: i64::MIN };

    /// Of some offsets. The base may be another when the sweep comes by: then it counts from when the
    /// group was `recorded`, or from a later time, when it has lost its members.
    pub(crate) fn of<'o>(
        offsets: impl Iterator<Item = &'o Committed>,
        base: Option<RetentionBase>,
        recorded: Option<i64>,
    ) -> Self {
        let (base, recorded) =
            (base.unwrap_or(RetentionBase::Commit), recorded.unwrap_or(i64::MAX));
        offsets.fold(Self::NEVER, |first, committed| match (committed.expire_timestamp, base) {
            (-1, RetentionBase::Commit) => {
                Self { since: first.since.min(committed.commit_timestamp).min(recorded), ..first }
            }
            (-1, RetentionBase::Empty { since }) => Self { since: since.min(recorded), ..first },
            (at, _) => Self { at: first.at.min(at), ..first },
        })
    }

    /// Of these offsets and others.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { at: self.at.min(other.at), since: self.since.min(other.since) }
    }

    /// Whether the sweep has to look.
    pub(crate) fn is_due(self, wall: Wall, retention_ms: i64) -> bool {
        wall.0 >= self.at || wall.since(self.since) >= retention_ms
    }
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
        return turn.wall.0 >= committed.expire_timestamp;
    }
    let since = match base {
        RetentionBase::Commit => committed.commit_timestamp,
        RetentionBase::Empty { since } => since,
    };
    turn.wall.since(since) >= turn.config.offsets_retention_ms
}
