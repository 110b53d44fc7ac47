//! Transactions that commit offsets together with records, on one shard and on two. The tests check
//! over the wire which offsets a group has after commits, aborts, timeouts, fences and kill -9.

use crate::support::transactional::{Producer, Version, settled, settled_offset, stable_offset};
use crate::support::{Server, create_topic};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response};

const TOPIC: &str = "payments";
/// Groups in several slots, so that both of two shards coordinate some.
const GROUPS: [&str; 5] = ["a", "b", "c", "billing", "g"];

fn server(shards: u16) -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let configs = ["transaction.abort.timed.out.transaction.cleanup.interval.ms=50"];
    let server = Server::start(directory.path(), shards, &configs);
    create_topic(&server, TOPIC, 4);
    (directory, server)
}

/// Runs `act` with each number of shards and each version of the clients.
fn each(mut act: impl FnMut(u16, Version)) {
    for shards in [1, 2] {
        [Version::One, Version::Two].iter().for_each(|version| act(shards, *version));
    }
}

/// Sends a record, and commits an offset for each group.
fn work(server: &Server, producer: &mut Producer, value: &str, offset: i64) {
    assert_eq!(producer.send(server, 0, value), 0, "{producer:?}");
    for group in GROUPS {
        assert_eq!(producer.commit(server, group, offset), 0, "{producer:?} {group}");
    }
}

#[test]
fn offsets_are_committed_or_dropped_with_the_records() {
    each(|shards, version| {
        let (_directory, server) = server(shards);
        let mut producer = Producer::begin(&server, "t", version, TOPIC);
        for (round, commits) in [(1, true), (2, false), (3, true), (4, false)] {
            work(&server, &mut producer, &round.to_string(), round);
            let unstable = Err(ErrorCode::UnstableOffsetCommit.code());
            assert_eq!(stable_offset(&server, "a", TOPIC), unstable, "{shards} {version:?}");
            assert_eq!(producer.end(&server, commits), 0, "{shards} {version:?}");
            let expected = if commits { round } else { round - 1 };
            for group in GROUPS {
                let found = settled_offset(&server, group, TOPIC);
                assert_eq!(found, expected, "{shards} {version:?} {group}");
            }
        }
        assert_eq!(settled(&server, TOPIC, 0), ["1", "3"], "{shards} {version:?}");
    });
}

#[test]
fn a_decision_that_was_answered_survives_kill_9_before_its_markers() {
    each(|shards, version| {
        let (_directory, mut server) = server(shards);
        let mut expected = -1;
        for (round, commits) in [(1, true), (2, false), (3, true)] {
            let mut producer = Producer::begin(&server, "t", version, TOPIC);
            work(&server, &mut producer, &round.to_string(), round);
            assert_eq!(producer.end(&server, commits), 0);
            server.kill();
            server = server.restart();
            expected = if commits { round } else { expected };
            for group in GROUPS {
                let found = settled_offset(&server, group, TOPIC);
                assert_eq!(found, expected, "{shards} {version:?} {group}");
            }
        }
        assert_eq!(settled(&server, TOPIC, 0), ["1", "3"], "{shards} {version:?}");
    });
}

#[test]
fn an_open_transaction_continues_after_kill_9() {
    each(|shards, version| {
        let (_directory, mut server) = server(shards);
        let mut producer = Producer::begin(&server, "t", version, TOPIC);
        work(&server, &mut producer, "before", 1);
        server.kill();
        let server = server.restart();
        let unstable = Err(ErrorCode::UnstableOffsetCommit.code());
        assert_eq!(stable_offset(&server, "a", TOPIC), unstable, "{shards} {version:?}");
        work(&server, &mut producer, "after", 2);
        assert_eq!(producer.end(&server, true), 0);
        for group in GROUPS {
            assert_eq!(settled_offset(&server, group, TOPIC), 2, "{shards} {version:?} {group}");
        }
        assert_eq!(settled(&server, TOPIC, 0), ["before", "after"], "{shards} {version:?}");
    });
}

#[test]
fn offsets_of_a_transaction_that_takes_too_long_are_dropped() {
    each(|shards, version| {
        let (_directory, server) = server(shards);
        let producer = Producer::begin_with_timeout(&server, "t", version, TOPIC, 1_000);
        assert_eq!(producer.commit(&server, "a", 1), 0);
        assert_eq!(settled_offset(&server, "a", TOPIC), -1, "{shards} {version:?}");
    });
}

#[test]
fn a_fenced_producer_commits_no_offsets() {
    each(|shards, version| {
        let (_directory, server) = server(shards);
        let mut zombie = Producer::begin(&server, "t", version, TOPIC);
        assert_eq!(zombie.commit(&server, "a", 1), 0);
        let mut producer = Producer::begin(&server, "t", version, TOPIC);
        assert_eq!(settled_offset(&server, "a", TOPIC), -1, "the transaction was aborted");
        let fenced = ErrorCode::InvalidProducerEpoch.code();
        assert_eq!(zombie.commit_only(&server, "a", 2), fenced, "{shards} {version:?}");
        assert_eq!(zombie.commit_only(&server, "b", 2), fenced, "{shards} {version:?}");
        assert_eq!(zombie.end(&server, true), ErrorCode::ProducerFenced.code());
        assert_eq!(producer.commit(&server, "a", 3), 0);
        assert_eq!(producer.end(&server, true), 0);
        assert_eq!(settled_offset(&server, "a", TOPIC), 3, "{shards} {version:?}");
        assert_eq!(settled_offset(&server, "b", TOPIC), -1, "{shards} {version:?}");
    });
}

