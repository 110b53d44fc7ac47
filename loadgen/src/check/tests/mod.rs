//! Stories and properties of the checks.

mod stories;
mod story;
