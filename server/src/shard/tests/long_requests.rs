//! Long requests are answered in slices. The answers equal those of an unsliced request.

use super::frames::frame;
use super::world::{World, commit};
use crate::clock::Times;
use crate::net::{ConnectionId, Kind};
use crate::shard::Event;
use crate::topics::InternalTopic;
use muster_codec::messages::*;
use muster_codec::{ApiKey, ErrorCode, Reader, Request, Response, Str, header};
use std::collections::HashSet;

const GROUPS: u64 = 700;
const GREEDY: ConnectionId = ConnectionId(0);
const MODEST: ConnectionId = ConnectionId(1);

fn world() -> World {
    let mut world = World::new(&["auto.create.topics.enable=false"]);
    world.pass(100);
    for connection in [GREEDY, MODEST] {
        world.connect(connection);
    }
    for group in 0..GROUPS {
        world.append(&commit(group, 0, Some(1)));
        world.pass(1);
    }
    world.pass(100);
    world
}

fn receive(world: &mut World, connection: ConnectionId, data: &[u8]) {
    let event = Event::Received { connection, data };
    world.shard.step(Times::both(world.now), event, &mut Vec::new());
}

/// Works the shortest slice.
fn work(world: &mut World) -> bool {
    world.shard.work(Times::both(world.now), &mut || true, &mut Vec::new())
}

fn output(world: &mut World, connection: ConnectionId) -> Vec<u8> {
    world.pass(100);
    world.shard.output(connection).map(std::mem::take).unwrap_or_default()
}

/// The answer to one request, and the number of its slices.
fn ask(world: &mut World, version: i16, request: &Request<'static>) -> (Vec<u8>, usize) {
    receive(world, GREEDY, &frame(version, request.clone()));
    let mut slices = 1;
    while work(world) {
        slices += 1;
    }
    (output(world, GREEDY), slices)
}

/// The response in an answer.
fn response(api: ApiKey, version: i16, answer: &[u8]) -> Response<'_> {
    let mut reader = Reader::new(&answer[8..]);
    if api.flexible_response_header(version) {
        reader.i8().unwrap();
    }
    let response = Response::read(api, version, &mut reader).unwrap();
    assert!(reader.rest().is_empty(), "no bytes follow");
    let mut again = Vec::new();
    header::write_response(7, version, &response, &mut again).unwrap();
    assert!(again == answer, "as it is written in one piece");
    response
}

/// The elements of the list in an answer, in debug form.
fn elements(api: ApiKey, version: i16, answer: &[u8]) -> Vec<String> {
    fn each<T: std::fmt::Debug>(list: &[T]) -> Vec<String> {
        list.iter().map(|element| format!("{element:?}")).collect()
    }
    match response(api, version, answer) {
        Response::ListGroups(body) => each(&body.groups),
        Response::DescribeGroups(body) => each(&body.groups),
        Response::ConsumerGroupDescribe(body) => each(&body.groups),
        Response::DeleteGroups(body) => each(&body.results),
        Response::OffsetFetch(body) => each(&body.groups),
        Response::DescribeConfigs(body) => each(&body.results),
        Response::Metadata(body) => each(&body.topics),
        Response::FindCoordinator(body) => each(&body.coordinators),
        Response::ListConfigResources(body) => each(&body.config_resources),
        other => panic!("{other:?}"),
    }
}

/// Names of topics, some of which exist.
fn names() -> Vec<Str<'static>> {
    (0..GROUPS + 100).map(|number| Str::Owned(format!("g{number}"))).collect()
}

