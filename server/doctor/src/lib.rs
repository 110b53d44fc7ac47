//! `muster doctor`: what of a host, a config and a data directory stops or slows muster, and how it
//! is changed.
//!
//! [`gather()`] looks, and alone touches the host; what it saw are [`Facts`], which are text.
//! [`examine`] is pure: [`rules`](rules::all) judge the facts. So a machine that is broken in some
//! way is a file of facts in a test, and facts of another machine can be examined here.

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
pub use rule::{Change, Harm, Rule, Wanted};
