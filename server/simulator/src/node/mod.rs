//! A machine with its server process.

mod sockets;

pub(crate) use sockets::Sockets;
