//! How much a cluster holds: a search over runs of growing size. [`crate::report::capacity`] is its
//! result.

mod scenario;
mod search;

pub use scenario::{Load, scenario};
pub use search::Search;
