//! `muster-load` against a broker in memory that is right, or wrong in one chosen way.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod correct;
mod ending;
#[path = "../fake/mod.rs"]
mod fake;
mod hostile;
mod planted;
mod run;
