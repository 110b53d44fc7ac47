//! The work that a shard does for each of its internal topics, written once. A topic adds its own
//! [`Machine`]s, one for each partition, which give its records their meaning.

#![forbid(unsafe_code)]

mod counters;
mod flush_clock;
mod machine;
mod replayed;
mod runtime;
mod slots;

pub use counters::LogCounters;
pub use machine::{Damage, Machine, Transactional, Unlimited};
pub use replayed::{replay_each, replayed};
pub use runtime::{LogNews, NotWritten, Runtime};
pub use slots::Slots;
