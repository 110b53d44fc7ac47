//! A world of three nodes: their disks, links and clocks are simulated, and they fail in every way
//! that real ones do. The crate is called through its interface alone.
//!
//! `node` performs the outputs of the crate, and has a toy machine for each group. `disk` is the
//! log of a node, and what recovery finds in it. `judge` decides from the disks what is committed.
//! `moves` replaces replicas. `scripts` has single stories, and `seeds` random ones.

#![allow(clippy::unwrap_used)]

mod disk;
mod judge;
mod moves;
mod node;
mod scripts;
mod seeds;
mod world;
