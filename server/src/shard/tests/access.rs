//! The answer to a change of access rights waits until all shards have taken the change.

use super::frames::{answers, frame};
use super::world::{FLUSH_MS, World};
use crate::clock::Times;
use crate::cluster::ClusterImage;
use crate::mailbox::{FromController, Message, ToBroker, ToController};
use crate::net::ConnectionId;
use crate::security::acls::{Operation, PatternType, Permission, ResourceType};
use crate::shard::{Command, Event};
use muster_codec::messages::{
    AclCreation, ConsumerGroupHeartbeatRequest, CreateAclsRequest, CreatePartitionsRequest,
    DeleteAclsFilter, DeleteAclsRequest, StreamsGroupHeartbeatRequest,
};
use muster_codec::{ErrorCode, Request, Response};
use std::sync::Arc;

const CLIENT: ConnectionId = ConnectionId(0);
const OTHER: ConnectionId = ConnectionId(1);
const ANY: i8 = 1;

const AUTHORIZER: &str =
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";

fn world() -> World {
    world_of(3, "super.users=User:ANONYMOUS")
}

fn world_of(shards: u32, config: &str) -> World {
    let mut world = World::of_shards(shards, &[AUTHORIZER, config]);
    world.pass(FLUSH_MS);
    for connection in [CLIENT, OTHER] {
        world.connect(connection);
    }
    world
}

fn create() -> CreateAclsRequest<'static> {
    let creation = AclCreation {
        resource_type: ResourceType::Topic.code(),
        resource_name: "t".into(),
        resource_pattern_type: PatternType::Literal.code(),
        principal: "User:alice".into(),
        host: "*".into(),
        operation: Operation::Read.code(),
        permission_type: Permission::Allow.code(),
    };
    CreateAclsRequest { creations: vec![creation] }
}

fn delete() -> DeleteAclsRequest<'static> {
    let filter = DeleteAclsFilter {
        resource_type_filter: ANY,
        resource_name_filter: None,
        pattern_type_filter: ANY,
        principal_filter: None,
        host_filter: None,
        operation: ANY,
        permission_type: ANY,
    };
    DeleteAclsRequest { filters: vec![filter] }
}

/// Sends a request, and lets the log be flushed.
fn send(world: &mut World, connection: ConnectionId, request: impl Into<Request<'static>>) {
    world.step(Event::Received { connection, data: &frame(3, request) });
    world.pass(FLUSH_MS);
}

fn is_answered(world: &mut World, connection: ConnectionId) -> bool {
    world.shard.output(connection).map(std::mem::take).is_some_and(|it| !it.is_empty())
}

/// The newest image that was sent to a shard.
fn sent_to(world: &World, shard: u32) -> Arc<ClusterImage> {
    let images = world.mailed.iter().rev().filter_map(|(to, message)| match message {
        Message::Broker(ToBroker::Image(image)) if *to == shard => Some(Arc::clone(image)),
        _ => None,
    });
    images.into_iter().next().unwrap()
}

fn take(world: &mut World, by: u32, version: i64) {
    world.step(Event::Mail(ToController::AccessTaken { by, version }.into()));
}

#[test]
fn a_change_of_acls_is_answered_when_all_shards_have_taken_it() {
    let mut world = world();
    send(&mut world, CLIENT, create());
    assert!(!is_answered(&mut world, CLIENT));
    let created = sent_to(&world, 1).access_version();
    take(&mut world, 1, created);
    assert!(!is_answered(&mut world, CLIENT));
    take(&mut world, 2, created);
    assert!(is_answered(&mut world, CLIENT));

    send(&mut world, CLIENT, delete());
    let deleted = sent_to(&world, 1).access_version();
    assert!(deleted > created && sent_to(&world, 1).acls().is_empty());
    take(&mut world, 1, deleted);
    // Shard 2 is loaded again. First it reports the version of the image from its load, then the
    // version of the image in its mailbox.
    take(&mut world, 2, created);
    assert!(!is_answered(&mut world, CLIENT));
    take(&mut world, 2, deleted);
    assert!(is_answered(&mut world, CLIENT));
}

