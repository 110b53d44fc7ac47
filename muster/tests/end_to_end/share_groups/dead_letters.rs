//! Dead letter queues of share groups. Records that are rejected or delivered too often are copied
//! to a topic, even if the server is killed meanwhile.

use super::{
    ACCEPT, GROUP, LONG_MS, Member, REJECT, RELEASE, TOPIC, initialize_partition, produce_records,
    started,
};
use crate::support::transactional::leader;
use crate::support::{Server, create_topic, produce_to, rules, topic_id};
use muster_codec::Response;
use muster_codec::messages::*;
use muster_codec::record_batch::Batches;
use muster_codec::wire::Reader;
use std::time::{Duration, Instant};

const QUEUE: &str = "dlq.jobs";
const AUTO_CREATE: &str = "errors.deadletterqueue.auto.create.topics.enable=true";

const REJECTED: &str = "Offset rejected by client.";
const SPENT: &str = "Offset delivery count exceeded the threshold.";

/// A record in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Letter {
    key: Option<String>,
    value: Option<String>,
    headers: Vec<(String, String)>,
}

impl Letter {
    /// The letter for a record, without a copy of the record.
    fn of(partition: i32, offset: i64, count: i16, message: &str) -> Self {
        let headers = [
            ("topic", TOPIC.to_owned()),
            ("partition", partition.to_string()),
            ("offset", offset.to_string()),
            ("group", GROUP.to_owned()),
            ("delivery.count", count.to_string()),
            ("message", message.to_owned()),
        ];
        let headers = headers.map(|(name, value)| (format!("__dlq.errors.{name}"), value));
        Self { key: None, value: None, headers: headers.into() }
    }

    /// The same letter, but with a copy of its record (the key and value that tests produce).
    fn copied(self) -> Self {
        Self { key: Some("key".to_owned()), value: Some("value".to_owned()), ..self }
    }

    fn offset(&self) -> i64 {
        self.headers[2].1.parse().unwrap()
    }
}

/// Alters configs of a topic or group, and waits until all shards have them.
fn alter(server: &Server, resource_type: i8, name: &str, configs: &[(&str, &str)]) {
    let all: Vec<_> = configs.iter().map(|(key, value)| (*key, Some(*value))).collect();
    rules::alter(server, resource_type, name, &all);
    let until = Instant::now() + Duration::from_millis(LONG_MS as u64);
    for shard in 0..server.shards {
        while !has_configs(server, shard, (resource_type, name), configs) {
            assert!(Instant::now() < until, "shard {shard} does not have the configs of {name}");
        }
    }
}

fn has_configs(
    server: &Server,
    shard: u16,
    (resource_type, name): (i8, &str),
    configs: &[(&str, &str)],
) -> bool {
    let request = rules::describe_configs(resource_type, name, None);
    let Response::DescribeConfigs(body) = server.client(shard).call(4, request.into()) else {
        panic!()
    };
    let all = &body.results[0].configs;
    let has = |(name, value): &(&str, &str)| {
        all.iter().any(|it| *it.name == **name && it.value.as_deref() == Some(*value))
    };
    configs.iter().all(has)
}

/// Configures a dead letter queue for the group.
fn set_queue(server: &Server, copies: bool) {
    let copies = if copies { "true" } else { "false" };
    let configs = [
        ("errors.deadletterqueue.topic.name", QUEUE),
        ("errors.deadletterqueue.copy.record.enable", copies),
    ];
    alter(server, rules::GROUP, GROUP, &configs);
}

/// Creates a topic as a dead letter queue.
fn create_queue(server: &Server, partitions: i32) {
    create_topic(server, QUEUE, partitions);
    alter(server, rules::TOPIC, QUEUE, &[("errors.deadletterqueue.group.enable", "true")]);
}

