//! Transactions in a partition: where the readable committed records end, which transactions are
//! aborted, and the state that a restart restores from the log.

use super::super::{Effects, OffsetTransactions, Partitions};
use super::support::*;
use muster_codec::messages::*;
use muster_codec::{Bytes, ErrorCode, Response};
use muster_coordinator::RequestId;
use muster_transactions::PartitionSet;
use muster_transactions::message::{Question, Stamp, Verdict};
use muster_transactions::partition::End;

pub(super) const COMMIT: bool = true;
pub(super) const ABORT: bool = false;

/// The first version of Produce in which the server adds the partitions to the transaction.
pub(super) const ADDS: i16 = 12;

/// A batch of a transaction.
pub(super) fn transactional(records: usize, producer: i64, epoch: i16, sequence: i32) -> Vec<u8> {
    patch(sequenced(records, producer, epoch, sequence), 21, &0x10i16.to_be_bytes())
}

fn produce_of(batches: &[(i32, Vec<u8>)]) -> ProduceRequest<'static> {
    let of_partition = |(index, batch): &(i32, Vec<u8>)| {
        let records = Some(Bytes::from(batch.clone()));
        PartitionProduceData { index: *index, records }
    };
    let partition_data = batches.iter().map(of_partition).collect();
    let topic_data =
        vec![TopicProduceData { name: TOPIC.into(), topic_id: topic_id(), partition_data }];
    let transactional_id = Some("payments".into());
    ProduceRequest { transactional_id, acks: -1, timeout_ms: 1_000, topic_data }
}

/// Groups without transactions.
struct NoGroups;

impl OffsetTransactions for NoGroups {
    fn mark(&mut self, _: i64, _: i32, _: &End, _: u64) -> Result<(), ErrorCode> {
        Err(ErrorCode::UnknownTopicOrPartition)
    }

    fn describe(&self, _: i32) -> Vec<DescribedProducer> {
        Vec::new()
    }
}

/// A positive verdict on a question. Its stamp has the number `sequence`.
pub(super) fn yes(question: &Question, sequence: u64) -> Verdict {
    let stamp = Stamp { coordinator_epoch: 1, sequence };
    let Question { number, producer, .. } = *question;
    Verdict { stamp, number, producer, error: ErrorCode::None, refused: PartitionSet::default() }
}

pub(super) fn no(question: &Question, error: ErrorCode) -> Verdict {
    Verdict { error, ..yes(question, 1) }
}

impl World {
    /// Produces batches in a transaction. Returns the question that is asked, which may be answered
    /// later.
    pub(super) fn start_transactional(
        &mut self,
        version: i16,
        batches: &[(i32, Vec<u8>)],
    ) -> (RequestId, Option<Question>) {
        self.questions.clear();
        let request = self.call(version, &produce_of(batches), Partitions::produce);
        assert!(self.questions.len() <= 1, "one question for all partitions");
        (request, self.questions.pop())
    }

    pub(super) fn decide(&mut self, verdict: &Verdict) {
        let mut out = Effects::default();
        self.partitions.verdict(self.wall, verdict, &mut out);
        self.perform(out);
        self.settle();
    }

    /// The errors and offsets of a produce, by partition; None if it is not answered yet.
    pub(super) fn results(&mut self, request: RequestId) -> Option<Vec<(ErrorCode, i64)>> {
        let Response::Produce(body) = self.response(request)? else { panic!("not a produce") };
        let partitions = body.responses.into_iter().flat_map(|topic| topic.partition_responses);
        Some(partitions.map(|it| (error(it.error_code), it.base_offset)).collect())
    }

    /// Produces a batch to partition 0 in a transaction. If a question is asked, its verdict is
    /// positive.
    pub(super) fn transact(&mut self, batch: Vec<u8>) -> (ErrorCode, i64) {
        let (request, question) = self.start_transactional(ADDS, &[(0, batch)]);
        self.settle();
        if let Some(question) = question {
            self.sequence += 1;
            let verdict = yes(&question, self.sequence);
            self.decide(&verdict);
        }
        self.results(request).unwrap()[0]
    }

