//! Limits how much one address may use of a budget, which it shares with all other clients.
//! [`Shares`] are for things that stay, such as groups and topics. [`Holders`] are for things that
//! are released again, such as bytes and connections.
//!
//! An address may use any amount while enough is left. Once little is left, each address is limited
//! to a share, so that a client that takes all it can get leaves something to others.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod holders;
mod shares;

pub use address::Address;
pub use holders::{Exceeded, Holders, Moves, admit};
pub use shares::{ShareLimits, Shares};
