//! The last request of a share session has acknowledgements. Once their record is flushed, the
//! records that the member still holds are released.

use super::frames::{answers, frame, produce};
use super::world::{FLUSH_MS, World, commit};
use crate::net::ConnectionId;
use crate::shard::Event;
use muster_codec::messages::{
    AcknowledgementBatch, ShareAcknowledgePartition, ShareAcknowledgeRequest,
    ShareAcknowledgeTopic, ShareFetchPartition, ShareFetchRequest, ShareFetchTopic,
};
use muster_codec::records::ShareSnapshotValue;
use muster_codec::{ApiKey, Request, Response, Uuid};
use muster_shares::SharePartitionKey;
use muster_shares::sessions::FINAL_EPOCH;

const CLIENT: ConnectionId = ConnectionId(0);
const OTHER: ConnectionId = ConnectionId(1);
const ACCEPT: i8 = 1;

/// Records that were acquired: first and last offset, and delivery count.
type Acquired = Vec<(i64, i64, i16)>;

/// A topic with one batch of four records, and a share group whose state begins at the first one.
struct Story {
    world: World,
    topic_id: Uuid,
    group: &'static str,
}

impl Story {
    fn new() -> Self {
        let mut world = World::new(&[]);
        let topic_id = world.create_topic("topic");
        [CLIENT, OTHER].into_iter().for_each(|id| world.connect(id));
        produce(&mut world, CLIENT, "topic", 4);
        let mut story = Self { world, topic_id, group: "g" };
        story.write_state();
        story
    }

    fn write_state(&mut self) {
        let state = ShareSnapshotValue { delivery_complete_count: 0, ..Default::default() };
        self.world.write_share_state(&self.key(), state);
    }

    fn key(&self) -> SharePartitionKey {
        SharePartitionKey::new(self.group, self.topic_id, 0)
    }

    fn send(&mut self, connection: ConnectionId, request: impl Into<Request<'static>>) {
        // The answers to earlier requests.
        self.world.shard.output(connection).map(std::mem::take);
        self.world.step(Event::Received { connection, data: &frame(2, request) });
        self.world.pass(0);
    }

    /// A member opens its session, and acquires what it can.
    fn open(&mut self, connection: ConnectionId, member: &str) -> Acquired {
        self.fetch(connection, member, 0, None)
    }

    fn fetch(
        &mut self,
        connection: ConnectionId,
        member: &str,
        epoch: i32,
        accepted: Option<i64>,
    ) -> Acquired {
        let partition = ShareFetchPartition {
            acknowledgement_batches: accepted.map(acceptance).into_iter().collect(),
            ..Default::default()
        };
        let topic = ShareFetchTopic { topic_id: self.topic_id, partitions: vec![partition] };
        let request = ShareFetchRequest {
            group_id: Some(self.group.into()),
            member_id: Some(member.to_owned().into()),
            share_session_epoch: epoch,
            max_records: 500,
            batch_size: 500,
            topics: vec![topic],
            ..Default::default()
        };
        self.send(connection, request);
        let answers = answers(&mut self.world, connection, (ApiKey::ShareFetch, 2));
        let [Response::ShareFetch(answer)] = &answers[..] else { return Vec::new() };
        assert_eq!(answer.error_code, 0);
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        let acquired = partitions.flat_map(|partition| &partition.acquired_records);
        acquired.map(|it| (it.first_offset, it.last_offset, it.delivery_count)).collect()
    }

    /// A member accepts the first record, and closes its session.
    fn accept_and_close(&mut self, connection: ConnectionId, member: &str) {
        let partition = ShareAcknowledgePartition {
            acknowledgement_batches: vec![acceptance(0)],
            ..Default::default()
        };
        let topic = ShareAcknowledgeTopic { topic_id: self.topic_id, partitions: vec![partition] };
        let request = ShareAcknowledgeRequest {
            group_id: Some(self.group.into()),
            member_id: Some(member.to_owned().into()),
            share_session_epoch: FINAL_EPOCH,
            topics: vec![topic],
            ..Default::default()
        };
        self.send(connection, request);
    }