    /// Ends the transaction of a producer in partition 0, as an administrator does.
    pub(super) fn end(&mut self, (id, epoch): (i64, i16), outcome: bool, version: i8) -> ErrorCode {
        let topics =
            vec![WritableTxnMarkerTopic { name: TOPIC.into(), partition_indexes: vec![0] }];
        let markers = vec![WritableTxnMarker {
            producer_id: id,
            producer_epoch: epoch,
            transaction_result: outcome,
            topics,
            coordinator_epoch: 1,
            transaction_version: version,
        }];
        let body = WriteTxnMarkersRequest { markers };
        let request = self.call(2, &body, |it, call, body, out| {
            it.write_txn_markers(call, body, &mut NoGroups, out)
        });
        self.settle();
        let Some(Response::WriteTxnMarkers(body)) = self.response(request) else { panic!() };
        error(body.markers[0].topics[0].partitions[0].error_code)
    }

    /// The answer to a fetch of committed records.
    pub(super) fn committed(&mut self, offset: i64) -> PartitionData<'static> {
        let request = self.start_fetch(&reading_committed(0, offset));
        self.settle();
        only(self.fetched(request).unwrap())
    }

    fn end_offset(&mut self, isolation_level: i8, timestamp: i64) -> i64 {
        let asked =
            ListOffsetsPartition { timestamp, current_leader_epoch: -1, ..Default::default() };
        let topic = ListOffsetsTopic { name: TOPIC.into(), partitions: vec![asked] };
        let body =
            ListOffsetsRequest { topics: vec![topic], isolation_level, ..Default::default() };
        let request = self.call(11, &body, Partitions::list_offsets);
        self.settle();
        let Some(Response::ListOffsets(body)) = self.response(request) else { panic!() };
        body.topics[0].partitions[0].offset
    }

    /// The producers of partition 0: id, epoch, last sequence, and start of the open transaction.
    pub(super) fn producers(&mut self) -> Vec<(i64, i32, i32, i64)> {
        let topic = DescribeProducersTopic { name: TOPIC.into(), partition_indexes: vec![0, 0] };
        let body = DescribeProducersRequest { topics: vec![topic] };
        let request = self.call(0, &body, |it, call, body, out| {
            it.describe_producers(call, body, &NoGroups, out)
        });
        let Some(Response::DescribeProducers(body)) = self.response(request) else { panic!() };
        assert_eq!(body.topics[0].partitions.len(), 1, "named twice, answered once");
        let all = body.topics[0].partitions[0].active_producers.iter();
        all.map(|it| {
            (it.producer_id, it.producer_epoch, it.last_sequence, it.current_txn_start_offset)
        })
        .collect()
    }
}

fn reading_committed(max_wait_ms: i32, offset: i64) -> FetchRequest<'static> {
    FetchRequest { isolation_level: 1, ..fetch_request(max_wait_ms, &[(0, offset)]) }
}

fn aborted(data: &PartitionData<'_>) -> Vec<(i64, i64)> {
    let all = data.aborted_transactions.iter().flatten();
    all.map(|it| (it.producer_id, it.first_offset)).collect()
}

#[test]
fn batches_of_two_producers_in_a_request_are_refused() {
    let mut world = World::new();
    let batches = [(0, transactional(1, 7, 0, 0)), (1, transactional(1, 8, 0, 0))];
    let (request, question) = world.start_transactional(ADDS, &batches);
    assert!(question.is_none());
    let expected = (ErrorCode::InvalidProducerIdMapping, -1);
    assert_eq!(world.results(request).unwrap(), [expected, expected]);
}

#[test]
fn only_producers_of_partitions_that_exist_are_compared() {
    let mut world = World::new();
    let batches = [(99, transactional(1, 7, 0, 0)), (1, transactional(1, 8, 0, 0))];
    let (request, question) = world.start_transactional(ADDS, &batches);
    world.decide(&yes(&question.unwrap(), 1));
    let unknown = (ErrorCode::UnknownTopicOrPartition, -1);
    assert_eq!(world.results(request).unwrap(), [unknown, (ErrorCode::None, 0)]);
}

