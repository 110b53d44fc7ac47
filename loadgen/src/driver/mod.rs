//! Carries commands out: one executor for each load core, which holds members and connections.
//! What the rest of muster-load exchanges with it stands in [`command`].

pub mod command;
