//! Questions while a coordinator is loaded again.

use super::*;
use muster_transactions::PartitionSet;
use muster_transactions::message::{Producer, QuestionKind, Stamp, ToSlotBody};

/// One shard with one coordinator.
const PLACEMENT: Placement = Placement::of_equal(1, 1);

fn transactions() -> Transactions {
    let coordinators = Coordinators::new(&Config::default(), PLACEMENT, 0, 1);
    Transactions::new(0, PLACEMENT, coordinators, Life { number: 1, may_have_lost_writes: false })
}

fn question(number: u64) -> Question {
    Question {
        slot: 0,
        number,
        transactional_id: "id".into(),
        producer: Producer { id: 7, epoch: 0 },
        partitions: PartitionSet::of("topic", 0),
        kind: QuestionKind::Add,
    }
}

/// Sends the report of the slot and answers it. Returns the messages that go to the coordinator.
fn report(transactions: &mut Transactions, number: u64) -> Vec<FromSlot> {
    assert!(transactions.begin_sync());
    transactions.synced(0, &BTreeMap::new(), true);
    let reported = Reported { stamp: Stamp::default(), number, known: Vec::new() };
    assert!(transactions.reported(0, 0, &reported).is_some());
    sent(transactions)
}

fn sent(transactions: &mut Transactions) -> Vec<FromSlot> {
    let to_coordinator = |letter| match letter {
        Letter::ToCoordinator { message, .. } => message,
        Letter::ToSlot { .. } => panic!("{letter:?}"),
    };
    std::iter::from_fn(|| transactions.post.next()).map(to_coordinator).collect()
}

#[test]
fn a_question_is_sent_when_its_coordinator_knows_the_slot_and_again_after_its_load() {
    let mut transactions = transactions();
    transactions.ask(0, question(1));
    assert!(sent(&mut transactions).is_empty());
    let [FromSlot::Report(_), FromSlot::Question(first)] = &report(&mut transactions, 1)[..] else {
        panic!("the question follows the report")
    };
    assert_eq!(*first, question(1));
    transactions.ask(0, question(2));
    assert_eq!(sent(&mut transactions), [FromSlot::Question(question(2))]);

    let body = ToSlotBody::ReportWanted { coordinator_epoch: 2 };
    let loaded = ToSlot { slot: 0, session: 0, visible_at: 0, body };
    assert!(!transactions.links.receive(0, &loaded));
    let again = report(&mut transactions, 2);
    assert_eq!(again[1..], [question(1), question(2)].map(FromSlot::Question));
}
