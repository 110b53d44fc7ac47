//! Producers about which a partition has asked their transaction coordinator: may they write to it?
//! A pipelining producer sends its next batch before the first is answered. If the first is refused
//! and sent again, the next must not overtake it. So each producer has the lowest sequence of its
//! batches that waited for the coordinator's answer (Kafka's `VerificationStateEntry`).

use super::limits::PRODUCERS_ASKED_MAX;
use super::producers::{Sequenced, first};
use hashbrown::HashMap;
use muster_codec::Wall;
use muster_transactions::message::QuestionKind;
use muster_transactions::partition::End;

/// The number of producers that are forgotten at once when there are too many.
const STEP: usize = PRODUCERS_ASKED_MAX / 8;

/// The producers about which the coordinator was asked, from the first question until a batch is
/// appended or the transaction ends.
#[derive(Debug, Default)]
pub(super) struct Asked {
    by_id: HashMap<i64, Lowest>,
}

#[derive(Debug, Clone, Copy)]
struct Lowest {
    epoch: i16,
    sequence: i32,
    /// The kind and the time of the first question.
    kind: QuestionKind,
    since: Wall,
}

impl Asked {
    /// Notes that the coordinator is asked about a batch.
    pub(super) fn ask(&mut self, wall: Wall, batch: &Sequenced, kind: QuestionKind) {
        let Sequenced { producer_id: id, epoch, base_sequence: sequence, .. } = *batch;
        if !self.by_id.contains_key(&id) {
            self.forget_oldest();
        }
        let first = Lowest { epoch, sequence, kind, since: wall };
        let lowest = self.by_id.entry(id).or_insert(first);
        if epoch > lowest.epoch {
            (lowest.epoch, lowest.sequence) = (epoch, sequence);
        } else if epoch == lowest.epoch {
            lowest.sequence = lowest.sequence.min(sequence);
        }
    }

    /// Whether a batch would overtake an earlier batch that was refused.
    pub(super) fn is_overtaking(&self, batch: &Sequenced) -> bool {
        let lowest = self.by_id.get(&batch.producer_id);
        lowest.is_some_and(|lowest| batch.base_sequence > lowest.sequence)
    }

    /// Whether the producer leaves it to the server to add partitions to its transaction. Then its
    /// sequences begin at 0.
    pub(super) fn adds(&self, producer_id: i64) -> bool {
        self.by_id.get(&producer_id).is_some_and(|lowest| lowest.kind == QuestionKind::Add)
    }

    /// Forgets the producer's question, because a batch of its transaction was appended.
    pub(super) fn appended(&mut self, producer_id: i64) {
        self.by_id.remove(&producer_id);
    }

    /// Forgets the producer's question, because a marker was appended. But a question to add
    /// partitions is kept if it has the epoch of the marker: then it belongs to the next
    /// transaction.
    pub(super) fn marked(&mut self, end: &End) {
        let is_next = |it: &Lowest| it.kind == QuestionKind::Add && it.epoch == end.producer.epoch;
        if !self.by_id.get(&end.producer.id).is_some_and(is_next) {
            self.by_id.remove(&end.producer.id);
        }
    }

    /// Forgets producers whose first question was at least `expiration_ms` ago.
    pub(super) fn expire(&mut self, wall: Wall, expiration_ms: i64) {
        self.by_id.retain(|_, lowest| wall.since(lowest.since.0) < expiration_ms);
    }

    /// Forgets the oldest producers if there are too many, because a client may name any number of
    /// producers. If a producer was forgotten, its batch may overtake an earlier refused batch.
    /// This leaves a gap in the sequences.
    fn forget_oldest(&mut self) {
        if self.by_id.len() < PRODUCERS_ASKED_MAX {
            return;
        }
        let all = self.by_id.iter().map(|(id, lowest)| (lowest.since.0, *id)).collect();
        for id in first(all, STEP) {
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::record_batch::TransactionOutcome;
    use muster_transactions::message::Producer;

    fn batch(producer_id: i64, epoch: i16, base_sequence: i32) -> Sequenced {
        let (last_offset_delta, is_transactional) = (0, true);
        Sequenced { producer_id, epoch, base_sequence, last_offset_delta, is_transactional }
    }

    fn end(id: i64, epoch: i16) -> End {
        let producer = Producer { id, epoch };
        End { producer, outcome: TransactionOutcome::Abort, version: 2, coordinator_epoch: 0 }
    }

    #[test]
    fn the_lowest_sequence_of_the_newest_epoch_counts() {
        let mut asked = Asked::default();
        for (epoch, sequence) in [(1, 5), (1, 3), (1, 4), (0, 0)] {
            asked.ask(Wall(0), &batch(7, epoch, sequence), QuestionKind::Verify);
        }
        assert!(asked.is_overtaking(&batch(7, 1, 4)) && !asked.is_overtaking(&batch(7, 1, 3)));
        asked.ask(Wall(0), &batch(7, 2, 9), QuestionKind::Verify);
        assert!(asked.is_overtaking(&batch(7, 2, 10)) && !asked.is_overtaking(&batch(7, 2, 9)));
        asked.appended(7);
        assert!(!asked.is_overtaking(&batch(7, 2, 10)));
    }

    #[test]
    fn a_marker_ends_all_but_a_question_of_the_next_transaction() {
        for (kind, epoch, is_kept) in [
            (QuestionKind::Add, 1, true),
            (QuestionKind::Add, 2, false),
            (QuestionKind::Verify, 1, false),
        ] {
            let mut asked = Asked::default();
            asked.ask(Wall(0), &batch(7, 1, 0), kind);
            asked.marked(&end(7, epoch));
            assert_eq!(asked.is_overtaking(&batch(7, 1, 1)), is_kept, "{kind:?} {epoch}");
        }
    }

    #[test]
    fn producers_are_forgotten_by_time_and_when_there_are_too_many() {
        let mut asked = Asked::default();
        let max = PRODUCERS_ASKED_MAX as i64;
        for id in 0..2 * max {
            asked.ask(Wall(id), &batch(id, 0, 0), QuestionKind::Add);
        }
        assert!(asked.by_id.len() <= PRODUCERS_ASKED_MAX);
        assert!(asked.adds(2 * max - 1) && !asked.adds(0), "the newest are kept");
        asked.expire(Wall(2 * max), 2);
        assert_eq!(asked.by_id.len(), 1);
    }
}
