//! Dead letters, where another shard leads the dead letter queue. If a letter fails or gets no
//! answer, it is sent again. After several failures it is dropped.

use super::frames::{answers, frame, produce};
use super::world::{FLUSH_MS, World};
use crate::cluster::{config_record, leader};
use crate::mailbox::{DeadLettersAdded, ToShares};
use crate::net::ConnectionId;
use crate::partitions::LettersEnd;
use crate::shard::{Event, Message};
use crate::shares::LETTER_RECORDS_MAX;
use muster_codec::messages::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic, DeleteShareGroupStateRequest,
    DeleteStatePartition, DeleteStateTopic, ShareFetchPartition, ShareFetchRequest,
    ShareFetchResponse, ShareFetchTopic,
};
use muster_codec::record_batch::Batch;
use muster_codec::records::{ClusterRecord, ShareSnapshotValue, ShareStateBatch};
use muster_codec::{ApiKey, ErrorCode, Request, Response, Uuid};
use muster_shares::SharePartitionKey;

const CLIENT: ConnectionId = ConnectionId(0);
const GROUP: &str = "g";

/// Kafka's numbers of the types of resources.
const TOPIC: i8 = 2;
const GROUP_RESOURCE: i8 = 32;

/// A batch that was sent to shard 1.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    number: u64,
    records: i32,
    /// The number of letters that contain a copy of their record's value.
    copies: usize,
}

/// Shard 0 of two, which leads the topic; shard 1 leads the queue.
struct Story {
    world: World,
    topic_id: Uuid,
}

impl Story {
    /// Makes a group whose share state has the first two records of the topic as archiving.
    fn new() -> Self {
        Self::archiving(&[(0, 1)])
    }

    fn archiving(ranges: &[(i64, i64)]) -> Self {
        let mut world = World::of_shards(2, &[]);
        let topic_id = topic_led_by(&mut world, "topic", 0);
        let queue = topic_led_by(&mut world, "dlq", 1);
        let queue = world.shard.broker.image().topic_by_id(queue).unwrap().name.to_string();
        world.shard.write_records(vec![
            config(TOPIC, &queue, "errors.deadletterqueue.group.enable", "true"),
            config(TOPIC, &queue, "max.message.bytes", "100000000"),
            config(GROUP_RESOURCE, GROUP, "errors.deadletterqueue.topic.name", &queue),
            config(4, "", "errors.deadletterqueue.topic.name.prefix", ""),
        ]);
        world.pass(FLUSH_MS);
        let mut story = Self { world, topic_id };
        story.write_state(ranges);
        story.world.connect(CLIENT);
        story
    }

    fn key(&self) -> SharePartitionKey {
        SharePartitionKey::new(GROUP, self.topic_id, 0)
    }

    fn write_state(&mut self, ranges: &[(i64, i64)]) {
        let archiving = |&(first_offset, last_offset): &(i64, i64)| ShareStateBatch {
            first_offset,
            last_offset,
            delivery_state: 3,
            delivery_count: 1,
        };
        let state = ShareSnapshotValue {
            delivery_complete_count: 0,
            state_batches: ranges.iter().map(archiving).collect(),
            ..Default::default()
        };
        let key = self.key();
        self.world.write_share_state(&key, state);
    }

