//! Transactions of producers, on one shard and on two. The tests check over the wire which records
//! a consumer of committed records sees after commits, aborts, timeouts, fences and kill -9.

use crate::support::offsets::muster_log;
use crate::support::transactional::{
    Producer, Version, committed, coordinator, ends, leader, settled,
};
use crate::support::{Server, command, create_topic, free_ports, said};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response};

const TOPIC: &str = "payments";
const SHARDS: [u16; 2] = [1, 2];
const VERSIONS: [Version; 2] = [Version::One, Version::Two];

fn server(shards: u16) -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let configs = ["transaction.abort.timed.out.transaction.cleanup.interval.ms=50"];
    let server = Server::start(directory.path(), shards, &configs);
    create_topic(&server, TOPIC, 4);
    (directory, server)
}

/// Runs `act` with each number of shards and each version of the clients.
fn each(mut act: impl FnMut(u16, Version)) {
    for shards in SHARDS {
        VERSIONS.iter().for_each(|version| act(shards, *version));
    }
}

#[test]
fn consumers_of_committed_records_see_what_was_committed() {
    each(|shards, version| {
        let (_directory, server) = server(shards);
        let mut producer = Producer::begin(&server, "t", version, TOPIC);
        for round in 0..4 {
            for partition in 0..4 {
                let value = format!("{round}-{partition}");
                assert_eq!(producer.send(&server, partition, &value), 0, "{shards} {version:?}");
            }
            let is_first = round == 0;
            if is_first {
                let (stable, end) = ends(&server, TOPIC, 0);
                assert_eq!((stable, end), (0, 1), "nothing is stable before the end");
            }
            assert_eq!(producer.end(&server, round % 2 == 0), 0, "{shards} {version:?}");
        }
        for partition in 0..4 {
            let expected = [0, 2].map(|round| format!("{round}-{partition}"));
            assert_eq!(settled(&server, TOPIC, partition), expected, "{shards} {version:?}");
        }
    });
}

#[test]
fn a_decision_that_was_answered_survives_kill_9_before_its_markers() {
    each(|shards, version| {
        for outcome in [true, false] {
            let (_directory, mut server) = server(shards);
            let mut producers: Vec<Producer> = (0..4)
                .map(|number| Producer::begin(&server, &format!("t{number}"), version, TOPIC))
                .collect();
            for producer in &mut producers {
                let value = producer.id.clone();
                (0..4).for_each(|it| assert_eq!(producer.send(&server, it, &value), 0));
                assert_eq!(producer.end(&server, outcome), 0);
            }
            server.kill();
            let server = server.restart();
            let ids = ["t0", "t1", "t2", "t3"];
            let expected = if outcome { &ids[..] } else { &[] };
            for partition in 0..4 {
                assert_eq!(settled(&server, TOPIC, partition), expected, "{shards} {version:?}");
            }
            // The producers can continue.
            for producer in &mut producers {
                assert_eq!(producer.send(&server, 0, "again"), 0, "{shards} {version:?}");
                assert_eq!(producer.end(&server, true), 0);
            }
            assert_eq!(settled(&server, TOPIC, 0).len(), expected.len() + 4);
        }
    });
}

#[test]
pub fn an_open_transaction_continues_after_kill_9() {
    each(|shards, version| {
        let (_directory, mut server) = server(shards);
        let mut producer = Producer::begin(&server, "t", version, TOPIC);
        (0..4).for_each(|it| assert_eq!(producer.send(&server, it, "before"), 0));
        server.kill();
        let server = server.restart();
        (0..4).for_each(|it| assert_eq!(producer.send(&server, it, "after"), 0));
        assert_eq!(producer.end(&server, true), 0);
        for partition in 0..4 {
            assert_eq!(settled(&server, TOPIC, partition), ["before", "after"]);
        }
    });
}

