//! A denied request reveals nothing. Two shards differ only in topics, groups and ids that a client
//! may not see. They must give it the same answers, whatever it sends.

mod requests;

use super::frames::frame_of;
use super::world::{FLUSH_MS, Random, World};
use crate::net::ConnectionId;
use crate::security::acls::{Operation, PatternType, Permission, ResourceType};
use crate::shard::Event;
use muster_codec::messages::{
    DeleteTopicState, DeleteTopicsRequest, FetchPartition, FetchRequest, FetchTopic,
    InitProducerIdRequest, MetadataRequest, MetadataRequestTopic,
};
use muster_codec::records::{
    AclKey, AclValue, ClusterRecord, GroupRecord, OffsetCommitKey, OffsetCommitValue,
};
use muster_codec::{Request, Uuid};
use requests::{ALLOWED, HIDDEN, MISSING, SECRET, all};

const ADMIN: ConnectionId = ConnectionId(0);
/// The host of the client that makes transactional ids, and the host of all other clients.
const ADMIN_HOST: &str = "10.0.0.9";
const HOST: &str = "10.0.0.1";

const CONFIGS: [&str; 2] = [
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "group.initial.rebalance.delay.ms=0",
];

/// A shard, and the connection of a client that has all permissions on [`ALLOWED`] and [`MISSING`],
/// and no others.
struct Probed {
    world: World,
    client: u64,
}

impl Probed {
    /// Makes a topic, groups and a transactional id with the name `denied`: the client may not see
    /// them.
    fn new(denied: &'static str, config: &'static str) -> Self {
        let configs: Vec<&str> = CONFIGS.into_iter().chain([config]).collect();
        let mut world = World::of_shards(1, &configs);
        world.pass(FLUSH_MS);
        world.shard.write_records(acls());
        open(&mut world, (ADMIN, ADMIN_HOST));
        for topic in [ALLOWED, denied] {
            world.create_topic(topic);
            for group in [ALLOWED, denied] {
                world.append(&commit(group, topic));
            }
        }
        for id in [ALLOWED, denied] {
            world.step(Event::Received { connection: ADMIN, data: &frame_of("", 4, with_id(id)) });
            world.pass(FLUSH_MS);
            assert!(world.shard.output(ADMIN).is_some_and(|it| !std::mem::take(it).is_empty()));
        }
        let mut probed = Self { world, client: 1 };
        open(&mut probed.world, (ConnectionId(1), HOST));
        probed
    }

    /// The answer, and whether the connection was closed.
    fn ask(&mut self, frame: &[u8]) -> (Vec<u8>, bool) {
        let connection = ConnectionId(self.client);
        self.world.step(Event::Received { connection, data: frame });
        self.world.pass(FLUSH_MS);
        let answer = self.world.shard.output(connection).map(std::mem::take).unwrap_or_default();
        let is_closed = self.world.closed.contains(&connection);
        if is_closed || answer.is_empty() {
            self.client += 1;
            open(&mut self.world, (ConnectionId(self.client), HOST));
        }
        (answer, is_closed)
    }
}

fn open(world: &mut World, (connection, host): (ConnectionId, &str)) {
    world.connect_from(connection, &format!("/{host}"));
}

fn commit(group: &str, topic: &str) -> GroupRecord<'static> {
    let (group, topic) = (group.to_owned().into(), topic.to_owned().into());
    let value = OffsetCommitValue { offset: 5, ..Default::default() };
    GroupRecord::OffsetCommit(OffsetCommitKey { group, topic, partition: 0 }, Some(value))
}

fn with_id(id: &'static str) -> InitProducerIdRequest<'static> {
    InitProducerIdRequest {
        transactional_id: Some(id.into()),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    }
}

fn acls() -> Vec<ClusterRecord<'static>> {
    let types = [ResourceType::Topic, ResourceType::Group, ResourceType::TransactionalId];
    let own = types.into_iter().flat_map(|it| [ALLOWED, MISSING].map(|name| (it, name, "*")));
    let of_admin = (ResourceType::TransactionalId, "*", ADMIN_HOST);
    own.chain([of_admin]).map(acl).collect()
}

/// The record of an ACL that allows everything.
fn acl((of, name, host): (ResourceType, &'static str, &'static str)) -> ClusterRecord<'static> {
    let key = AclKey {
        resource_type: of.code(),
        pattern_type: PatternType::Literal.code(),
        resource_name: name.into(),
        principal: "User:ANONYMOUS".into(),
        host: host.into(),
        operation: Operation::All.code(),
        permission_type: Permission::Allow.code(),
    };
    ClusterRecord::Acl(key, Some(AclValue {}))
}

