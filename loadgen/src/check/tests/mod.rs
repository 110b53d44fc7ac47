//! Stories and properties of the checks.

mod classic;
mod clients;
mod consumer;
mod properties;
mod stories;
mod story;
mod streams;
mod world;
