//! The work that a shard does for each of its internal topics, written once. A topic adds its own
//! [`Machine`]s, one for each partition, which say what a record means.

#![forbid(unsafe_code)]

mod machine;
mod slots;

pub use machine::{Machine, Unlimited};
pub use slots::Slots;
