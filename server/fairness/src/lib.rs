//! The part of a limit that one address may use, if all clients share the limit: [`Shares`] of what
//! stays, such as groups and topics; [`Holders`] of what is released again, such as bytes and
//! places.
//!
//! An address may use what it wants while enough is left. Once little is left it has a share, so
//! that a client that asks for everything leaves something to the others.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod holders;
mod shares;

pub use address::Address;
pub use holders::{Exceeded, Holders, Moves, admit};
pub use shares::{ShareLimits, Shares};
