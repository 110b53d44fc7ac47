//! Share groups: members acquire and acknowledge records across sessions, kills of the server, and
//! shards.

mod coordinators;
mod dead_letters;

use crate::support::{Client, Server, create_topic, produce, produce_to_all, topic_id};
use muster_codec::messages::*;
use muster_codec::record_batch::Batches;
use muster_codec::{ErrorCode, Response, Uuid};
use std::time::{Duration, Instant};

pub const TOPIC: &str = "jobs";
pub const GROUP: &str = "workers";

pub const ACCEPT: i8 = 1;
pub const RELEASE: i8 = 2;
pub const REJECT: i8 = 3;

/// How long a test waits at most, in milliseconds. It is shorter than the time for which a member
/// locks the records that it has acquired, so no lock ends within a wait.
const LONG_MS: i32 = 20_000;

/// A member, and its session with the leader of a partition.
pub struct Member {
    client: Client,
    id: &'static str,
    topic_id: Uuid,
    partition: i32,
    epoch: i32,
}

/// The first and last offset of acquired records, and their delivery count.
pub type Acquired = (i64, i64, i16);

/// The answer to a ShareFetch of one partition.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fetched {
    acquired: Vec<Acquired>,
    /// The base offsets of the batches.
    batches: Vec<i64>,
    acknowledged: i16,
}

impl Member {
    pub fn new(server: &Server, id: &'static str) -> Self {
        Self::of_partition(server.client(0), id, 0)
    }

    /// A member at the leader of a partition.
    fn of_partition(mut client: Client, id: &'static str, partition: i32) -> Self {
        let topic_id = topic_id(&mut client, TOPIC);
        Self { client, id, topic_id, partition, epoch: 0 }
    }

    /// Sends a ShareFetch with acknowledgements. Each has the first offset, the last offset and the
    /// type.
    fn fetch(&mut self, acknowledged: &[(i64, i64, i8)], max_wait_ms: i32) -> Fetched {
        let request = self.request(acknowledged, max_wait_ms);
        let Response::ShareFetch(answer) = self.client.call(2, request.into()) else { panic!() };
        assert_eq!(answer.error_code, 0, "{answer:?}");
        self.epoch += 1;
        let partition = answer.responses.iter().flat_map(|topic| &topic.partitions).next();
        let Some(partition) = partition else { return Fetched::default() };
        assert_eq!(partition.error_code, 0, "{answer:?}");
        let acquired = partition.acquired_records.iter();
        let batches = Batches::new(partition.records.as_deref().unwrap_or_default());
        Fetched {
            acquired: acquired
                .map(|it| (it.first_offset, it.last_offset, it.delivery_count))
                .collect(),
            batches: batches.map(|batch| batch.unwrap().header.base_offset).collect(),
            acknowledged: partition.acknowledge_error_code,
        }
    }

    /// Fetches, and waits for records.
    pub fn acquire(&mut self) -> Vec<Acquired> {
        self.fetch(&[], LONG_MS).acquired
    }

    /// Fetches the records that are available at once.
    fn peek(&mut self) -> Vec<Acquired> {
        self.fetch(&[], 0).acquired
    }

    fn request(
        &self,
        acknowledged: &[(i64, i64, i8)],
        max_wait_ms: i32,
    ) -> ShareFetchRequest<'static> {
        let partition = ShareFetchPartition {
            partition_index: self.partition,
            acknowledgement_batches: batches(acknowledged),
        };
        ShareFetchRequest {
            group_id: Some(GROUP.into()),
            member_id: Some(self.id.into()),
            share_session_epoch: self.epoch,
            max_wait_ms,
            min_bytes: 1,
            max_records: 500,
            batch_size: 500,
            topics: vec![ShareFetchTopic { topic_id: self.topic_id, partitions: vec![partition] }],
            ..Default::default()
        }
    }

    /// Sends a ShareAcknowledge. Returns the error code of the whole answer, and that of the
    /// partition.
    pub fn acknowledge(&mut self, acknowledged: &[(i64, i64, i8)]) -> (i16, Option<i16>) {
        let partition = ShareAcknowledgePartition {
            partition_index: self.partition,
            acknowledgement_batches: batches(acknowledged),
        };
        let topic = ShareAcknowledgeTopic { topic_id: self.topic_id, partitions: vec![partition] };
        let topics = if acknowledged.is_empty() { Vec::new() } else { vec![topic] };
        let request = ShareAcknowledgeRequest {
            group_id: Some(GROUP.into()),
            member_id: Some(self.id.into()),
            share_session_epoch: self.epoch,
            topics,
            ..Default::default()
        };
        let Response::ShareAcknowledge(answer) = self.client.call(2, request.into()) else {
            panic!()
        };
        self.epoch += i32::from(answer.error_code == 0);
        let partition = answer.responses.first().map(|topic| topic.partitions[0].error_code);
        (answer.error_code, partition)
    }

    /// The error code of a ShareFetch with this session epoch.
    fn error_in_epoch(&mut self, epoch: i32, acknowledged: &[(i64, i64, i8)]) -> i16 {
        self.epoch = epoch;
        let request = self.request(acknowledged, 0);
        let Response::ShareFetch(answer) = self.client.call(2, request.into()) else { panic!() };
        answer.error_code
    }
}