#[test]
fn a_batch_without_a_producer_belongs_to_no_transaction() {
    let mut world = World::new();
    let batches = [(0, transactional(1, -1, -1, -1)), (1, transactional(1, 8, 0, 0))];
    let (request, question) = world.start_transactional(ADDS, &batches);
    let question = question.unwrap();
    assert!(!question.partitions.contains(TOPIC, 0));
    world.decide(&yes(&question, 1));
    world.settle();
    let appended = (ErrorCode::None, 0);
    assert_eq!(world.results(request).unwrap(), [appended, appended]);
    assert!(world.producers().is_empty());
    assert_eq!(world.committed(0).last_stable_offset, 1);
}

#[test]
fn an_epoch_below_those_of_producers_is_refused() {
    let mut world = World::new();
    let answer = world.produce(0, &sequenced(1, 7, -2, 0));
    assert_eq!(error(answer.error_code), ErrorCode::InvalidProducerEpoch);
    assert!(world.producers().is_empty());
}

#[test]
fn a_batch_outside_of_the_open_transaction_is_refused() {
    let mut world = World::new();
    assert_eq!(world.transact(transactional(1, 7, 0, 0)), (ErrorCode::None, 0));
    let answer = world.produce(0, &sequenced(1, 7, 0, 1));
    assert_eq!(error(answer.error_code), ErrorCode::InvalidTxnState);
    assert_eq!(world.end((7, 0), COMMIT, 0), ErrorCode::None);
    assert_eq!(world.append(0, &sequenced(1, 7, 0, 1)), 2);
}

