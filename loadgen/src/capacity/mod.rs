//! How much a cluster holds: a search with runs of growing size. The result is a
//! [`crate::report::capacity`].

mod scenario;
mod search;

pub use scenario::{Load, scenario};
pub use search::Search;