fn batches(acknowledged: &[(i64, i64, i8)]) -> Vec<AcknowledgementBatch> {
    let batch = |(first_offset, last_offset, kind): &(i64, i64, i8)| AcknowledgementBatch {
        first_offset: *first_offset,
        last_offset: *last_offset,
        acknowledge_types: vec![*kind],
    };
    acknowledged.iter().map(batch).collect()
}

/// A server with one shard and a topic with one partition. The share state begins at the start of
/// the partition.
fn started(data: &std::path::Path, configs: &[&str]) -> Server {
    let server = Server::start(data, 1, configs);
    create_topic(&server, TOPIC, 1);
    initialize(&server, 1, 0);
    server
}

fn initialize(server: &Server, state_epoch: i32, start_offset: i64) {
    initialize_partition(&mut server.client(0), 0, state_epoch, start_offset);
}

/// Initializes the share state of a partition, at its leader.
fn initialize_partition(client: &mut Client, partition: i32, state_epoch: i32, start_offset: i64) {
    let topic_id = topic_id(client, TOPIC);
    let partitions = vec![InitializeStatePartition { partition, state_epoch, start_offset }];
    let topics = vec![InitializeStateTopic { topic_id, partitions }];
    let request = InitializeShareGroupStateRequest { group_id: GROUP.into(), topics };
    let Response::InitializeShareGroupState(answer) = client.call(0, request.into()) else {
        panic!()
    };
    assert_eq!(answer.results[0].partitions[0].error_code, 0, "{answer:?}");
}

pub fn produce_records(server: &Server, count: usize) {
    let mut client = server.client(0);
    for _ in 0..count {
        produce(&mut client, TOPIC, b"value").unwrap();
    }
}

#[test]
fn a_record_is_with_one_member_until_it_is_acknowledged() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path(), &[]);
    produce_records(&server, 3);
    let (mut one, mut other) = (Member::new(&server, "one"), Member::new(&server, "other"));
    assert_eq!(one.acquire(), [(0, 2, 1)]);
    assert_eq!(other.peek(), []);
    let acknowledged = one.fetch(&[(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)], 0);
    assert_eq!(acknowledged.acknowledged, 0);
    let mut again = acknowledged.acquired;
    if again.is_empty() {
        again = other.acquire();
    }
    assert_eq!(again, [(1, 1, 2)], "the released record alone comes again");
    let not_held = ErrorCode::InvalidRecordState as i16;
    assert_eq!(one.acknowledge(&[(0, 0, ACCEPT)]).1, Some(0), "before the start");
    assert_eq!(one.acknowledge(&[(2, 2, ACCEPT)]).1, Some(not_held), "rejected before");
}

#[test]
fn acknowledged_records_stay_so_when_the_server_is_killed() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path(), &[]);
    produce_records(&server, 6);
    let mut member = Member::new(&server, "m");
    assert_eq!(member.acquire(), [(0, 5, 1)]);
    let parts = [(0, 1, ACCEPT), (2, 2, RELEASE), (3, 3, REJECT), (5, 5, ACCEPT)];
    assert_eq!(member.acknowledge(&parts), (0, Some(0)));
    server.kill();
    let server = server.restart();
    let mut member = Member::new(&server, "m");
    assert_eq!(member.acquire(), [(2, 2, 2), (4, 4, 1)], "what is not done comes again");
    assert_eq!(member.acknowledge(&[(2, 2, ACCEPT), (4, 4, ACCEPT)]), (0, Some(0)));
    produce_records(&server, 1);
    assert_eq!(member.acquire(), [(6, 6, 1)]);
}

