//! Stories of producers: transactions in both versions, errors and how producers continue, and
//! writes without transactions.

mod random;

use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::records::RecordBatchDecoder;

use muster_codec::messages;

use super::*;
use crate::plan::{Delivery, Load, ProducerPlan, TransactionPlan, TransactionVersion};

const CLOSED: Load = Load { rate: None, in_flight: 1, partitions: 0 };
const FENCED_EPOCH: i16 = 47;
const CONCURRENT_TRANSACTIONS: i16 = 51;
const NOT_COORDINATOR: i16 = 16;
const NOT_LEADER: i16 = 6;
const ABORTABLE: i16 = 120;

fn transactions(version: TransactionVersion) -> TransactionPlan {
    TransactionPlan { version, timeout: Duration::from_secs(60), offsets: 0, aborts: 0 }
}

/// A producer that writes to these partitions of the first topic.
fn producer(delivery: Delivery, partitions: &[u32], load: Load) -> MemberPlan {
    let plan = ProducerPlan {
        partitions: set(partitions),
        delivery,
        records: 2,
        record_size: 10,
        began: Duration::from_secs(1_700_000_000),
        is_read: false,
    };
    let workload = Workload { produce: Some(load), ..Workload::default() };
    MemberPlan { workload, ..member(group(Protocol::Producer(plan))) }
}

pub(super) fn metadata() -> Response {
    let broker = |id: i32| {
        MetadataResponseBroker::default()
            .with_node_id(BrokerId(id))
            .with_host(str_bytes("h"))
            .with_port(9000 + id)
    };
    // Broker 0 leads even partitions, broker 1 odd ones.
    let partition = |number: i32| {
        MetadataResponsePartition::default()
            .with_partition_index(number)
            .with_leader_id(BrokerId(number % 2))
    };
    let topic = MetadataResponseTopic::default()
        .with_name(Some(TopicName(str_bytes("t"))))
        .with_topic_id(wire_id(0))
        .with_partitions((0..4).map(partition).collect());
    let response = MetadataResponse::default();
    Response::Metadata(response.with_brokers([0, 1].map(broker).into()).with_topics(vec![topic]))
}

fn identity(error: i16, epoch: i16) -> Response {
    let response = InitProducerIdResponse::default().with_error_code(error);
    let id = ProducerId(if error == 0 { 7 } else { -1 });
    Response::InitProducerId(response.with_producer_id(id).with_producer_epoch(epoch))
}

/// An answer to Produce with the same error for each of these partitions.
fn produced(error: i16, partitions: &[i32]) -> Response {
    let of = |number: &i32| {
        PartitionProduceResponse::default().with_index(*number).with_error_code(error)
    };
    let topic = TopicProduceResponse::default()
        .with_topic_id(wire_id(0))
        .with_name(TopicName(str_bytes("t")))
        .with_partition_responses(partitions.iter().map(of).collect());
    Response::Produce(ProduceResponse::default().with_responses(vec![topic]))
}

/// The answer to EndTxn in version 5, which contains the producer's epoch for the next transaction.
/// With a negative `epoch`, it contains no producer id.
fn ended(error: i16, epoch: i16) -> Response {
    let id = ProducerId(if epoch < 0 { -1 } else { 7 });
    let response = EndTxnResponse::default().with_error_code(error);
    Response::EndTxn(response.with_producer_id(id).with_producer_epoch(epoch))
}

impl Story {
    fn ask_for(&mut self, is_it: impl Fn(&Request) -> bool) -> Outgoing {
        let at = self.sent.iter().position(|(_, outgoing)| is_it(&outgoing.request));
        let at = at.unwrap_or_else(|| panic!("not among {:?}", self.requests()));
        self.sent.remove(at).1
    }

