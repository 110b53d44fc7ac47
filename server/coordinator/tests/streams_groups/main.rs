//! Streams groups, beyond Kafka's transcripts: lost answers, missing topics, invalid topologies,
//! startup from the log and from snapshots, and random histories.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;
mod descriptions;
mod history;
mod shard;
#[path = "../snapshots/mod.rs"]
mod snapshots;

use common::read;
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Wall};
use muster_coordinator::{Config, Coordinator};
use shard::{GROUP, Shard, Tasks, config, internal, joining, staying, subtopology};
use snapshots::{durable, open, snapshot};

const STALE: i8 = 0;
const NO_INTERNAL_TOPICS: i8 = 3;
const SHUTDOWN: i8 = 4;
const DELAYED: i8 = 5;

#[test]
fn the_tasks_of_a_lost_answer_are_sent_again() {
    let mut shard = Shard::new();
    shard.beat(joining("a", "p"));
    let lost = shard.beat(staying("a", 2, None));
    let tasks = lost.tasks.clone().unwrap_or_else(|| shard.assigned("a"));
    assert_eq!(tasks[0].len(), 4, "{tasks:?}");
    let again = shard.beat(staying("a", lost.epoch, Some(&Tasks::default())));
    assert_eq!((again.error, again.tasks), (0, Some(tasks.clone())));
    let reported = shard.beat(staying("a", lost.epoch, Some(&tasks)));
    assert_eq!((reported.error, reported.tasks), (0, None), "nothing is missing any more");
}

#[test]
fn missing_internal_topics_are_named_until_they_exist() {
    let mut shard = Shard::new();
    let mut request = joining("a", "p");
    let topology = request.topology.as_mut().unwrap();
    topology.subtopologies[1].repartition_source_topics = vec![internal("app-repartition", 0)];
    topology.subtopologies[0].repartition_sink_topics = vec!["app-repartition".into()];
    topology.subtopologies[1].source_topics.clear();
    let first = shard.beat(request);
    assert_eq!(first.missing, [("app-repartition".to_owned(), 2)]);
    assert!(first.statuses.contains(&NO_INTERNAL_TOPICS));
    let second = shard.beat(staying("a", first.epoch, None));
    assert_eq!(second.missing, first.missing, "each answer names them");
    assert_eq!(shard.state(), "NotReady");
    shard.topics.make("app-repartition", 2);
    let third = shard.beat(staying("a", second.epoch, None));
    assert!(third.missing.is_empty() && third.statuses.is_empty());
    assert_eq!(third.tasks.unwrap()[0].len(), 4);
    assert_eq!(shard.state(), "Stable");
}

#[test]
fn members_of_a_new_group_gather_before_the_first_target() {
    let mut shard =
        Shard::with(Config { group_streams_initial_rebalance_delay_ms: 3_000, ..config() });
    assert_eq!(shard.beat(joining("a", "p")).statuses, [DELAYED]);
    shard.pass(1_000);
    assert_eq!(shard.beat(joining("b", "q")).statuses, [DELAYED]);
    shard.pass(1_999);
    assert_eq!(shard.target_epoch(), 1);
    shard.pass(1);
    assert_eq!(shard.target_epoch(), 3, "the timer computes the first target");
    let tasks =
        ["a", "b"].map(|member| shard.beat(staying(member, 1, None)).tasks.unwrap()[0].len());
    assert_eq!(tasks, [2, 2]);
}

#[test]
fn members_that_join_while_a_large_target_would_be_computed_share_one() {
    let mut shard = Shard::new();
    shard.topics.make("many", 5_000);
    let with_many_tasks = |member| {
        let mut request = joining(member, member);
        let topology = request.topology.as_mut().unwrap();
        topology.subtopologies[0].source_topics = vec!["many".into()];
        request
    };
    shard.beat(with_many_tasks("a"));
    shard.beat(staying("a", 2, None));
    let first = shard.target_epoch();
    for member in ["b", "c"] {
        let answer = shard.beat(with_many_tasks(member));
        assert_eq!((answer.error, answer.statuses), (0, vec![]), "not delayed by a config");
    }
    assert_eq!((shard.target_epoch(), shard.group_epoch()), (first, first + 2));
    shard.pass(10);
    let shared = shard.beat(staying("b", first, None));
    assert_eq!((shard.target_epoch(), shared.error), (first + 2, 0));
}

