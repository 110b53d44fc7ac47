//! Stories and properties of the checks.

mod classic;
mod consumer;
mod properties;
mod stories;
mod story;
mod world;