    /// Answers the lookups of the coordinator and of the leaders. Then the producer sends
    /// InitProducerId.
    fn found(&mut self) {
        let outgoing = self.ask_for(|request| matches!(request, Request::FindCoordinator(_)));
        let Request::FindCoordinator(request) = &outgoing.request else { unreachable!() };
        assert_eq!(request.key_type, 1, "of a transactional id");
        assert_eq!(request.coordinator_keys, ["c"]);
        self.answer(&outgoing, Ok(found(9000)));
        let outgoing = self.ask_for(|request| matches!(request, Request::Metadata(_)));
        self.answer(&outgoing, Ok(metadata()));
    }
}

/// A transactional producer that has its id, in epoch 0.
fn at_work(plan: MemberPlan) -> Story {
    let mut story = Story::new(plan);
    story.start();
    story.found();
    assert_eq!(story.member.state(), State::Joining);
    story.reply(identity(0, 0));
    assert_eq!(story.member.state(), State::Stable);
    story.events();
    story
}

fn produce(outgoing: &Outgoing) -> &messages::ProduceRequest<'static> {
    match &outgoing.request {
        Request::Produce(request) => request,
        other => panic!("{other:?}"),
    }
}

fn end(outgoing: &Outgoing) -> &messages::EndTxnRequest<'static> {
    match &outgoing.request {
        Request::EndTxn(request) => request,
        other => panic!("{other:?}"),
    }
}

/// The partition, epoch and sequence of each batch.
fn batches(outgoing: &Outgoing) -> Vec<(i32, i16, i32)> {
    let topics = &produce(outgoing).topic_data;
    let each = topics.iter().flat_map(|topic| &topic.partition_data);
    let batch = each.map(|data| {
        let records = data.records.as_deref().unwrap();
        let mut records = bytes::Bytes::copy_from_slice(records);
        let records = RecordBatchDecoder::decode(&mut records).unwrap().records;
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].value.as_ref().unwrap().len(), 10);
        (data.index, records[0].producer_epoch, records[0].sequence)
    });
    batch.collect()
}

fn two(plan: TransactionPlan, partitions: &[u32]) -> MemberPlan {
    producer(Delivery::Transactions(plan), partitions, CLOSED)
}

#[test]
fn a_transaction_writes_to_all_leaders_at_once_and_ends() {
    let mut story = at_work(two(transactions(TransactionVersion::Two), &[0, 1, 2]));
    let began = story.now;
    let outgoing: Vec<_> = std::mem::take(&mut story.sent).into_iter().map(|it| it.1).collect();
    let [even, odd] = &outgoing[..] else { panic!("{}", outgoing.len()) };
    assert_eq!(batches(even), [(0, 0, 0), (2, 0, 0)]);
    assert_eq!(batches(odd), [(1, 0, 0)]);
    assert!(even.to != odd.to && even.version == 13 && produce(even).acks == -1);
    assert_eq!(produce(even).transactional_id.as_deref(), Some("c"));
    story.answer(even, Ok(produced(0, &[0, 2])));
    assert!(story.sent.is_empty(), "it ends once all batches are written");
    story.answer(odd, Ok(produced(0, &[1])));
    let outgoing = story.request();
    assert!(end(&outgoing).committed && outgoing.version == 5);
    let asked = story.now;
    story.answer(&outgoing, Ok(ended(0, 1)));
    assert_eq!(story.events(), [EventKind::TransactionEnded { number: 0, committed: true }]);
    let [span] = story.spans[..] else { panic!("{:?}", story.spans) };
    assert_eq!((span.due, span.ended), (began, asked + Duration::from_millis(1)));
    assert!(span.answered && span.delayed == Duration::ZERO);
    // The answer to EndTxn contains the next epoch, in which sequences begin with 0.
    assert_eq!(batches(&story.sent[0].1), [(0, 1, 0), (2, 1, 0)]);
}

