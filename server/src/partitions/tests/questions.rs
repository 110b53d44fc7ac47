//! The questions that a partition asks a transaction coordinator before it appends the first batch
//! of a transaction.

use super::support::*;
use super::transactions::{ABORT, ADDS, COMMIT, no, transactional, yes};
use muster_codec::{ErrorCode, Response};
use muster_transactions::PartitionSet;
use muster_transactions::message::{Producer, QuestionKind, Verdict};

#[test]
fn the_first_batch_waits_for_the_yes_of_the_coordinator() {
    let mut world = World::new();
    let batches = [(0, transactional(2, 7, 0, 0)), (1, transactional(1, 7, 0, 0))];
    let (request, question) = world.start_transactional(ADDS, &batches);
    let question = question.unwrap();
    assert_eq!((question.kind, &*question.transactional_id), (QuestionKind::Add, "payments"));
    assert_eq!(question.producer, Producer { id: 7, epoch: 0 });
    assert_eq!(question.partitions, [(TOPIC, 0), (TOPIC, 1)].into_iter().collect());
    world.settle();
    assert!(world.results(request).is_none());
    assert_eq!(world.fetch(0, 0).high_watermark, 0);
    world.decide(&yes(&question, 1));
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::None, 0), (ErrorCode::None, 0)]);
    let (request, question) = world.start_transactional(ADDS, &[(0, transactional(1, 7, 0, 2))]);
    assert!(question.is_none(), "the transaction is open");
    world.settle();
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::None, 2)]);
}

#[test]
fn a_no_refuses_the_batch_with_the_error_of_its_version() {
    let mut world = World::new();
    let table = [
        (ADDS, ErrorCode::ProducerFenced, ErrorCode::InvalidProducerEpoch),
        (ADDS, ErrorCode::ConcurrentTransactions, ErrorCode::ConcurrentTransactions),
        (11, ErrorCode::TransactionAbortable, ErrorCode::TransactionAbortable),
        (10, ErrorCode::TransactionAbortable, ErrorCode::InvalidTxnState),
        (10, ErrorCode::InvalidProducerIdMapping, ErrorCode::InvalidProducerIdMapping),
    ];
    for (version, answered, seen) in table {
        let (request, question) =
            world.start_transactional(version, &[(0, transactional(1, 7, 0, 0))]);
        world.decide(&no(&question.unwrap(), answered));
        assert_eq!(world.results(request).unwrap(), [(seen, -1)], "{answered:?} in v{version}");
    }
    assert!(world.producers().is_empty());
    assert_eq!(world.fetch(0, 0).high_watermark, 0);
}

#[test]
fn a_partition_may_be_refused_alone() {
    let mut world = World::new();
    let batches = [(0, transactional(1, 7, 0, 0)), (1, transactional(1, 7, 0, 0))];
    let (request, question) = world.start_transactional(11, &batches);
    let refused = PartitionSet::of(TOPIC, 1);
    world.decide(&Verdict { refused, ..yes(&question.unwrap(), 1) });
    let expected = [(ErrorCode::None, 0), (ErrorCode::TransactionAbortable, -1)];
    assert_eq!(world.results(request).unwrap(), expected);
}

#[test]
fn no_batch_overtakes_one_that_was_refused() {
    let mut world = World::new();
    let batch = |sequence| [(0, transactional(1, 7, 0, sequence))];
    let (first, first_question) = world.start_transactional(11, &batch(0));
    world.decide(&no(&first_question.unwrap(), ErrorCode::ConcurrentTransactions));
    assert_eq!(world.results(first).unwrap(), [(ErrorCode::NotEnoughReplicas, -1)]);
    for (sequence, expected) in [
        (1, (ErrorCode::OutOfOrderSequenceNumber, -1)),
        (0, (ErrorCode::None, 0)),
        (1, (ErrorCode::None, 1)),
    ] {
        let (request, question) = world.start_transactional(11, &batch(sequence));
        if let Some(question) = question {
            world.decide(&yes(&question, 1));
        }
        world.settle();
        assert_eq!(world.results(request).unwrap(), [expected], "sequence {sequence}");
    }
}

#[test]
fn a_marker_ends_what_a_refused_batch_keeps_back() {
    let mut world = World::new();
    let (request, question) = world.start_transactional(11, &[(0, transactional(1, 7, 0, 0))]);
    world.decide(&no(&question.unwrap(), ErrorCode::ConcurrentTransactions));
    world.results(request).unwrap();
    assert_eq!(world.end((7, 0), ABORT, 0), ErrorCode::None);
    // Now the partition knows the producer, but only by the marker: its sequences begin at 0.
    assert_eq!(world.transact(transactional(1, 7, 0, 1)).0, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(world.transact(transactional(1, 7, 0, 0)), (ErrorCode::None, 1));
}

#[test]
fn a_question_that_is_not_answered_ends_and_a_late_answer_to_it_is_dropped() {
    let mut world = World::new();
    let (request, question) = world.start_transactional(ADDS, &[(0, transactional(1, 7, 0, 0))]);
    world.decide(&no(question.as_ref().unwrap(), ErrorCode::NetworkException));
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::NotEnoughReplicas, -1)]);
    world.decide(&yes(&question.unwrap(), 1));
    assert_eq!(world.fetch(0, 0).high_watermark, 0);
    assert!(world.partitions.is_quiet());
}

