//! Stories of members of share groups: their sessions, what they acknowledge, and how they continue
//! after an error. One broker leads the even partitions, another the odd ones.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::share_acknowledge_response::{
    PartitionData as AcknowledgeData, ShareAcknowledgeTopicResponse,
};
use kafka_protocol::messages::share_fetch_response::{
    AcquiredRecords, PartitionData, ShareFetchableTopicResponse,
};
use kafka_protocol::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::records::{
    Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

use super::producer::metadata;
use muster_codec::messages;

use super::*;
use crate::event::EventKind::{
    AcknowledgeSent, AcknowledgeUnknown, Acknowledged, Acquired, Assigned, Disconnected, Joined,
    Joining, LeaderLost, Lost, Refused, Revoked, SessionAnswered, SessionEnded, Settled, Started,
    Stopped,
};
use crate::event::{Acknowledge, AcknowledgedBatch, AcquiredBatch};
use crate::member::numbered::Numbered;
use crate::plan::{AcknowledgeBy, Acquire, Poison, PoisonIs, SharePlan};

const NOT_LEADER: i16 = 6;
const UNKNOWN_MEMBER_ID: i16 = 25;
const INVALID_RECORD_STATE: i16 = 121;
const SESSION_NOT_FOUND: i16 = 122;

fn plan() -> SharePlan {
    SharePlan {
        acquire: Acquire::BatchOptimized,
        acknowledge: AcknowledgeBy::Batch,
        max_records: 500,
        takes: Duration::ZERO,
        slow: 0,
        slow_takes: Duration::ZERO,
        poison: None,
        delivery_limit: 5,
    }
}

fn beat(epoch: i32) -> ShareGroupHeartbeatResponse {
    ShareGroupHeartbeatResponse::default()
        .with_member_epoch(epoch)
        .with_heartbeat_interval_ms(600_000)
}

fn given(epoch: i32, numbers: &[i32]) -> Response {
    let topic =
        TopicPartitions::default().with_topic_id(wire_id(0)).with_partitions(numbers.to_vec());
    let assignment = Assignment::default().with_topic_partitions(vec![topic]);
    Response::ShareGroupHeartbeat(beat(epoch).with_assignment(Some(assignment)))
}

/// A member with this assignment. It is about to open its share sessions.
fn member_of(plan: SharePlan, numbers: &[i32]) -> Story {
    let mut story = Story::new(member(group(Protocol::Share(plan))));
    story.start();
    story.find(9092);
    story.reply(given(2, numbers));
    story.reply(metadata());
    story
}

fn partition(number: u32) -> Partition {
    Partition { topic: TopicIndex(0), number }
}

pub(super) fn batch_of(base: i64, count: i64) -> Bytes {
    let key = Numbered { producer: MemberIndex(9), number: 77, place: 0 }.key();
    let records = (base..base + count).map(|offset| Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: 0,
        producer_id: -1,
        producer_epoch: -1,
        timestamp_type: TimestampType::Creation,
        offset,
        sequence: -1,
        timestamp: 1_000,
        key: Some(key.clone()),
        value: None,
        headers: Default::default(),
    });
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &Vec::from_iter(records), &options).unwrap();
    bytes.freeze()
}

fn answer_of(data: PartitionData) -> Response {
    let topic = ShareFetchableTopicResponse::default()
        .with_topic_id(wire_id(0))
        .with_partitions(vec![data]);
    let response = ShareFetchResponse::default().with_acquisition_lock_timeout_ms(30_000);
    Response::ShareFetch(response.with_responses(vec![topic]))
}

/// An answer in which the member acquires the offsets from `first` to `last`, for the first time.
/// It contains `written` records, of which the first has the offset `first`.
fn fetched(first: i64, written: i64, last: i64) -> Response {
    let acquired = AcquiredRecords::default().with_first_offset(first).with_last_offset(last);
    let data = PartitionData::default()
        .with_records(Some(batch_of(first, written)))
        .with_acquired_records(vec![acquired.with_delivery_count(1)]);
    answer_of(data)
}

fn acknowledged(code: i16) -> Response {
    let data = AcknowledgeData::default().with_error_code(code);
    let topic = ShareAcknowledgeTopicResponse::default()
        .with_topic_id(wire_id(0))
        .with_partitions(vec![data]);
    Response::ShareAcknowledge(ShareAcknowledgeResponse::default().with_responses(vec![topic]))
}

fn nothing() -> Response {
    Response::ShareFetch(ShareFetchResponse::default())
}

