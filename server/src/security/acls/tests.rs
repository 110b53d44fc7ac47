//! Examples of Kafka's rules, and look-ups compared with a search through all ACLs.

use super::kinds::{Operation, PatternType, Permission, ResourceType};
use super::*;
use crate::security::Principal;
use proptest::prelude::*;
use std::sync::Arc;

use Operation::{All, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
use PatternType::{Literal, Prefixed};
use Permission::{Allow, Deny};
use ResourceType::{Group, Topic};

fn acl(
    (pattern_type, name): (PatternType, &str),
    (principal, host): (&str, &str),
    (permission, operation): (Permission, Operation),
) -> Acl {
    let pattern = Pattern { resource_type: Topic, pattern_type, name: name.into() };
    let entry = Entry { principal: principal.into(), host: host.into(), operation, permission };
    Acl { pattern, entry }
}

fn permissions_by(acls: &[Acl], rules: AclRules) -> Permissions {
    let mut set = Acls::default();
    acls.iter().cloned().for_each(|acl| set.add(acl));
    Permissions::new(Arc::new(rules), set, &Principal::user("alice"), "/10.0.0.1")
}

fn permissions(acls: &[Acl]) -> Permissions {
    permissions_by(acls, AclRules::default())
}

const ALICE: (&str, &str) = ("User:alice", "*");

#[test]
fn what_no_acl_allows_is_denied() {
    let allowed = permissions(&[acl((Literal, "t"), ALICE, (Allow, Read))]);
    assert!(allowed.allow(Read, Topic, "t"));
    assert!(!allowed.allow(Write, Topic, "t"));
    assert!(!allowed.allow(Read, Topic, "t2"));
    assert!(!allowed.allow(Read, Group, "t"), "another type of resource");
}

#[test]
fn an_address_of_ipv6_is_the_same_however_it_is_written() {
    for host in ["2001:db8::7", "2001:db8:0:0:0:0:0:7", "2001:DB8::0007"] {
        let acls = [
            acl((Literal, "t"), ("User:alice", "*"), (Allow, Read)),
            acl((Literal, "t"), ("User:alice", host), (Deny, Read)),
        ];
        let mut set = Acls::default();
        acls.into_iter().for_each(|acl| set.add(acl));
        let from = |host: &str| {
            let alice = Principal::user("alice");
            Permissions::new(Arc::default(), set.clone(), &alice, host).allow(Read, Topic, "t")
        };
        assert!(!from("/2001:db8::7") && from("/2001:db8::8") && from("/10.0.0.1"), "{host}");
    }
}

#[test]
fn names_hosts_and_principals_may_stand_for_all() {
    let everyone = [
        acl((Literal, "*"), ("User:*", "*"), (Allow, Read)),
        acl((Prefixed, "log-"), ("User:alice", "10.0.0.1"), (Allow, Write)),
        acl((Prefixed, "log-"), ("User:alice", "10.0.0.2"), (Allow, Delete)),
        acl((Literal, "t"), ("User:bob", "*"), (Allow, Write)),
    ];
    let allowed = permissions(&everyone);
    assert!(allowed.allow(Read, Topic, "anything"));
    assert!(allowed.allow(Write, Topic, "log-1") && !allowed.allow(Write, Topic, "log"));
    assert!(!allowed.allow(Delete, Topic, "log-1"), "from another address");
    assert!(!allowed.allow(Write, Topic, "t"), "for another client");
}

#[test]
fn an_operation_implies_others_only_where_it_is_allowed() {
    let reads = permissions(&[acl((Literal, "t"), ALICE, (Allow, Read))]);
    assert!(reads.allow(Describe, Topic, "t") && !reads.allow(DescribeConfigs, Topic, "t"));
    let alters = permissions(&[acl((Literal, "t"), ALICE, (Allow, AlterConfigs))]);
    assert!(alters.allow(DescribeConfigs, Topic, "t") && !alters.allow(Describe, Topic, "t"));
    let denied = permissions(&[
        acl((Literal, "t"), ALICE, (Allow, All)),
        acl((Literal, "t"), ALICE, (Deny, Read)),
    ]);
    assert!(denied.allow(Describe, Topic, "t"), "to deny reads denies no description");
    assert!(!denied.allow(Read, Topic, "t"));
}

#[test]
fn a_denial_wins_over_whatever_allows() {
    let denied = permissions(&[
        acl((Literal, "*"), ALICE, (Allow, All)),
        acl((Prefixed, "a"), ("User:*", "*"), (Deny, All)),
    ]);
    assert!(denied.allow(Read, Topic, "b") && !denied.allow(Read, Topic, "ab"));
}

#[test]
fn without_acls_about_a_resource_the_config_decides() {
    let rules = || AclRules { allows_without_acls: true, ..Default::default() };
    let allowed = permissions_by(&[acl((Literal, "t"), ("User:bob", "*"), (Allow, Read))], rules());
    assert!(allowed.allow(Read, Topic, "u") && !allowed.allow(Read, Topic, "t"));
    assert!(allowed.allow_on_any(Write, Topic));
}

#[test]
fn a_super_user_may_do_what_is_denied() {
    let super_users = ["User:alice".to_owned()].into();
    let rules = AclRules { super_users, ..Default::default() };
    let all = permissions_by(&[acl((Literal, "*"), ("User:*", "*"), (Deny, All))], rules);
    assert!(all.allow(Write, Topic, "t") && all.allow_on_any(Write, Topic));
}

#[test]
fn some_resource_is_allowed_if_no_wider_pattern_denies_it() {
    let may_write = |acls: &[Acl]| permissions(acls).allow_on_any(Write, Topic);
    let of = |pattern, permission| acl(pattern, ALICE, (permission, Write));
    assert!(may_write(&[of((Literal, "t"), Allow)]));
    assert!(!may_write(&[]));
    assert!(!may_write(&[of((Literal, "t"), Allow), of((Literal, "t"), Deny)]));
    assert!(!may_write(&[of((Prefixed, "tt"), Allow), of((Prefixed, "t"), Deny)]));
    assert!(may_write(&[of((Prefixed, "t"), Allow), of((Prefixed, "tt"), Deny)]));
    assert!(may_write(&[of((Literal, "*"), Allow), of((Prefixed, "t"), Deny)]));
    assert!(!may_write(&[of((Literal, "*"), Allow), of((Literal, "*"), Deny)]));
}

#[test]
fn a_filter_finds_patterns_by_their_name_or_by_what_they_are_about() {
    let of = |pattern| acl(pattern, ALICE, (Allow, Read));
    let acls = [of((Literal, "t1")), of((Literal, "*")), of((Prefixed, "t")), of((Prefixed, "u"))];
    let found = |pattern_type, name| {
        let fields = AclFilterFields {
            resource_type: 1,
            name,
            pattern_type,
            principal: None,
            host: None,
            operation: 1,
            permission: 1,
        };
        let filter = AclFilter::new(fields).unwrap();
        let found = acls.iter().filter(|it| filter.matches(&it.pattern, &it.entry));
        found.map(|it| it.pattern.name.to_string()).collect::<Vec<_>>()
    };
    const MATCH: i8 = 2;
    assert_eq!(found(MATCH, Some("t1")), ["t1", "*", "t"]);
    assert_eq!(found(Literal.code(), Some("t1")), ["t1"]);
    assert_eq!(found(Prefixed.code(), None), ["t", "u"]);
    assert_eq!(found(1, Some("t")), ["t"]);
}

fn any_acl() -> impl Strategy<Value = Acl> {
    let name = prop_oneof!["[ab]{0,4}", Just("*".to_owned()), Just("aé".to_owned())];
    let principal = prop_oneof![Just("User:alice"), Just("User:*"), Just("User:bob")];
    let host = prop_oneof![Just("*"), Just("10.0.0.1"), Just("10.0.0.2")];
    let operation = prop_oneof![Just(All), Just(Read), Just(Describe), Just(AlterConfigs)];
    let of = (any::<bool>(), name, principal, host, operation, any::<bool>());
    of.prop_map(|(is_prefixed, name, principal, host, operation, allows)| {
        let pattern = (if is_prefixed { Prefixed } else { Literal }, &*name);
        acl(pattern, (principal, host), (if allows { Allow } else { Deny }, operation))
    })
}

proptest! {
    #[test]
    fn look_ups_find_what_a_search_finds(
        acls in prop::collection::vec(any_acl(), 0..20),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        name in prop_oneof!["[ab]{1,5}", Just("aéb".to_owned())],
    ) {
        let mut acls = acls;
        let mut set = Acls::default();
        acls.iter().cloned().for_each(|acl| set.add(acl));
        for index in &removed {
            if acls.is_empty() {
                break;
            }
            let gone = acls[index.index(acls.len())].clone();
            set.remove(&gone);
            acls.retain(|acl| *acl != gone);
        }
        acls.sort();
        acls.dedup();
        prop_assert_eq!(set.len(), acls.len());
        let is_about = |pattern: &Pattern| match pattern.pattern_type {
            Literal => *pattern.name == *name || *pattern.name == *"*",
            Prefixed => name.starts_with(&*pattern.name),
        };
        let mut about: Vec<_> = set.about(Topic, &name).cloned().collect();
        about.sort();
        let searched = acls.iter().filter(|acl| is_about(&acl.pattern));
        let mut searched: Vec<_> = searched.map(|acl| acl.entry.clone()).collect();
        searched.sort();
        prop_assert_eq!(about, searched);
    }
}
