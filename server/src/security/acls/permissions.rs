//! The permissions of one client.

use super::acl::{Entry, Pattern, WILDCARD};
use super::decided::Decided;
use super::kinds::{Operation, PatternType, Permission, ResourceType};
use super::set::Acls;
use crate::security::Principal;
use muster_coordinator::Describes;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// The name of the only resource of type cluster.
pub(crate) const CLUSTER_NAME: &str = "kafka-cluster";

/// Kafka's placeholder, a name that no resource has. If an operation is allowed on this name, it is
/// allowed on every name.
const ANY_NAME: &str = "hardcode";

/// The config's authorization rules apart from ACLs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AclRules {
    /// `super.users`, as `User:alice`.
    pub(crate) super_users: BTreeSet<String>,
    /// `allow.everyone.if.no.acl.found`
    pub(crate) allows_without_acls: bool,
}

/// The permissions of one client under one version of the cluster's ACLs.
#[derive(Debug)]
pub(crate) struct Permissions {
    rules: Arc<AclRules>,
    acls: Acls,
    principal: Arc<str>,
    host: Arc<str>,
    is_super_user: bool,
    decided: Decided,
}

impl Permissions {
    /// `host` is the client's address as Kafka prints it: `/127.0.0.1`.
    pub(crate) fn new(rules: Arc<AclRules>, acls: Acls, principal: &Principal, host: &str) -> Self {
        let principal = principal.to_string();
        let is_super_user = rules.super_users.contains(&principal);
        let host = host.trim_start_matches('/').into();
        Self {
            rules,
            acls,
            principal: principal.into(),
            host,
            is_super_user,
            decided: Decided::default(),
        }
    }

    /// Whether these permissions were made from this version of the ACLs.
    pub(crate) fn are_by(&self, acls: &Acls) -> bool {
        self.acls.is_same(acls)
    }

    pub(crate) fn principal(&self) -> &str {
        &self.principal
    }

    /// Whether the client may perform an operation (`StandardAuthorizerData.authorize`). An ACL
    /// that denies it takes precedence over ACLs that allow it. If no ACL decides, the operation
    /// is denied. But if the resource has no ACLs at all, the config decides.
    pub(crate) fn allow(&self, operation: Operation, of: ResourceType, name: &str) -> bool {
        self.is_super_user
            || self.decided.get(operation, of, name, || self.decide(operation, of, name))
    }

    fn decide(&self, operation: Operation, of: ResourceType, name: &str) -> bool {
        let (mut has_acls, mut is_allowed) = (false, false);
        for entry in self.acls.about(of, name) {
            has_acls = true;
            match self.decision(entry, operation) {
                Some(Permission::Deny) => return false,
                Some(Permission::Allow) => is_allowed = true,
                None => {}
            }
        }
        is_allowed || (!has_acls && self.rules.allows_without_acls)
    }

    pub(crate) fn allow_on_topic(&self, operation: Operation, name: &str) -> bool {
        self.allow(operation, ResourceType::Topic, name)
    }

    pub(crate) fn allow_on_cluster(&self, operation: Operation) -> bool {
        self.allow(operation, ResourceType::Cluster, CLUSTER_NAME)
    }

    /// Whether the operation is allowed on at least one resource of the type
    /// (`Authorizer.authorizeByResourceType`): an ACL allows it for a pattern, and no ACL denies it
    /// for the same pattern, for a prefix of the pattern, or for all resources.
    pub(crate) fn allow_on_any(&self, operation: Operation, of: ResourceType) -> bool {
        if self.allow(operation, of, ANY_NAME) {
            return true;
        }
        let decided = |permission| {
            let is = move |entry: &Entry| self.decision(entry, operation) == Some(permission);
            self.acls.of_type(of).filter(move |(_, entry)| is(entry)).map(|(pattern, _)| pattern)
        };
        let denied: HashSet<(PatternType, &str)> =
            decided(Permission::Deny).map(|it| (it.pattern_type, &*it.name)).collect();
        if denied.contains(&(PatternType::Literal, WILDCARD)) {
            return false;
        }
        let is_denied = |it: &Pattern| {
            let ends = (0..=it.name.len()).filter(|end| it.name.is_char_boundary(*end));
            let mut prefixes = ends.map(|end| (PatternType::Prefixed, &it.name[..end]));
            denied.contains(&(it.pattern_type, &*it.name))
                || prefixes.any(|prefix| denied.contains(&prefix))
        };
        let mut allowed = decided(Permission::Allow);
        allowed.any(|it| it.is_for_all() || !is_denied(it))
    }

    /// The operations among `operations` that are allowed. Argument and result are bits.
    pub(crate) fn allowed_of(&self, operations: i32, of: ResourceType, name: &str) -> i32 {
        let allowed = Operation::of_bits(operations).filter(|it| self.allow(*it, of, name));
        allowed.map(Operation::bit).sum()
    }

    fn decision(&self, entry: &Entry, operation: Operation) -> Option<Permission> {
        entry.is_about(&self.principal, &self.host).then(|| entry.decision(operation)).flatten()
    }
}

impl Describes for Permissions {
    fn may_describe(&self, topic: &str) -> bool {
        self.allow_on_topic(Operation::Describe, topic)
    }
}
