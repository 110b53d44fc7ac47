//! SaslHandshake (key 17), versions 0-1, not flexible: the choice of a SASL mechanism.
//!
//! - v1: the client then sends its tokens in SaslAuthenticate. After v0 it sends them in frames
//!   without a request header.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct SaslHandshakeRequest<'a> {
        mechanism: Str<'a>, 0..;
    }

    pub struct SaslHandshakeResponse<'a> {
        error_code: i16, 0..;
        /// The mechanisms that the server supports.
        mechanisms: Vec<Str<'a>>, 0..;
    }
}
