//! For each limit that clients can use up there is a story: one address uses the limit up, then
//! another address comes. The story is a test in this file, with clients of a whole shard, or the
//! test that the table names. A test fails if a limit has no story.

use super::frames::{answers, frame};
use super::world::{FLUSH_MS, World};
use crate::limit_gauges::{Fairness, Limit};
use crate::net::ConnectionId;
use crate::shard::Event;
use muster_codec::messages::*;
use muster_codec::{ApiKey, Bytes, ErrorCode, Request, Response};
use std::collections::BTreeSet;
use std::path::Path;

/// The address that uses up a limit, and the other address.
const HOG: &str = "/127.0.0.2";
const OTHER: &str = "/127.0.0.1";

/// The place of a limit's story: a file of the repository, and the name of the test in it.
struct Story {
    limit: Limit,
    file: &'static str,
    test: &'static str,
}

const fn story(limit: Limit, file: &'static str, test: &'static str) -> Story {
    Story { limit, file, test }
}

const HERE: &str = "server/src/shard/tests/limits.rs";
const OF_PARTITIONS: &str = "server/src/partitions/tests/limits.rs";
const OF_COORDINATORS: &str = "server/coordinator/tests/fairness.rs";
const OF_IDS: &str = "server/src/transactions/coordinators.rs";
const IDS: &str = "an_address_that_has_half_of_the_ids_may_create_its_share_of_the_rest";
const OF_TOPICS: &str = "server/src/cluster/tests/topics.rs";
const OF_SESSIONS: &str = "server/shares/tests/sessions.rs";
const SESSIONS: &str =
    "an_address_leaves_an_eighth_of_the_sessions_and_of_their_partitions_to_others";

/// The story of each limit that clients can use up.
const STORIES: &[Story] = &[
    story(
        Limit::MemberBytes,
        HERE,
        "members_of_one_address_do_not_keep_those_of_another_from_joining",
    ),
    story(Limit::WaitingPartitions, HERE, "fetches_of_one_address_do_not_make_others_spin"),
    story(
        Limit::WaitingFetches,
        OF_PARTITIONS,
        "an_address_whose_fetches_wait_leaves_an_eighth_of_the_fetches_to_others",
    ),
    story(
        Limit::UnwrittenBytes,
        OF_PARTITIONS,
        "an_address_whose_batches_wait_for_the_disk_leaves_an_eighth_of_the_bytes_to_others",
    ),
    story(
        Limit::Producers,
        OF_PARTITIONS,
        "invented_producers_do_not_displace_one_that_was_active_within_five_minutes",
    ),
    story(
        Limit::PendingBytes,
        OF_COORDINATORS,
        "open_transactions_of_an_address_leave_an_eighth_of_the_bytes_to_others",
    ),
    story(
        Limit::AskedBytes,
        "server/src/groups/offset_questions.rs",
        "an_address_whose_offsets_wait_leaves_an_eighth_of_the_bytes_to_others",
    ),
    story(Limit::ShareSessions, OF_SESSIONS, SESSIONS),
    story(Limit::SharePartitions, OF_SESSIONS, SESSIONS),
    story(
        Limit::ShareFetches,
        "server/src/shares/table.rs",
        "an_address_whose_requests_wait_leaves_an_eighth_to_others",
    ),
    story(
        Limit::OpenShares,
        "server/shares/tests/stories.rs",
        "an_address_leaves_an_eighth_of_the_open_share_partitions_to_others",
    ),
    story(
        Limit::AmendmentBytes,
        "server/src/net/amendments.rs",
        "what_waits_is_limited_and_counted_until_it_is_answered_or_closed",
    ),
    story(
        Limit::Groups,
        "server/coordinator/tests/hostile.rs",
        "an_address_that_creates_many_groups_leaves_some_for_others",
    ),
    story(Limit::TransactionalIds, OF_IDS, IDS),
    story(Limit::TransactionalIdBytes, OF_IDS, IDS),
    story(Limit::Topics, OF_TOPICS, "topics_by_name_are_limited_for_each_client"),
    story(Limit::Partitions, OF_TOPICS, "topics_by_name_are_limited_for_each_client"),
    story(
        Limit::GroupConfigs,
        "server/src/cluster/tests/configs.rs",
        "groups_with_configs_are_limited_in_all_and_for_each_client",
    ),
    story(
        Limit::Connections,
        "server/src/net/connections/tests.rs",
        "connections_are_limited_for_each_host",
    ),
    story(
        Limit::InputBytes,
        "server/src/net/inputs.rs",
        "connections_with_large_input_wait_and_the_others_continue",
    ),
    story(
        Limit::UnreadBytes,
        "server/src/net/unread.rs",
        "over_the_budget_only_connections_without_unread_answers_are_served",
    ),
    story(
        Limit::Slices,
        "server/src/net/connections/tests.rs",
        "connections_take_turns_and_a_closed_one_releases_its_files",
    ),
    story(Limit::Handshakes, "server/src/reactor/handshakes.rs", "both_limits_count"),
    story(Limit::HandshakeBytes, "server/src/reactor/handshakes.rs", "both_limits_count"),
    story(
        Limit::LogBytes,
        "server/src/net/inputs.rs",
        "no_client_is_closed_for_a_log_that_takes_nothing",
    ),
    story(
        Limit::ReadBytes,
        "server/src/partitions/tests/fetching.rs",
        "fetches_wait_for_the_read_budget",
    ),
    story(
        Limit::ClientInstances,
        "server/src/telemetry/tests.rs",
        "with_too_many_clients_the_one_that_came_least_recently_is_forgotten",
    ),
    story(Limit::Pushes, "server/src/telemetry/tests.rs", "pushes_under_way_are_limited"),
    story(Limit::PushBytes, "server/src/telemetry/tests.rs", "pushes_under_way_are_limited"),
];

