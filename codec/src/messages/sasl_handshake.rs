//! SaslHandshake (key 17), versions 0-1, none flexible: the choice of a SASL mechanism.
//!
//! - v1: tokens follow in SaslAuthenticate; after v0 they are frames of their own.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct SaslHandshakeRequest<'a> {
        mechanism: Str<'a>, 0..;
    }

    pub struct SaslHandshakeResponse<'a> {
        error_code: i16, 0..;
        /// The mechanisms that the server allows.
        mechanisms: Vec<Str<'a>>, 0..;
    }
}
