//! The search for the largest load that a cluster withstands, with a run for each size that is
//! tried. The result is a [`crate::report::capacity::Capacity`].

mod scenario;
mod search;

pub use scenario::{Load, scenario};
pub use search::Search;