/// The session epoch of a request, the partitions that it adds or acknowledges, and those that it
/// forgets.
fn asked(outgoing: &Outgoing) -> (i32, Vec<i32>, Vec<i32>) {
    let Request::ShareFetch(request) = &outgoing.request else { panic!("{:?}", outgoing.request) };
    assert!(matches!(outgoing.to, Destination::Leader(_)));
    let topics = request.topics.iter().flat_map(|topic| &topic.partitions);
    let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| &topic.partitions);
    let partitions = topics.map(|partition| partition.partition_index).collect();
    (request.share_session_epoch, partitions, forgotten.copied().collect())
}

fn acknowledging(outgoing: &Outgoing) -> (i32, Vec<(i64, i64, Vec<i8>)>) {
    let Request::ShareAcknowledge(request) = &outgoing.request else {
        panic!("{:?}", outgoing.request)
    };
    (request.share_session_epoch, batches(request))
}

fn batches(request: &messages::ShareAcknowledgeRequest<'_>) -> Vec<(i64, i64, Vec<i8>)> {
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let batches = partitions.flat_map(|partition| &partition.acknowledgement_batches);
    let batches = batches.map(|it| (it.first_offset, it.last_offset, it.acknowledge_types.clone()));
    batches.collect()
}

#[test]
fn it_has_a_session_with_each_leader_of_its_partitions() {
    let mut story = member_of(plan(), &[0, 1, 2]);
    let events = story.events();
    assert!(matches!(
        events[..],
        [Started, Joining, Joined { epoch: 2, .. }, .., Assigned { .. }, Settled { epoch: 2 }]
    ));
    let sent: Vec<Outgoing> = story.sent.drain(..).map(|(_, outgoing)| outgoing).collect();
    assert_eq!(asked(&sent[0]), (0, vec![0, 2], vec![]));
    assert_eq!(asked(&sent[1]), (0, vec![1], vec![]));
    assert!(sent[0].to != sent[1].to);
    story.answer(&sent[1], Ok(nothing()));
    assert_eq!(asked(&story.request()), (1, vec![], vec![]), "the session has its partitions");
    let session = sent[1].token;
    assert_eq!(story.events(), [SessionAnswered { session, sent: sent_at(&story, 1) }]);
}

/// The time `millis` milliseconds ago: the time of a request whose answer took so long.
fn sent_at(story: &Story, millis: u64) -> Time {
    story.now - Duration::from_millis(millis)
}

#[test]
fn it_acknowledges_batch_by_batch_before_it_fetches_again() {
    let mut story = member_of(plan(), &[0]);
    let sent = sent_at(&story, 0);
    let session = story.reply(fetched(5, 3, 9)).token;
    let arrived = story.now;
    assert_eq!(story.spans.len(), 1);
    let span = story.spans[0];
    assert_eq!((span.due, span.ended, span.count), (Time::from_micros(77), arrived, 3));
    story.events().truncate(0);
    let outgoing = story.request();
    assert_eq!(acknowledging(&outgoing), (1, vec![(5, 7, vec![1]), (8, 9, vec![0])]));
    story.answer(&outgoing, Ok(acknowledged(0)));
    assert_eq!(story.events(), [Acknowledged { id: outgoing.token, refused: [].into() }]);
    assert_eq!(asked(&story.request()), (2, vec![], vec![]));
    let _ = (session, sent);
}

#[test]
fn its_events_have_what_it_acquires_and_acknowledges() {
    let mut story = member_of(plan(), &[0]);
    story.events();
    let sent = story.now;
    let session = story.reply(fetched(5, 1, 5)).token;
    let id = story.request().token;
    let records = AcquiredBatch { partition: partition(0), first: 5, last: 5, deliveries: 1 };
    let accepted =
        AcknowledgedBatch { partition: partition(0), first: 5, last: 5, how: Acknowledge::Accept };
    let (arrived, lock_ms) = (story.now, 30_000);
    assert_eq!(
        story.events(),
        [
            Acquired { session, sent, arrived, lock_ms, batches: [records].into() },
            AcknowledgeSent { id, session, batches: [accepted].into() },
        ]
    );
}

