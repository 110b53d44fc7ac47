//! Expiry of offsets, which the periodic sweep removes (KIP-211).

use super::{Offsets, tombstone};
use crate::committed::Committed;
use crate::turn::Turn;
use muster_codec::Wall;

/// The time from which the retention of a group's offsets counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetentionBase {
    /// The commit of each offset.
    Commit,
    /// The time when the group became empty.
    Empty { since: i64 },
}

/// The earliest time at which the sweep may have to visit a group. A snapshot stores it, so the
/// offsets need not be loaded to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// The earliest expiry that a commit requested for its offset.
    pub(crate) at: i64,
    /// The time from which the retention of the other offsets counts; `i64::MIN` if there are no
    /// offsets.
    pub(crate) since: i64,
}

impl Expiry {
    pub(crate) const NEVER: Self = Self { at: i64::MAX, since: i64::MAX };

    /// The expiry of a group without offsets.
    pub(crate) const OF_NONE: Self = Self { at: i64::MAX, since: i64::MIN };

    /// The expiry of some offsets. The base may change before the sweep: if the group loses its
    /// members, the retention counts from the time `recorded` or later.
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

    /// Combines the expiries of two parts of a group's offsets.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { at: self.at.min(other.at), since: self.since.min(other.since) }
    }

    /// Whether the sweep must visit the group.
    pub(crate) fn is_due(self, wall: Wall, retention_ms: i64) -> bool {
        wall.0 >= self.at || wall.since(self.since) >= retention_ms
    }
}

/// Writes tombstones for expired offsets. Returns true if no other offsets are left. A partition
/// with a pending offset keeps its committed offset.
pub(crate) fn expire(
    turn: &mut Turn<'_, '_>,
    offsets: &Offsets,
    group_id: &str,
    base: RetentionBase,
    records_max: usize,
    is_subscribed: impl Fn(&str) -> bool,
) -> bool {
    let pending = turn.pending.of(group_id);
    let mut nothing_left = pending.is_none();
    for (topic, partitions) in offsets.by_topic() {
        let subscribed = is_subscribed(topic);
        for (partition, committed) in partitions.iter() {
            if turn.output.records.len() >= records_max {
                return false;
            }
            let is_pending = pending.is_some_and(|it| it.has(topic, partition));
            if !subscribed && !is_pending && is_expired(turn, committed, base) {
                turn.events.offsets_expired += 1;
                turn.write(tombstone(group_id, topic, partition));
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
