//! TLS of a server's connections, without I/O.
//!
//! [`Session`] is one connection: received bytes in, requests of the client out; answers in, bytes
//! to send out. It is given bytes by [`Session::receive`], which costs little, and does its work in
//! [`Session::advance`], so that the caller decides when a handshake has its turn. [`Tls`] is what
//! the sessions of a listener share: its key, its certificates and what it asks of clients. It is
//! made by [`Settings::load`] from Kafka's configs, and replaced as a whole when they change
//! ([`Settings::load_instead`] if a client has asked for it).
//!
//! # Contract
//!
//! - No input makes this crate panic. A failed session returns why, and the alert to send.
//! - A session holds at most one unfinished record, and [`limits::HANDSHAKE_BYTES_MAX`] bytes until
//!   its handshake is done. A handshake of more bytes or records, renegotiation, and a number of
//!   records of a few bytes are failures.
//! - Time is the caller's: a session waits for ever.

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
