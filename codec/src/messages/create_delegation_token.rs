//! CreateDelegationToken (key 38), versions 1-3, flexible from 2.
//!
//! - v3: the owner in the request, the requester in the response.

use crate::declare::message;
use crate::types::{SecretBytes, Str};

message! {
    pub struct CreateDelegationTokenRequest<'a> {
        owner_principal_type: Option<Str<'a>>, 3..;
        /// If null or empty, the principal that sends the request is the owner.
        owner_principal_name: Option<Str<'a>>, 3..;
        renewers: Vec<CreatableRenewers<'a>>, 0..;
        max_lifetime_ms: i64, 0..;
    }

    pub struct CreatableRenewers<'a> {
        principal_type: Str<'a>, 0..;
        principal_name: Str<'a>, 0..;
    }

    pub struct CreateDelegationTokenResponse<'a> {
        error_code: i16, 0..;
        principal_type: Str<'a>, 0..;
        principal_name: Str<'a>, 0..;
        token_requester_principal_type: Str<'a>, 3..;
        token_requester_principal_name: Str<'a>, 3..;
        issue_timestamp_ms: i64, 0..;
        expiry_timestamp_ms: i64, 0..;
        max_timestamp_ms: i64, 0..;
        token_id: Str<'a>, 0..;
        hmac: SecretBytes<'a>, 0..;
        throttle_time_ms: i32, 0..;
    }
}
