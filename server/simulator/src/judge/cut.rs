//! Finds groups of which a crash kept only the first of several operations of one request.

use crate::records::RecordBytes;
use muster_codec::records::GroupRecord;
use std::collections::{BTreeMap, BTreeSet};

/// The records that the log has of a consumer group. A request whose operations are all in the log
/// leaves each member with an assignment, and target assignments together with their epoch.
#[derive(Default)]
struct Found {
    members: BTreeSet<String>,
    with_assignment: BTreeSet<String>,
    has_targets: bool,
    has_target_epoch: bool,
    has_classic_member: bool,
}

impl Found {
    fn is_cut_conversion(&self) -> bool {
        let has_new_member = !self.members.is_subset(&self.with_assignment);
        self.has_classic_member && (has_new_member || self.has_targets && !self.has_target_epoch)
    }
}

/// Counts the groups whose conversion was cut short. They have classic members, and a member has no
/// assignment, or the target assignments have no epoch.
pub(crate) fn cut_conversions(records: &[RecordBytes]) -> u64 {
    let mut groups = BTreeMap::<String, Found>::new();
    for (key, value) in records {
        let Ok(Some(record)) = GroupRecord::read(key, value.as_deref()) else { continue };
        let found = groups.entry(record.group_id().to_owned()).or_default();
        match record {
            GroupRecord::ConsumerGroupMemberMetadata(key, Some(value)) => {
                found.has_classic_member |= value.classic_member_metadata.0.is_some();
                found.members.insert(key.member_id.into_owned());
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, Some(_)) => {
                found.with_assignment.insert(key.member_id.into_owned());
            }
            GroupRecord::ConsumerGroupTargetAssignmentMember(_, Some(_)) => {
                found.has_targets = true;
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(_, Some(_)) => {
                found.has_target_epoch = true;
            }
            _ => {}
        }
    }
    groups.values().filter(|found| found.is_cut_conversion()).count() as u64
}
