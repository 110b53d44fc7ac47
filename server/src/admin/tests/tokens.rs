//! Requests for delegation tokens, and requests to unregister brokers and controllers: all are
//! refused.

use super::*;
use crate::security::Principal;
use ErrorCode::{
    BrokerIdNotRegistered, ControllerIdNotRegistered, DelegationTokenAuthDisabled,
    DelegationTokenAuthorizationFailed, DelegationTokenRequestNotAllowed, InvalidPrincipalType,
};

fn created(requester: &Principal, owner: Option<&'static str>, renewer: &'static str) -> ErrorCode {
    let renewer =
        CreatableRenewers { principal_type: renewer.into(), principal_name: "carol".into() };
    let request = CreateDelegationTokenRequest {
        owner_principal_type: owner.map(|_| "User".into()),
        owner_principal_name: owner.map(Str::Borrowed),
        renewers: vec![renewer],
        max_lifetime_ms: -1,
    };
    let answer = create_delegation_token(&request, requester, |user| user == "User:bob");
    let owner = owner.filter(|it| !it.is_empty()).unwrap_or(&requester.name);
    assert_eq!((&*answer.principal_type, &*answer.principal_name), ("User", owner));
    assert_eq!(&*answer.token_requester_principal_name, &*requester.name);
    code(answer.error_code)
}

#[test]
fn tokens_are_disabled_for_those_who_may_ask() {
    let alice = &Principal::user("alice");
    for owner in [None, Some(""), Some("alice"), Some("bob")] {
        assert_eq!(created(alice, owner, "User"), DelegationTokenAuthDisabled, "{owner:?}");
        assert_eq!(created(alice, owner, "Group"), InvalidPrincipalType, "{owner:?}");
    }
    assert_eq!(created(alice, Some("dave"), "Group"), DelegationTokenAuthorizationFailed);
    let anonymous = &Principal::anonymous();
    assert_eq!(created(anonymous, Some("dave"), "Group"), DelegationTokenRequestNotAllowed);
    let not_used = |it: &Principal| {
        let renewed = renew_delegation_token(it);
        let expired = expire_delegation_token(it);
        assert_eq!(renewed.expiry_timestamp_ms, expired.expiry_timestamp_ms);
        let described = describe_delegation_token(it).error_code;
        ([renewed.error_code, expired.error_code, described].map(code), renewed.expiry_timestamp_ms)
    };
    assert_eq!(not_used(alice), ([DelegationTokenAuthDisabled; 3], 0));
    assert_eq!(not_used(anonymous), ([DelegationTokenRequestNotAllowed; 3], -1));
}

#[test]
fn shards_stay_registered_and_nothing_else_is() {
    let cluster = Cluster::new(&[]);
    let of = |broker_id| {
        let answer = unregister_broker(&cluster.view(), &UnregisterBrokerRequest { broker_id });
        code(answer.error_code)
    };
    assert_eq!([0, 1].map(of), [InvalidRequest; 2]);
    assert_eq!([-1, 2, 77].map(of), [BrokerIdNotRegistered; 3]);
}

#[test]
fn shard_0_stays_the_controller_and_no_other_is_registered() {
    let of = |controller_id| {
        let request = UnregisterControllerRequest { controller_id };
        let answer = unregister_controller(&request);
        (code(answer.error_code), answer.error_message.unwrap().into_owned())
    };
    let active = "Controller cannot unregister itself while it is active.".to_owned();
    assert_eq!(of(0), (InvalidRequest, active));
    let unknown = |id| format!("Controller ID {id} is not currently registered.");
    for id in [-1, 1, 77] {
        assert_eq!(of(id), (ControllerIdNotRegistered, unknown(id)));
    }
}
