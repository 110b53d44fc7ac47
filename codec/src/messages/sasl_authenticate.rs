//! SaslAuthenticate (key 36), versions 0-2, flexible from 2: a token of a SASL mechanism.
//!
//! - v1: response `session_lifetime_ms` (KIP-368).

use crate::declare::message;
use crate::types::{SecretBytes, Str};

message! {
    pub struct SaslAuthenticateRequest<'a> {
        auth_bytes: SecretBytes<'a>, 0..;
    }

    pub struct SaslAuthenticateResponse<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        auth_bytes: SecretBytes<'a>, 0..;
        /// Milliseconds after which the client has to authenticate again; 0 for no limit.
        session_lifetime_ms: i64, 1..;
    }
}
