//! One ACL.

use super::kinds::{Operation, PatternType, Permission, ResourceType};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// The name, or the address, that stands for all.
pub(super) const WILDCARD: &str = "*";

/// An ACL: a rule about the resources of a pattern (`AclBinding`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    pub pattern: Pattern,
    pub entry: Entry,
}

/// The resources that an ACL is about (`ResourcePattern`). The literal name `*` stands for all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    pub resource_type: ResourceType,
    pub pattern_type: PatternType,
    pub name: Arc<str>,
}

/// The rule of an ACL about a client (`AccessControlEntry`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// `User:alice`, or `User:*` for all.
    pub principal: Arc<str>,
    /// An address, or `*` for all.
    pub host: Arc<str>,
    pub operation: Operation,
    pub permission: Permission,
}

impl Pattern {
    pub(super) fn is_for_all(&self) -> bool {
        self.pattern_type == PatternType::Literal && *self.name == *WILDCARD
    }
}

impl Entry {
    const EVERYONE: &str = "User:*";

    pub(super) fn is_about(&self, principal: &str, host: &str) -> bool {
        let is_named = *self.principal == *principal || *self.principal == *Self::EVERYONE;
        is_named
            && (*self.host == *WILDCARD || *self.host == *host || is_same_ipv6(&self.host, host))
    }

    /// Its decision on an operation, if it has any. An ACL that denies an operation denies
    /// nothing else, though the operation may imply it.
    pub(super) fn decision(&self, operation: Operation) -> Option<Permission> {
        let applies = match self.permission {
            Permission::Allow => self.operation.implies(operation),
            Permission::Deny => self.operation == operation || self.operation == Operation::All,
        };
        applies.then_some(self.permission)
    }
}

/// An address of IPv6 may be written in many ways: Java has `0:0:0:0:0:0:0:1`, others `::1`.
fn is_same_ipv6(one: &str, other: &str) -> bool {
    let address = |text: &str| text.parse::<Ipv6Addr>().ok();
    one.contains(':') && address(one).is_some_and(|it| address(other) == Some(it))
}
