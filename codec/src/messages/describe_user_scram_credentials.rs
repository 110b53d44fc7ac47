//! DescribeUserScramCredentials (key 50), version 0, flexible from 0 (KIP-554).

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct DescribeUserScramCredentialsRequest<'a> {
        /// Null, or an empty list, for all users.
        users: Option<Vec<ScramUserName<'a>>> = Some(Vec::new()), 0..;
    }

    pub struct ScramUserName<'a> {
        name: Str<'a>, 0..;
    }

    pub struct DescribeUserScramCredentialsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        results: Vec<DescribeUserScramCredentialsResult<'a>>, 0..;
    }

    pub struct DescribeUserScramCredentialsResult<'a> {
        user: Str<'a>, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        credential_infos: Vec<ScramCredentialInfo>, 0..;
    }

    pub struct ScramCredentialInfo {
        mechanism: i8, 0..;
        iterations: i32, 0..;
    }
}
