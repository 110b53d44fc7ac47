//! The work that a shard does for each of its internal topics, written once. A topic adds its own
//! [`Machine`]s, one for each partition, which give its records their meaning.

#![forbid(unsafe_code)]

mod audit;
mod check;
mod check_copy;
mod counters;
mod damage;
mod flush_clock;
mod load;
mod machine;
mod not_restated;
mod replayed;
mod rewrite;
mod runtime;
mod section;
mod slots;
mod snapshot;
mod topic;
mod turn;

pub use audit::Audit;
pub use check::{CheckConfig, CheckNames, Difference, LogCheck, differences};
pub use check_copy::{CheckCopy, Digest, NextId};
pub use counters::{CheckCounters, LogCounters, RewriteCounters, SnapshotCounters};
pub use damage::{Damage, damaged};
pub use load::{Load, Replayed};
pub use machine::{Audited, Machine, Transactional, Unlimited};
pub use not_restated::NotRestated;
pub use replayed::{replay_each, replayed};
pub use rewrite::{Rewrite, RewriteConfig};
pub use runtime::{LogNews, NotWritten, Runtime};
pub use section::{AnyWalk, Opened, SectionAt, part_of};
pub use slots::Slots;
pub use snapshot::{Snapshots, SnapshotsDue};
pub use topic::{Topic, TopicSet};
pub use turn::Turn;
