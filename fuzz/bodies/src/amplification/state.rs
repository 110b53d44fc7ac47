//! A shard with much state, created by requests of clients.

use super::dense::Target;
use super::frame_of_body;
use crate::world::{Expected, World};
use muster_codec::header::RequestHeader;
use muster_codec::messages::*;
use muster_codec::record_batch::BatchBuilder;
use muster_codec::{Bytes, Request, Response};
use muster_server::shard::LogSizes;

/// The amount of state.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// The number of groups with one offset each.
    pub groups: usize,
    /// The number of offsets of one more group. It has committed each of them for a different
    /// partition, in topics that no other group uses.
    pub offsets: usize,
    /// The number of members in each of two groups. Their client ids have `client_id_bytes` bytes.
    pub members: usize,
    pub client_id_bytes: usize,
    /// The number of topics with two partitions.
    pub topics: usize,
}

pub(super) struct State {
    pub(super) world: World,
    pub(super) target: Target,
}

const CONFIGS: &[&str] = &[
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.assignment.interval.ms=0",
    "auto.create.topics.enable=false",
];

const WIDE: &str = "wide";
const WIDE_PARTITIONS: i32 = 16;
/// The number of partitions of a topic in which the group with many offsets commits. This is the
/// most that one request may create. Each partition has one offset.
const OFFSETS_PER_TOPIC: usize = 10_000;
const RECORD_BYTES: usize = 100_000;

const OFFSETS_PER_COMMIT: usize = 2_000;
const TOPICS_PER_REQUEST: usize = 100;

/// The number of parked joins on one connection.
const JOINS_PER_CONNECTION: usize = 500;

/// The first slot of the connections with parked joins. These connections stay open.
const FIRST_JOINING_SLOT: u32 = 2;

pub(super) fn make(sizes: Sizes) -> State {
    let mut world = World::with_log_sizes(CONFIGS, LogSizes::default());
    let mut maker = Maker { world: &mut world };
    maker.topics(sizes);
    maker.records();
    maker.commits(sizes);
    maker.classic_members(sizes);
    maker.consumer_members(sizes);
    let topic_id = maker.topic_id();
    let target = Target {
        group: "offsets".to_owned(),
        classic: "crowd".to_owned(),
        consumer: "consumers".to_owned(),
        topic: WIDE.to_owned(),
        topic_id,
        partitions: WIDE_PARTITIONS,
    };
    State { world, target }
}

struct Maker<'w> {
    world: &'w mut World,
}