#[test]
fn a_second_producer_of_an_id_fences_the_first_and_aborts_its_transaction() {
    each(|shards, version| {
        let (_directory, server) = server(shards);
        let mut zombie = Producer::begin(&server, "t", version, TOPIC);
        assert_eq!(zombie.send(&server, 0, "zombie"), 0);
        let mut producer = Producer::begin(&server, "t", version, TOPIC);
        assert_ne!((zombie.producer_id, zombie.epoch), (producer.producer_id, producer.epoch));
        let fenced = ErrorCode::InvalidProducerEpoch.code();
        assert_eq!(zombie.send_only(&server, 0, "late"), fenced);
        assert_eq!(zombie.end(&server, true), ErrorCode::ProducerFenced.code());
        assert_eq!(producer.send(&server, 0, "new"), 0);
        assert_eq!(producer.end(&server, true), 0);
        assert_eq!(settled(&server, TOPIC, 0), ["new"], "{shards} {version:?}");
    });
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted() {
    each(|shards, version| {
        let (_directory, server) = server(shards);
        let mut producer = Producer::begin_with_timeout(&server, "t", version, TOPIC, 2_000);
        (0..4).for_each(|it| assert_eq!(producer.send(&server, it, "late"), 0));
        (0..4).for_each(|it| assert!(settled(&server, TOPIC, it).is_empty()));
        let error = producer.end(&server, true);
        assert_ne!(error, 0, "{shards} {version:?}");
    });
}

#[test]
fn a_batch_of_a_partition_that_was_not_added_is_refused() {
    for shards in SHARDS {
        let (_directory, server) = server(shards);
        let mut producer = Producer::begin(&server, "t", Version::One, TOPIC);
        assert_eq!(producer.send(&server, 0, "added"), 0);
        let error = producer.send_only(&server, 1, "not added");
        assert_eq!(error, ErrorCode::InvalidTxnState.code());
        assert_eq!(producer.end(&server, true), 0);
        assert_eq!((settled(&server, TOPIC, 0).len(), ends(&server, TOPIC, 1)), (1, (0, 0)));
    }
}

#[test]
fn transactions_are_listed_and_described() {
    let (_directory, server) = server(2);
    let ids: Vec<String> = (0..6).map(|number| format!("t{number}")).collect();
    for id in &ids {
        let mut producer = Producer::begin(&server, id, Version::One, TOPIC);
        assert_eq!(producer.send(&server, 0, id), 0);
    }
    let mut listed = Vec::new();
    for shard in 0..2 {
        let response = server.client(shard).call(2, ListTransactionsRequest::default().into());
        let Response::ListTransactions(body) = response else { panic!("{response:?}") };
        assert_eq!(body.error_code, 0);
        assert!(body.transaction_states.iter().all(|it| it.transaction_state == "Ongoing"));
        listed.extend(body.transaction_states.iter().map(|it| it.transactional_id.to_string()));
    }
    listed.sort();
    assert_eq!(listed, ids);
    for shard in 0..2 {
        let transactional_ids = ids.iter().map(|id| id.clone().into()).collect();
        let request = DescribeTransactionsRequest { transactional_ids };
        let response = server.client(shard).call(0, request.into());
        let Response::DescribeTransactions(body) = response else { panic!("{response:?}") };
        assert_eq!(body.transaction_states.len(), ids.len());
        for state in &body.transaction_states {
            let is_here = coordinator(&server, &state.transactional_id);
            let port = is_here.stream().peer_addr().unwrap().port();
            let expected = match port == server.port + shard {
                true => ErrorCode::None,
                false => ErrorCode::NotCoordinator,
            };
            assert_eq!(state.error_code, expected.code(), "{state:?}");
        }
    }
    assert!(committed(&server, TOPIC, 0).is_empty() && leader(&server, TOPIC, 0) < 2);
}

#[test]
fn transactions_survive_a_snapshot_and_a_change_of_the_number_of_shards() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), 2, &[]);
    create_topic(&server, TOPIC, 4);
    let begin = |id| Producer::begin(&server, id, Version::One, TOPIC);
    let mut producers: Vec<Producer> = ["a", "b", "c"].map(begin).into();
    for producer in &mut producers {
        (0..4).for_each(|it| assert_eq!(producer.send(&server, it, "one"), 0));
    }
    assert!(server.stop().success());
    drop(server);
    let mut server = Server::start(directory.path(), 3, &[]);
    for producer in &mut producers {
        (0..4).for_each(|it| assert_eq!(producer.send(&server, it, "two"), 0));
        assert_eq!(producer.end(&server, true), 0);
    }
    assert!(server.stop().success());
    let server = server.restart();
    for partition in 0..4 {
        assert_eq!(settled(&server, TOPIC, partition).len(), 6);
    }
}

#[test]
fn transactional_ids_have_partitions_of_their_own_number() {
    const CONFIGS: [&str; 2] =
        ["offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=7"];
    let directory = tempfile::tempdir().unwrap();
    let (data, words) = (directory.path(), directory.path().to_str().unwrap());
    let mut server = Server::start(data, 2, &CONFIGS);
    create_topic(&server, TOPIC, 1);
    let begin = |server: &Server, number| {
        Producer::begin(server, &format!("t{number}"), Version::Two, TOPIC)
    };
    let mut producers: Vec<Producer> = (0..16).map(|number| begin(&server, number)).collect();
    producers.iter_mut().for_each(|it| assert_eq!(it.send(&server, 0, "one"), 0));
    assert!(server.stop().success());
    // The existing data directory keeps its 7 partitions: the config is for new data directories.
    let mut server = Server::start(data, 3, &CONFIGS[..1]);
    assert_eq!(state_partitions(&server), 7);
    producers.iter_mut().for_each(|it| assert_eq!(it.end(&server, true), 0));
    assert_eq!(settled(&server, TOPIC, 0).len(), 16);
    assert!(server.stop().success());
    let others = [CONFIGS[0], "transaction.state.log.num.partitions=50"].map(str::to_owned);
    let refused = said(&command(data, free_ports(3), 3, &others).output().unwrap());
    assert!(refused.contains("written with transaction.state.log.num.partitions=7"), "{refused}");
    let verified = muster_log(["verify", words]);
    assert_eq!(verified.status, 0, "{verified:?}");
    std::fs::remove_file(data.join("meta.properties")).unwrap();
    let recover = ["recover", words, "--accept-loss", "--offsets-partitions", "3"];
    let wrong = muster_log(recover);
    assert!(wrong.error.contains("--transactions-partitions N"), "{wrong:?}");
    let recovered = muster_log(recover.iter().chain(&["--transactions-partitions", "7"]));
    assert_eq!(recovered.status, 0, "{recovered:?}");
    let server = Server::start(data, 3, &CONFIGS);
    for (number, old) in (0..).zip(&producers) {
        let new = begin(&server, number);
        assert_eq!(new.producer_id, old.producer_id);
        assert!(new.epoch > old.epoch);
    }
}

/// The number of partitions of `__transaction_state`.
fn state_partitions(server: &Server) -> usize {
    let name = Some("__transaction_state".into());
    let topics = Some(vec![MetadataRequestTopic { name, ..Default::default() }]);
    let request = MetadataRequest { topics, ..Default::default() };
    let response = server.client(0).call(12, request.into());
    let Response::Metadata(body) = response else { panic!("{response:?}") };
    body.topics[0].partitions.len()
}
