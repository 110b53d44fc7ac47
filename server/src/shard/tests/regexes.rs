//! Regular expressions of consumer groups. An expression matches only topics that one member may
//! describe: the member whose heartbeat has it resolved, as in Kafka (`TopicRegexResolver`).

use super::frames::frame;
use super::world::World;
use crate::net::ConnectionId;
use crate::security::acls::{Operation, PatternType, Permission, ResourceType};
use crate::shard::Event;
use muster_codec::messages::{
    AclCreation, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, CreateAclsRequest,
};
use muster_codec::{ApiKey, Reader, Response, Uuid};
use std::sync::Arc;

const ADMIN: ConnectionId = ConnectionId(0);
const ALICE: ConnectionId = ConnectionId(1);
const BOB: ConnectionId = ConnectionId(2);
const REFRESH_MS: i64 = 10_000;

fn world() -> World {
    let mut world = World::new(&[
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
        "group.consumer.regex.refresh.interval.ms=10000",
        "group.consumer.assignment.interval.ms=0",
    ]);
    world.pass(100);
    for (connection, name) in [(ADMIN, None), (ALICE, Some("alice")), (BOB, Some("bob"))] {
        world.connect(connection);
        world.step(Event::Secured { connection, principal: name.map(Arc::from) });
    }
    world
}

fn acl(user: &str, of: ResourceType, name: &str, operation: Operation) -> AclCreation<'static> {
    AclCreation {
        resource_type: of.code(),
        resource_name: name.to_owned().into(),
        resource_pattern_type: PatternType::Literal.code(),
        principal: format!("User:{user}").into(),
        host: "*".into(),
        operation: operation.code(),
        permission_type: Permission::Allow.code(),
    }
}

/// Sends a heartbeat. The first heartbeat has an expression.
fn beat(
    world: &mut World,
    connection: ConnectionId,
    (member, epoch): (&str, i32),
) -> ConsumerGroupHeartbeatResponse<'static> {
    let joins = epoch == 0;
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: member.to_owned().into(),
        member_epoch: epoch,
        rebalance_timeout_ms: if joins { 60_000 } else { -1 },
        subscribed_topic_regex: joins.then(|| "orders-.*".into()),
        topic_partitions: joins.then(Vec::new),
        ..Default::default()
    };
    world.step(Event::Received { connection, data: &frame(1, request) });
    world.pass(500);
    let answer = world.shard.output(connection).map(std::mem::take).unwrap();
    let mut reader = Reader::new(answer[8..].to_vec().leak());
    reader.i8().unwrap();
    match Response::read(ApiKey::ConsumerGroupHeartbeat, 1, &mut reader).unwrap() {
        Response::ConsumerGroupHeartbeat(body) => body,
        other => panic!("{other:?}"),
    }
}

/// The topics that a member is finally assigned, and the member's epoch.
fn settle(
    world: &mut World,
    connection: ConnectionId,
    (member, mut epoch): (&str, i32),
) -> (Option<Vec<Uuid>>, i32) {
    let mut assigned = None;
    for _ in 0..4 {
        let body = beat(world, connection, (member, epoch));
        assert_eq!(body.error_code, 0, "{body:?}");
        epoch = body.member_epoch;
        let topics = body.assignment.map(|it| it.topic_partitions);
        assigned = topics.map(|all| all.iter().map(|it| it.topic_id).collect()).or(assigned);
    }
    (assigned, epoch)
}

#[test]
fn an_expression_matches_what_the_member_may_describe_that_has_it_resolved() {
    let mut world = world();
    let europe = world.create_topic("orders-eu");
    let america = world.create_topic("orders-us");
    let creations = vec![
        acl("alice", ResourceType::Group, "g", Operation::Read),
        acl("alice", ResourceType::Topic, "orders-eu", Operation::Read),
        acl("bob", ResourceType::Group, "g", Operation::Read),
        acl("bob", ResourceType::Topic, "*", Operation::Describe),
    ];
    let data = frame(3, CreateAclsRequest { creations });
    world.step(Event::Received { connection: ADMIN, data: &data });
    world.pass(100);

    let (assigned, epoch) = settle(&mut world, ALICE, ("a", 0));
    assert_eq!(assigned, Some(vec![europe]));

    // The expression is resolved at intervals. So a member that joins with the same expression, and
    // may describe more topics, changes nothing until the next time.
    let (assigned, bobs) = settle(&mut world, BOB, ("b", 0));
    assert!(assigned.unwrap_or_default().iter().all(|id| *id == europe));
    world.pass(REFRESH_MS);
    let (of_bob, _) = settle(&mut world, BOB, ("b", bobs));
    let (of_alice, _) = settle(&mut world, ALICE, ("a", epoch));
    let all: Vec<_> = of_bob.into_iter().chain(of_alice).flatten().collect();
    assert!(all.contains(&america), "{all:?}");
}
