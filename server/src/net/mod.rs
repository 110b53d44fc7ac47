//! Connections without sockets: bytes in, frames out; requests in flight, answers in order.

mod account;
mod connection;
mod connections;
mod durable;
mod input;
pub(crate) mod limits;
mod stranger;
mod stream;
mod unread;

pub use account::{Account, Kind};
pub use connection::ConnectionId;
pub use connections::{Connections, Limits, TooMany};
pub use durable::VisibleAt;
pub(crate) use input::{BURST_BYTES_MAX, INPUT_BYTES_DEFAULT, SHORT_FRAMES_BYTES_MAX};
pub(crate) use stranger::looks_like;
pub(crate) use stream::Piece;
pub(crate) use unread::UNREAD_BYTES_MAX;