/// The frame of a request in some version, with a few of its bytes changed.
fn mutated(request: &Request<'static>, random: &mut Random) -> Vec<u8> {
    let api = request.api_key();
    let versions = api.versions();
    let span = (versions.end() - versions.start()) as u64 + 1;
    let version = versions.start() + random.below(span) as i16;
    let mut frame = frame_of("", version, request.clone());
    // The length, the API and the version stay.
    let fixed = 8;
    for _ in 0..random.below(4) {
        let place = fixed + random.below((frame.len() - fixed) as u64) as usize;
        let values = [0, 1, 2, 7, 0x7f, 0x80, 0xff, random.below(256) as u8];
        frame[place] = values[random.below(values.len() as u64) as usize];
    }
    frame
}

/// Compares the answers of both shards.
fn compare(with: &mut Probed, without: &mut Probed, frame: &[u8], what: &dyn std::fmt::Debug) {
    let (one, other) = (with.ask(frame), without.ask(frame));
    assert_eq!(one, other, "{what:?}\n{frame:?}");
    let ids = |of: &Probed| {
        [ALLOWED, MISSING].map(|it| of.world.shard.broker.image().topic(it).map(|it| it.id))
    };
    assert_eq!(ids(with), ids(without), "{what:?}\n{frame:?}");
    assert!(without.world.shard.broker.image().topic(SECRET).is_none(), "{what:?}\n{frame:?}");
}

/// `MUSTER_SECRETS` is the number of pairs of shards.
#[test]
fn answers_are_the_same_whether_what_is_denied_exists() {
    let pairs = std::env::var("MUSTER_SECRETS").map_or(10, |it| it.parse().unwrap());
    let first = std::env::var("MUSTER_SECRETS_FROM").map_or(0, |it| it.parse().unwrap());
    for seed in first..first + pairs {
        let mut random = Random(seed);
        let config = ["auto.create.topics.enable=false", "auto.create.topics.enable=true"];
        let probed = |denied| Probed::new(denied, config[seed as usize % 2]);
        let (mut with, mut without) = (probed(SECRET), probed(HIDDEN));
        for _ in 0..300 {
            let requests = all(&mut random);
            let request = &requests[random.below(requests.len() as u64) as usize];
            let frame = mutated(request, &mut random);
            compare(&mut with, &mut without, &frame, &(seed, request));
        }
    }
}

/// If the handler refuses a part of a request for another reason, authorization leaves this part in
/// the request even if it is denied. So authorization and the handler must use the same rule for
/// that reason. Otherwise the handler would carry out the denied part, or would reveal something.
#[test]
fn what_is_refused_anyway_is_refused() {
    let probed = |denied| Probed::new(denied, "auto.create.topics.enable=true");
    let (mut with, mut without) = (probed(SECRET), probed(HIDDEN));
    let id = with.world.shard.broker.image().topic(SECRET).unwrap().id;
    let requests: [(i16, Request<'static>); 4] = [
        (6, named_once_and_with_an_id().into()),
        (13, by_id_and_by_name(id).into()),
        (12, of_no_isolation_level(vec![fetched(MISSING, 0), fetched(SECRET, 0)]).into()),
        (12, of_no_isolation_level(vec![fetched(ALLOWED, 9), fetched(SECRET, 0)]).into()),
    ];
    for (version, request) in requests {
        let frame = frame_of("", version, request.clone());
        compare(&mut with, &mut without, &frame, &request);
    }
    assert!(with.world.shard.broker.image().topic(SECRET).is_some());
}

fn named_once_and_with_an_id() -> DeleteTopicsRequest<'static> {
    let state = |id| DeleteTopicState { name: Some(SECRET.into()), topic_id: Uuid([id; 16]) };
    DeleteTopicsRequest {
        topics: vec![state(0), state(1)],
        timeout_ms: 1_000,
        ..Default::default()
    }
}

/// The id is that of the denied topic: the topics of the two shards have the same id.
fn by_id_and_by_name(topic_id: Uuid) -> MetadataRequest<'static> {
    let by_id = MetadataRequestTopic { topic_id, name: None };
    let by_name = MetadataRequestTopic { topic_id: Uuid::ZERO, name: Some(SECRET.into()) };
    MetadataRequest { topics: Some(vec![by_id, by_name]), ..Default::default() }
}

fn of_no_isolation_level(topics: Vec<FetchTopic<'static>>) -> FetchRequest<'static> {
    FetchRequest { isolation_level: 7, topics, ..Default::default() }
}

fn fetched(topic: &'static str, partition: i32) -> FetchTopic<'static> {
    let partitions = vec![FetchPartition { partition, ..Default::default() }];
    FetchTopic { topic: topic.into(), partitions, ..Default::default() }
}
