//! The order in which connections are served.

use super::frames::frame;
use super::world::World;
use crate::clock::Times;
use crate::net::{BURST_BYTES_MAX, ConnectionId, Kind, SHORT_FRAMES_BYTES_MAX};
use crate::shard::{Command, Event, ListenerIndex};
use muster_codec::messages::ApiVersionsRequest;

const GREEDY: ConnectionId = ConnectionId(0);
const MODEST: ConnectionId = ConnectionId(1);

fn world() -> (World, Vec<Command>) {
    let mut world = World::new(&[]);
    world.pass(100);
    let mut commands = Vec::new();
    for connection in [GREEDY, MODEST] {
        let event = Event::Opened {
            connection,
            listener: ListenerIndex::FIRST,
            host: "/10.0.0.1".into(),
            port: 0,
        };
        world.shard.step(Times::both(world.now), event, &mut commands);
    }
    (world, commands)
}

fn receive(world: &mut World, connection: ConnectionId, data: &[u8]) {
    let event = Event::Received { connection, data };
    world.shard.step(Times::both(world.now), event, &mut Vec::new());
}

/// Counts the answers in the output of a connection.
fn answered(world: &mut World, connection: ConnectionId) -> usize {
    let Some(output) = world.shard.output(connection) else { return 0 };
    let mut rest = std::mem::take(output);
    let mut answers = 0;
    while let Some(length) = rest.first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize + 4;
        rest.drain(..length);
        answers += 1;
    }
    answers
}

/// Works one slice of this number of frames.
fn work(world: &mut World, frames: usize) -> bool {
    let mut left = frames;
    let mut is_over = || {
        left -= 1;
        left == 0
    };
    world.shard.work(Times::both(world.now), &mut is_over, &mut Vec::new())
}

#[test]
fn a_connection_with_many_frames_has_one_slice_for_each_of_the_others() {
    let (mut world, _) = world();
    let ask = frame(0, ApiVersionsRequest::default());
    receive(&mut world, GREEDY, &ask.repeat(50));
    receive(&mut world, MODEST, &ask);
    assert_eq!(answered(&mut world, GREEDY), 1, "one is handled as it comes");
    assert_eq!(answered(&mut world, MODEST), 0, "the later one waits");
    assert!(work(&mut world, 5));
    assert_eq!((answered(&mut world, GREEDY), answered(&mut world, MODEST)), (5, 0));
    assert!(work(&mut world, 5));
    assert_eq!((answered(&mut world, GREEDY), answered(&mut world, MODEST)), (0, 1));
    while work(&mut world, 5) {}
    assert_eq!(answered(&mut world, GREEDY), 44);
}

const FRAME_BYTES: usize = 2 << 20;
const PIECE_BYTES: usize = 64 << 10;
const LIMIT: usize = 4 << 20;

/// A shard with this number of connections, and with [`LIMIT`] as the budget for their input.
fn with_connections(count: usize) -> (World, Vec<ConnectionId>) {
    let limits = ["socket.request.max.bytes=4194304", "queued.max.request.bytes=4194304"];
    let mut world = World::new(&limits);
    world.pass(100);
    let ids: Vec<_> = (0..count).map(|slot| ConnectionId::new(slot as u32, 0)).collect();
    for connection in ids.iter().copied() {
        world.connect(connection);
    }
    (world, ids)
}

/// A frame whose first bytes, all zero, are the header of a Produce. The tests never handle it.
fn large_frame() -> Vec<u8> {
    let mut frame = (FRAME_BYTES as u32 - 4).to_be_bytes().to_vec();
    frame.resize(FRAME_BYTES, 0);
    frame
}

fn input_held(world: &World) -> usize {
    world.shard.inspect().account().held(Kind::Input)
}

/// A slow shard: each turn receives all bytes that have arrived, and handles none.
#[test]
fn large_waiting_requests_do_not_accumulate() {
    const CONNECTIONS: usize = 40;
    let (mut world, ids) = with_connections(CONNECTIONS);
    let frame = large_frame();
    let mut sent = [0; CONNECTIONS];
    for _ in 0..CONNECTIONS * FRAME_BYTES / PIECE_BYTES {
        for (id, sent) in ids.iter().zip(&mut sent) {
            let is_open = world.shard.clients.connections().receives(*id);
            if is_open && *sent < FRAME_BYTES {
                receive(&mut world, *id, &frame[*sent..*sent + PIECE_BYTES]);
                *sent += PIECE_BYTES;
            }
        }
        world.shard.end_turn(Times::both(world.now), world.now, &mut Vec::new());
    }
    assert_eq!(sent.iter().filter(|sent| **sent == FRAME_BYTES).count(), 1, "one at a time");
    let held = input_held(&world);
    assert!(held <= LIMIT + FRAME_BYTES + PIECE_BYTES * CONNECTIONS, "{held}");
}

/// Whole requests may arrive from the sockets before their connections can be paused.
#[test]
fn a_burst_over_all_reserves_is_closed() {
    const CONNECTIONS: usize = 60;
    let (mut world, ids) = with_connections(CONNECTIONS);
    let frame = large_frame();
    for (number, id) in ids.iter().enumerate() {
        // The very first frame would be handled on arrival if it came in one piece.
        receive(&mut world, *id, &frame[..PIECE_BYTES]);
        receive(&mut world, *id, &frame[PIECE_BYTES..]);
        if number % 4 == 3 {
            world.shard.end_turn(Times::both(world.now), world.now, &mut Vec::new());
        }
        let held = input_held(&world);
        let max = LIMIT + SHORT_FRAMES_BYTES_MAX + BURST_BYTES_MAX + FRAME_BYTES;
        assert!(held <= max, "{held} after {number}");
    }
    let is_open = |id: &&ConnectionId| world.shard.clients.connections().is_open(**id);
    let open = ids.iter().filter(is_open).count();
    assert!((20..30).contains(&open), "{open} have room");
}