impl Maker<'_> {
    fn ask(&mut self, version: i16, request: Request<'_>, see: impl FnMut(&Response<'_>)) {
        const SLOT: u32 = 0;
        self.world.open(SLOT);
        let mut body = Vec::new();
        request.write(version, &mut body).unwrap();
        let frame = frame_of_body(request.api_key(), version, &body);
        let connection = self.world.connections.get_mut(&SLOT).unwrap();
        connection.expected.push_back(Expected { api: request.api_key(), version, id: 1 });
        self.world.receive(SLOT, &frame);
        self.world.settle();
        self.world.answers(SLOT, see);
        self.world.taken(SLOT);
    }

    fn topics(&mut self, sizes: Sizes) {
        let topic = |name: String, num_partitions| CreatableTopic {
            name: name.into(),
            num_partitions,
            replication_factor: -1,
            ..Default::default()
        };
        let count = sizes.topics;
        let mut topics: Vec<_> = (0..count).map(|it| topic(format!("topic-{it}"), 2)).collect();
        topics.push(topic(WIDE.to_owned(), WIDE_PARTITIONS));
        let of_offsets = runs(sizes.offsets).map(|(name, count)| topic(name, count as i32));
        let of_offsets: Vec<_> = of_offsets.collect();
        for some in topics.chunks(TOPICS_PER_REQUEST).chain(of_offsets.chunks(1)) {
            let topics = some.to_vec();
            let request = CreateTopicsRequest { topics, timeout_ms: 1_000, ..Default::default() };
            self.ask(7, request.into(), |response| {
                let Response::CreateTopics(body) = response else { panic!("{response:?}") };
                assert!(body.topics.iter().all(|topic| topic.error_code == 0), "{body:?}");
            });
        }
    }

    fn records(&mut self) {
        let mut builder = BatchBuilder::default();
        builder.append(0, &(&b"k"[..], Some(&vec![7; RECORD_BYTES][..])));
        let batch = builder.seal(0, -1).to_vec();
        for index in 0..WIDE_PARTITIONS {
            let records = Some(Bytes::from(batch.clone()));
            let partition_data = vec![PartitionProduceData { index, records }];
            let name = WIDE.into();
            let topic_data = vec![TopicProduceData { name, partition_data, ..Default::default() }];
            let request =
                ProduceRequest { acks: -1, timeout_ms: 1_000, topic_data, transactional_id: None };
            self.ask(9, request.into(), |_| {});
        }
    }

    fn commits(&mut self, sizes: Sizes) {
        for number in 0..sizes.groups {
            self.commit(&format!("g{number}"), WIDE, 0..1);
        }
        for (name, count) in runs(sizes.offsets) {
            for first in (0..count).step_by(OFFSETS_PER_COMMIT) {
                let until = (first + OFFSETS_PER_COMMIT).min(count);
                self.commit("offsets", &name, first as i32..until as i32);
            }
        }
    }

    fn commit(&mut self, group: &str, topic: &str, partitions: std::ops::Range<i32>) {
        let partition = |partition_index| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: 1,
            ..Default::default()
        };
        let topic = OffsetCommitRequestTopic {
            name: topic.to_owned().into(),
            partitions: partitions.map(partition).collect(),
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: group.to_owned().into(),
            topics: vec![topic],
            ..Default::default()
        };
        self.ask(8, request.into(), |response| {
            let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
            assert!(body.topics[0].partitions.iter().all(|it| it.error_code == 0));
        });
    }

    /// Sends a join for each member of a large group. The joins wait for each other and stay
    /// unanswered, but the members exist.
    fn classic_members(&mut self, sizes: Sizes) {
        let join = JoinGroupRequest {
            group_id: "crowd".into(),
            session_timeout_ms: 1_800_000,
            rebalance_timeout_ms: 1_800_000,
            protocol_type: "test".into(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "range".into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let mut body = Vec::new();
        Request::from(join).write(3, &mut body).unwrap();
        let frame = frame_of_client(&"c".repeat(sizes.client_id_bytes), 11, 3, &body);
        for number in 0..sizes.members {
            let slot = FIRST_JOINING_SLOT + (number / JOINS_PER_CONNECTION) as u32;
            self.world.open(slot);
            self.world.receive(slot, &frame);
        }
        self.world.settle();
    }

    fn consumer_members(&mut self, sizes: Sizes) {
        let padding = "m".repeat(sizes.client_id_bytes);
        for number in 0..sizes.members {
            let request = ConsumerGroupHeartbeatRequest {
                group_id: "consumers".into(),
                member_id: format!("{number}-{padding}").into(),
                rebalance_timeout_ms: 1_800_000,
                subscribed_topic_names: Some(vec![WIDE.into()]),
                topic_partitions: Some(Vec::new()),
                ..Default::default()
            };
            self.ask(0, request.into(), |_| {});
        }
    }

    fn topic_id(&mut self) -> muster_codec::Uuid {
        let topic = MetadataRequestTopic { name: Some(WIDE.into()), ..Default::default() };
        let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
        let mut id = None;
        self.ask(12, request.into(), |response| {
            let Response::Metadata(body) = response else { panic!("{response:?}") };
            id = Some(body.topics[0].topic_id);
        });
        id.expect("an answer")
    }
}

/// The topics of the group with many offsets, each with its number of offsets.
fn runs(offsets: usize) -> impl Iterator<Item = (String, usize)> {
    let firsts = (0..offsets).step_by(OFFSETS_PER_TOPIC);
    firsts.map(move |first| (format!("many-{first}"), OFFSETS_PER_TOPIC.min(offsets - first)))
}

fn frame_of_client(client_id: &str, api_key: i16, api_version: i16, body: &[u8]) -> Vec<u8> {
    let client_id = Some(client_id.to_owned().into());
    let mut frame = vec![0; 4];
    RequestHeader { api_key, api_version, correlation_id: 1, client_id }.write(&mut frame);
    frame.extend_from_slice(body);
    let length = (frame.len() - 4) as i32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}