    /// Fetches as a member, which opens the share partition.
    fn fetch(&mut self) -> ShareFetchResponse<'static> {
        let partition = ShareFetchPartition::default();
        let topic = ShareFetchTopic { topic_id: self.topic_id, partitions: vec![partition] };
        let request = ShareFetchRequest {
            group_id: Some(GROUP.into()),
            member_id: Some("m".into()),
            max_records: 500,
            batch_size: 500,
            topics: vec![topic],
            ..Default::default()
        };
        let data = frame(2, request);
        self.world.step(Event::Received { connection: CLIENT, data: &data });
        let answer = answers(&mut self.world, CLIENT, (ApiKey::ShareFetch, 2)).pop();
        let Some(Response::ShareFetch(answer)) = answer else { panic!("{answer:?}") };
        answer
    }

    /// The batches that were sent since the last call.
    fn sent(&mut self) -> Vec<Sent> {
        let mut all = Vec::new();
        for (to, message) in std::mem::take(&mut self.world.mailed) {
            if let Message::Shares(ToShares::DeadLetters(letters)) = message {
                let batch = Batch::read(&letters.batch).unwrap();
                batch.validate().unwrap();
                assert!(letters.batch.len() <= 1 << 20, "a batch has a limit of its own");
                assert_eq!((to, letters.from, letters.partition), (1, 0, 0));
                let (number, records) = (letters.number, batch.header.records_count);
                let values = batch.records().unwrap().map(|it| it.unwrap().value);
                all.push(Sent { number, records, copies: values.flatten().count() });
            }
        }
        all
    }

    fn sent_once(&mut self) -> u64 {
        self.sent_of(2)
    }

    /// The number of the only batch that was sent since the last call.
    fn sent_of(&mut self, wanted: i32) -> u64 {
        let sent = self.sent();
        let [Sent { number, records, .. }] = sent[..] else { panic!("{sent:?}") };
        assert_eq!(records, wanted);
        number
    }

    fn answer(&mut self, number: u64, error: ErrorCode) {
        let end = match error {
            ErrorCode::None => LettersEnd::Added,
            error => LettersEnd::Refused(error),
        };
        self.end(number, end);
    }

    fn end(&mut self, number: u64, end: LettersEnd) {
        let added = DeadLettersAdded { number, end };
        self.world.step(Event::Mail(ToShares::DeadLettersAdded(added).into()));
    }

    /// Waits, and returns the number, the records and the copies of the only batch that is sent.
    fn sent_within(&mut self, ms: i64) -> (u64, i32, usize) {
        self.world.pass(ms);
        let sent = self.sent();
        let [Sent { number, records, copies }] = sent[..] else { panic!("{sent:?}") };
        (number, records, copies)
    }

    /// Enables copies of records in letters. Each of the two records is in a batch of its own.
    fn copy_records(&mut self) {
        self.world.shard.write_records(vec![config(
            GROUP_RESOURCE,
            GROUP,
            "errors.deadletterqueue.copy.record.enable",
            "true",
        )]);
        self.world.pass(FLUSH_MS);
        let name = self.topic_name();
        for _ in 0..2 {
            produce(&mut self.world, CLIENT, &name, 1);
        }
    }

    fn delete_records_before(&mut self, offset: i64) {
        let partition = DeleteRecordsPartition { partition_index: 0, offset };
        let name = self.topic_name().into();
        let topics = vec![DeleteRecordsTopic { name, partitions: vec![partition] }];
        self.send(2, DeleteRecordsRequest { topics, timeout_ms: 1_000 });
    }

    fn topic_name(&self) -> String {
        let image = self.world.shard.broker.image();
        image.topic_by_id(self.topic_id).unwrap().name.to_string()
    }

    fn send(&mut self, version: i16, request: impl Into<Request<'static>>) {
        let data = frame(version, request);
        self.world.step(Event::Received { connection: CLIENT, data: &data });
        self.world.pass(0);
        self.world.shard.output(CLIENT).map(std::mem::take);
    }

    fn dropped(&mut self) -> u64 {
        self.world.totals().of("shares_dead_letters_dropped")
    }

    /// The start offset and the count of the durable state.
    fn state(&mut self) -> (i64, i32) {
        self.world.pass(FLUSH_MS);
        let inspect = self.world.shard.inspect();
        let key = self.key();
        let (_, state) = inspect.share_states().find(|(it, _)| **it == key).unwrap();
        (state.start_offset, state.delivery_complete_count)
    }
}

/// Creates a topic whose partition a shard leads.
fn topic_led_by(world: &mut World, name: &str, shard: u32) -> Uuid {
    let mut ids = (0..).map(|number| world.create_topic(&format!("{name}.{number}")));
    let ids: Vec<_> = ids.by_ref().take(16).collect();
    let image = world.shard.broker.image();
    let is_led =
        |id: &Uuid| leader(image.topic_by_id(*id).unwrap(), 0, world.common.placement) == shard;
    ids.into_iter().find(is_led).unwrap()
}

