//! The nodes on whose disks a record has to be before its answers leave: this one alone, or a
//! quorum of a cluster's. On one machine this costs a branch.

use crate::injected::Injected;
use crate::replicas::{Replication, Serving};
use muster_storage::{LogSlot, ShardLog};

/// See the module.
#[derive(Debug)]
pub(crate) enum Quorum {
    /// The flush makes records visible.
    Alone,
    /// The commit index of a slot's group does.
    Replicas(Box<Replication>),
}

impl Quorum {
    /// The position of a slot up to which its records may be seen.
    pub(crate) fn visible(&self, log: &ShardLog, slot: LogSlot) -> u64 {
        match self {
            Self::Alone => log.progress_of(slot).flushed(),
            Self::Replicas(_) if Injected::OwnFlushOnly.is_injected() => {
                log.last_entry(slot.group()).index
            }
            Self::Replicas(replicas) => replicas.committed(slot),
        }
    }

    /// Whether too much waits for other nodes.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Alone => false,
            Self::Replicas(replicas) => replicas.is_full(),
        }
    }

    pub(crate) fn leads(&self, slot: LogSlot) -> bool {
        match self {
            Self::Alone => true,
            Self::Replicas(replicas) => replicas.serving(slot) == Serving::Here,
        }
    }
}