/// The letters in a partition of the queue. Empty if the partition does not exist.
fn letters(server: &Server, partition: i32) -> Vec<Letter> {
    let named = MetadataRequestTopic { name: Some(QUEUE.into()), ..Default::default() };
    // A topic that this request creates would be no queue.
    let request = MetadataRequest {
        topics: Some(vec![named]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let Response::Metadata(body) = server.client(0).call(9, request.into()) else { panic!() };
    let mut partitions = body.topics[0].partitions.iter();
    let Some(at) = partitions.find(|it| it.partition_index == partition) else { return Vec::new() };
    let asked = FetchPartition { partition, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = FetchTopic { topic: QUEUE.into(), partitions: vec![asked], ..Default::default() };
    let request = FetchRequest {
        replica_id: -1,
        max_wait_ms: 1,
        max_bytes: 1 << 20,
        topics: vec![topic],
        session_epoch: -1,
        ..Default::default()
    };
    let Response::Fetch(body) = server.client(at.leader_id as u16).call(11, request.into()) else {
        panic!()
    };
    let records = body.responses[0].partitions[0].records.as_deref().unwrap_or_default();
    let mut letters = Vec::new();
    for batch in Batches::new(records) {
        let batch = batch.unwrap();
        let mut payload = Reader::new(batch.payload());
        for _ in 0..batch.header.records_count {
            letters.push(read_letter(&mut payload));
        }
    }
    letters
}

fn read_letter(payload: &mut Reader<'_>) -> Letter {
    let text = |payload: &mut Reader<'_>| {
        let len = usize::try_from(payload.varint().unwrap()).ok()?;
        Some(String::from_utf8(payload.take(len).unwrap().to_vec()).unwrap())
    };
    payload.varint().unwrap();
    payload.i8().unwrap();
    payload.varlong().unwrap();
    payload.varint().unwrap();
    let (key, value) = (text(payload), text(payload));
    let count = payload.varint().unwrap();
    let headers = (0..count).map(|_| (text(payload).unwrap(), text(payload).unwrap())).collect();
    Letter { key, value, headers }
}

/// The letters in a partition. Waits until they satisfy the condition.
fn letters_until(
    server: &Server,
    partition: i32,
    are_wanted: impl Fn(&[Letter]) -> bool,
) -> Vec<Letter> {
    let until = Instant::now() + Duration::from_millis(LONG_MS as u64);
    loop {
        let letters = letters(server, partition);
        if are_wanted(&letters) {
            return letters;
        }
        assert!(Instant::now() < until, "the queue has {letters:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn records_that_are_rejected_or_spent_come_to_a_queue_that_is_created() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path(), &[AUTO_CREATE, "group.share.delivery.count.limit=2"]);
    set_queue(&server, true);
    produce_records(&server, 4);
    let mut member = Member::new(&server, "m");
    assert_eq!(member.acquire(), [(0, 3, 1)]);
    let given = [(0, 0, ACCEPT), (1, 2, REJECT), (3, 3, RELEASE)];
    assert_eq!(member.acknowledge(&given), (0, Some(0)));
    let rejected = |offset| Letter::of(0, offset, 1, REJECTED).copied();
    let found = letters_until(&server, 0, |it| it.len() >= 2);
    assert_eq!(found, [rejected(1), rejected(2)]);
    assert_eq!(member.acquire(), [(3, 3, 2)]);
    assert_eq!(member.acknowledge(&[(3, 3, RELEASE)]), (0, Some(0)));
    let found = letters_until(&server, 0, |it| it.len() >= 3);
    let spent = Letter::of(0, 3, 2, SPENT).copied();
    assert_eq!(found, [rejected(1), rejected(2), spent]);
    assert_eq!(member.peek(), [], "none comes again");
}

#[test]
fn letters_come_to_the_shard_that_leads_their_queue() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), 2, &[]);
    create_topic(&server, TOPIC, 4);
    create_queue(&server, 2);
    set_queue(&server, false);
    for partition in 0..4 {
        let at = leader(&server, TOPIC, partition);
        let mut client = server.client(at);
        initialize_partition(&mut client, partition, 1, 0);
        produce_to(&mut client, TOPIC, partition, b"value").unwrap();
        let mut member = Member::of_partition(client, "m", partition);
        assert_eq!(member.fetch(&[], LONG_MS).acknowledged, 0);
        assert_eq!(member.fetch(&[(0, 0, REJECT)], 0).acknowledged, 0);
    }
    for partition in 0..2 {
        let found = letters_until(&server, partition, |it| it.len() >= 2);
        let mut sources: Vec<_> = found.iter().map(|it| it.headers[1].1.as_str()).collect();
        sources.sort_unstable();
        assert_eq!(sources, [partition.to_string(), (partition + 2).to_string()]);
        assert!(found.iter().all(|it| it.key.is_none() && it.value.is_none()), "{found:?}");
    }
}

#[test]
fn a_topic_that_is_no_queue_gets_no_letter_and_the_log_says_so() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path(), &[]);
    set_queue(&server, false);
    produce_records(&server, 2);
    let mut member = Member::new(&server, "m");
    assert_eq!(member.acquire(), [(0, 1, 1)]);
    assert_eq!(member.acknowledge(&[(0, 0, REJECT)]), (0, Some(0)));
    server.says("does not exist, topic: dlq.jobs");
    create_topic(&server, QUEUE, 1);
    assert_eq!(member.acknowledge(&[(1, 1, REJECT)]), (0, Some(0)));
    server.says("1 records did not come to the dead letter queue");
    assert_eq!(letters(&server, 0), []);
    produce_records(&server, 1);
    assert_eq!(member.acquire(), [(2, 2, 1)], "the start has moved");
}