fn fetch(names: Vec<Str<'static>>) -> Request<'static> {
    let group = |group_id| OffsetFetchRequestGroup { group_id, topics: None, ..Default::default() };
    let groups = names.into_iter().map(group).collect();
    OffsetFetchRequest { groups, ..Default::default() }.into()
}

fn configs(names: Vec<Str<'static>>) -> Request<'static> {
    let resource = |resource_name| DescribeConfigsResource {
        resource_type: 32,
        resource_name,
        configuration_keys: None,
    };
    let resources = names.into_iter().map(resource).collect();
    DescribeConfigsRequest { resources, include_synonyms: true, ..Default::default() }.into()
}

fn metadata(names: Vec<Str<'static>>) -> Request<'static> {
    let topic = |name| MetadataRequestTopic { name: Some(name), ..Default::default() };
    let topics = Some(names.into_iter().map(topic).collect());
    MetadataRequest { topics, ..Default::default() }.into()
}

fn describe(groups: Vec<Str<'static>>) -> Request<'static> {
    DescribeGroupsRequest { groups, ..Default::default() }.into()
}

fn describe_consumers(group_ids: Vec<Str<'static>>) -> Request<'static> {
    ConsumerGroupDescribeRequest { group_ids, ..Default::default() }.into()
}

fn coordinators(coordinator_keys: Vec<Str<'static>>) -> Request<'static> {
    FindCoordinatorRequest { coordinator_keys, ..Default::default() }.into()
}

fn delete(groups_names: Vec<Str<'static>>) -> Request<'static> {
    DeleteGroupsRequest { groups_names }.into()
}

/// Makes a request about these names.
type Asking = fn(Vec<Str<'static>>) -> Request<'static>;

const ASKING: [(Asking, i16); 9] = [
    (describe, 0),
    (describe, 6),
    (describe_consumers, 1),
    (fetch, 8),
    (configs, 1),
    (configs, 4),
    (metadata, 9),
    (metadata, 13),
    (coordinators, 6),
];

#[test]
fn a_long_request_is_answered_in_slices_like_several_short_ones() {
    let mut world = world();
    for (asking, version) in ASKING {
        let api = asking(Vec::new()).api_key();
        let (answer, slices) = ask(&mut world, version, &asking(names()));
        let found = elements(api, version, &answer);
        assert!(slices > 1, "{api:?} v{version}");
        assert_eq!(found.len(), names().len(), "{api:?} v{version}");
        for (number, name) in names().into_iter().enumerate().step_by(50) {
            let (answer, slices) = ask(&mut world, version, &asking(vec![name]));
            assert_eq!(slices, 1);
            let alone = elements(api, version, &answer);
            if api == ApiKey::Metadata {
                assert!(found.contains(&alone[0]), "in the order of names");
            } else {
                assert_eq!(alone, [&*found[number]], "{api:?} v{version}");
            }
        }
        assert_eq!(world.shard.inspect().account().held(Kind::Long), 0);
    }
}

#[test]
fn repeated_names_are_answered_as_in_a_short_request() {
    let mut world = world();
    for (asking, version) in ASKING {
        let api = asking(Vec::new()).api_key();
        let twice = |names: Vec<Str<'static>>| [names.clone(), names].concat();
        let short = twice(vec!["g0".into(), "g1".into()]);
        let (short, _) = ask(&mut world, version, &asking(short));
        let (long, _) = ask(&mut world, version, &asking(twice(names())));
        let (short, long) = (elements(api, version, &short), elements(api, version, &long));
        assert_eq!(short.len() / 2 * names().len(), long.len(), "{api:?}");
        if short.len() == 4 {
            assert_eq!(short[2..], long[names().len()..][..2], "{api:?}");
        }
    }
}

#[test]
fn groups_are_deleted_in_slices() {
    let mut world = world();
    let (answer, _) = ask(&mut world, 2, &delete(names()));
    let results = elements(ApiKey::DeleteGroups, 2, &answer);
    assert_eq!(results.len(), names().len());
    let deleted = results.iter().filter(|result| result.contains("error_code: 0"));
    assert_eq!(deleted.count(), GROUPS as usize);
    assert_eq!(world.shard.groups.slots().groups(), 0);
}

/// The answer to a DeleteGroups that waits for coordinators: each group with its error.
fn delete_slowly(world: &mut World, names: &[&str]) -> Vec<(String, i16)> {
    let names = names.iter().map(|name| Str::Owned((*name).to_owned())).collect();
    receive(world, GREEDY, &frame(2, delete(names)));
    let mut answer = Vec::new();
    for _ in 0..100 {
        while work(world) {}
        answer.append(&mut output(world, GREEDY));
    }
    let Response::DeleteGroups(deleted) = response(ApiKey::DeleteGroups, 2, &answer) else {
        unreachable!()
    };
    deleted.results.iter().map(|it| (it.group_id.to_string(), it.error_code)).collect()
}

#[test]
fn groups_with_many_offsets_are_deleted_beside_others_in_any_order() {
    let mut world = world();
    for names in [["g1", "g7", "g8"], ["g7", "g1", "g8"], ["g7", "g8", "g1"]] {
        for group in [1, 7, 8] {
            world.append(&commit(group, 0, Some(1)));
        }
        world.commit_many(7);
        let deleted = names.map(|name| (name.to_owned(), 0));
        assert_eq!(delete_slowly(&mut world, &names), deleted);
        let gone = names.map(|name| (name.to_owned(), ErrorCode::GroupIdNotFound as i16));
        assert_eq!(delete_slowly(&mut world, &names), gone);
    }
    world.commit_many(7);
    world.commit_many(8);
    let deleted = ["g7", "g8"].map(|name| (name.to_owned(), 0));
    assert_eq!(delete_slowly(&mut world, &["g7", "g8"]), deleted);
    assert_eq!(world.shard.inspect().account().held(Kind::Long), 0);
}

#[test]
fn other_long_requests_continue_once_the_connection_of_a_waiting_one_ends() {
    let mut world = world();
    world.commit_many(7);
    receive(&mut world, GREEDY, &frame(2, delete(vec!["g7".into(), "g8".into()])));
    receive(&mut world, MODEST, &frame(6, describe(names())));
    while work(&mut world) {}
    assert!(world.shard.long.is_waiting());
    let times = Times::both(world.now);
    world.shard.step(times, Event::Ended { connection: GREEDY }, &mut Vec::new());
    while work(&mut world) {}
    let answer = output(&mut world, MODEST);
    assert_eq!(elements(ApiKey::DescribeGroups, 6, &answer).len(), names().len());
}

#[test]
fn all_groups_are_listed_once() {
    let mut world = world();
    let (answer, slices) = ask(&mut world, 5, &ListGroupsRequest::default().into());
    let mut listed = elements(ApiKey::ListGroups, 5, &answer);
    assert!(slices > 1);
    listed.dedup();
    assert_eq!(listed.len(), GROUPS as usize);
}

#[test]
fn others_are_served_between_the_slices() {
    for (asking, version) in ASKING {
        let mut world = world();
        let modest = frame(0, ApiVersionsRequest::default());
        receive(&mut world, GREEDY, &frame(version, asking(names())).repeat(3));
        receive(&mut world, MODEST, &modest);
        assert!(work(&mut world) && work(&mut world), "a slice of each");
        assert!(world.shard.output(MODEST).is_some());
        assert!(world.shard.output(GREEDY).is_none(), "{:?}", asking(Vec::new()).api_key());
    }
}

#[test]
fn long_requests_wait_for_each_other_and_those_of_closed_connections_are_dropped() {
    let mut world = world();
    let long = frame(6, describe(names()));
    receive(&mut world, GREEDY, &long);
    receive(&mut world, MODEST, &long);
    assert!(work(&mut world));
    assert!(world.shard.inspect().account().held(Kind::Long) > 0);
    let times = Times::both(world.now);
    world.shard.step(times, Event::Ended { connection: GREEDY }, &mut Vec::new());
    assert_eq!(world.shard.inspect().account().held(Kind::Long), 0);
    while work(&mut world) {}
    let answer = output(&mut world, MODEST);
    assert_eq!(elements(ApiKey::DescribeGroups, 6, &answer).len(), names().len());
}

#[test]
fn resources_with_configs_are_listed_in_slices_each_once() {
    const TOPICS: usize = 1_200;
    let mut world = world();
    let topic = |number| CreatableTopic {
        name: format!("t{number}").into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    // An operation of the small log holds only a few topics.
    for first in (0..TOPICS).step_by(30) {
        let topics = (first..first + 30).map(topic).collect();
        let create = CreateTopicsRequest { topics, timeout_ms: 1_000, ..Default::default() };
        world.step(Event::Received { connection: MODEST, data: &frame(7, create) });
        world.pass(100);
    }
    assert_eq!(world.shard.broker.image().topic_count(), TOPICS + InternalTopic::seen().count());
    let mut list = |version, types: &[i8]| {
        let request = ListConfigResourcesRequest { resource_types: types.to_vec() };
        let (answer, slices) = ask(&mut world, version, &request.into());
        (elements(ApiKey::ListConfigResources, version, &answer), slices)
    };
    let (all, slices) = list(1, &[]);
    assert!(slices > TOPICS / 512, "{slices}");
    // The broker is listed twice: with its configs and with its loggers.
    assert_eq!(all.len(), 1 + 1 + InternalTopic::seen().count() + TOPICS);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    let (topics, _) = list(1, &[2]);
    assert_eq!(topics, all[2..]);
    assert!(topics.is_sorted());
    assert_eq!(list(1, &[3]).0, [""; 0], "there is no such type");
    assert_eq!(list(0, &[]).0, [""; 0], "there are no client metrics");
}

#[test]
fn transactional_ids_are_listed_in_slices_each_once() {
    const IDS: usize = 1_300;
    let mut world = world();
    for number in 0..IDS {
        let begin = InitProducerIdRequest {
            transactional_id: Some(format!("id{number:04}").into()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        world.step(Event::Received { connection: MODEST, data: &frame(1, begin) });
        world.pass(10);
    }
    output(&mut world, MODEST);
    assert_eq!(world.shard.transactions.ids(), IDS);
    let mut list = |filter: &'static str, pattern: Option<&'static str>| {
        let request = ListTransactionsRequest {
            state_filters: vec![filter.into(), "Empty".into()],
            transactional_id_pattern: pattern.map(Into::into),
            duration_filter: -1,
            ..Default::default()
        };
        let (answer, slices) = ask(&mut world, 2, &request.into());
        let response = response(ApiKey::ListTransactions, 2, &answer);
        let Response::ListTransactions(body) = response else { panic!("{response:?}") };
        let ids = body.transaction_states.iter().map(|it| it.transactional_id.to_string());
        let unknown: Vec<_> = body.unknown_state_filters.iter().map(Str::to_string).collect();
        (body.error_code, ids.collect::<Vec<_>>(), unknown, slices)
    };
    let (error, ids, unknown, slices) = list("Nothing", None);
    assert_eq!((error, ids.len()), (0, IDS));
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), IDS);
    assert_eq!(unknown, ["Nothing"]);
    assert!(slices > IDS / 512, "{slices}");
    assert_eq!(list("Ongoing", Some("id000[12]")).1.len(), 2);
    assert_eq!(list("Ongoing", Some("(")).0, ErrorCode::InvalidRegularExpression.code());
}