#[test]
fn version_one_adds_partitions_and_offsets_first() {
    let plan = TransactionPlan { offsets: 2, ..transactions(TransactionVersion::One) };
    let mut story = Story::new(two(plan, &[0, 2]));
    story.start();
    let group = story.ask_for(
        |request| matches!(request, Request::FindCoordinator(request) if request.key_type == 0),
    );
    story.answer(&group, Ok(found(9009)));
    story.found();
    story.reply(identity(0, 0));

    let outgoing = story.request();
    let Request::AddPartitionsToTxn(request) = &outgoing.request else { panic!() };
    assert_eq!((outgoing.version, &request.v3_and_below_topics[0].partitions), (3, &vec![0, 2]));
    let result = |number, code| {
        AddPartitionsToTxnPartitionResult::default()
            .with_partition_index(number)
            .with_partition_error_code(code)
    };
    let added = |code| {
        let topic = AddPartitionsToTxnTopicResult::default()
            .with_results_by_partition(vec![result(0, code), result(2, code)]);
        let response = AddPartitionsToTxnResponse::default();
        Response::AddPartitionsToTxn(response.with_results_by_topic_v3_and_below(vec![topic]))
    };
    story.answer(&outgoing, Ok(added(CONCURRENT_TRANSACTIONS)));
    let refused = story.now;
    story.until(at(1_000));
    assert_eq!(story.now.since(refused).as_millis(), 20, "as the Java client");
    story.reply(added(0));
    let outgoing = story.request();
    assert_eq!((outgoing.version, batches(&outgoing)), (11, vec![(0, 0, 0), (2, 0, 0)]));
    story.answer(&outgoing, Ok(produced(0, &[0, 2])));
    let outgoing = story.reply(Response::AddOffsetsToTxn(AddOffsetsToTxnResponse::default()));
    assert!(matches!(outgoing.request, Request::AddOffsetsToTxn(_)));
    let outgoing = story.request();
    let Request::TxnOffsetCommit(request) = &outgoing.request else { panic!() };
    assert_eq!((outgoing.version, request.topics[0].partitions.len()), (4, 2));
    assert!(outgoing.to == Destination::Node(NodeIndex(0)), "the group's coordinator");
    let committed = TxnOffsetCommitResponseTopic::default()
        .with_partitions(vec![TxnOffsetCommitResponsePartition::default()]);
    let response = TxnOffsetCommitResponse::default().with_topics(vec![committed]);
    story.answer(&outgoing, Ok(Response::TxnOffsetCommit(response)));
    let outgoing = story.reply(ended(0, -1));
    assert!(end(&outgoing).committed && outgoing.version == 4);
    // The epoch stays, and sequences continue.
    story.reply(added(0));
    assert_eq!(batches(&story.request()), [(0, 0, 2), (2, 0, 2)]);
}

#[test]
fn concurrent_transactions_are_waited_for_and_counted() {
    let mut story = Story::new(two(transactions(TransactionVersion::Two), &[0]));
    story.start();
    story.found();
    story.reply(identity(CONCURRENT_TRANSACTIONS, -1));
    let refused = EventKind::Refused { api: 22, error: CONCURRENT_TRANSACTIONS };
    assert!(story.events().contains(&refused));
    let asked = story.now;
    story.until(at(1_000));
    assert!((80..=120).contains(&story.now.since(asked).as_millis()));
    story.reply(identity(0, 0));
    story.reply(produced(CONCURRENT_TRANSACTIONS, &[0]));
    story.until(at(2_000));
    assert_eq!(batches(&story.request()), [(0, 0, 0)], "the same batch");
}

#[test]
fn a_request_whose_answer_is_lost_is_repeated_with_the_same_content() {
    let mut story = at_work(two(transactions(TransactionVersion::Two), &[0]));
    story.fail(Failure::Disconnected);
    assert_eq!(story.events(), [EventKind::Disconnected]);
    story.until(at(1_000));
    story.reply(metadata());
    let outgoing = story.request();
    assert_eq!(batches(&outgoing), [(0, 0, 0)], "the sequence number shows that it is the same");
    story.answer(&outgoing, Ok(produced(0, &[0])));
    story.fail(Failure::TimedOut);
    story.until(at(3_000));
    story.reply(found(9001));
    story.until(at(4_000));
    let outgoing = story.reply(ended(0, 1));
    assert!(end(&outgoing).committed && end(&outgoing).producer_epoch == 0);
    assert!(story.events().contains(&EventKind::TransactionEnded { number: 0, committed: true }));
}