#[test]
fn records_are_released_with_the_connection_and_with_the_session() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path(), &[]);
    produce_records(&server, 1);
    let mut lost = Member::new(&server, "lost");
    assert_eq!(lost.acquire(), [(0, 0, 1)]);
    let mut next = Member::new(&server, "next");
    drop(lost);
    let began = Instant::now();
    assert_eq!(next.acquire(), [(0, 0, 2)]);
    assert!(began.elapsed() < Duration::from_millis(LONG_MS as u64), "before its lock ends");
    let mut last = Member::new(&server, "last");
    assert_eq!(last.peek(), []);
    next.epoch = -1;
    assert_eq!(next.acknowledge(&[]), (0, None), "the session ends");
    assert_eq!(last.acquire(), [(0, 0, 3)]);
}

#[test]
fn records_come_again_when_their_lock_ends() {
    let data = tempfile::tempdir().unwrap();
    let configs = [
        "group.share.min.record.lock.duration.ms=1000",
        "group.share.record.lock.duration.ms=1000",
    ];
    let server = started(data.path(), &configs);
    produce_records(&server, 1);
    let (mut late, mut next) = (Member::new(&server, "late"), Member::new(&server, "next"));
    for count in 1..=5 {
        let member = if count % 2 == 0 { &mut late } else { &mut next };
        assert_eq!(member.acquire(), [(0, 0, count)]);
    }
    produce_records(&server, 1);
    assert_eq!(late.acquire(), [(1, 1, 1)], "five deliveries are the limit");
}

#[test]
fn sessions_have_kafkas_errors() {
    let data = tempfile::tempdir().unwrap();
    let server =
        started(data.path(), &["group.share.max.size=1", "group.share.max.share.sessions=1"]);
    produce_records(&server, 1);
    let mut member = Member::new(&server, "m");
    let invalid_epoch = ErrorCode::InvalidShareSessionEpoch as i16;
    let not_found = ErrorCode::ShareSessionNotFound as i16;
    assert_eq!(member.error_in_epoch(1, &[]), not_found);
    assert_eq!(member.error_in_epoch(-1, &[]), not_found);
    assert_eq!(member.error_in_epoch(0, &[(0, 0, ACCEPT)]), ErrorCode::InvalidRequest as i16);
    member.epoch = 0;
    assert_eq!(member.acknowledge(&[]).0, invalid_epoch);
    assert_eq!(member.acquire(), [(0, 0, 1)]);
    assert_eq!(member.error_in_epoch(3, &[]), invalid_epoch);
    let mut second = Member::new(&server, "second");
    let limit = ErrorCode::ShareSessionLimitReached as i16;
    assert_eq!(second.error_in_epoch(0, &[]), limit);
    member.epoch = 1;
    let unordered = [(0, 0, ACCEPT), (0, 0, 9)];
    let invalid = ErrorCode::InvalidRequest as i16;
    assert_eq!(member.acknowledge(&unordered), (0, Some(invalid)), "a type that does not exist");
    assert_eq!(member.acknowledge(&[(0, 0, ACCEPT)]), (0, Some(0)));
}

#[test]
fn a_share_partition_whose_offset_is_set_starts_there() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path(), &[]);
    produce_records(&server, 4);
    let mut member = Member::new(&server, "m");
    assert_eq!(member.acquire(), [(0, 3, 1)]);
    initialize(&server, 2, 2);
    let not_there = ErrorCode::UnknownTopicOrPartition as i16;
    assert_eq!(member.acknowledge(&[(0, 3, ACCEPT)]), (0, Some(not_there)));
    assert_eq!(member.acquire(), [(2, 3, 1)]);
}

#[test]
fn large_partitions_are_read_part_by_part() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path(), &[]);
    let mut client = server.client(0);
    let value = vec![7; 300_000];
    for _ in 0..12 {
        produce(&mut client, TOPIC, &value).unwrap();
    }
    let mut member = Member::new(&server, "m");
    let mut next = 0;
    while next < 12 {
        let Fetched { acquired, batches, .. } = member.fetch(&[], LONG_MS);
        let (first, last, count) = acquired[0];
        assert_eq!((first, count), (next, 1));
        assert_eq!(batches, (first..=last).collect::<Vec<_>>(), "what is acquired is sent");
        assert!(last - first < 4, "no more than a megabyte at once");
        next = last + 1;
    }
}