#[test]
fn it_acknowledges_one_record_at_a_time_if_it_is_to() {
    let by = SharePlan { acknowledge: AcknowledgeBy::Record, ..plan() };
    let mut story = member_of(by, &[0]);
    story.reply(fetched(5, 3, 7));
    for (epoch, offset) in [(1, 5), (2, 6), (3, 7)] {
        let outgoing = story.reply(acknowledged(0));
        assert_eq!(acknowledging(&outgoing), (epoch, vec![(offset, offset, vec![1])]));
    }
    assert_eq!(asked(&story.request()).0, 4);
}

#[test]
fn its_next_fetch_acknowledges_if_it_is_to() {
    let by = SharePlan { acknowledge: AcknowledgeBy::Fetch, ..plan() };
    let mut story = member_of(by, &[0]);
    story.reply(fetched(5, 3, 7));
    story.events();
    let outgoing = story.request();
    assert_eq!(asked(&outgoing), (1, vec![0], vec![]));
    let refused = PartitionData::default().with_acknowledge_error_code(INVALID_RECORD_STATE);
    story.answer(&outgoing, Ok(answer_of(refused)));
    let refused = [(partition(0), INVALID_RECORD_STATE)].into();
    assert_eq!(story.events()[0], Acknowledged { id: outgoing.token, refused });
    assert_eq!(asked(&story.request()), (2, vec![], vec![]), "they are gone");
}

#[test]
fn records_that_cannot_be_processed_are_released_or_rejected() {
    for (how, kind) in [(PoisonIs::Released, 2), (PoisonIs::Rejected, 3)] {
        let by = SharePlan { poison: Some(Poison { one_in: 4, how }), ..plan() };
        let mut story = member_of(by, &[0]);
        story.reply(fetched(2, 4, 5));
        let sent = acknowledging(&story.request()).1;
        assert_eq!(sent, [(2, 2, vec![1]), (3, 3, vec![kind]), (4, 5, vec![1])]);
    }
}

#[test]
fn a_slow_member_takes_its_time() {
    let by = SharePlan { slow: 1_000_000, slow_takes: Duration::from_millis(700), ..plan() };
    let mut story = member_of(by, &[0]);
    story.reply(fetched(5, 1, 5));
    let fetched_at = story.now;
    assert!(story.sent.is_empty());
    story.until(at(10_000));
    assert_eq!(story.now, fetched_at + Duration::from_millis(700));
    assert_eq!(acknowledging(&story.request()).0, 1);
}

#[test]
fn exactly_as_many_records_are_acquired_if_it_is_to() {
    let by = SharePlan { acquire: Acquire::RecordLimit, max_records: 10, ..plan() };
    let mut story = member_of(by.clone(), &[0]);
    let outgoing = story.request();
    let Request::ShareFetch(fetch) = &outgoing.request else { panic!("{:?}", outgoing.request) };
    assert_eq!((outgoing.version, fetch.share_acquire_mode), (2, Acquire::RecordLimit as i8));
    assert_eq!((fetch.max_records, fetch.batch_size), (10, 10));
    let mut old = Story::new(member(group(Protocol::Share(by))));
    old.versions.set(ApiKey::ShareFetch, 1);
    old.start();
    old.find(9092);
    old.reply(given(2, &[0]));
    old.reply(metadata());
    assert_eq!(old.reason(), "the cluster does not support ShareFetch with an acquire mode");
}

#[test]
fn a_partition_that_is_taken_away_is_forgotten() {
    let mut story = member_of(plan(), &[0, 2]);
    let fetch = story.request();
    story.now = at(700_000);
    story.call(Member::wake);
    story.reply(given(3, &[2]));
    story.answer(&fetch, Ok(nothing()));
    assert_eq!(asked(&story.request()), (1, vec![], vec![0]));
}

#[test]
fn a_session_without_partitions_is_closed() {
    let mut story = member_of(plan(), &[0]);
    let fetch = story.request();
    story.now = at(700_000);
    story.call(Member::wake);
    story.reply(given(3, &[]));
    story.answer(&fetch, Ok(nothing()));
    story.events();
    assert_eq!(acknowledging(&story.request()), (-1, vec![]));
}

#[test]
fn a_session_that_the_broker_does_not_know_is_opened_again() {
    let mut story = member_of(plan(), &[0]);
    let session = story.reply(fetched(5, 1, 5)).token;
    story.events();
    let refused = ShareAcknowledgeResponse::default().with_error_code(SESSION_NOT_FOUND);
    let id = story.reply(Response::ShareAcknowledge(refused)).token;
    let code = SESSION_NOT_FOUND;
    assert_eq!(
        story.events(),
        [
            Refused { api: 79, error: code },
            Acknowledged { id, refused: [(partition(0), code)].into() },
            SessionEnded { session, closed: false },
        ]
    );
    story.until(at(10_000));
    assert_eq!(asked(&story.request()), (0, vec![0], vec![]), "what it held is not acknowledged");
}