    /// The start offset of the durable state, and the state's batches from this offset on. Each
    /// batch has its delivery count.
    fn state(&mut self) -> (i64, Vec<(i64, i64, i16)>) {
        self.world.pass(FLUSH_MS);
        let (key, inspect) = (self.key(), self.world.shard.inspect());
        let (_, state) = inspect.share_states().find(|(it, _)| **it == key).unwrap();
        let state = state.snapshot();
        let batches = state.state_batches.iter().filter(|it| it.last_offset >= state.start_offset);
        let each = batches.map(|it| (it.first_offset, it.last_offset, it.delivery_count));
        (state.start_offset, each.collect())
    }

    fn open_partitions(&self) -> u64 {
        self.world.totals().of("shares_partitions")
    }

    fn state_records(&self) -> u64 {
        self.world.totals().of("shares_state_records")
    }
}

fn acceptance(offset: i64) -> AcknowledgementBatch {
    let (first_offset, last_offset) = (offset, offset);
    AcknowledgementBatch { first_offset, last_offset, acknowledge_types: vec![ACCEPT] }
}

#[test]
fn what_a_closed_session_held_is_released_after_its_acknowledgements() {
    for is_fetch in [false, true] {
        let mut story = Story::new();
        assert_eq!(story.open(CLIENT, "m"), [(0, 3, 1)]);
        let records = story.state_records();
        if is_fetch {
            story.fetch(CLIENT, "m", FINAL_EPOCH, Some(0));
        } else {
            story.accept_and_close(CLIENT, "m");
        }
        assert_eq!(story.state(), (1, vec![(1, 3, 1)]));
        assert_eq!(story.state_records() - records, 2, "one of the release comes after");
        assert_eq!(story.open(OTHER, "n"), [(1, 3, 2)]);
    }
}

#[test]
fn a_member_that_opens_its_session_again_releases_first() {
    let mut story = Story::new();
    story.open(CLIENT, "m");
    story.world.hold_log(true);
    story.accept_and_close(CLIENT, "m");
    assert_eq!(story.open(OTHER, "m"), [], "the release is not flushed");
    story.world.hold_log(false);
    story.world.pass(FLUSH_MS);
    assert_eq!(story.fetch(OTHER, "m", 1, None), [(1, 3, 2)]);
    story.world.pass(FLUSH_MS);
    assert_eq!(story.open(CLIENT, "n"), [], "the new session has kept what it acquired");
}

#[test]
fn a_session_that_ends_later_than_others_of_its_group_releases_what_its_member_held() {
    let mut story = Story::new();
    story.open(CLIENT, "m");
    story.open(OTHER, "n");
    story.world.hold_log(true);
    story.accept_and_close(CLIENT, "m");
    story.world.step(Event::Ended { connection: OTHER });
    story.world.hold_log(false);
    assert_eq!(story.state(), (1, vec![(1, 3, 1)]));
}

#[test]
fn a_connection_that_ends_before_its_last_acknowledgements_are_written_releases_at_once() {
    let mut story = Story::new();
    story.open(CLIENT, "m");
    story.open(OTHER, "n");
    story.world.hold_log(true);
    // While a flush is under way, changes of share state wait to be written together.
    story.world.append(&commit(0, 0, Some(1)));
    story.world.pass(FLUSH_MS);
    story.accept_and_close(CLIENT, "m");
    story.world.step(Event::Ended { connection: CLIENT });
    story.world.hold_log(false);
    story.world.pass(FLUSH_MS);
    assert_eq!(story.fetch(OTHER, "n", 1, None), [(1, 3, 2)]);
}

#[test]
fn a_group_is_dropped_with_its_last_session_if_its_connections_have_ended_before() {
    let mut story = Story::new();
    story.open(CLIENT, "m");
    story.open(OTHER, "n");
    // From now on the connection of m also serves a member of another group.
    story.group = "h";
    story.write_state();
    story.open(CLIENT, "o");
    assert_eq!(story.open_partitions(), 2);
    story.group = "g";
    story.world.hold_log(true);
    story.accept_and_close(CLIENT, "m");
    story.world.step(Event::Ended { connection: OTHER });
    assert_eq!(story.open_partitions(), 2, "the acknowledgements are not flushed");
    story.world.hold_log(false);
    assert_eq!(story.state(), (1, vec![(1, 3, 1)]));
    story.world.pass(FLUSH_MS);
    assert_eq!(story.open_partitions(), 1);
}