#[test]
fn brokers_that_have_moved_are_looked_up_again() {
    let mut story = at_work(two(transactions(TransactionVersion::Two), &[0]));
    story.reply(produced(NOT_LEADER, &[0]));
    story.until(at(1_000));
    story.reply(metadata());
    story.until(at(2_000));
    story.reply(produced(0, &[0]));
    story.reply(ended(NOT_COORDINATOR, -1));
    story.until(at(3_000));
    story.find(9001);
    story.until(at(4_000));
    let outgoing = story.reply(ended(0, 1));
    assert!(outgoing.to == Destination::Node(NodeIndex(1)));
}

#[test]
fn an_abortable_error_aborts_the_transaction_and_no_more() {
    let mut story = at_work(two(transactions(TransactionVersion::Two), &[0]));
    story.reply(produced(ABORTABLE, &[0]));
    let outgoing = story.request();
    assert!(!end(&outgoing).committed);
    story.answer(&outgoing, Ok(ended(0, 1)));
    let refused = EventKind::Refused { api: 0, error: ABORTABLE };
    assert_eq!(
        story.events(),
        [refused, EventKind::TransactionEnded { number: 0, committed: false }]
    );
    assert_eq!(batches(&story.request()), [(0, 1, 0)]);
}

#[test]
fn version_one_raises_the_epoch_after_an_error() {
    let mut story = at_work(two(transactions(TransactionVersion::One), &[0]));
    story.reply(Response::AddPartitionsToTxn(AddPartitionsToTxnResponse::default()));
    story.reply(produced(ABORTABLE, &[0]));
    story.reply(ended(0, -1));
    let outgoing = story.reply(identity(0, 1));
    let Request::InitProducerId(request) = &outgoing.request else { panic!() };
    assert_eq!((request.producer_id, request.producer_epoch), (7, 0));
    story.reply(Response::AddPartitionsToTxn(AddPartitionsToTxnResponse::default()));
    assert_eq!(batches(&story.request()), [(0, 1, 0)]);
}

#[test]
fn a_producer_that_is_fenced_stops() {
    let mut story = at_work(two(transactions(TransactionVersion::Two), &[0]));
    story.reply(produced(0, &[0]));
    story.reply(ended(FENCED_EPOCH, -1));
    let [unfinished] = story.spans[..] else { panic!("{:?}", story.spans) };
    assert!(!unfinished.answered, "the transaction has no end");
    assert_eq!(
        story.reason(),
        "EndTxn of producer c was refused with INVALID_PRODUCER_EPOCH: another producer with this \
         transactional.id has begun, or the transaction timed out"
    );
}

#[test]
fn the_scenario_can_abort_all_transactions() {
    let plan = TransactionPlan { aborts: 1_000_000, ..transactions(TransactionVersion::Two) };
    let mut story = at_work(two(plan, &[0]));
    story.reply(produced(0, &[0]));
    let outgoing = story.reply(ended(0, 1));
    assert!(!end(&outgoing).committed);
    assert_eq!(story.events(), [EventKind::TransactionEnded { number: 0, committed: false }]);
}

