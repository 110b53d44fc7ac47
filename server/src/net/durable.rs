//! The positions of a shard's log that answers wait for, and up to where the log is flushed.
//!
//! All slots (parts of the shard's state) share its one log, so one flush serves them all. Each
//! slot has positions of its own, for all topics together, and continues from the position at which
//! the log was opened. A position is the number of a block that has records of the slot. For each
//! slot, `accepted >= submitted >= flushed` holds (`ShardLog::progress_of`). Nearly all answers
//! wait for a position of one slot.

use super::ConnectionId;
use crate::topics::InternalTopic;
use muster_codec::Response;
use muster_coordinator::RequestId;
use muster_storage::LogPartition;
use std::collections::VecDeque;

/// The positions that must be durable before an answer may leave. Positions of different slots of
/// the log cannot be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum VisibleAt {
    /// The answer need not wait.
    #[default]
    Now,
    Position(LogPartition, u64),
    /// Positions of several partitions, in their order.
    All(Vec<(LogPartition, u64)>),
}

impl VisibleAt {
    /// A position of a partition. Zero is before all positions.
    pub fn position(partition: LogPartition, position: u64) -> Self {
        if position == 0 { Self::Now } else { Self::Position(partition, position) }
    }

    /// Adds the positions that another answer waits for.
    pub fn join(&mut self, other: Self) {
        if *self == Self::Now {
            *self = other;
            return;
        }
        for (partition, position) in other.positions() {
            self.raise(partition, position);
        }
    }

    fn raise(&mut self, partition: LogPartition, position: u64) {
        match self {
            Self::Position(own, at) if *own == partition => *at = position.max(*at),
            Self::All(all) => match all.binary_search_by_key(&partition, |(own, _)| *own) {
                Ok(place) => all[place].1 = position.max(all[place].1),
                Err(place) => all.insert(place, (partition, position)),
            },
            Self::Position(own, at) => {
                let mut both = vec![(*own, *at), (partition, position)];
                both.sort_unstable();
                *self = Self::All(both);
            }
            Self::Now => *self = Self::Position(partition, position),
        }
    }

    pub(crate) fn positions(&self) -> impl Iterator<Item = (LogPartition, u64)> {
        let (one, several): (_, &[(LogPartition, u64)]) = match self {
            Self::Now => (None, &[]),
            Self::Position(partition, position) => (Some((*partition, *position)), &[]),
            Self::All(all) => (None, all),
        };
        one.into_iter().chain(several.iter().copied())
    }
}

/// An answer, with the positions that it waits for.
#[derive(Debug)]
pub(crate) struct Reply<'r> {
    pub(crate) request: RequestId,
    pub(crate) response: Response<'r>,
    pub(crate) visible_at: VisibleAt,
}

/// The flushed position of each slot, and the connections whose answers wait for a later position.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    partitions: Vec<OfPartition>,
    waiting: usize,
}

#[derive(Debug, Default)]
struct OfPartition {
    flushed: u64,
    /// The waiting connections, ordered by the position they wait for, then by their arrival.
    waiting: VecDeque<(u64, ConnectionId)>,
}

impl Flushes {
    /// Whether all positions are durable.
    pub(super) fn have(&self, visible_at: &VisibleAt) -> bool {
        visible_at.positions().all(|(partition, position)| position <= self.flushed_of(partition))
    }

    /// Queues a connection at each position that is not durable.
    pub(super) fn wait(&mut self, visible_at: &VisibleAt, id: ConnectionId) {
        for (partition, position) in visible_at.positions() {
            if position > self.flushed_of(partition) {
                self.of(partition).waiting.push_back((position, id));
                self.waiting += 1;
            }
        }
    }

    /// Notes that all positions of a partition up to `position` are durable.
    pub(super) fn flushed(&mut self, partition: LogPartition, position: u64) {
        let of_partition = self.of(partition);
        debug_assert!(position >= of_partition.flushed);
        of_partition.flushed = position;
    }

    /// The next connection that waited for a position of a partition that is durable now.
    pub(super) fn next_released(&mut self, partition: LogPartition) -> Option<ConnectionId> {
        let OfPartition { flushed, waiting } = self.of(partition);
        let flushed = *flushed;
        let (_, id) = waiting.pop_front_if(|(at, _)| *at <= flushed)?;
        self.waiting -= 1;
        Some(id)
    }

    /// The number of waiting entries of all partitions.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    fn flushed_of(&self, partition: LogPartition) -> u64 {
        self.partitions.get(place(partition)).map_or(0, |of_partition| of_partition.flushed)
    }

    fn of(&mut self, partition: LogPartition) -> &mut OfPartition {
        let at = place(partition);
        if at >= self.partitions.len() {
            self.partitions.resize_with(at + 1, OfPartition::default);
        }
        &mut self.partitions[at]
    }
}

/// The index of a partition in the list of all partitions.
fn place(partition: LogPartition) -> usize {
    let topic = InternalTopic::of(partition) as usize;
    InternalTopic::COUNT * partition.index as usize + topic
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LogPartition = InternalTopic::ConsumerOffsets.log_partition(3);
    const B: LogPartition = InternalTopic::TransactionState.log_partition(3);

    #[test]
    fn an_answer_of_several_partitions_waits_for_each() {
        let mut both = VisibleAt::position(A, 5);
        both.join(VisibleAt::position(B, 2));
        both.join(VisibleAt::position(A, 4));
        both.join(VisibleAt::Now);
        assert_eq!(both, VisibleAt::All(vec![(A, 5), (B, 2)]));
        let (mut flushes, id) = (Flushes::default(), ConnectionId(0));
        flushes.wait(&both, id);
        assert_eq!(flushes.waiting(), 2);
        flushes.flushed(A, 9);
        assert_eq!((flushes.next_released(A), flushes.next_released(A)), (Some(id), None));
        assert!(!flushes.have(&both), "the other partition is not flushed");
        flushes.flushed(B, 1);
        assert_eq!((flushes.next_released(B), flushes.have(&both)), (None, false));
        flushes.flushed(B, 2);
        assert_eq!((flushes.next_released(B), flushes.have(&both)), (Some(id), true));
        assert_eq!(flushes.waiting(), 0);
    }

    #[test]
    fn positions_of_other_partitions_do_not_count() {
        let mut flushes = Flushes::default();
        flushes.flushed(A, 100);
        assert!(flushes.have(&VisibleAt::Now));
        assert!(!flushes.have(&VisibleAt::position(B, 1)));
        assert_eq!(VisibleAt::position(B, 0), VisibleAt::Now);
    }
}