#[test]
fn acknowledgements_of_a_fetch_that_waits_are_answered_with_it() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path(), &[]);
    produce_records(&server, 2);
    let mut member = Member::new(&server, "m");
    assert_eq!(member.acquire(), [(0, 1, 1)]);
    let began = Instant::now();
    let parked = member.fetch(&[(0, 0, ACCEPT)], 1_000);
    assert_eq!((parked.acknowledged, parked.acquired), (0, vec![]));
    assert!(began.elapsed() < Duration::from_millis(LONG_MS as u64), "at the end of its wait");
    let released = member.fetch(&[(1, 1, RELEASE)], LONG_MS);
    assert_eq!((released.acknowledged, released.acquired), (0, vec![(1, 1, 2)]));
}

#[test]
fn states_at_the_end_of_all_offsets_do_no_harm() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path(), &[]);
    produce_records(&server, 1);
    let mut member = Member::new(&server, "m");
    for (epoch, start) in [(2, i64::MAX), (3, i64::MAX - 1), (4, i64::MIN)] {
        initialize(&server, epoch, start);
        member.peek();
    }
    let batch = |first_offset, last_offset| ShareGroupStateBatch {
        first_offset,
        last_offset,
        delivery_state: 0,
        delivery_count: 1,
    };
    for batch in [batch(i64::MAX - 1, i64::MAX), batch(0, i64::MAX), batch(i64::MIN, i64::MAX)] {
        let partition = WriteStatePartition {
            state_epoch: i32::MAX,
            leader_epoch: 0,
            state_batches: vec![batch],
            ..Default::default()
        };
        let topic_id = member.topic_id;
        let topics = vec![WriteStateTopic { topic_id, partitions: vec![partition] }];
        let request = WriteShareGroupStateRequest { group_id: GROUP.into(), topics };
        let Response::WriteShareGroupState(answer) = server.client(0).call(1, request.into())
        else {
            panic!()
        };
        assert_eq!(answer.results[0].partitions[0].error_code, 0);
        member.peek();
    }
    initialize(&server, 5, 0);
    assert_eq!(member.acquire(), [(0, 0, 1)]);
}

#[test]
fn a_request_reads_no_more_than_the_bytes_that_it_asks_for() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), 1, &[]);
    create_topic(&server, TOPIC, 20);
    let mut client = server.client(0);
    produce_to_all(&mut client, TOPIC, 0..20, &vec![7; 200_000]).unwrap();
    let topic_id = topic_id(&mut client, TOPIC);
    let state = |partition| InitializeStatePartition { partition, state_epoch: 1, start_offset: 0 };
    let topics = vec![InitializeStateTopic { topic_id, partitions: (0..20).map(state).collect() }];
    let request = InitializeShareGroupStateRequest { group_id: GROUP.into(), topics };
    client.call(0, request.into());
    let wanted = |partition_index| ShareFetchPartition {
        partition_index,
        acknowledgement_batches: Vec::new(),
    };
    let (mut seen, mut epoch) = (0, 0);
    while seen < 20 {
        let topics = vec![ShareFetchTopic { topic_id, partitions: (0..20).map(wanted).collect() }];
        let request = ShareFetchRequest {
            group_id: Some(GROUP.into()),
            member_id: Some("m".into()),
            share_session_epoch: epoch,
            max_wait_ms: LONG_MS,
            min_bytes: 1,
            max_bytes: 500_000,
            max_records: 500,
            batch_size: 500,
            topics: if epoch == 0 { topics } else { Vec::new() },
            ..Default::default()
        };
        let Response::ShareFetch(answer) = client.call(2, request.into()) else { panic!() };
        assert_eq!(answer.error_code, 0);
        let partitions: Vec<_> =
            answer.responses.iter().flat_map(|topic| &topic.partitions).collect();
        let bytes: usize =
            partitions.iter().filter_map(|it| it.records.as_deref()).map(<[u8]>::len).sum();
        assert!((1..=700_000).contains(&bytes), "{bytes}");
        let counts = partitions.iter().flat_map(|it| &it.acquired_records);
        for acquired in counts {
            assert_eq!(acquired.delivery_count, 1, "no record is acquired without being sent");
            seen += 1;
        }
        epoch += 1;
    }
}
