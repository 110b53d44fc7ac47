//! The work that a shard does for each of its internal topics, written once. A topic adds its own
//! [`Machine`]s, one for each partition, which say what a record means.

#![forbid(unsafe_code)]

mod machine;
mod replayed;
mod slots;

pub use machine::{Damage, Machine, Unlimited};
pub use replayed::replayed;
pub use slots::Slots;
