//! TLS for a server's connections, without I/O.
//!
//! A [`Session`] is one connection. Received bytes go in, and the client's requests come out;
//! answers go in, and bytes to send come out. [`Session::receive`] only stores bytes, which is
//! cheap; [`Session::advance`] does the work. So the caller decides when a handshake runs.
//!
//! [`Tls`] is what all sessions of a listener share: its key, its certificates, and what it demands
//! of clients. [`Settings::load`] creates it from Kafka's configs. When they change, a new [`Tls`]
//! is created. If a client has requested the change, this is done by [`Settings::load_instead`].
//!
//! # Contract
//!
//! - No input makes this crate panic. A failed session returns the reason and the alert to send.
//! - A session holds at most one incomplete record, and at most [`limits::HANDSHAKE_BYTES_MAX`]
//!   bytes until its handshake is done. A session fails on a handshake with more bytes or records,
//!   on renegotiation, and on many consecutive records of a few bytes.
//! - The caller is responsible for timeouts: a session waits forever.

#![forbid(unsafe_code)]

mod client_auth;
mod error;
mod files;
mod key_store;
pub mod limits;
mod name;
mod pkcs12;
mod principal;
mod records;
mod replacement;
mod session;
mod settings;
mod suites;
mod trust_store;
mod validity;

pub use error::LoadError;
pub use key_store::KeyStore;
pub use principal::{InvalidRules, Rules};
pub use session::{Failed, Output, Session};
pub use settings::{ClientAuth, NameChanges, Settings, Tls};
pub use trust_store::TrustStore;
pub use validity::WARNING_DAYS;
