//! The parts of a driver for machines whose kernel lets no ring be set up.

mod buffer;
mod connection;
mod listener;
mod queue;
mod sending;
mod workers;
