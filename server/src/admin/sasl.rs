//! SaslHandshake and SaslAuthenticate of clients that have no reason to authenticate: both are
//! refused, as in Kafka.

use muster_codec::ErrorCode;
use muster_codec::messages::{SaslAuthenticateResponse, SaslHandshakeResponse};

pub fn sasl_handshake() -> SaslHandshakeResponse<'static> {
    let error_code = ErrorCode::IllegalSaslState.code();
    SaslHandshakeResponse { error_code, mechanisms: Vec::new() }
}

pub fn sasl_authenticate() -> SaslAuthenticateResponse<'static> {
    let words = "SaslAuthenticate request received after successful authentication";
    SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some(words.into()),
        ..Default::default()
    }
}
