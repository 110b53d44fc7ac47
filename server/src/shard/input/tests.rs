//! The order in which connections are served.

use super::super::testing::{World, frame};
use super::super::{Command, Event};
use crate::clock::Times;
use crate::net::ConnectionId;
use muster_codec::messages::ApiVersionsRequest;

const GREEDY: ConnectionId = ConnectionId(0);
const MODEST: ConnectionId = ConnectionId(1);

fn world() -> (World, Vec<Command>) {
    let mut world = World::new(&[]);
    world.pass(100);
    let mut commands = Vec::new();
    for connection in [GREEDY, MODEST] {
        let event = Event::Opened { connection, host: "/10.0.0.1".into() };
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
