//! The parts of a driver for machines whose kernel lets no ring be set up.

mod workers;
