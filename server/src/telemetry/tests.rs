//! A shard's answers to clients that request subscriptions and push, over time.

mod receiver;

use super::*;
use muster_codec::messages::GetTelemetrySubscriptionsResponse as Subscribed;
use muster_codec::records::{ClusterRecord, ConfigKey, ConfigValue};

const CLIENT: Uuid = Uuid([7; 16]);

/// An interval that a subscription sets, in ms.
const INTERVAL: i64 = 10_000;

const REQUEST: RequestId = RequestId { connection: 1, sequence: 0 };

struct Counting(u8);

impl Ids for Counting {
    fn next_id(&mut self) -> Uuid {
        self.0 += 1;
        Uuid([self.0 - 1; 16])
    }
}

fn client(instance_id: Uuid) -> Client<'static> {
    Client {
        instance_id,
        connection: 1,
        client_id: "billing-1",
        software: ("apache-kafka-java", "4.3.0"),
        address: "10.0.0.1",
        port: 40_000,
        principal: "User:ANONYMOUS",
        node: 0,
    }
}

/// A shard's telemetry, its image, and the time.
struct World {
    telemetry: Telemetry,
    image: ClusterImage,
    now: i64,
}

impl World {
    fn new(subscriptions: &[(&str, &str, &str)]) -> Self {
        let config = Config::default();
        let mut image = ClusterImage::new(&config);
        subscriptions.iter().for_each(|it| set(&mut image, it));
        Self { telemetry: Telemetry::new(&config, &image), image, now: 0 }
    }

    /// A world with one subscription, which matches all clients.
    fn subscribed() -> Self {
        Self::new(&[("all", "interval.ms", "10000"), ("all", "metrics", "org.apache.kafka.")])
    }

    fn alter(&mut self, subscription: &(&str, &str, &str)) {
        let before = self.image.clone();
        set(&mut self.image, subscription);
        self.telemetry.image_changed(&before, &self.image);
    }

    fn ask(&mut self, id: Uuid) -> Subscribed<'static> {
        self.telemetry.subscriptions_of(self.now, &client(id), &mut Counting(0))
    }

    /// Pushes a few bytes, which the thread accepts.
    fn push(&mut self, subscription_id: i32, is_last: bool) -> ErrorCode {
        let metrics = b"\n\0".to_vec().into();
        self.push_as(&PushTelemetryRequest {
            client_instance_id: CLIENT,
            subscription_id,
            terminating: is_last,
            compression_type: 0,
            metrics,
        })
    }

    fn push_as(&mut self, body: &PushTelemetryRequest<'_>) -> ErrorCode {
        let client = client(body.client_instance_id);
        let response = match self.telemetry.push(self.now, &client, REQUEST, body) {
            Verdict::Answer(response) => response,
            Verdict::Pass(push) => self.telemetry.pushed(&push.ended(ErrorCode::None)),
        };
        ErrorCode::from_code(response.error_code).unwrap()
    }

    fn pass(&mut self, ms: i64) {
        self.now += ms;
        self.telemetry.expire(self.now);
    }
}

fn set(image: &mut ClusterImage, (name, key, value): &(&str, &str, &str)) {
    let key = ConfigKey {
        resource_type: CLIENT_METRICS_RESOURCE,
        resource_name: (*name).to_owned().into(),
        name: (*key).to_owned().into(),
    };
    let value = ConfigValue { value: (*value).to_owned().into() };
    image.apply(&ClusterRecord::Config(key, Some(value)));
}

fn metrics(response: &Subscribed<'_>) -> Vec<String> {
    response.requested_metrics.iter().map(|it| it.to_string()).collect()
}

#[test]
fn a_client_gets_an_id_and_learns_what_to_push() {
    let mut world = World::subscribed();
    let answer = world.ask(Uuid::ZERO);
    assert_eq!(answer.client_instance_id, Uuid([1; 16]), "zero is no id");
    assert_eq!(answer.push_interval_ms, 10_000);
    assert_eq!(metrics(&answer), ["org.apache.kafka."]);
    assert_eq!(answer.accepted_compression_types, [4, 3, 1, 2]);
    assert_eq!((answer.telemetry_max_bytes, answer.delta_temporality), (1 << 20, true));
    assert_eq!(world.ask(CLIENT).client_instance_id, CLIENT);
}