#[test]
fn sequences_begin_again_with_the_epoch_of_the_marker() {
    let mut world = World::new();
    assert_eq!(world.transact(transactional(1, 7, 0, 5)).0, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(world.transact(transactional(2, 7, 0, 0)), (ErrorCode::None, 0));
    assert_eq!(world.producers(), [(7, 0, 1, 0)]);
    assert_eq!(world.end((7, 1), COMMIT, 2), ErrorCode::None);
    assert_eq!(world.producers(), [(7, 1, -1, -1)]);
    assert_eq!(world.transact(transactional(1, 7, 1, 2)).0, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(world.transact(transactional(1, 7, 1, 0)), (ErrorCode::None, 3));
    assert_eq!(world.transact(transactional(1, 7, 0, 2)).0, ErrorCode::InvalidProducerEpoch);
}

#[test]
fn markers_of_fenced_producers_and_coordinators_are_refused() {
    let mut world = World::new();
    assert_eq!(world.transact(transactional(1, 7, 5, 0)), (ErrorCode::None, 0));
    assert_eq!(world.end((7, 4), ABORT, 0), ErrorCode::InvalidProducerEpoch);
    assert_eq!(world.end((7, 5), ABORT, 2), ErrorCode::InvalidProducerEpoch);
    assert_eq!(world.end((7, 5), ABORT, 0), ErrorCode::None);
    assert_eq!(world.end((9, 0), ABORT, 0), ErrorCode::None, "of an unknown producer");
    assert_eq!(world.producers(), [(7, 5, 0, -1), (9, 0, -1, -1)]);
}

#[test]
fn committed_records_are_read_up_to_the_first_open_transaction() {
    let mut world = World::new();
    world.append(0, &batch(2));
    assert_eq!(world.transact(transactional(3, 7, 0, 0)), (ErrorCode::None, 2));
    world.append(0, &batch(1));
    let data = world.fetch(0, 0);
    assert_eq!((ranges(&data).len(), data.last_stable_offset, data.high_watermark), (3, 2, 6));
    assert_eq!(data.aborted_transactions, None);
    assert_eq!(ranges(&world.committed(0)), [(0, 1)]);
    assert_eq!(ranges(&world.committed(2)), []);
    assert_eq!(ranges(&world.committed(5)), []);
    assert_eq!([world.end_offset(0, -1), world.end_offset(1, -1)], [6, 2]);
    assert_eq!([world.end_offset(0, NOW), world.end_offset(1, NOW)], [0, 0]);
    assert_eq!(world.end((7, 0), COMMIT, 0), ErrorCode::None);
    let data = world.committed(0);
    assert_eq!(ranges(&data), [(0, 1), (2, 4), (5, 5), (6, 6)]);
    assert_eq!((data.last_stable_offset, aborted(&data)), (7, vec![]));
}

#[test]
fn a_record_from_the_last_stable_offset_on_is_not_found_by_time() {
    let mut world = World::new();
    world.append(0, &batch(1));
    let late = patch(timed_batch(&[NOW + 5]), 43, &sequenced(1, 7, 0, 0)[43..57]);
    assert_eq!(world.transact(patch(late, 21, &0x10i16.to_be_bytes())), (ErrorCode::None, 1));
    assert_eq!([world.end_offset(0, NOW + 5), world.end_offset(1, NOW + 5)], [1, -1]);
    assert_eq!(world.end((7, 0), COMMIT, 0), ErrorCode::None);
    assert_eq!(world.end_offset(1, NOW + 5), 1);
}

#[test]
fn aborted_transactions_are_named_to_readers_of_their_records() {
    let mut world = World::new();
    assert_eq!(world.transact(transactional(2, 7, 0, 0)), (ErrorCode::None, 0));
    assert_eq!(world.transact(transactional(1, 8, 0, 0)), (ErrorCode::None, 2));
    assert_eq!(world.end((7, 1), ABORT, 2), ErrorCode::None);
    assert_eq!(world.committed(0).last_stable_offset, 2);
    assert_eq!(aborted(&world.committed(0)), [(7, 0)]);
    assert_eq!(world.end((8, 1), COMMIT, 2), ErrorCode::None);
    assert_eq!(world.transact(transactional(1, 8, 1, 0)), (ErrorCode::None, 5));
    assert_eq!(world.end((8, 2), ABORT, 2), ErrorCode::None);
    for (from, expected) in
        [(0, vec![(7, 0), (8, 5)]), (3, vec![(7, 0), (8, 5)]), (4, vec![(8, 5)])]
    {
        assert_eq!(aborted(&world.committed(from)), expected, "from {from}");
    }
    world.delete_before(0, 4);
    assert_eq!(aborted(&world.committed(4)), [(8, 5)]);
}

#[test]
fn a_reader_at_the_last_stable_offset_waits_for_the_marker() {
    let mut world = World::new();
    assert_eq!(world.transact(transactional(2, 7, 0, 0)), (ErrorCode::None, 0));
    let request = world.start_fetch(&reading_committed(60_000, 0));
    assert_eq!(world.transact(transactional(2, 7, 0, 2)), (ErrorCode::None, 2));
    assert!(world.fetched(request).is_none());
    assert_eq!(world.end((7, 1), COMMIT, 2), ErrorCode::None);
    assert_eq!(ranges(&only(world.fetched(request).unwrap())), [(0, 1), (2, 3), (4, 4)]);
}

#[test]
fn a_restart_finds_transactions_in_the_log() {
    let mut world = World::new();
    assert_eq!(world.transact(transactional(1, 7, 0, 0)), (ErrorCode::None, 0));
    assert_eq!(world.end((7, 1), ABORT, 2), ErrorCode::None);
    assert_eq!(world.transact(transactional(1, 8, 3, 0)), (ErrorCode::None, 2));
    world.append(0, &batch(1));
    let before = (world.producers(), aborted(&world.committed(0)), ranges(&world.committed(0)));
    world.reopen();
    let after = (world.producers(), aborted(&world.committed(0)), ranges(&world.committed(0)));
    assert_eq!(after, before);
    assert_eq!(before, (vec![(7, 1, -1, -1), (8, 3, 0, 2)], vec![(7, 0)], vec![(0, 0), (1, 1)]));
    assert_eq!(world.end((8, 3), ABORT, 0), ErrorCode::None);
    assert_eq!(aborted(&world.committed(0)), [(7, 0), (8, 2)]);
}

#[test]
fn a_producer_with_an_open_transaction_does_not_expire() {
    let mut world = World::new();
    world.config.producer_id_expiration_ms = 1_000;
    world.set("retention.ms", "-1");
    assert_eq!(world.transact(transactional(1, 7, 0, 0)), (ErrorCode::None, 0));
    world.pass(600_000);
    assert_eq!(world.producers(), [(7, 0, 0, 0)]);
    assert_eq!(world.end((7, 0), COMMIT, 0), ErrorCode::None);
    world.pass(600_000);
    assert_eq!(world.producers(), []);
}