#[test]
fn latency_counts_from_when_a_transaction_was_due() {
    let load = Load { rate: Some(100.0), ..CLOSED };
    let delivery = Delivery::Transactions(transactions(TransactionVersion::Two));
    let mut story = at_work(producer(delivery, &[0], load));
    story.until(at(1_000));
    let first = story.request();
    assert_eq!(first.due, story.now);
    // A transaction is due every 10 ms. The first takes 30 ms, so the second is late.
    story.now = story.now + Duration::from_millis(30);
    story.answer(&first, Ok(produced(0, &[0])));
    let overdue: Vec<_> = story.member.overdue(story.now).collect();
    let expected = first.due + Duration::from_millis(10);
    assert_eq!(overdue[0].due, expected);
    assert_eq!(story.member.unfinished(), Some(first.due));
    story.reply(ended(0, 1));
    let second = story.request();
    assert_eq!(second.due, expected);
    assert_eq!(
        (story.spans[0].due, story.spans[0].began),
        (first.due, first.due + Duration::from_millis(30))
    );
}

#[test]
fn a_producer_that_leaves_ends_its_transaction_first() {
    let mut story = at_work(two(transactions(TransactionVersion::Two), &[0]));
    story.stop(Stop::Leave);
    assert!(!story.member.is_done());
    story.reply(produced(0, &[0]));
    story.reply(ended(0, 1));
    assert!(story.member.is_done() && story.sent.is_empty());
    let stopped = EventKind::Stopped { how: Stop::Leave };
    assert_eq!(
        story.events(),
        [EventKind::TransactionEnded { number: 0, committed: true }, stopped]
    );
}

#[test]
fn a_transaction_that_a_crash_leaves_counts_as_unanswered() {
    let mut story = at_work(two(transactions(TransactionVersion::Two), &[0]));
    story.stop(Stop::Crash);
    let [span] = story.spans[..] else { panic!("{:?}", story.spans) };
    assert!(!span.answered && story.member.is_done() && story.member.deadline().is_none());
}

#[test]
fn a_load_that_ends_lets_the_transaction_end() {
    let mut story = at_work(two(transactions(TransactionVersion::Two), &[0]));
    let none = Workload::default();
    story.call(|member, context, output| member.set_workload(none, context, output));
    story.reply(produced(0, &[0]));
    story.reply(ended(0, 1));
    assert!(story.sent.is_empty() && story.member.deadline().is_none());
}

#[test]
fn an_idempotent_producer_has_an_id_and_no_transactions() {
    let mut story = Story::new(producer(Delivery::Idempotent, &[0], CLOSED));
    story.start();
    let outgoing = story.ask_for(|request| matches!(request, Request::InitProducerId(_)));
    let Request::InitProducerId(request) = &outgoing.request else { unreachable!() };
    assert!(request.transactional_id.is_none() && outgoing.to == Destination::Any);
    story.answer(&outgoing, Ok(identity(0, 0)));
    story.reply(metadata());
    let outgoing = story.reply(produced(0, &[0]));
    assert!(produce(&outgoing).transactional_id.is_none());
    assert_eq!(batches(&story.request()), [(0, 0, 2)], "sequences continue");
    assert!(story.spans.is_empty() && story.events() == [EventKind::Started]);
}

#[test]
fn a_plain_producer_needs_no_more_than_leaders() {
    let mut story = Story::new(producer(Delivery::Plain, &[0], CLOSED));
    story.start();
    story.reply(metadata());
    assert_eq!(batches(&story.request()), [(0, -1, -1)]);
    assert_eq!(story.member.state(), State::Stable);
}

#[test]
fn rounds_take_the_partitions_in_turn() {
    let load = Load { partitions: 2, ..CLOSED };
    let mut story = Story::new(producer(Delivery::Plain, &[0, 1, 2], load));
    story.start();
    story.reply(metadata());
    let mut written = Vec::new();
    for _ in 0..3 {
        let mut round = Vec::new();
        for (_, outgoing) in std::mem::take(&mut story.sent) {
            let numbers: Vec<i32> = batches(&outgoing).iter().map(|batch| batch.0).collect();
            story.answer(&outgoing, Ok(produced(0, &numbers)));
            round.extend(numbers);
        }
        round.sort_unstable();
        written.push(round);
    }
    assert_eq!(written, [[0, 1], [0, 2], [1, 2]]);
}
