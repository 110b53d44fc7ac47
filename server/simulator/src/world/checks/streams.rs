//! Streams groups after faults have ended: their internal topics must exist, and each task must
//! have an owner. A group whose topics are wrong has no tasks, as in Kafka.

use crate::client::{Readiness, readiness};
use crate::coverage::Seen;
use crate::world::{Machine, World};
use loadgen::event::EventKind;
use loadgen::plan::{GroupIndex, Protocol};
use std::collections::{BTreeMap, BTreeSet};

impl<M: Machine> World<M> {
    /// Computes from the present topics how many tasks each streams group must have, and passes
    /// these numbers to the judge.
    pub(in crate::world) fn expect_tasks(&mut self) {
        for (group, readiness) in self.streams_groups() {
            let tasks = match readiness {
                Readiness::Ready(tasks) => tasks,
                Readiness::Lacking | Readiness::Hindered => 0,
            };
            self.judge.expect_tasks(group, tasks);
        }
    }

    /// Counts, at rest, the streams groups that have tasks and the streams groups that have none.
    pub(in crate::world) fn count_streams_groups(&mut self) {
        for (_, readiness) in self.streams_groups() {
            self.sim.saw(match readiness {
                Readiness::Ready(_) => Seen::StreamsSettled,
                Readiness::Lacking | Readiness::Hindered => Seen::StreamsHindered,
            });
        }
    }

    /// A streams group that has members, and whose internal topics the server has not created.
    pub(crate) fn lacks_internal_topics(&self) -> Option<GroupIndex> {
        let groups = self.streams_groups().into_iter();
        let mut lacking = groups.filter(|(_, it)| *it == Readiness::Lacking);
        lacking.find_map(|(group, _)| self.has_running_members(group).then_some(group))
    }

    /// The groups that have no tasks because of their topics. Their members do not settle.
    pub(crate) fn hindered_groups(&self) -> BTreeSet<GroupIndex> {
        let groups = self.streams_groups().into_iter();
        groups.filter(|(_, it)| *it == Readiness::Hindered).map(|(group, _)| group).collect()
    }

    fn streams_groups(&self) -> BTreeMap<GroupIndex, Readiness> {
        let Some(partitions) = self.node.partitions() else { return BTreeMap::new() };
        let mut groups = BTreeMap::new();
        for group in self.clients.members().iter().map(|sim| &sim.member.plan().group) {
            if let Protocol::Streams(plan) = &group.protocol {
                groups.entry(group.index).or_insert_with(|| readiness(&plan.topology, &partitions));
            }
        }
        groups
    }
}

/// The coverage mark of an event of a member of a streams group.
pub(super) fn seen(event: &EventKind) -> Option<Seen> {
    match event {
        EventKind::Standbys { partitions, .. } if !partitions.is_empty() => {
            Some(Seen::StreamsStandbys)
        }
        EventKind::Statuses { codes } => codes.iter().find_map(|code| match code {
            1 => Some(Seen::StreamsNoSource),
            2 => Some(Seen::StreamsWrongPartitions),
            3 => Some(Seen::StreamsNoInternal),
            5 => Some(Seen::StreamsDelayed),
            _ => None,
        }),
        _ => None,
    }
}