/// The share state has records in the state Archiving, as if the server had crashed before it wrote
/// their letters. It writes the letters once the share partition is opened, and never again.
#[test]
fn a_crash_before_the_letter_costs_none_and_one_after_its_end_repeats_none() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path(), &[]);
    create_queue(&server, 1);
    set_queue(&server, true);
    produce_records(&server, 3);
    write_archiving(&server, &[(0, 0, 1), (1, 1, 5)]);
    server.kill();
    let mut server = server.restart();
    assert_eq!(letters(&server, 0), []);
    let mut member = Member::new(&server, "m");
    assert_eq!(member.acquire(), [(2, 2, 1)]);
    let expected = [Letter::of(0, 0, 1, REJECTED).copied(), Letter::of(0, 1, 5, SPENT).copied()];
    assert_eq!(letters_until(&server, 0, |it| it.len() >= 2), expected);
    archived_until(&server, 2);
    server.kill();
    let server = server.restart();
    let mut member = Member::new(&server, "m");
    assert_eq!(member.acquire(), [(2, 2, 1)]);
    assert_eq!(member.acknowledge(&[(2, 2, ACCEPT)]), (0, Some(0)));
    archived_until(&server, 3);
    assert_eq!(letters(&server, 0), expected, "no letter is written again");
}

/// Writes share state with records in the state Archiving. An element of `batches` has the first
/// offset, the last offset and the delivery count.
fn write_archiving(server: &Server, batches: &[(i64, i64, i16)]) {
    let batch = |(first_offset, last_offset, delivery_count): &(i64, i64, i16)| {
        let (first_offset, last_offset) = (*first_offset, *last_offset);
        let delivery_count = *delivery_count;
        ShareGroupStateBatch { first_offset, last_offset, delivery_state: 3, delivery_count }
    };
    let partition = WriteStatePartition {
        state_epoch: 1,
        start_offset: 0,
        state_batches: batches.iter().map(batch).collect(),
        ..Default::default()
    };
    let mut client = server.client(0);
    let topic_id = topic_id(&mut client, TOPIC);
    let topics = vec![WriteStateTopic { topic_id, partitions: vec![partition] }];
    let request = WriteShareGroupStateRequest { group_id: GROUP.into(), topics };
    let Response::WriteShareGroupState(answer) = client.call(1, request.into()) else { panic!() };
    assert_eq!(answer.results[0].partitions[0].error_code, 0, "{answer:?}");
}