fn config(resource_type: i8, resource: &str, name: &str, value: &str) -> ClusterRecord<'static> {
    config_record(resource_type, resource, name, Some(value.to_owned()))
}

#[test]
fn a_letter_is_sent_again_for_a_while_and_then_dropped() {
    let mut story = Story::new();
    story.fetch();
    let mut number = story.sent_once();
    for (attempt, wait) in [1_000, 2_000, 4_000, 8_000, 16_000].into_iter().enumerate() {
        let error = [ErrorCode::NotLeaderOrFollower, ErrorCode::RequestTimedOut][attempt % 2];
        story.answer(number, error);
        story.world.pass(wait - 1);
        assert_eq!(story.sent(), []);
        story.world.pass(1);
        let before = std::mem::replace(&mut number, story.sent_once());
        assert!(number > before);
        // An answer to the previous attempt comes too late to count.
        story.answer(before, ErrorCode::None);
        assert_eq!(story.state(), (0, 0));
    }
    story.answer(number, ErrorCode::NotLeaderOrFollower);
    assert_eq!(story.state(), (0, 2), "they are archived without a letter");
    story.world.pass(60_000);
    assert_eq!(story.sent(), []);
    assert_eq!(story.world.totals().of("shares_dead_letters_dropped"), 2);
}

#[test]
fn a_letter_without_an_answer_is_sent_again() {
    let mut story = Story::new();
    story.fetch();
    let first = story.sent_once();
    story.world.pass(30_999);
    assert_eq!(story.sent(), []);
    story.world.pass(1);
    let second = story.sent_once();
    story.answer(first, ErrorCode::None);
    assert_eq!(story.state(), (0, 0));
    story.answer(second, ErrorCode::None);
    assert_eq!(story.state(), (0, 2));
}

#[test]
fn an_error_that_stays_drops_a_letter_at_once() {
    let mut story = Story::new();
    story.fetch();
    let number = story.sent_once();
    story.answer(number, ErrorCode::InvalidRecord);
    assert_eq!(story.state(), (0, 2));
    assert_eq!(story.sent(), []);
}

#[test]
fn a_batch_that_is_too_large_is_sent_in_halves_and_a_single_letter_is_dropped() {
    for error in [ErrorCode::MessageTooLarge, ErrorCode::RecordListTooLarge] {
        let mut story = Story::new();
        story.fetch();
        let whole = story.sent_once();
        story.answer(whole, error);
        let first = story.sent_of(1);
        story.answer(first, ErrorCode::None);
        assert_eq!((story.state(), story.dropped()), ((0, 0), 0));
        let second = story.sent_of(1);
        story.answer(second, error);
        assert_eq!((story.state(), story.dropped()), ((0, 2), 1));
        assert_eq!(story.sent(), []);
    }
}

#[test]
fn a_letter_waits_for_space_on_the_disk_however_long_it_takes() {
    let mut story = Story::new();
    story.fetch();
    for _ in 0..20 {
        let number = story.sent_once();
        story.end(number, LettersEnd::NoSpace);
        story.world.pass(9_999);
        assert_eq!(story.sent(), []);
        story.world.pass(1);
    }
    let number = story.sent_once();
    story.answer(number, ErrorCode::None);
    assert_eq!((story.state(), story.dropped()), ((0, 2), 0));
}

/// A request that writes share state may claim any offsets, and so may a compressed batch that a
/// member rejects.
#[test]
fn letters_of_more_records_than_a_batch_may_have_are_dropped() {
    for last in [LETTER_RECORDS_MAX, i64::MAX] {
        let mut story = Story::archiving(&[(0, last)]);
        story.fetch();
        assert_eq!(story.sent(), []);
        assert!(story.dropped() > LETTER_RECORDS_MAX as u64);
    }
    let mut story = Story::archiving(&[(0, LETTER_RECORDS_MAX - 1)]);
    story.fetch();
    let sent = story.sent();
    assert!(matches!(sent[..], [Sent { records: 1_000.., .. }]), "{sent:?}");
}

