//! Clients that know no password. They send all kinds of frames, in and out of order, in pieces,
//! several at once, and with changed bytes.

use super::frames::frame;
use super::world::{FLUSH_MS, Random, World};
use crate::config::SecurityProtocol;
use crate::net::ConnectionId;
use crate::shard::Event;
use muster_codec::Request;
use muster_codec::messages::*;

/// A topic that exists, and a topic that only an admitted client could have created.
const VAULT: &str = "vault";
const INTRUDER: &str = "intruder";

fn world() -> World {
    let users = "plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
                 required user_alice=\"secret\";";
    let more = [
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        users,
        "connections.max.reauth.ms=3000",
        "auto.create.topics.enable=true",
    ];
    let mut world = World::of_listener(1, &more, SecurityProtocol::SaslPlaintext);
    world.create_topic(VAULT);
    world
}

fn send(world: &mut World, connection: ConnectionId, data: &[u8]) -> Vec<u8> {
    world.step(Event::Received { connection, data });
    world.pass(FLUSH_MS);
    world.shard.output(connection).map(std::mem::take).unwrap_or_default()
}

fn create(name: &'static str) -> CreateTopicsRequest<'static> {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    CreateTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() }
}

fn metadata(name: &'static str) -> MetadataRequest<'static> {
    let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    MetadataRequest { topics: Some(vec![topic]), ..Default::default() }
}

fn handshake(mechanism: &'static str) -> Request<'static> {
    SaslHandshakeRequest { mechanism: mechanism.into() }.into()
}

fn authenticate(token: &'static [u8]) -> Request<'static> {
    SaslAuthenticateRequest { auth_bytes: token.to_vec().into() }.into()
}

fn pick<T: Copy>(all: &[T], random: &mut Random) -> T {
    all[random.below(all.len() as u64) as usize]
}

/// None of these tokens is right.
const TOKENS: [&[u8]; 8] = [
    b"\0alice\0wrong",
    b"\0alice\0",
    b"alice\0alice\0secre",
    b"",
    b"\x01",
    b"n,,n=alice,r=abc",
    b"c=biws,r=abc,p=AAAA",
    b"n,,\x01auth=Bearer a.b.c\x01\x01",
];

fn some_frame(random: &mut Random) -> Vec<u8> {
    let mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", ""];
    let token = pick(&TOKENS, random);
    let number = |below: u64, random: &mut Random| random.below(below) as i16;
    match random.below(8) {
        0 => frame(number(4, random), ApiVersionsRequest::default()),
        1 | 2 => frame(number(2, random), handshake(pick(&mechanisms, random))),
        3 | 4 => frame(number(3, random), authenticate(token)),
        5 => [&(token.len() as u32).to_be_bytes(), token].concat(),
        6 => frame(2 + number(6, random), create(INTRUDER)),
        _ => frame(4 + number(9, random), metadata(pick(&[INTRUDER, VAULT], random))),
    }
}

/// Some frames, one of which may have a changed byte.
fn some_bytes(random: &mut Random) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..1 + random.below(3)).flat_map(|_| some_frame(random)).collect();
    if random.below(3) == 0 && !bytes.is_empty() {
        let place = random.below(bytes.len() as u64) as usize;
        bytes[place] = random.below(256) as u8;
    }
    bytes
}

#[test]
fn a_client_without_a_password_is_not_let_in_whatever_it_sends() {
    let rounds = std::env::var("MUSTER_STRANGERS").map_or(2_000, |it| it.parse().unwrap());
    let (mut world, mut random) = (world(), Random(1));
    for number in 0..rounds {
        let connection = ConnectionId(number);
        world.connect(connection);
        let mut sent = Vec::new();
        while !world.closed.contains(&connection) && sent.len() < 12 {
            let bytes = some_bytes(&mut random);
            let cut = random.below(bytes.len() as u64 + 1) as usize;
            let answer = [&bytes[..cut], &bytes[cut..]].map(|it| send(&mut world, connection, it));
            let shown = String::from_utf8_lossy(&answer.concat()).into_owned();
            sent.push(bytes);
            assert!(!shown.contains(VAULT) && !shown.contains(INTRUDER), "{sent:?}");
        }
        world.pass(200);
        assert!(world.shard.broker.image().topic(INTRUDER).is_none(), "{sent:?}");
        world.closed.clear();
    }
}

#[test]
fn one_with_the_password_is() {
    let mut world = world();
    world.connect(ConnectionId(0));
    for request in [handshake("PLAIN"), authenticate(b"\0alice\0secret")] {
        assert!(!send(&mut world, ConnectionId(0), &frame(1, request)).is_empty());
    }
    send(&mut world, ConnectionId(0), &frame(5, create(INTRUDER)));
    assert!(world.shard.broker.image().topic(INTRUDER).is_some());
}

/// While the client authenticates again, it may send nothing else.
#[test]
fn a_client_that_authenticates_again_does_nothing_meanwhile() {
    let mut random = Random(2);
    for number in 0..200 {
        let mut world = world();
        let connection = ConnectionId(number);
        world.connect(connection);
        for request in [handshake("PLAIN"), authenticate(b"\0alice\0secret")] {
            send(&mut world, connection, &frame(1, request));
        }
        // At least a second must pass between two authentications.
        world.pass(1_500);
        send(&mut world, connection, &frame(1, handshake("PLAIN")));
        let mut sent = Vec::new();
        while !world.closed.contains(&connection) && sent.len() < 6 {
            let bytes = some_bytes(&mut random);
            send(&mut world, connection, &bytes);
            sent.push(bytes);
        }
        world.pass(3_000);
        assert!(world.shard.broker.image().topic(INTRUDER).is_none(), "{sent:?}");
    }
}