/// Waits until the durable state has no records before this offset.
fn archived_until(server: &Server, offset: i64) {
    let mut client = server.client(0);
    let topic_id = topic_id(&mut client, TOPIC);
    let until = Instant::now() + Duration::from_millis(LONG_MS as u64);
    loop {
        let partitions = vec![ReadStateSummaryPartition { partition: 0, leader_epoch: 0 }];
        let topics = vec![ReadStateSummaryTopic { topic_id, partitions }];
        let request = ReadShareGroupStateSummaryRequest { group_id: GROUP.into(), topics };
        let Response::ReadShareGroupStateSummary(answer) = client.call(1, request.into()) else {
            panic!()
        };
        let state = &answer.results[0].partitions[0];
        let done = state.start_offset + i64::from(state.delivery_complete_count.max(0));
        if done >= offset {
            return;
        }
        assert!(Instant::now() < until, "{state:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The offsets that are archiving in the durable state.
fn archiving(server: &Server) -> Vec<i64> {
    let mut client = server.client(0);
    let topic_id = topic_id(&mut client, TOPIC);
    let partitions = vec![ReadStatePartition { partition: 0, leader_epoch: 0 }];
    let topics = vec![ReadStateTopic { topic_id, partitions }];
    let request = ReadShareGroupStateRequest { group_id: GROUP.into(), topics };
    let Response::ReadShareGroupState(answer) = client.call(0, request.into()) else { panic!() };
    let batches = &answer.results[0].partitions[0].state_batches;
    let archiving = batches.iter().filter(|it| it.delivery_state == 3);
    archiving.flat_map(|it| it.first_offset..=it.last_offset).collect()
}

fn offsets(letters: &[Letter]) -> Vec<i64> {
    letters.iter().map(Letter::offset).collect()
}

/// Kills the server at various times after it has answered a rejection. In the end each rejected
/// record has a letter. It has two letters, as in Kafka, if the kill came after its letter was
/// written and before the share state had it as archived.
#[test]
fn each_rejected_record_has_a_letter_whenever_the_server_is_killed() {
    const RECORDS: i64 = 40;
    const DELAYS_US: [u64; 8] = [0, 200, 500, 1_000, 2_000, 4_000, 8_000, 20_000];
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path(), &[]);
    create_queue(&server, 1);
    set_queue(&server, false);
    let (mut expected, mut left) = (Vec::new(), 0);
    for (first, delay_us) in (0..).step_by(RECORDS as usize).zip(DELAYS_US) {
        produce_records(&server, RECORDS as usize);
        let mut member = Member::new(&server, "m");
        let last = first + RECORDS - 1;
        assert_eq!(member.acquire(), [(first, last, 1)]);
        // Rejects every other record, so that there are many letters.
        let given: Vec<_> = (first..=last)
            .map(|offset| (offset, offset, if offset % 2 == 0 { REJECT } else { ACCEPT }))
            .collect();
        assert_eq!(member.acknowledge(&given), (0, Some(0)));
        std::thread::sleep(Duration::from_micros(delay_us));
        server.kill();
        server = server.restart();
        let (written, archiving) = (offsets(&letters(&server, 0)), archiving(&server));
        left += archiving.len();
        expected.extend((first..=last).step_by(2));
        expected.extend(archiving.into_iter().filter(|offset| written.contains(offset)));
        let mut member = Member::new(&server, "m");
        assert_eq!(member.peek(), [], "nothing of it is given out again");
        archived_until(&server, last + 1);
    }
    let mut found = offsets(&letters(&server, 0));
    found.sort_unstable();
    expected.sort_unstable();
    println!("the kills left {left} records archiving, and {} letters are there", found.len());
    assert_eq!(found, expected);
}

/// The server is killed before, while, or after it creates the queue for the first letter.
#[test]
fn a_rejected_record_has_a_letter_if_the_server_is_killed_while_it_creates_the_queue() {
    const DELAYS_US: [u64; 6] = [0, 300, 1_000, 3_000, 10_000, 30_000];
    for delay_us in DELAYS_US {
        let data = tempfile::tempdir().unwrap();
        let mut server = started(data.path(), &[AUTO_CREATE]);
        set_queue(&server, false);
        produce_records(&server, 1);
        let mut member = Member::new(&server, "m");
        assert_eq!(member.acquire(), [(0, 0, 1)]);
        assert_eq!(member.acknowledge(&[(0, 0, REJECT)]), (0, Some(0)));
        std::thread::sleep(Duration::from_micros(delay_us));
        server.kill();
        let server = server.restart();
        let (written, archiving) = (letters(&server, 0).len(), archiving(&server).len());
        // There are two letters if the kill came after the letter was written and before the share
        // state had the record as archived.
        let expected = vec![Letter::of(0, 0, 1, REJECTED); written + archiving];
        assert!(!expected.is_empty(), "killed after {delay_us} us: the record is forgotten");
        let mut member = Member::new(&server, "m");
        assert_eq!(member.peek(), [], "nothing of it is given out again");
        archived_until(&server, 1);
        println!("{delay_us} us: {written} letters were written, {archiving} were not");
        assert_eq!(letters(&server, 0), expected);
    }
}
