//! The records of share groups: how many were delivered, their outcomes, and how evenly they were
//! spread over the members of each group.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::event::{Acknowledge, AcknowledgedBatch, AcquiredBatch, Event, EventKind};
use crate::plan::{GroupIndex, MemberIndex, Partition};
use crate::report::model;

#[derive(Default)]
pub(super) struct Shares {
    counts: model::Shares,
    groups: BTreeMap<GroupIndex, Group>,
    acknowledging: HashMap<(MemberIndex, u32), Arc<[AcknowledgedBatch]>>,
}

struct Group {
    id: Arc<str>,
    /// The number of records that each member got. Members that never had a partition are absent.
    delivered: BTreeMap<MemberIndex, u64>,
}

impl Shares {
    /// Takes an event of a share group, which has this id.
    pub(super) fn observe(&mut self, event: &Event, id: &Arc<str>) {
        let member = event.member;
        match &event.kind {
            EventKind::Assigned { .. } => {
                self.group(event.group, id).delivered.entry(member).or_default();
            }
            EventKind::Acquired { batches, .. } => {
                let records: u64 = batches.iter().map(AcquiredBatch::count).sum();
                let again = batches.iter().filter(|batch| batch.deliveries > 1);
                self.counts.redelivered += again.map(AcquiredBatch::count).sum::<u64>();
                self.counts.delivered += records;
                *self.group(event.group, id).delivered.entry(member).or_default() += records;
            }
            EventKind::AcknowledgeSent { id, batches, .. } => {
                self.acknowledging.insert((member, *id), Arc::clone(batches));
            }
            EventKind::Acknowledged { id, refused } => self.acknowledged(member, *id, refused),
            EventKind::AcknowledgeUnknown { id } => {
                let batches = self.acknowledging.remove(&(member, *id));
                let records = batches.iter().flat_map(|all| all.iter());
                self.counts.unknown += records.map(AcknowledgedBatch::count).sum::<u64>();
            }
            EventKind::Stopped { .. } | EventKind::Failed { .. } => {
                self.acknowledging.retain(|(of, _), _| *of != member);
            }
            // Other events do not concern the records of share groups.
            _ => {}
        }
    }

    pub(super) fn counts(&self) -> &model::Shares {
        &self.counts
    }

    pub(super) fn shown(&self) -> model::Shares {
        let spread = self.groups.values().map(Group::spread).collect();
        model::Shares { spread, ..self.counts.clone() }
    }

    fn group(&mut self, index: GroupIndex, id: &Arc<str>) -> &mut Group {
        let new = || Group { id: Arc::clone(id), delivered: BTreeMap::new() };
        self.groups.entry(index).or_insert_with(new)
    }

    fn acknowledged(&mut self, member: MemberIndex, id: u32, refused: &[(Partition, i16)]) {
        let Some(batches) = self.acknowledging.remove(&(member, id)) else { return };
        for batch in batches.iter() {
            let is_refused = refused.iter().any(|(partition, _)| *partition == batch.partition);
            let counts = &mut self.counts;
            let count = match batch.how {
                _ if is_refused => &mut counts.refused,
                Acknowledge::Accept => &mut counts.accepted,
                Acknowledge::Release => &mut counts.released,
                Acknowledge::Reject => &mut counts.rejected,
                Acknowledge::Gap => continue,
            };
            *count += batch.count();
        }
    }
}

impl Group {
    fn spread(&self) -> model::Spread {
        let mut all = Vec::from_iter(self.delivered.values().copied());
        all.sort_unstable();
        model::Spread {
            group: self.id.to_string(),
            members: all.len() as u64,
            min: all.first().copied().unwrap_or(0),
            median: all.get(all.len() / 2).copied().unwrap_or(0),
            max: all.last().copied().unwrap_or(0),
            fairness: fairness(&all),
        }
    }
}

/// Jain's index: 1 if all numbers are equal, 1/n if one of n has everything.
fn fairness(of: &[u64]) -> f64 {
    let sum: f64 = of.iter().map(|it| *it as f64).sum();
    let squares: f64 = of.iter().map(|it| (*it as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / (of.len() as f64 * squares) } else { 1.0 }
}

impl AcquiredBatch {
    fn count(&self) -> u64 {
        count(self.first, self.last)
    }
}

impl AcknowledgedBatch {
    fn count(&self) -> u64 {
        count(self.first, self.last)
    }
}

fn count(first: i64, last: i64) -> u64 {
    u64::try_from(last.saturating_sub(first)).map_or(0, |more| more + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_that_of_jain() {
        assert_eq!(fairness(&[5, 5, 5, 5]), 1.0);
        assert_eq!(fairness(&[0, 0, 0, 9]), 0.25);
        assert_eq!(fairness(&[]), 1.0);
    }
}
