//! The report of a run: its model, whose JSON is the result file, and the ways to show it.

pub mod capacity;
pub mod compare;
pub mod csv;
pub(crate) mod disruptions;
pub mod files;
pub mod html;
pub mod json;
pub mod junit;
pub mod live;
pub mod markdown;
pub mod model;
pub mod otlp;
mod pace;
mod phases;
mod rebalances;
#[cfg(test)]
mod sample;
pub mod stream;
pub mod summary;
#[cfg(test)]
mod tests;
mod text;
pub mod thresholds;
