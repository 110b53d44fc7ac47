//! AlterUserScramCredentials (key 51), version 0, flexible from 0 (KIP-554). The client derives the
//! salted password, which is slow on purpose; the server never receives the password.

use crate::declare::message;
use crate::types::{Bytes, SecretBytes, Str};

message! {
    pub struct AlterUserScramCredentialsRequest<'a> {
        deletions: Vec<ScramCredentialDeletion<'a>>, 0..;
        upsertions: Vec<ScramCredentialUpsertion<'a>>, 0..;
    }

    pub struct ScramCredentialDeletion<'a> {
        name: Str<'a>, 0..;
        mechanism: i8, 0..;
    }

    pub struct ScramCredentialUpsertion<'a> {
        name: Str<'a>, 0..;
        mechanism: i8, 0..;
        iterations: i32, 0..;
        salt: Bytes<'a>, 0..;
        salted_password: SecretBytes<'a>, 0..;
    }

    pub struct AlterUserScramCredentialsResponse<'a> {
        throttle_time_ms: i32, 0..;
        results: Vec<AlterUserScramCredentialsResult<'a>>, 0..;
    }

    pub struct AlterUserScramCredentialsResult<'a> {
        user: Str<'a>, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }
}