#[test]
fn a_stale_topology_has_a_status_and_a_new_one_is_refused() {
    let mut shard = Shard::new();
    let with_epoch = |member, epoch| {
        let mut request = joining(member, "p");
        request.topology.as_mut().unwrap().epoch = epoch;
        request
    };
    shard.beat(with_epoch("a", 1));
    let stale = shard.beat(with_epoch("b", 0));
    assert_eq!((stale.error, stale.statuses.contains(&STALE)), (0, true));
    assert_eq!(shard.beat(with_epoch("c", 2)).error, ErrorCode::InvalidRequest as i16);
}

#[test]
fn a_topology_that_cannot_be_is_refused_whether_or_not_its_topics_are_there() {
    let mut shard = Shard::new();
    let mut request = joining("a", "p");
    let topology = request.topology.as_mut().unwrap();
    topology.subtopologies[0].source_topics = vec!["missing".into()];
    let group = StreamsGroupCopartitionGroup { source_topics: vec![0, 1], ..Default::default() };
    topology.subtopologies[0].copartition_groups = vec![group];
    assert_eq!(shard.beat(request).error, ErrorCode::StreamsInvalidTopology as i16);
}

#[test]
fn a_reported_task_that_the_topology_lacks_is_refused() {
    let mut shard = Shard::new();
    let epoch = shard.beat(joining("a", "p")).epoch;
    let reporting = |subtopology_id: &'static str, partitions: &[i32]| {
        let partitions = partitions.to_vec();
        let tasks = StreamsGroupTaskIds { subtopology_id: subtopology_id.into(), partitions };
        StreamsGroupHeartbeatRequest {
            standby_tasks: Some(vec![tasks]),
            ..staying("a", epoch, Some(&Tasks::default()))
        }
    };
    for (subtopology, partitions) in [("1", &[0, 2][..]), ("1", &[-1, 0]), ("7", &[])] {
        let answer = shard.beat(reporting(subtopology, partitions));
        assert_eq!(answer.error, ErrorCode::InvalidRequest as i16, "{subtopology} {partitions:?}");
    }
    for partitions in [&[0, 1][..], &[]] {
        assert_eq!(shard.beat(reporting("1", partitions)).error, 0, "{partitions:?}");
    }
}

#[test]
fn a_shutdown_reaches_all_members_until_the_group_is_empty() {
    let mut shard = Shard::new();
    shard.beat(joining("a", "p"));
    shard.beat(joining("b", "q"));
    let mut request = staying("b", 3, None);
    request.shutdown_application = true;
    assert!(shard.beat(request).statuses.contains(&SHUTDOWN));
    assert!(shard.beat(staying("a", 2, None)).statuses.contains(&SHUTDOWN));
    shard.beat(staying("b", -1, None));
    let last = shard.beat(joining("a", "p"));
    assert!(last.statuses.contains(&SHUTDOWN));
    shard.beat(staying("a", -1, None));
    assert!(!shard.beat(joining("a", "p")).statuses.contains(&SHUTDOWN));
}

