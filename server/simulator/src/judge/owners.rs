//! The owners of partitions, as members report them. At rest each partition of a group with members
//! has exactly one owner.

use loadgen::event::{Event, EventKind};
use loadgen::history::{Group, Kind};
use loadgen::plan::{GroupIndex, MemberIndex, Partition};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct Owners {
    /// The number of partitions of each group whose members do not choose partitions themselves.
    expected: BTreeMap<GroupIndex, u32>,
    owned: BTreeMap<(GroupIndex, MemberIndex), BTreeSet<Partition>>,
}

impl Owners {
    pub(super) fn expect_group(&mut self, group: &Group) {
        if group.protocol != Kind::Manual {
            self.expected.insert(group.index, group.partitions);
        }
    }

    /// Expects a number of partitions from now on.
    pub(crate) fn expect(&mut self, group: GroupIndex, partitions: u32) {
        self.expected.insert(group, partitions);
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

    /// A group whose partitions do not have exactly one owner each, in words. Called once all
    /// members have settled.
    pub(crate) fn wrong(&self) -> Option<String> {
        let wrong = self.tallies().find(|tally| !tally.is_right())?;
        let Tally { group, owned, different, expected } = wrong;
        Some(format!("group {}: {owned} owned, {different} different, of {expected}", group.0))
    }

    /// The groups with partitions without an owner; empty if any partition has two owners.
    pub(crate) fn lacking(&self) -> Vec<GroupIndex> {
        let wrong: Vec<_> = self.tallies().filter(|tally| !tally.is_right()).collect();
        match wrong.iter().all(Tally::is_lacking) {
            true => wrong.iter().map(|tally| tally.group).collect(),
            false => Vec::new(),
        }
    }

    /// The tallies of all groups that have members.
    fn tallies(&self) -> impl Iterator<Item = Tally> {
        self.expected.iter().filter_map(|(group, expected)| {
            let members = self.owned.iter().filter(|((of, _), _)| of == group);
            let sets: Vec<_> = members.map(|(_, owned)| owned).collect();
            let union: BTreeSet<_> = sets.iter().flat_map(|owned| owned.iter()).collect();
            (!sets.is_empty()).then(|| Tally {
                group: *group,
                owned: sets.iter().map(|owned| owned.len()).sum(),
                different: union.len(),
                expected: *expected as usize,
            })
        })
    }
}

/// The number of partitions that the members of a group own together, and the number of different
/// partitions among them.
struct Tally {
    group: GroupIndex,
    owned: usize,
    different: usize,
    expected: usize,
}

impl Tally {
    fn is_right(&self) -> bool {
        (self.owned, self.different) == (self.expected, self.owned)
    }

    /// Some partitions have no owner, and none has two.
    fn is_lacking(&self) -> bool {
        self.owned < self.expected && self.different == self.owned
    }
}
