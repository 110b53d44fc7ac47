//! `muster-load` against a broker in memory, which is correct or has one chosen bug.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod capacity;
mod capture;
mod clients;
#[cfg(target_os = "linux")]
mod confined;
mod correct;
mod ending;
#[path = "../fake/mod.rs"]
mod fake;
mod hostile;
mod injected;
mod outages;
mod run;
mod running;
#[cfg(target_os = "linux")]
mod starved;
mod transactions;
mod watching;
mod workers;