#[test]
fn wrong_topologies_are_refused_and_make_no_group() {
    let twice = || vec![subtopology("0", "t"), subtopology("0", "u")];
    let invalid: [(&str, Vec<StreamsGroupSubtopology<'static>>); 5] = [
        ("an id twice", twice()),
        (
            "no source",
            vec![StreamsGroupSubtopology { source_topics: Vec::new(), ..subtopology("0", "t") }],
        ),
        (
            "a negative number",
            vec![StreamsGroupSubtopology {
                repartition_source_topics: vec![internal("r", -1)],
                ..subtopology("0", "t")
            }],
        ),
        (
            "a repartition topic without a writer",
            vec![StreamsGroupSubtopology {
                repartition_source_topics: vec![internal("r", 0)],
                ..subtopology("0", "t")
            }],
        ),
        (
            "a copartition group of no topic",
            vec![StreamsGroupSubtopology {
                copartition_groups: vec![StreamsGroupCopartitionGroup {
                    source_topics: vec![0, 7],
                    ..Default::default()
                }],
                ..subtopology("0", "t")
            }],
        ),
    ];
    let mut shard = Shard::new();
    for (what, subtopologies) in invalid {
        let mut request = joining("a", "p");
        request.topology = Some(StreamsGroupTopology { epoch: 0, subtopologies });
        let answer = shard.beat(request);
        assert_eq!(answer.error, ErrorCode::StreamsInvalidTopology as i16, "{what}");
        assert_eq!(shard.coordinator.held().groups, 0, "{what}");
    }
    assert!(shard.log.is_empty());
}

#[test]
fn too_large_topologies_are_refused() {
    let mut shard = Shard::new();
    let name = "t".repeat(30_000);
    let mut request = joining("a", "p");
    let large = |number: usize| subtopology(format!("{number}").leak(), name.clone().leak());
    request.topology.as_mut().unwrap().subtopologies = (0..40).map(large).collect();
    assert_eq!(shard.beat(request).error, ErrorCode::UnknownServerError as i16);
    let mut request = joining("a", "p");
    shard.topics.make("wide", 1 << 20);
    let wide = |id| subtopology(id, "wide");
    request.topology.as_mut().unwrap().subtopologies = vec![wide("0"), wide("1")];
    assert_eq!(shard.beat(request).error, ErrorCode::StreamsInvalidTopology as i16);
    assert_eq!(shard.coordinator.held().groups, 0);
}

fn with_standbys() -> Config {
    Config { group_streams_num_standby_replicas: 1, ..config() }
}

/// A group whose members are in different states.
fn varied() -> Shard {
    let mut shard = Shard::with(with_standbys());
    shard.beat(joining("a", "p"));
    let tasks = shard.beat(joining("a", "p")).tasks.unwrap();
    let mut second = joining("b", "q");
    second.user_endpoint = Some(StreamsGroupEndpoint { host: "h".into(), port: 9_000 });
    second.client_tags = Some(vec![StreamsGroupKeyValue { key: "zone".into(), value: "z".into() }]);
    shard.beat(second);
    let epoch = shard.member_epoch("a");
    shard.beat(staying("a", epoch, Some(&tasks)));
    shard
}

#[test]
fn a_group_is_the_same_after_a_restart() {
    let mut shard = varied();
    let expected = durable(&mut shard.coordinator);
    let fingerprint = shard.coordinator.fingerprint(GROUP);
    let mut replayed = Coordinator::new(config());
    for (at, record) in shard.log.iter().enumerate() {
        replayed.replay(&read(record), at as u64 + 1);
    }
    assert_eq!(durable(&mut replayed), expected);
    assert_eq!(replayed.fingerprint(GROUP), fingerprint);
    let position = shard.position();
    let mut restored = open(with_standbys(), &snapshot(&mut shard.coordinator, position)).unwrap();
    assert_eq!(durable(&mut restored), expected);
    assert_eq!(restored.fingerprint(GROUP), fingerprint, "what is volatile is not in it");
    restored.loaded(shard.now, Wall(shard.now), &shard.topics);
    shard.coordinator = restored;
    let (epoch, written) = (shard.member_epoch("b"), shard.log.len());
    let answer = shard.beat(staying("b", epoch, None));
    assert_eq!((answer.error, shard.group_epoch()), (0, 3), "no new epoch after a load");
    assert!(shard.log.len() <= written + 1, "at most a step towards the target");
}

#[test]
fn the_audit_finds_that_the_records_make_the_same_group() {
    let mut shard = varied();
    let (id, audited) = shard.coordinator.audit_after(None).unwrap();
    assert_eq!((&*id, audited), (GROUP, Ok(())));
}
