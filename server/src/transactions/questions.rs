//! The open questions of partitions and groups. A question asks a coordinator whether a producer
//! may write. It may get lost on the way, or because the coordinator fails. So it is asked again
//! when the coordinator has answered the next report.

use muster_codec::ErrorCode;
use muster_transactions::PartitionSet;
use muster_transactions::message::{Question, Stamp, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// The time after which a question counts as lost (Kafka's `request.timeout.ms` of a broker).
const QUESTION_MS: i64 = 30_000;

/// The open questions of a shard, by number. Each waiting connection has at most one.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: BTreeMap<u64, Open>,
    deadlines: BTreeSet<(i64, u64)>,
}

#[derive(Debug)]
struct Open {
    question: Question,
    coordinator: u32,
    deadline: i64,
}

impl Questions {
    /// Adds a question to a coordinator.
    pub(super) fn insert(&mut self, now: i64, coordinator: u32, question: Question) {
        let (number, deadline) = (question.number, now.saturating_add(QUESTION_MS));
        self.deadlines.insert((deadline, number));
        self.open.insert(number, Open { question, coordinator, deadline });
    }

    /// The questions to a coordinator.
    pub(super) fn of(&self, coordinator: u32) -> Vec<Question> {
        let open = self.open.values().filter(|open| open.coordinator == coordinator);
        open.map(|open| open.question.clone()).collect()
    }

    /// Closes the question that a verdict answers. Returns false if no such question is open. Then
    /// it was answered before, or the verdict is for an earlier load of the shard and its number
    /// now belongs to a question about another producer.
    pub(super) fn answered(&mut self, verdict: &Verdict) -> bool {
        let open = self.open.get(&verdict.number);
        let Some(open) = open.filter(|open| open.question.producer == verdict.producer) else {
            return false;
        };
        self.deadlines.remove(&(open.deadline, verdict.number));
        self.open.remove(&verdict.number);
        true
    }

    /// The time at which the next question counts as lost.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Ends a question that counts as lost at this time.
    pub(super) fn take_lost(&mut self, until: i64) -> Option<Verdict> {
        let (_, number) = self.deadlines.first().filter(|(deadline, _)| *deadline <= until)?;
        let verdict = Verdict {
            stamp: Stamp::default(),
            number: *number,
            producer: self.open.get(number)?.question.producer,
            error: ErrorCode::NetworkException,
            refused: PartitionSet::default(),
        };
        self.answered(&verdict).then_some(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_transactions::message::{Producer, QuestionKind};

    const PRODUCER: Producer = Producer { id: 7, epoch: 0 };

    fn question(number: u64) -> Question {
        Question {
            slot: 0,
            number,
            transactional_id: "id".into(),
            producer: PRODUCER,
            partitions: PartitionSet::of("topic", 0),
            kind: QuestionKind::Add,
        }
    }

    fn verdict(number: u64, id: i64) -> Verdict {
        let producer = Producer { id, ..PRODUCER };
        let (stamp, error, refused) = (Stamp::default(), ErrorCode::None, Default::default());
        Verdict { stamp, number, producer, error, refused }
    }

    #[test]
    fn a_question_is_repeated_until_its_first_answer() {
        let mut questions = Questions::default();
        questions.insert(0, 4, question(1));
        questions.insert(0, 5, question(2));
        assert_eq!(questions.of(4), [question(1)]);
        assert!(!questions.answered(&verdict(1, 8)), "about another producer");
        assert!(questions.answered(&verdict(1, 7)));
        assert!(!questions.answered(&verdict(1, 7)), "it comes twice");
        assert!(questions.of(4).is_empty());
        assert_eq!(questions.of(5), [question(2)]);
    }

    #[test]
    fn questions_are_lost_in_the_order_of_their_time() {
        let mut questions = Questions::default();
        questions.insert(10, 0, question(3));
        questions.insert(20, 0, question(1));
        assert_eq!(questions.next_deadline(), Some(10 + QUESTION_MS));
        assert!(questions.take_lost(9 + QUESTION_MS).is_none());
        let lost = questions.take_lost(20 + QUESTION_MS).unwrap();
        assert_eq!((lost.number, lost.error), (3, ErrorCode::NetworkException));
        assert_eq!(questions.take_lost(i64::MAX).unwrap().number, 1);
        assert!(questions.take_lost(i64::MAX).is_none());
        assert_eq!(questions.next_deadline(), None);
    }
}