#[test]
fn a_client_without_a_subscription_asks_again_every_five_minutes() {
    let mut world =
        World::new(&[("others", "match", "client_id=shop"), ("others", "metrics", "*")]);
    let answer = world.ask(CLIENT);
    assert_eq!((answer.push_interval_ms, metrics(&answer)), (300_000, Vec::new()));
    // Kafka's id for this client is computed from `[]300000`.
    assert_eq!(answer.subscription_id, crc32c::crc32c(b"[]300000").cast_signed());
}

#[test]
fn subscriptions_of_a_client_add_up() {
    let mut world = World::new(&[
        ("a", "metrics", "b.,a."),
        ("a", "interval.ms", "20000"),
        ("b", "metrics", "a.,c."),
        ("b", "match", "client_software_name=apache-.*,client_source_address=10\\..*"),
        ("c", "interval.ms", "100"),
        ("c", "match", "client_source_port=4.*,client_software_version=3.*"),
    ]);
    let answer = world.ask(CLIENT);
    assert_eq!(metrics(&answer), ["a.", "b.", "c."]);
    assert_eq!(answer.push_interval_ms, 20_000);
    world.alter(&("d", "metrics", "x,*"));
    assert_eq!(metrics(&world.ask(CLIENT)), ["*"]);
}

#[test]
fn an_id_of_subscriptions_is_that_of_every_shard() {
    let (mut one, mut other) = (World::subscribed(), World::subscribed());
    let id = one.ask(CLIENT).subscription_id;
    assert_eq!(other.push(id, false), ErrorCode::None);
    // The expected id is the one that Kafka computes for a client with these metrics.
    let id = Uuid(std::array::from_fn(|at| at as u8 + 1));
    let mut world = World::new(&[("two", "metrics", "a")]);
    assert_eq!(world.ask(id).subscription_id, -1_087_748_174);
}

#[test]
fn a_client_asks_and_pushes_once_in_an_interval() {
    let mut world = World::subscribed();
    let id = world.ask(CLIENT).subscription_id;
    let too_early = ErrorCode::ThrottlingQuotaExceeded;
    assert_eq!(world.ask(CLIENT).error_code, too_early.code());
    world.pass(INTERVAL / 2);
    assert_eq!(world.push(id, false), ErrorCode::None, "clients begin at a random time");
    world.pass(INTERVAL - 1);
    assert_eq!(world.push(id, false), too_early);
    assert_eq!(world.ask(CLIENT).error_code, too_early.code());
    world.pass(1);
    assert_eq!(world.push(id, false), ErrorCode::None);
    assert_eq!(world.telemetry.counters.throttled, 3);
}

#[test]
fn the_last_push_may_come_early_and_none_comes_after_it() {
    let mut world = World::subscribed();
    let id = world.ask(CLIENT).subscription_id;
    assert_eq!(world.push(id, false), ErrorCode::None);
    assert_eq!(world.push(id, true), ErrorCode::None);
    assert_eq!(world.push(id, true), ErrorCode::InvalidRequest);
    // As in Kafka, the refused push marks the client as not terminating.
    assert_eq!(world.push(id, false), ErrorCode::InvalidRequest);
    world.pass(INTERVAL);
    assert_eq!(world.push(id, false), ErrorCode::None);
}

#[test]
fn a_push_for_other_subscriptions_makes_the_client_ask_again() {
    let mut world = World::subscribed();
    let id = world.ask(CLIENT).subscription_id;
    world.alter(&("all", "metrics", "*"));
    assert_eq!(world.push(id, false), ErrorCode::UnknownSubscriptionId);
    let answer = world.ask(CLIENT);
    assert_eq!((answer.error_code, metrics(&answer)), (0, vec!["*".to_owned()]));
    assert_eq!(world.telemetry.counters.unknown_subscriptions, 1);
}

