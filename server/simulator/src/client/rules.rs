//! ACLs in a form of the simulator's own. It decides by itself what they permit, and compares its
//! decisions with those of the server.

use muster_server::security::acls::{Entry, Pattern, PatternType, Permission};
use std::collections::BTreeSet;

pub(crate) const TOPIC: i8 = 2;
pub(crate) const GROUP: i8 = 3;

const ALL: i8 = 2;
pub(crate) const READ: i8 = 3;
const WRITE: i8 = 4;
const DELETE: i8 = 6;
const ALTER: i8 = 7;
pub(crate) const DESCRIBE: i8 = 8;

pub(crate) const LITERAL: i8 = 3;
pub(crate) const PREFIXED: i8 = 4;
pub(crate) const DENY: i8 = 2;
pub(crate) const ALLOW: i8 = 3;

pub(crate) const EVERYONE: &str = "User:*";
pub(crate) const OPERATIONS: [i8; 4] = [ALL, READ, WRITE, DESCRIBE];

/// An ACL that applies to all hosts. The numbers of its fields are those of Kafka's protocol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    pub(crate) resource: i8,
    pub(crate) pattern: i8,
    pub(crate) name: String,
    pub(crate) principal: String,
    pub(crate) operation: i8,
    pub(crate) permission: i8,
}

/// The right that a client's request needs: an operation of a principal on a resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Right<'r> {
    pub(crate) principal: &'r str,
    pub(crate) operation: i8,
    pub(crate) resource: i8,
    pub(crate) name: &'r str,
}

/// A right that an answer grants or refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) operation: i8,
    pub(crate) resource: i8,
    pub(crate) name: String,
    pub(crate) is_granted: bool,
}

impl Rule {
    pub(crate) fn of(pattern: &Pattern, entry: &Entry) -> Self {
        Self {
            resource: pattern.resource_type.code(),
            pattern: if pattern.pattern_type == PatternType::Prefixed { PREFIXED } else { LITERAL },
            name: pattern.name.to_string(),
            principal: entry.principal.to_string(),
            operation: entry.operation.code(),
            permission: if entry.permission == Permission::Deny { DENY } else { ALLOW },
        }
    }

    fn is_about(&self, right: Right<'_>) -> bool {
        let names = match self.pattern {
            PREFIXED => right.name.starts_with(&self.name),
            _ => self.name == right.name || self.name == "*",
        };
        let is_of = self.principal == right.principal || self.principal == EVERYONE;
        names && is_of && self.resource == right.resource
    }

    fn allows(&self, right: Right<'_>) -> bool {
        let implies =
            right.operation == DESCRIBE && [READ, WRITE, DELETE, ALTER].contains(&self.operation);
        let is_such = [ALL, right.operation].contains(&self.operation) || implies;
        self.permission == ALLOW && is_such && self.is_about(right)
    }

    fn denies(&self, right: Right<'_>) -> bool {
        let is_such = [ALL, right.operation].contains(&self.operation);
        self.permission == DENY && is_such && self.is_about(right)
    }
}

/// Whether some rules allow a right.
pub(crate) fn allow<'r>(rules: impl Iterator<Item = &'r Rule> + Clone, right: Right<'_>) -> bool {
    !rules.clone().any(|rule| rule.denies(right)) && rules.clone().any(|rule| rule.allows(right))
}

/// The ACLs that certainly exist, and those that may exist: their creation or deletion was
/// requested, and no answer has shown whether it was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Book {
    pub(crate) certain: BTreeSet<Rule>,
    pub(crate) possible: BTreeSet<Rule>,
}

impl Book {
    /// Whether a correct server may answer like this: may grant the right if `is_granted`, or else
    /// refuse it.
    pub(crate) fn permits(&self, right: Right<'_>, is_granted: bool) -> bool {
        let wanted = if is_granted { ALLOW } else { DENY };
        let helpful = self.possible.iter().filter(|rule| rule.permission == wanted);
        allow(self.certain.iter().chain(helpful), right) == is_granted
    }

    /// Checks the ACLs of an image.
    ///
    /// # Errors
    /// The book excludes these ACLs.
    pub(crate) fn check(&self, found: &BTreeSet<Rule>) -> Result<(), String> {
        if let Some(rule) = self.certain.iter().find(|rule| !found.contains(rule)) {
            return Err(format!("the ACL {rule:?} is gone"));
        }
        let is_known = |rule: &&Rule| self.certain.contains(rule) || self.possible.contains(rule);
        match found.iter().find(|rule| !is_known(rule)) {
            Some(rule) => Err(format!("the ACL {rule:?} is there")),
            None => Ok(()),
        }
    }
}
