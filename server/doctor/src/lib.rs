//! `muster doctor`: finds what stops or slows muster on a host, in a config or in a data directory,
//! and says how to change it.
//!
//! [`gather()`] collects [`Facts`], which are text. Only this step accesses the host. [`examine`]
//! is pure: the [`rules`](rules::all) judge the facts. So a test can describe a broken machine by a
//! file of facts, and facts of another machine can be examined here.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod facts;
mod gather;
mod judge;
mod profile;
mod report;
mod rule;
pub mod rules;

pub use facts::Facts;
pub use gather::{Asked, gather};
pub use judge::{Examination, Judged, State, Verdict, examine};
pub use profile::Profile;
pub use report::{json, knobs, page, report};
pub use rule::{Change, Effect, Harm, Rule, Wanted};