#[test]
fn pushes_are_refused_in_kafkas_order() {
    let push = |client_instance_id, compression_type, bytes: usize| PushTelemetryRequest {
        client_instance_id,
        subscription_id: World::subscribed().ask(CLIENT).subscription_id,
        terminating: false,
        compression_type,
        metrics: vec![0; bytes].into(),
    };
    let cases = [
        (push(Uuid::ZERO, 0, 1), ErrorCode::InvalidRequest),
        (push(RESERVED, 0, 1), ErrorCode::InvalidRequest),
        (push(CLIENT, 5, 1), ErrorCode::UnsupportedCompressionType),
        (push(CLIENT, -1, 1), ErrorCode::UnsupportedCompressionType),
        (push(CLIENT, 0, (1 << 20) + 1), ErrorCode::TelemetryTooLarge),
        (push(CLIENT, 0, 1 << 20), ErrorCode::None),
        (push(CLIENT, 4, 0), ErrorCode::None),
    ];
    for (body, error) in cases {
        assert_eq!(World::subscribed().push_as(&body), error, "{body:?}");
    }
}

#[test]
fn a_client_is_forgotten_with_its_connection_or_in_time() {
    let mut world = World::subscribed();
    world.ask(CLIENT);
    assert_eq!(world.telemetry.instances.len(), 1);
    world.telemetry.connection_closed(2);
    assert_eq!(world.telemetry.instances.len(), 1);
    world.telemetry.connection_closed(1);
    assert_eq!(world.telemetry.instances.len(), 0);
    assert_eq!(world.ask(CLIENT).error_code, 0, "it may ask at once");
    assert_eq!(world.telemetry.deadline(), Some(60_000));
    world.pass(59_999);
    assert_eq!(world.telemetry.instances.len(), 1);
    world.pass(1);
    assert_eq!((world.telemetry.instances.len(), world.telemetry.deadline()), (0, None));
}

#[test]
fn with_too_many_clients_the_one_that_came_least_recently_is_forgotten() {
    let mut world = World::subscribed();
    let id = |number: usize| {
        let mut id = [1; 16];
        id[..8].copy_from_slice(&(number as u64).to_be_bytes());
        Uuid(id)
    };
    (0..INSTANCES_MAX).for_each(|number| drop(world.ask(id(number))));
    world.ask(id(0));
    world.ask(id(INSTANCES_MAX));
    assert_eq!(world.telemetry.instances.len(), INSTANCES_MAX);
    assert!(world.telemetry.instances.has(id(0)) && !world.telemetry.instances.has(id(1)));
    world.pass(60_000);
    assert_eq!(world.telemetry.instances.len(), 0);
}

#[test]
fn pushes_under_way_are_limited() {
    let mut world = World::subscribed();
    let mut under_way = Vec::new();
    let mut push = |world: &mut World, number: u8| {
        let client_instance_id = Uuid([number, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        let subscription_id = world.ask(client_instance_id).subscription_id;
        let body = PushTelemetryRequest {
            client_instance_id,
            subscription_id,
            metrics: vec![0; 1 << 20].into(),
            ..Default::default()
        };
        match world.telemetry.push(world.now, &client(client_instance_id), REQUEST, &body) {
            Verdict::Pass(push) => {
                under_way.push(push);
                0
            }
            Verdict::Answer(response) => response.error_code,
        }
    };
    for number in 0..16 {
        assert_eq!(push(&mut world, number), 0);
    }
    assert_eq!(push(&mut world, 16), ErrorCode::ThrottlingQuotaExceeded.code());
    assert_eq!(world.telemetry.held_bytes(), BYTES_UNDER_WAY_MAX);
    for push in under_way {
        world.telemetry.pushed(&push.ended(ErrorCode::InvalidRecord));
    }
    assert_eq!(world.telemetry.held_bytes(), 0);
    assert_eq!(world.telemetry.counters.dropped, 1);
    assert_eq!(world.telemetry.counters.refused, 16);
}

#[test]
fn without_a_receiver_pushes_are_taken_and_go_nowhere() {
    let config = Config::load("", &["admin.listener=".to_owned()]).unwrap();
    let mut world = World::subscribed();
    world.telemetry = Telemetry::new(&config, &world.image);
    let id = world.ask(CLIENT).subscription_id;
    assert_eq!(world.push(id, false), ErrorCode::None);
    assert_eq!(world.telemetry.counters.pushes, 0);
}
