//! The filter of DescribeAcls and DeleteAcls (Kafka's `AclBindingFilter`).

use super::acl::{Entry, Pattern, WILDCARD};
use super::kinds::{Operation, PatternType, Permission, ResourceType};
use muster_codec::messages::{DeleteAclsFilter, DescribeAclsRequest};

/// The code for any kind.
const ANY: i8 = 1;

/// The pattern type for all patterns that select a given name.
const MATCH: i8 = 2;

/// A filter. A field that is None matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclFilter<'f> {
    resource_type: Option<ResourceType>,
    name: Option<&'f str>,
    patterns: Patterns,
    principal: Option<&'f str>,
    host: Option<&'f str>,
    operation: Option<Operation>,
    permission: Option<Permission>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patterns {
    Any,
    /// All patterns that select the resource with the filter's name.
    Match,
    Of(PatternType),
}

/// The fields of a filter in a request.
#[derive(Debug, Clone, Copy)]
pub struct AclFilterFields<'f> {
    pub resource_type: i8,
    pub name: Option<&'f str>,
    pub pattern_type: i8,
    pub principal: Option<&'f str>,
    pub host: Option<&'f str>,
    pub operation: i8,
    pub permission: i8,
}

macro_rules! fields_of {
    ($($message:ident)*) => {$(
        impl<'f> From<&'f $message<'_>> for AclFilterFields<'f> {
            fn from(message: &'f $message<'_>) -> Self {
                Self {
                    resource_type: message.resource_type_filter,
                    name: message.resource_name_filter.as_deref(),
                    pattern_type: message.pattern_type_filter,
                    principal: message.principal_filter.as_deref(),
                    host: message.host_filter.as_deref(),
                    operation: message.operation,
                    permission: message.permission_type,
                }
            }
        }
    )*};
}

fields_of! { DescribeAclsRequest DeleteAclsFilter }

impl<'f> AclFilter<'f> {
    /// None if a code is unknown.
    pub fn new(fields: AclFilterFields<'f>) -> Option<Self> {
        let AclFilterFields { name, principal, host, .. } = fields;
        Some(Self {
            resource_type: any_or(fields.resource_type, ResourceType::by_code)?,
            name,
            patterns: match fields.pattern_type {
                ANY => Patterns::Any,
                MATCH => Patterns::Match,
                code => Patterns::Of(PatternType::by_code(code)?),
            },
            principal,
            host,
            operation: any_or(fields.operation, Operation::by_code)?,
            permission: any_or(fields.permission, Permission::by_code)?,
        })
    }

    /// The pattern of all ACLs that the filter can match, if there is only one.
    pub(super) fn pattern(&self) -> Option<(ResourceType, PatternType, &'f str)> {
        let Patterns::Of(pattern_type) = self.patterns else { return None };
        Some((self.resource_type?, pattern_type, self.name?))
    }

    pub fn matches(&self, pattern: &Pattern, entry: &Entry) -> bool {
        let is = |asked: Option<&str>, text: &str| asked.is_none_or(|asked| asked == text);
        self.resource_type.is_none_or(|asked| asked == pattern.resource_type)
            && self.matches_name(pattern)
            && is(self.principal, &entry.principal)
            && is(self.host, &entry.host)
            && self.operation.is_none_or(|asked| asked == entry.operation)
            && self.permission.is_none_or(|asked| asked == entry.permission)
    }

    fn matches_name(&self, pattern: &Pattern) -> bool {
        let is_of_type = match self.patterns {
            Patterns::Any | Patterns::Match => true,
            Patterns::Of(asked) => asked == pattern.pattern_type,
        };
        let Some(name) = self.name else { return is_of_type };
        let is_about = match (self.patterns, pattern.pattern_type) {
            (Patterns::Match, PatternType::Literal) => {
                *pattern.name == *name || *pattern.name == *WILDCARD
            }
            (Patterns::Match, PatternType::Prefixed) => name.starts_with(&*pattern.name),
            (Patterns::Any | Patterns::Of(_), _) => *pattern.name == *name,
        };
        is_of_type && is_about
    }
}

/// The kind with this code. The inner None means any kind; the outer None, an unknown code.
fn any_or<T>(code: i8, by_code: impl Fn(i8) -> Option<T>) -> Option<Option<T>> {
    if code == ANY { Some(None) } else { by_code(code).map(Some) }
}
