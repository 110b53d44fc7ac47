//! The densest requests about delegation tokens.

use super::dense::{Form, names};
use muster_codec::messages::*;

pub(super) fn create(form: Form) -> CreateDelegationTokenRequest<'static> {
    let of = |name| CreatableRenewers { principal_type: "User".into(), principal_name: name };
    CreateDelegationTokenRequest {
        owner_principal_type: Some("User".into()),
        owner_principal_name: Some("no-such-user".into()),
        renewers: names(form, "no-such-user").into_iter().map(of).collect(),
        max_lifetime_ms: -1,
    }
}

pub(super) fn describe(form: Form) -> DescribeDelegationTokenRequest<'static> {
    let of =
        |name| DescribeDelegationTokenOwner { principal_type: "User".into(), principal_name: name };
    let owners = names(form, "no-such-user").into_iter().map(of).collect();
    DescribeDelegationTokenRequest { owners: Some(owners) }
}
