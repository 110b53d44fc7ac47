//! Client authentication with SASL, without sockets.
//!
//! [`Authenticator`] has the state of one client, [`Sasl`] the requirements of a listener. Both are
//! pure: time, random numbers and credentials are arguments. `scram/`, `oauthbearer/` and
//! `plain.rs` implement the mechanisms.
//!
//! A shard never computes a salted password: clients compute it, and AlterUserScramCredentials
//! contains it. So a login costs a shard only a few hashes.

pub mod acls;
mod authenticator;
mod failure;
mod mechanism;
mod oauthbearer;
mod plain;
mod principal;
mod sasl;
mod scram;
mod secret;

pub(crate) use acls::CLUSTER_NAME;
pub(crate) use authenticator::{Authenticator, Progress};
pub(crate) use failure::Failure;
pub use mechanism::Mechanism;
pub(crate) use oauthbearer::Bearer;
pub use oauthbearer::{Jwks, JwksError, TokenKeys, TokenRules};
pub(crate) use plain::PlainUsers;
pub use principal::Principal;
pub(crate) use sasl::Sasl;
pub use scram::{ScramCredential, ScramMechanism};
pub use secret::Secret;