#[test]
fn a_yes_that_is_older_than_the_end_of_the_transaction_does_not_count() {
    let mut world = World::new();
    assert_eq!(world.transact(transactional(1, 7, 0, 0)), (ErrorCode::None, 0));
    assert_eq!(world.end((7, 2), ABORT, 2), ErrorCode::None);
    let (request, question) = world.start_transactional(ADDS, &[(0, transactional(1, 7, 2, 0))]);
    assert_eq!(world.end((7, 3), ABORT, 2), ErrorCode::None);
    world.decide(&yes(&question.unwrap(), 1));
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::InvalidProducerEpoch, -1)]);
}

#[test]
fn the_coordinator_is_asked_about_an_epoch_above_that_of_the_open_transaction() {
    let mut world = World::new();
    assert_eq!(world.transact(transactional(1, 7, 0, 0)), (ErrorCode::None, 0));
    let early = || [(0, transactional(1, 7, 1, 0))];
    let (request, question) = world.start_transactional(11, &early());
    world.decide(&no(&question.unwrap(), ErrorCode::ProducerFenced));
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::InvalidProducerEpoch, -1)]);
    let (request, question) = world.start_transactional(ADDS, &early());
    world.decide(&yes(&question.unwrap(), 2));
    let waits = [(ErrorCode::ConcurrentTransactions, -1)];
    assert_eq!(world.results(request).unwrap(), waits, "before the marker of the first");
    assert_eq!(world.end((7, 1), COMMIT, 2), ErrorCode::None);
    assert_eq!(world.transact(transactional(1, 7, 1, 0)), (ErrorCode::None, 2));
}

#[test]
fn records_are_checked_after_the_coordinator_is_asked() {
    let mut world = World::new();
    let control = || [(0, patch(transactional(1, 7, 0, 0), 21, &0x30i16.to_be_bytes()))];
    let (request, question) = world.start_transactional(ADDS, &control());
    world.decide(&no(&question.unwrap(), ErrorCode::InvalidProducerIdMapping));
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::InvalidProducerIdMapping, -1)]);
    let (request, question) = world.start_transactional(ADDS, &control());
    world.decide(&yes(&question.unwrap(), 2));
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::InvalidRecord, -1)]);
    assert!(world.producers().is_empty() && world.partitions.is_quiet());
}

#[test]
fn a_client_of_version_1_is_not_verified_if_the_config_says_so() {
    let mut world = World::new();
    world.config.transaction_partition_verification_enable = false;
    world.reopen();
    let (request, question) = world.start_transactional(11, &[(0, transactional(1, 7, 0, 4))]);
    assert!(question.is_none());
    world.settle();
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::None, 0)]);
    assert_eq!(world.producers(), [(7, 0, 4, 0)]);
    assert_eq!(world.committed(0).last_stable_offset, 0);
    assert_eq!(world.end((7, 0), COMMIT, 0), ErrorCode::None);
    assert_eq!(world.committed(0).last_stable_offset, 2);
    let (_, question) = world.start_transactional(ADDS, &[(0, transactional(1, 8, 0, 0))]);
    assert!(question.is_some(), "it adds its partition");
}

#[test]
fn a_topic_that_is_deleted_meanwhile_is_unknown() {
    let mut world = World::new();
    let (request, question) = world.start_transactional(ADDS, &[(0, transactional(1, 7, 0, 0))]);
    world.remove_topic(topic_id());
    world.decide(&yes(&question.unwrap(), 1));
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::UnknownTopicOrPartition, -1)]);
    assert!(world.partitions.is_quiet());
}

#[test]
fn a_batch_of_an_older_epoch_is_refused_without_a_question() {
    let mut world = World::new();
    assert_eq!(world.append(0, &sequenced(1, 7, 3, 0)), 0);
    let (request, question) = world.start_transactional(ADDS, &[(0, transactional(1, 7, 2, 0))]);
    assert!(question.is_none());
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::InvalidProducerEpoch, -1)]);
}

#[test]
fn the_answer_for_a_batch_that_is_not_confirmed_says_why() {
    let mut world = World::new();
    let (request, question) = world.start_transactional(10, &[(0, transactional(1, 7, 0, 0))]);
    world.decide(&no(&question.unwrap(), ErrorCode::TransactionAbortable));
    let Some(Response::Produce(body)) = world.response(request) else { panic!() };
    let answer = &body.responses[0].partition_responses[0];
    assert_eq!(answer.error_message.as_deref(), Some("Partition was not added to the transaction"));
    assert_eq!(answer.log_start_offset, -1, "the log was not asked");
}
