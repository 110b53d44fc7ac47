//! Who waits for whom.

use super::super::testing::{World, commit};
use super::super::{Command, Event};
use crate::clock::Times;
use crate::net::ConnectionId;
use muster_codec::Request;
use muster_codec::header::RequestHeader;
use muster_codec::messages::{ApiVersionsRequest, ListGroupsRequest};

const GREEDY: ConnectionId = ConnectionId(0);
const MODEST: ConnectionId = ConnectionId(1);

fn frame(request: impl Into<Request<'static>>) -> Vec<u8> {
    let request = request.into();
    let header = RequestHeader {
        api_key: request.api_key() as i16,
        api_version: 0,
        correlation_id: 7,
        client_id: None,
    };
    let mut out = vec![0; 4];
    header.write(&mut out);
    request.write(0, &mut out).unwrap();
    let length = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

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

/// How many answers of a length there are for a connection.
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

/// One slice of work, of this number of frames.
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
    let ask = frame(ApiVersionsRequest::default());
    receive(&mut world, GREEDY, &ask.repeat(50));
    receive(&mut world, MODEST, &ask);
    assert_eq!(answered(&mut world, GREEDY), 1, "one is handled as it comes");
    assert_eq!(answered(&mut world, MODEST), 0, "who came later waits");
    assert!(work(&mut world, 5));
    assert_eq!((answered(&mut world, GREEDY), answered(&mut world, MODEST)), (5, 0));
    assert!(work(&mut world, 5));
    assert_eq!((answered(&mut world, GREEDY), answered(&mut world, MODEST)), (0, 1));
    while work(&mut world, 5) {}
    assert_eq!(answered(&mut world, GREEDY), 44);
}

#[test]
fn a_listing_of_many_groups_goes_in_slices() {
    let (mut world, _) = world();
    for group in 0..1_300 {
        world.append(&commit(group, 0, Some(1)));
        world.pass(1);
    }
    receive(&mut world, GREEDY, &frame(ListGroupsRequest::default()).repeat(3));
    receive(&mut world, MODEST, &frame(ApiVersionsRequest::default()));
    assert_eq!(answered(&mut world, GREEDY), 0, "it is under way");
    work(&mut world, 1);
    work(&mut world, 1);
    assert_eq!((answered(&mut world, GREEDY), answered(&mut world, MODEST)), (0, 1));
    world.turn();
    let output = std::mem::take(world.shard.output(GREEDY).unwrap());
    let ids = (0..1_300).filter(|group| {
        let id = format!("g{group}");
        let text = [&(id.len() as u16).to_be_bytes()[..], id.as_bytes()].concat();
        output.windows(text.len()).filter(|window| *window == text).count() == 1
    });
    assert_eq!(ids.count(), 1_300, "each once in the first answer");
}
