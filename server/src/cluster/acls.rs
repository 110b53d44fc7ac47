//! The ACLs of the image, and the version of access rights.

use super::ClusterImage;
use crate::security::acls::{
    Acl, Acls, Entry, Operation, Pattern, PatternType, Permission, ResourceType,
};
use muster_codec::records::{AclKey, AclValue, ClusterRecord};
use muster_coordinator::Topics;

/// ACLs of the image.
impl ClusterImage {
    pub fn acls(&self) -> &Acls {
        &self.acls
    }

    /// Adds or removes an ACL. A record with kinds that this server does not know has no effect.
    pub(super) fn put_acl(&mut self, key: &AclKey<'_>, value: Option<&AclValue>) {
        match (acl_of(key), value) {
            (Some(acl), Some(_)) => self.acls.add(acl),
            (Some(acl), None) => self.acls.remove(&acl),
            (None, _) => {}
        }
    }

    pub(super) fn acl_records(&self) -> impl Iterator<Item = ClusterRecord<'static>> {
        self.acls.iter().map(|(pattern, entry)| record(pattern, entry, Some(AclValue {})))
    }
}

/// The version of access rights.
impl ClusterImage {
    /// The version of all access rights. It also increases across restarts.
    pub fn access_version(&self) -> i64 {
        self.access_version
    }

    /// Whether the topics or the access rights of the other image are newer than those of this one.
    /// Both images must be of the same process. Other changes do not count.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        self.version() < other.version() || self.access_version < other.access_version
    }

    /// Called with the records of an applied operation: updates the version if they change access
    /// rights.
    pub(super) fn date_access(&mut self, position: u64, records: &[ClusterRecord<'_>]) {
        let is_of_access = |record: &ClusterRecord<'_>| match record {
            ClusterRecord::Acl(..) | ClusterRecord::ScramCredential(..) => true,
            ClusterRecord::Topic(..)
            | ClusterRecord::Config(..)
            | ClusterRecord::ProducerIds(..)
            | ClusterRecord::DeletedTopic(..)
            | ClusterRecord::ClientQuota(..)
            | ClusterRecord::ClusterId(..) => false,
        };
        if records.iter().any(is_of_access) {
            self.access_version = position.cast_signed();
        }
    }
}

/// The record that adds or removes an ACL.
pub(super) fn record(
    pattern: &Pattern,
    entry: &Entry,
    value: Option<AclValue>,
) -> ClusterRecord<'static> {
    let key = AclKey {
        resource_type: pattern.resource_type.code(),
        pattern_type: pattern.pattern_type.code(),
        resource_name: pattern.name.to_string().into(),
        principal: entry.principal.to_string().into(),
        host: entry.host.to_string().into(),
        operation: entry.operation.code(),
        permission_type: entry.permission.code(),
    };
    ClusterRecord::Acl(key, value)
}

/// The ACL of a record; None if this server does not know a code in the record.
pub(crate) fn acl_of(key: &AclKey<'_>) -> Option<Acl> {
    let pattern = Pattern {
        resource_type: ResourceType::by_code(key.resource_type)?,
        pattern_type: PatternType::by_code(key.pattern_type)?,
        name: key.resource_name.as_ref().into(),
    };
    let entry = Entry {
        principal: key.principal.as_ref().into(),
        host: key.host.as_ref().into(),
        operation: Operation::by_code(key.operation)?,
        permission: Permission::by_code(key.permission_type)?,
    };
    Some(Acl { pattern, entry })
}
