//! A machine with its server process.

mod fact;
mod sockets;

pub(crate) use fact::{Fact, RunQueues};
pub(crate) use sockets::Sockets;
