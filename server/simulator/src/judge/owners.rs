//! Who owns what, as members tell it: at rest each partition of a group that has members has one
//! owner.

use loadgen::event::{Event, EventKind};
use loadgen::history::{Group, Kind};
use loadgen::plan::{GroupIndex, MemberIndex, Partition};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct Owners {
    /// How many partitions each group is to own that gives them out.
    expected: BTreeMap<GroupIndex, u32>,
    owned: BTreeMap<(GroupIndex, MemberIndex), BTreeSet<Partition>>,
}

impl Owners {
    pub(super) fn expect_group(&mut self, group: &Group) {
        if group.protocol != Kind::Manual {
            self.expected.insert(group.index, group.partitions);
        }
    }

    pub(super) fn observe(&mut self, event: &Event) {
        let key = (event.group, event.member);
        match &event.kind {
            EventKind::Started => {
                self.owned.insert(key, BTreeSet::new());
            }
            EventKind::Assigned { partitions, .. } => {
                self.owned.entry(key).or_default().extend(partitions.iter().copied());
            }
            EventKind::Revoked { partitions } | EventKind::Lost { partitions } => {
                let owned = self.owned.entry(key).or_default();
                owned.retain(|partition| !partitions.contains(partition));
            }
            EventKind::Stopped { .. } | EventKind::Failed { .. } => {
                self.owned.remove(&key);
            }
            _ => {}
        }
    }

    /// What is wrong of a group whose members have all settled.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.expected.iter().find_map(|(group, expected)| {
            let members = self.owned.iter().filter(|((of, _), _)| of == group);
            let sets: Vec<_> = members.map(|(_, owned)| owned).collect();
            let sum: usize = sets.iter().map(|owned| owned.len()).sum();
            let union: BTreeSet<_> = sets.iter().flat_map(|owned| owned.iter()).collect();
            let is_right = sets.is_empty() || (sum, union.len()) == (*expected as usize, sum);
            (!is_right).then(|| {
                let of = union.len();
                format!("group {}: {sum} owned, {of} different, of {expected}", group.0)
            })
        })
    }
}