#[test]
fn each_limit_that_clients_can_use_up_has_a_story() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for Story { limit, file, test } in STORIES {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let is_there = text.contains(&format!("#[test]\nfn {test}()"))
            || text.contains(&format!("    #[test]\n    fn {test}()"));
        assert!(is_there, "{}: {file} has no {test}", limit.name());
    }
    let with_story: BTreeSet<&str> = STORIES.iter().map(|story| story.limit.name()).collect();
    let can_be_used_up = |limit: &&Limit| limit.fairness() != Fairness::Administrators;
    let limits = Limit::ALL.iter().filter(can_be_used_up).map(|limit| limit.name());
    assert_eq!(with_story, limits.collect());
}

fn open(world: &mut World, number: u32, host: &str) -> ConnectionId {
    let connection = ConnectionId::new(number, 1);
    world.connect_from(connection, host);
    connection
}

fn send(world: &mut World, id: ConnectionId, version: i16, request: impl Into<Request<'static>>) {
    let data = frame(version, request);
    world.step(Event::Received { connection: id, data: &data });
}

/// The version of JoinGroup in which a member joins at once.
const JOIN: (ApiKey, i16) = (ApiKey::JoinGroup, 6);

fn join(group: &str, instance: u32, bytes: usize) -> JoinGroupRequest<'static> {
    let metadata = Bytes::from(vec![0; bytes]);
    JoinGroupRequest {
        group_id: group.to_owned().into(),
        group_instance_id: Some(instance.to_string().into()),
        session_timeout_ms: 1_800_000,
        rebalance_timeout_ms: 1_800_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), metadata }],
        ..Default::default()
    }
}

/// The errors of answers to JoinGroup.
fn joined(world: &mut World, id: ConnectionId) -> Vec<ErrorCode> {
    let joined = answers(world, id, JOIN).into_iter().map(|answer| {
        let Response::JoinGroup(body) = answer else { panic!("not a join") };
        ErrorCode::from_code(body.error_code).unwrap()
    });
    joined.collect()
}

#[test]
fn members_of_one_address_do_not_keep_those_of_another_from_joining() {
    let half = format!("shard.memory.max.bytes={}", crate::config::SHARD_BYTES_MAX / 2);
    let mut world = World::new(&[&half]);
    let formed = open(&mut world, 1, OTHER);
    send(&mut world, formed, JOIN.1, join("formed", 0, 100));
    let mut refused = 0;
    for number in 0..67 {
        let hog = open(&mut world, 10 + number, HOG);
        send(&mut world, hog, JOIN.1, join(&format!("hog {}", number % 3), number, 1_000_000));
        world.pass(FLUSH_MS);
        refused += joined(&mut world, hog).len();
        world.step(Event::Ended { connection: hog });
    }
    assert_eq!(refused, 9, "58.7 MB are seven eighths of 64 MiB");
    let second = open(&mut world, 2, OTHER);
    send(&mut world, second, JOIN.1, join("formed", 1, 100));
    let new = open(&mut world, 3, OTHER);
    send(&mut world, new, JOIN.1, join("new", 0, 1_000_000));
    world.pass(10_000);
    assert_eq!(joined(&mut world, new), [ErrorCode::None]);
    // A member that waits for others has no answer yet. A refused member has an error.
    for id in [formed, second] {
        let errors = joined(&mut world, id);
        assert!(errors.iter().all(|error| *error == ErrorCode::None), "{errors:?}");
    }
}

/// A fetch of an existing partition, and of partitions that do not exist.
fn fetch(partitions: i32, max_wait_ms: i32) -> FetchRequest<'static> {
    let partition = |partition| FetchPartition {
        partition,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let partitions = (0..partitions).map(partition).collect();
    let topics = vec![FetchTopic { topic: "t".into(), partitions, ..Default::default() }];
    FetchRequest { max_wait_ms, min_bytes: 1, max_bytes: 1 << 20, topics, ..Default::default() }
}

const FETCH: (ApiKey, i16) = (ApiKey::Fetch, 12);

#[test]
fn fetches_of_one_address_do_not_make_others_spin() {
    let mut world = World::new(&["auto.create.topics.enable=true"]);
    world.create_topic("t");
    world.pass(100);
    let mut hogs = Vec::new();
    for number in 0..60 {
        hogs.push(open(&mut world, 100 + number, HOG));
        send(&mut world, hogs[number as usize], FETCH.1, fetch(4_000, 300_000));
    }
    let idle = open(&mut world, 1, OTHER);
    let rounds = |world: &mut World, id: ConnectionId, partitions: i32| {
        let (mut answered, end) = (0, world.now + 5_000);
        while world.now < end {
            send(world, id, FETCH.1, fetch(partitions, 500));
            world.pass(1);
            while answers(world, id, FETCH).is_empty() && world.now < end {
                world.pass(1);
            }
            answered += 1;
        }
        answered
    };
    assert!((9..=11).contains(&rounds(&mut world, idle, 500)), "as without the other one");
    let last = hogs[59];
    assert_eq!(answers(&mut world, last, FETCH).len(), 1, "it may not wait for records");
    assert!((9..=11).contains(&rounds(&mut world, last, 4_000)), "but not more often");
}
