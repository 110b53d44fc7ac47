//! Certificates that clients alter. Another thread checks them before the controller decides.

use super::frames::frame;
use super::world::{FLUSH_MS, World};
use crate::config::{Replacement, SecurityProtocol, ShardTls};
use crate::mailbox::{Message, ToController};
use crate::net::ConnectionId;
use crate::shard::{CertificateOrder, Command, Event};
use muster_codec::messages::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use std::collections::BTreeMap;

const CLIENT: ConnectionId = ConnectionId(0);
const OTHER: ConnectionId = ConnectionId(1);

fn world() -> World {
    let mut world = World::of_listener(2, &[], SecurityProtocol::Ssl);
    for connection in [CLIENT, OTHER] {
        world.connect(connection);
    }
    world.orders.clear();
    world
}

/// Sends a request that sets the key of a listener of a broker.
fn set(world: &mut World, connection: ConnectionId, broker: &'static str, value: &'static str) {
    let config = AlterableConfig {
        name: "listener.name.out.ssl.keystore.location".into(),
        config_operation: 0,
        value: Some(value.into()),
    };
    let resource = AlterConfigsResource {
        resource_type: 4,
        resource_name: broker.into(),
        configs: vec![config],
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    world.step(Event::Received { connection, data: &frame(1, request) });
    world.pass(FLUSH_MS);
}

/// The number of the newest check, and the key stores that it has.
fn newest_check(world: &World) -> (u64, Vec<String>) {
    let check = world.orders.iter().rev().find_map(|order| match order {
        CertificateOrder::Check { number, replacements } => Some((*number, replacements)),
        CertificateOrder::Take(_) => None,
    });
    let (number, of_shards) = check.unwrap();
    let all = of_shards.iter().flat_map(|it| &it.replacements);
    (number, all.map(location).collect())
}

fn location(replacement: &Replacement) -> String {
    let path = replacement.settings.key_store.location.as_ref();
    path.map_or_else(String::new, |it| it.display().to_string())
}

fn answer_check(world: &mut World, number: u64, refused: BTreeMap<u32, String>) {
    world.step(Event::Mail(ToController::CertificatesChecked { number, refused }.into()));
    world.pass(FLUSH_MS);
}

fn answer(world: &mut World, connection: ConnectionId) -> Vec<u8> {
    world.shard.output(connection).map(std::mem::take).unwrap_or_default()
}

/// The certificates that were ordered for the shard.
fn taken(world: &World) -> Vec<&ShardTls> {
    let mut taken = Vec::new();
    for order in &world.orders {
        match order {
            CertificateOrder::Take(of_shard) => taken.push(of_shard),
            CertificateOrder::Check { .. } => {}
        }
    }
    taken
}

#[test]
fn a_change_is_decided_when_its_certificates_were_checked() {
    let mut world = world();
    set(&mut world, CLIENT, "0", "/new.pem");
    let (number, locations) = newest_check(&world);
    assert_eq!(locations, ["/new.pem"]);
    assert!(answer(&mut world, CLIENT).is_empty() && taken(&world).is_empty());
    answer_check(&mut world, number, BTreeMap::new());
    assert!(!answer(&mut world, CLIENT).is_empty());
    let [of_shard] = taken(&world)[..] else { panic!("{:?}", world.orders) };
    assert_eq!((of_shard.shard, location(&of_shard.replacements[0])), (0, "/new.pem".into()));

    world.orders.clear();
    set(&mut world, CLIENT, "0", "/bad.pem");
    let refused = BTreeMap::from([(0, "the reason".to_owned())]);
    let (number, _) = newest_check(&world);
    answer_check(&mut world, number, refused);
    let answer = answer(&mut world, CLIENT);
    assert!(String::from_utf8_lossy(&answer).contains("the reason") && taken(&world).is_empty());
}

/// Another client changes a config between the check and its outcome. The first request would then
/// lead to certificates that were not checked.
#[test]
fn what_was_not_checked_is_checked_again() {
    let mut world = world();
    set(&mut world, CLIENT, "0", "/one.pem");
    let first = newest_check(&world).0;
    world.pass(FLUSH_MS);
    let removed = AlterableConfig {
        name: "listener.name.out.ssl.keystore.type".into(),
        config_operation: 0,
        value: Some("PEM".into()),
    };
    let resource = AlterConfigsResource {
        resource_type: 4,
        resource_name: "0".into(),
        configs: vec![removed],
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    world.step(Event::Received { connection: OTHER, data: &frame(1, request) });
    world.pass(FLUSH_MS);
    let second = newest_check(&world).0;
    answer_check(&mut world, second, BTreeMap::new());
    assert!(!answer(&mut world, OTHER).is_empty());
    answer_check(&mut world, first, BTreeMap::new());
    assert!(answer(&mut world, CLIENT).is_empty(), "its certificate would now be another one");
    let third = newest_check(&world).0;
    assert!(third > second);
    // No request waits for this outcome: the check was ordered before the controller was replaced.
    answer_check(&mut world, 99, BTreeMap::new());
    answer_check(&mut world, third, BTreeMap::new());
    assert!(!answer(&mut world, CLIENT).is_empty());
}

#[test]
fn a_request_that_waits_for_a_check_outlives_the_controller() {
    let mut world = world();
    set(&mut world, CLIENT, "1", "/new.pem");
    let World { shard, .. } = world;
    let asked = shard.leave().commands.into_iter().any(|command| {
        let Command::Mail { to: 0, message: Message::Controller(message) } = command else {
            return false;
        };
        matches!(message, ToController::Admin { from: 0, .. })
    });
    assert!(asked);
}
