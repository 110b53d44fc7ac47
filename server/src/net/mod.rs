//! Connections without sockets: bytes in, frames out; requests in flight, answers in order.

mod account;
mod connection;
mod connections;

pub use account::{Account, Kind};
pub use connection::ConnectionId;
pub use connections::{Connections, Limits, TooMany};