#[test]
fn offsets_of_a_group_that_was_not_added_are_refused() {
    for shards in [1, 2] {
        let (_directory, server) = server(shards);
        let mut producer = Producer::begin(&server, "t", Version::One, TOPIC);
        assert_eq!(producer.commit(&server, "a", 1), 0);
        for group in ["b", "c", "billing"] {
            let error = producer.commit_only(&server, group, 1);
            assert_eq!(error, ErrorCode::InvalidTxnState.code(), "{shards} {group}");
        }
        assert_eq!(producer.end(&server, true), 0);
        assert_eq!(settled_offset(&server, "a", TOPIC), 1);
        assert_eq!(settled_offset(&server, "b", TOPIC), -1);
    }
}

/// The partitions of `__consumer_offsets` that have producers, and the first producer of each.
fn producers_of_offsets(server: &Server) -> Vec<(u16, i32, DescribedProducer)> {
    let topic = DescribeProducersTopic {
        name: "__consumer_offsets".into(),
        partition_indexes: (0..50).collect(),
    };
    let request = DescribeProducersRequest { topics: vec![topic] };
    let of_shard = |shard: u16| {
        let response = server.client(shard).call(0, request.clone().into());
        let Response::DescribeProducers(body) = response else { panic!("{response:?}") };
        let partitions = body.topics.into_iter().flat_map(|topic| topic.partitions);
        partitions.filter_map(move |it| {
            Some((shard, it.partition_index, it.active_producers.into_iter().next()?))
        })
    };
    (0..server.shards).flat_map(of_shard).collect()
}

#[test]
fn the_first_offset_of_an_open_transaction_is_described_after_kill_9() {
    each(|shards, version| {
        let (_directory, mut server) = server(shards);
        let mut producer = Producer::begin(&server, "t", version, TOPIC);
        assert_eq!(producer.commit(&server, "a", 1), 0);
        assert_eq!(producer.end(&server, false), 0);
        assert_eq!(settled_offset(&server, "a", TOPIC), -1);
        assert_eq!(producer.commit(&server, "a", 2), 0);
        let described = |server: &Server| {
            let all = producers_of_offsets(server).into_iter();
            let untimed = |it| DescribedProducer { last_timestamp: 0, ..it };
            all.map(|(shard, index, it)| (shard, index, untimed(it))).collect::<Vec<_>>()
        };
        let before = described(&server);
        let [(.., open)] = &before[..] else { panic!("{before:?}") };
        assert_eq!(open.current_txn_start_offset, 2, "{shards} {version:?}");
        server.kill();
        server = server.restart();
        assert_eq!(described(&server), before, "{shards} {version:?}");
    });
}

/// Writes a marker to a partition of `__consumer_offsets`, which ends the transaction there. The
/// tool `kafka-transactions` does so. Returns the error code.
fn mark(server: &Server, (shard, partition): (u16, i32), marker: WritableTxnMarker<'_>) -> i16 {
    let topic = WritableTxnMarkerTopic {
        name: "__consumer_offsets".into(),
        partition_indexes: vec![partition],
    };
    let markers = vec![WritableTxnMarker { topics: vec![topic], ..marker }];
    let response = server.client(shard).call(1, WriteTxnMarkersRequest { markers }.into());
    let Response::WriteTxnMarkers(body) = response else { panic!("{response:?}") };
    body.markers[0].topics[0].partitions[0].error_code
}

#[test]
fn an_administrator_ends_a_transaction_of_offsets() {
    each(|shards, version| {
        let (_directory, mut server) = server(shards);
        let producer = Producer::begin(&server, "t", version, TOPIC);
        assert_eq!(producer.commit(&server, "a", 7), 0);
        let described = producers_of_offsets(&server);
        let [(shard, partition, open)] = &described[..] else { panic!("{described:?}") };
        let Producer { producer_id, epoch, .. } = producer;
        assert_eq!((open.producer_id, open.producer_epoch), (producer_id, epoch.into()));
        assert_eq!((open.last_sequence, open.coordinator_epoch), (-1, -1));
        assert_eq!(open.current_txn_start_offset, 0);

        let place = (*shard, *partition);
        let commit = WritableTxnMarker {
            producer_id,
            producer_epoch: epoch,
            transaction_result: true,
            coordinator_epoch: 1_000,
            ..Default::default()
        };
        assert_eq!(mark(&server, place, commit.clone()), 0, "{shards} {version:?}");
        assert_eq!(stable_offset(&server, "a", TOPIC), Ok(7), "{shards} {version:?}");
        let (.., ended) = &producers_of_offsets(&server)[0];
        assert_eq!((ended.coordinator_epoch, ended.current_txn_start_offset), (1_000, -1));
        let fenced = WritableTxnMarker { coordinator_epoch: 999, ..commit };
        let error = mark(&server, place, fenced);
        assert_eq!(error, ErrorCode::TransactionCoordinatorFenced.code());

        server.kill();
        let server = server.restart();
        assert_eq!(settled_offset(&server, "a", TOPIC), 7, "{shards} {version:?}");
    });
}