#[test]
fn letters_of_a_share_partition_whose_state_is_deleted_are_not_sent_again() {
    let mut story = Story::archiving(&[(0, 1), (5, 6)]);
    story.fetch();
    story.sent_once();
    let partitions = vec![DeleteStatePartition { partition: 0 }];
    let topics = vec![DeleteStateTopic { topic_id: story.topic_id, partitions }];
    let request = DeleteShareGroupStateRequest { group_id: GROUP.into(), topics };
    story.send(0, request);
    story.world.pass(100_000);
    assert_eq!((story.sent(), story.dropped()), (vec![], 0));
}

#[test]
fn a_read_that_fails_is_repeated_and_at_last_letters_have_no_copies() {
    let mut story = Story::new();
    story.copy_records();
    story.world.fails_reads = true;
    story.fetch();
    story.world.pass(999);
    assert_eq!(story.sent(), []);
    story.world.fails_reads = false;
    let (number, records, copies) = story.sent_within(1);
    assert_eq!((records, copies), (2, 2));
    story.world.fails_reads = true;
    story.answer(number, ErrorCode::NotLeaderOrFollower);
    story.world.pass(30_999);
    assert_eq!(story.sent(), []);
    let (number, records, copies) = story.sent_within(1);
    assert_eq!((records, copies), (2, 0));
    story.answer(number, ErrorCode::None);
    assert_eq!((story.state(), story.dropped()), ((0, 2), 0));
}

#[test]
fn records_before_the_start_of_the_log_cost_later_ones_no_copy() {
    let mut story = Story::new();
    story.copy_records();
    story.fetch();
    let (number, records, copies) = story.sent_within(0);
    assert_eq!((records, copies), (2, 2));
    story.answer(number, ErrorCode::NotLeaderOrFollower);
    story.delete_records_before(1);
    let (number, records, copies) = story.sent_within(1_000);
    assert_eq!((records, copies), (1, 0), "the first record is gone");
    story.answer(number, ErrorCode::None);
    let (_, records, copies) = story.sent_within(0);
    assert_eq!((records, copies), (1, 1));
}

#[test]
fn letters_whose_queue_cannot_be_created_are_dropped_without_a_wait_for_each() {
    let mut story = Story::archiving(&[(0, 1), (5, 6), (8, 9)]);
    story.world.shard.write_records(vec![
        config(GROUP_RESOURCE, GROUP, "errors.deadletterqueue.topic.name", "not a topic"),
        config(4, "", "errors.deadletterqueue.auto.create.topics.enable", "true"),
    ]);
    story.world.pass(FLUSH_MS);
    story.fetch();
    story.world.pass(900);
    assert_eq!((story.sent(), story.dropped()), (vec![], 6));
}

#[test]
fn a_share_partition_whose_group_has_gone_stays_open_until_its_letters_have_ended() {
    let mut story = Story::new();
    story.fetch();
    let number = story.sent_once();
    story.world.step(Event::Ended { connection: CLIENT });
    story.world.pass(1_000);
    story.answer(number, ErrorCode::None);
    assert_eq!(story.state(), (0, 2), "the end of the letter is not lost");
    story.world.connect(CLIENT);
    story.fetch();
    assert_eq!(story.sent(), [], "and none is written again");
}

/// Two records are archiving, but after the power loss the topic has only the first of them.
#[test]
fn records_that_a_power_loss_has_taken_have_no_letters() {
    let mut story = Story::new();
    let name = story.topic_name();
    produce(&mut story.world, CLIENT, &name, 1);
    story.world.common.may_have_lost_writes = true;
    story.world.restart();
    story.world.pass(FLUSH_MS);
    story.world.connect(CLIENT);
    story.fetch();
    let number = story.sent_of(1);
    story.answer(number, ErrorCode::None);
    assert_eq!(story.state(), (0, 1));
}
