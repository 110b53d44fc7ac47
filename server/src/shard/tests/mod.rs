//! Stories of a whole shard, on a real directory.

mod access;
mod certificates;
mod clock_jumps;
mod commit_path;
mod counters;
mod crashes;
mod dead_letters;
mod deleted_topics;
mod descriptions;
pub(crate) mod frames;
mod group_requests;
mod idle;
mod input;
mod inquiries;
mod limits;
mod log_check;
mod long_requests;
mod quotas;
mod regexes;
mod secrets;
mod shares;
mod snapshots;
mod stalls;
mod strangers;
mod token_keys;
mod transactions;
pub(crate) mod world;