#[test]
fn a_broken_connection_loses_the_session_and_its_acknowledgements() {
    let mut story = member_of(plan(), &[0]);
    let session = story.reply(fetched(5, 1, 5)).token;
    story.events();
    let id = story.request();
    story.answer(&id, Err(Failure::Disconnected));
    let id = id.token;
    let ended = SessionEnded { session, closed: false };
    assert_eq!(story.events(), [AcknowledgeUnknown { id }, Disconnected, ended]);
    story.until(at(10_000));
    story.reply(metadata());
    story.until(at(20_000));
    assert_eq!(asked(&story.request()), (0, vec![0], vec![]));
}

#[test]
fn a_leader_that_moved_is_looked_up() {
    let mut story = member_of(plan(), &[0]);
    story.events();
    story.reply(answer_of(PartitionData::default().with_error_code(NOT_LEADER)));
    let events = story.events();
    let lost = LeaderLost { partitions: set(&[0]) };
    assert_eq!(events[..2], [Refused { api: 78, error: NOT_LEADER }, lost]);
    story.until(at(10_000));
    assert!(matches!(story.request().request, Request::Metadata(_)));
}

#[test]
fn a_refused_acknowledgement_is_no_error_of_the_leader() {
    let mut story = member_of(plan(), &[0]);
    story.reply(fetched(5, 1, 5));
    story.events();
    let id = story.reply(acknowledged(INVALID_RECORD_STATE)).token;
    let refused = [(partition(0), INVALID_RECORD_STATE)].into();
    assert_eq!(story.events(), [Acknowledged { id, refused }]);
    assert_eq!(asked(&story.request()).0, 2);
}

#[test]
fn a_fenced_member_joins_again_with_its_id() {
    let mut story = member_of(plan(), &[0]);
    let fetch = story.request();
    story.now = at(700_000);
    story.call(Member::wake);
    story.events();
    let heartbeat = story.request();
    let refused = ShareGroupHeartbeatResponse::default().with_error_code(UNKNOWN_MEMBER_ID);
    story.answer(&heartbeat, Ok(Response::ShareGroupHeartbeat(refused)));
    let lost = Lost { partitions: set(&[0]) };
    let fenced = EventKind::Fenced { error: UNKNOWN_MEMBER_ID };
    assert_eq!(story.events(), [fenced, lost, Joining]);
    let ids = [heartbeat, story.request()].map(|outgoing| match outgoing.request {
        Request::ShareGroupHeartbeat(request) => (request.member_id, request.member_epoch),
        other => panic!("{other:?}"),
    });
    assert_eq!((&ids[0].0, ids[0].1, ids[1].1), (&ids[1].0, 2, 0));
    story.answer(&fetch, Ok(nothing()));
    assert_eq!(acknowledging(&story.request()).0, -1, "it has no partitions there");
}

#[test]
fn a_member_that_leaves_closes_its_sessions_first() {
    let mut story = member_of(plan(), &[0]);
    let fetch = story.request();
    story.events();
    story.stop(Stop::Leave);
    assert_eq!(story.events(), [Revoked { partitions: set(&[0]) }]);
    story.answer(&fetch, Ok(fetched(5, 2, 6)));
    let close = story.request();
    assert_eq!(acknowledging(&close), (-1, vec![(5, 6, vec![1])]));
    story.answer(&close, Ok(acknowledged(0)));
    let leave = story.request();
    assert!(matches!(&leave.request, Request::ShareGroupHeartbeat(it) if it.member_epoch == -1));
    story.answer(&leave, Ok(Response::ShareGroupHeartbeat(beat(-1))));
    let events = story.events();
    let session = fetch.token;
    assert!(events.contains(&SessionEnded { session, closed: true }));
    assert_eq!(events.last(), Some(&Stopped { how: Stop::Leave }));
    assert!(story.member.is_done());
}

#[test]
fn a_crash_ends_everything_at_once() {
    let mut story = member_of(plan(), &[0]);
    let fetch = story.request();
    story.stop(Stop::Crash);
    assert_eq!(story.events().last(), Some(&Stopped { how: Stop::Crash }));
    assert!(story.member.is_done() && !story.member.awaits(fetch.token));
}
