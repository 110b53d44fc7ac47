//! One ACL.

use super::kinds::{Operation, PatternType, Permission, ResourceType};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// The name or address that stands for all.
pub(super) const WILDCARD: &str = "*";

/// An ACL: a rule for the resources that a pattern selects (Kafka's `AclBinding`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    pub pattern: Pattern,
    pub entry: Entry,
}

/// Selects the resources of an ACL (Kafka's `ResourcePattern`). The literal name `*` selects all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    pub resource_type: ResourceType,
    pub pattern_type: PatternType,
    pub name: Arc<str>,
}

/// The part of an ACL that says which client may do what (Kafka's `AccessControlEntry`).
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

    /// The decision of this ACL about an operation, if it applies. Denying an operation does not
    /// deny the operations that it implies.
    pub(super) fn decision(&self, operation: Operation) -> Option<Permission> {
        let applies = match self.permission {
            Permission::Allow => self.operation.implies(operation),
            Permission::Deny => self.operation == operation || self.operation == Operation::All,
        };
        applies.then_some(self.permission)
    }
}

/// Whether both are the same IPv6 address in possibly different notations. Java writes
/// `0:0:0:0:0:0:0:1`, others `::1`.
fn is_same_ipv6(one: &str, other: &str) -> bool {
    let address = |text: &str| text.parse::<Ipv6Addr>().ok();
    one.contains(':') && address(one).is_some_and(|it| address(other) == Some(it))
}
