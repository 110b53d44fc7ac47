//! DescribeDelegationToken (key 41), versions 1-3, flexible from 2.
//!
//! - v3: the requester of each token in the response.

use crate::declare::message;
use crate::types::{SecretBytes, Str};

message! {
    pub struct DescribeDelegationTokenRequest<'a> {
        /// Null for all owners.
        owners: Option<Vec<DescribeDelegationTokenOwner<'a>>>, 0..;
    }

    pub struct DescribeDelegationTokenOwner<'a> {
        principal_type: Str<'a>, 0..;
        principal_name: Str<'a>, 0..;
    }

    pub struct DescribeDelegationTokenResponse<'a> {
        error_code: i16, 0..;
        tokens: Vec<DescribedDelegationToken<'a>>, 0..;
        throttle_time_ms: i32, 0..;
    }

    pub struct DescribedDelegationToken<'a> {
        principal_type: Str<'a>, 0..;
        principal_name: Str<'a>, 0..;
        token_requester_principal_type: Str<'a>, 3..;
        token_requester_principal_name: Str<'a>, 3..;
        issue_timestamp: i64, 0..;
        expiry_timestamp: i64, 0..;
        max_timestamp: i64, 0..;
        token_id: Str<'a>, 0..;
        hmac: SecretBytes<'a>, 0..;
        renewers: Vec<DescribedDelegationTokenRenewer<'a>>, 0..;
    }

    pub struct DescribedDelegationTokenRenewer<'a> {
        principal_type: Str<'a>, 0..;
        principal_name: Str<'a>, 0..;
    }
}
