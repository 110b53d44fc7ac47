//! Delegation tokens, which muster does not support. It answers like a Kafka broker without
//! `delegation.token.secret.key`. Such a broker first refuses clients without an identity.

use crate::security::Principal;
use muster_codec::messages::{
    CreatableRenewers, CreateDelegationTokenRequest, CreateDelegationTokenResponse,
    DescribeDelegationTokenResponse, ExpireDelegationTokenResponse, RenewDelegationTokenResponse,
};
use muster_codec::{ErrorCode, Str};

const USER: &str = "User";

/// The refusal of CreateDelegationToken. `may_create` returns whether the client may create tokens
/// for a user.
pub fn create_delegation_token<'r>(
    request: &'r CreateDelegationTokenRequest<'_>,
    requester: &'r Principal,
    may_create: impl FnOnce(&str) -> bool,
) -> CreateDelegationTokenResponse<'r> {
    let itself = (requester.kind, &*requester.name);
    let (kind, name) = match request.owner_principal_name.as_deref() {
        None | Some("") => itself,
        Some(name) => (request.owner_principal_type.as_deref().unwrap_or_default(), name),
    };
    let is_other = |it: &CreatableRenewers<'_>| it.principal_type != USER;
    let (error, never) = if let Err(refusal) = may_use(requester) {
        refusal
    } else if (kind, name) != itself && !may_create(&format!("{kind}:{name}")) {
        (ErrorCode::DelegationTokenAuthorizationFailed, NEVER)
    } else if request.renewers.iter().any(is_other) {
        (ErrorCode::InvalidPrincipalType, NEVER)
    } else {
        DISABLED
    };
    CreateDelegationTokenResponse {
        error_code: error.code(),
        principal_type: Str::Borrowed(kind),
        principal_name: Str::Borrowed(name),
        token_requester_principal_type: Str::Borrowed(requester.kind),
        token_requester_principal_name: Str::Borrowed(&requester.name),
        issue_timestamp_ms: never,
        expiry_timestamp_ms: never,
        max_timestamp_ms: never,
        ..Default::default()
    }
}

pub fn renew_delegation_token(requester: &Principal) -> RenewDelegationTokenResponse {
    let (error, expiry_timestamp_ms) = refusal(requester);
    RenewDelegationTokenResponse {
        error_code: error.code(),
        expiry_timestamp_ms,
        ..Default::default()
    }
}

pub fn expire_delegation_token(requester: &Principal) -> ExpireDelegationTokenResponse {
    let (error, expiry_timestamp_ms) = refusal(requester);
    ExpireDelegationTokenResponse {
        error_code: error.code(),
        expiry_timestamp_ms,
        ..Default::default()
    }
}

pub fn describe_delegation_token(
    requester: &Principal,
) -> DescribeDelegationTokenResponse<'static> {
    let (error, _) = refusal(requester);
    DescribeDelegationTokenResponse { error_code: error.code(), ..Default::default() }
}

/// The value of a token's times in a refusal. Kafka's broker refuses with this value, Kafka's
/// controller with 0.
const NEVER: i64 = -1;
const DISABLED: (ErrorCode, i64) = (ErrorCode::DelegationTokenAuthDisabled, 0);

fn refusal(requester: &Principal) -> (ErrorCode, i64) {
    may_use(requester).err().unwrap_or(DISABLED)
}

/// # Errors
/// The refusal of a client that has neither authenticated nor shown a certificate.
fn may_use(requester: &Principal) -> Result<(), (ErrorCode, i64)> {
    if *requester == Principal::anonymous() {
        return Err((ErrorCode::DelegationTokenRequestNotAllowed, NEVER));
    }
    Ok(())
}
