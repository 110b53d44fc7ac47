//! The authentication of clients: SASL, without sockets.
//!
//! [`Authenticator`] has the states of one client, [`Sasl`] what a listener asks for. Both are
//! pure: the time, random numbers and credentials are arguments. `scram/`, `oauthbearer/` and
//! `plain.rs` have the mechanisms.
//!
//! A shard never derives a salted password: clients do, and AlterUserScramCredentials has it
//! already. So a login costs a shard a few hashes.

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