/// A client asks to delete an ACL that is already deleted, although not on all shards yet. Its
/// answer waits, too, because the client will rely on the deletion.
#[test]
fn an_answer_that_nothing_is_to_be_removed_waits_for_the_removal() {
    let mut world = world();
    send(&mut world, CLIENT, create());
    send(&mut world, CLIENT, delete());
    send(&mut world, OTHER, delete());
    assert!(!is_answered(&mut world, CLIENT) && !is_answered(&mut world, OTHER));
    let version = sent_to(&world, 1).access_version();
    take(&mut world, 1, version);
    // The shard has stopped.
    take(&mut world, 2, i64::MAX);
    assert!(is_answered(&mut world, CLIENT) && is_answered(&mut world, OTHER));
}

#[test]
fn changes_of_something_else_wait_for_no_shard_and_pass_those_that_do() {
    let mut world = world();
    send(&mut world, CLIENT, create());
    send(&mut world, OTHER, CreatePartitionsRequest::default());
    assert!(is_answered(&mut world, OTHER) && !is_answered(&mut world, CLIENT));
}

/// The image may come from a controller that was loaded again and has not heard of this shard's
/// access since.
#[test]
fn an_image_with_the_access_that_a_shard_has_is_reported_too() {
    let mut world = world();
    let mut again = ClusterImage::clone(world.shard.broker.image());
    let version = again.access_version();
    again.changed_since(&ClusterImage::clone(&again));
    let image = Event::Mail(ToBroker::Image(Arc::new(again)).into());
    let mut commands = Vec::new();
    world.shard.step(Times::both(world.now), image, &mut commands);
    let is_report = |command: &Command| match command {
        Command::Mail {
            message: Message::Controller(ToController::AccessTaken { by, version: taken }),
            ..
        } => (*by, *taken) == (0, version),
        _ => false,
    };
    assert_eq!(commands.iter().filter(|it| is_report(it)).count(), 1);
}

#[test]
fn the_answers_of_a_controller_that_fails_are_errors() {
    let mut world = world();
    send(&mut world, CLIENT, create());
    let World { shard, .. } = world;
    let left = shard.leave();
    let errors = left.commands.into_iter().filter_map(|command| match command {
        Command::Mail {
            message: Message::FromController(FromController::AdminAnswer { response, .. }),
            ..
        } => Some(Response::from(*response)),
        _ => None,
    });
    let errors: Vec<_> = errors.collect();
    let [Response::CreateAcls(answer)] = &errors[..] else { panic!("{errors:?}") };
    assert!(answer.results.iter().all(|it| it.error_code == -1), "{answer:?}");
    assert!(!left.image.acls().is_empty(), "the image that other shards may have");
}

#[test]
fn an_api_that_is_switched_off_is_refused_before_its_client_is() {
    for (protocols, expected) in [
        ("classic,consumer,streams", ErrorCode::GroupAuthorizationFailed),
        ("classic", ErrorCode::UnsupportedVersion),
    ] {
        let mut world = world_of(1, &format!("group.coordinator.rebalance.protocols={protocols}"));
        let requests: [Request<'static>; 2] = [
            ConsumerGroupHeartbeatRequest::default().into(),
            StreamsGroupHeartbeatRequest::default().into(),
        ];
        for request in requests {
            let api = request.api_key();
            world.step(Event::Received { connection: CLIENT, data: &frame(0, request) });
            let mut errors = Vec::new();
            for answer in answers(&mut world, CLIENT, (api, 0)) {
                answer.errors(&mut |error| errors.push(error));
            }
            assert_eq!(errors, [expected.code()], "{api:?} with {protocols}");
        }
    }
}
