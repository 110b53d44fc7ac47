//! Dead letters whose queue is led by another shard: what fails for a while is sent again, and then
//! dropped; a letter without an answer is sent again.

use super::frames::{answers, frame};
use super::world::{FLUSH_MS, World};
use crate::cluster::{leader, state_slot};
use crate::mailbox::DeadLettersAdded;
use crate::net::ConnectionId;
use crate::shard::{Event, Message};
use muster_codec::messages::{
    ShareFetchPartition, ShareFetchRequest, ShareFetchResponse, ShareFetchTopic,
};
use muster_codec::record_batch::Batch;
use muster_codec::records::{
    ClusterRecord, ConfigKey, ConfigValue, ShareRecord, ShareSnapshotValue, ShareStateBatch,
    ShareValue,
};
use muster_codec::{ApiKey, ErrorCode, Response, Uuid};
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
}

/// Shard 0 of two, which leads the topic; shard 1 leads the queue.
struct Story {
    world: World,
    topic_id: Uuid,
}

impl Story {
    /// The state of the group says that its first two records are archiving.
    fn new() -> Self {
        let mut world = World::of_shards(2, &[]);
        let topic_id = topic_led_by(&mut world, "topic", 0);
        let queue = topic_led_by(&mut world, "dlq", 1);
        let queue = world.shard.broker.image().topic_by_id(queue).unwrap().name.to_string();
        world.shard.write_records(vec![
            config(TOPIC, &queue, "errors.deadletterqueue.group.enable", "true"),
            config(GROUP_RESOURCE, GROUP, "errors.deadletterqueue.topic.name", &queue),
            config(4, "", "errors.deadletterqueue.topic.name.prefix", ""),
        ]);
        world.pass(FLUSH_MS);
        let mut story = Self { world, topic_id };
        story.write_state();
        story.world.connect(CLIENT);
        story
    }

    fn key(&self) -> SharePartitionKey {
        SharePartitionKey::new(GROUP, self.topic_id, 0)
    }

    fn write_state(&mut self) {
        let archiving = ShareStateBatch {
            first_offset: 0,
            last_offset: 1,
            delivery_state: 3,
            delivery_count: 1,
        };
        let state = ShareSnapshotValue {
            delivery_complete_count: 0,
            state_batches: vec![archiving],
            ..Default::default()
        };
        let record =
            ShareRecord { key: self.key().to_record(), value: ShareValue::Snapshot(state) };
        let Self { world, topic_id } = self;
        let image = world.shard.broker.image();
        let topic = image.topic_by_id(*topic_id).unwrap();
        let slot = state_slot(topic, 0, world.common.placement).unwrap();
        let (shares, groups) = (&mut world.shard.shares, &mut world.shard.groups);
        shares.states_mut().write(groups, slot, world.now, &[record]).unwrap();
        world.turn();
        world.pass(FLUSH_MS);
    }

    /// A member opens the share partition.
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
            if let Message::DeadLetters(letters) = message {
                let batch = Batch::read(&letters.batch).unwrap();
                batch.validate().unwrap();
                assert_eq!((to, letters.from, letters.partition), (1, 0, 0));
                let (number, records) = (letters.number, batch.header.records_count);
                all.push(Sent { number, records });
            }
        }
        all
    }

    fn sent_once(&mut self) -> u64 {
        let sent = self.sent();
        let [Sent { number, records: 2 }] = sent[..] else { panic!("{sent:?}") };
        number
    }

    fn answer(&mut self, number: u64, error: ErrorCode) {
        let added = DeadLettersAdded { number, error };
        self.world.step(Event::Mail(Message::DeadLettersAdded(added)));
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
    let key = ConfigKey {
        resource_type,
        resource_name: resource.to_owned().into(),
        name: name.to_owned().into(),
    };
    ClusterRecord::Config(key, Some(ConfigValue { value: value.to_owned().into() }))
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
        // Nothing waits for the answer to the attempt before.
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
    story.answer(number, ErrorCode::MessageTooLarge);
    assert_eq!(story.state(), (0, 2));
    assert_eq!(story.sent(), []);
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
