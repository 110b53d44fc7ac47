//! ElectLeaders, reassignments and UpdateFeatures: requests that change nothing in muster.

use super::*;
use crate::cluster::leader;
use ErrorCode::{
    EligibleLeadersNotAvailable, InvalidReplicaAssignment, InvalidUpdateVersion, KafkaStorageError,
    LogDirNotFound, NoReassignmentInProgress, NotLeaderOrFollower, PreferredLeaderNotAvailable,
    RequestTimedOut,
};

/// A cluster in which partition 1 of t1 is offline.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(&[]);
    cluster.offline.set(1, [(T1, 1)].into());
    cluster
}

fn elected(election_type: i8, topics: Option<&[(&'static str, &[i32])]>) -> Vec<ErrorCode> {
    let of = |(topic, partitions): &(&'static str, &[i32])| TopicPartitionsToElect {
        topic: (*topic).into(),
        partitions: partitions.to_vec(),
    };
    let topic_partitions = topics.map(|topics| topics.iter().map(of).collect());
    let request = ElectLeadersRequest { election_type, topic_partitions, timeout_ms: 1_000 };
    let cluster = cluster();
    let answer = elect_leaders(&cluster.view(), &request);
    let results = answer.replica_election_results.iter();
    let results = results.flat_map(|it| &it.partition_result).map(|it| code(it.error_code));
    std::iter::once(code(answer.error_code)).chain(results).collect()
}

#[test]
fn an_election_is_not_needed_or_has_no_candidate() {
    let named = [("t1", &[0, 1, 3, -1][..]), ("none", &[0])];
    let unknown = UnknownTopicOrPartition;
    for (election_type, failed) in
        [(0, PreferredLeaderNotAvailable), (1, EligibleLeadersNotAvailable)]
    {
        let each = [ErrorCode::ElectionNotNeeded, failed, unknown, unknown, unknown];
        assert_eq!(elected(election_type, Some(&named))[1..], each);
        assert_eq!(elected(election_type, None), [ErrorCode::None, failed]);
    }
    assert_eq!(elected(2, Some(&[("t1", &[0])])), [InvalidRequest, InvalidRequest]);
    assert_eq!(elected(2, Some(&[])), [ErrorCode::None]);
}

fn reassigned(timeout_ms: i32, partitions: &[(i32, Option<&[i32]>)]) -> Vec<ErrorCode> {
    let of = |(partition_index, replicas): &(i32, Option<&[i32]>)| ReassignablePartition {
        partition_index: *partition_index,
        replicas: replicas.map(<[i32]>::to_vec),
    };
    let partitions = partitions.iter().map(of).collect();
    let topics = vec![ReassignableTopic { name: "t1".into(), partitions }];
    let request = AlterPartitionReassignmentsRequest { timeout_ms, topics, ..Default::default() };
    let cluster = cluster();
    let answer = alter_partition_reassignments(&cluster.view(), &request);
    let results = answer.responses.iter().flat_map(|it| &it.partitions);
    let results = results.map(|it| code(it.error_code));
    std::iter::once(code(answer.error_code)).chain(results).collect()
}

#[test]
fn a_partition_may_be_reassigned_to_where_it_is() {
    let cluster = cluster();
    let topic = cluster.image.topic("t1").unwrap();
    let here = leader(topic, 0, cluster.view().placement) as i32;
    let invalid = InvalidReplicaAssignment;
    let cases: [(i32, Option<&[i32]>, ErrorCode); 8] = [
        (0, Some(&[here]), ErrorCode::None),
        (0, Some(&[1 - here]), invalid),
        (0, Some(&[0, 1]), invalid),
        (0, Some(&[here, here]), invalid),
        (0, Some(&[2]), invalid),
        (0, Some(&[]), invalid),
        (0, None, NoReassignmentInProgress),
        (3, Some(&[here]), UnknownTopicOrPartition),
    ];
    for (index, replicas, expected) in cases {
        let answer = reassigned(1_000, &[(index, replicas)]);
        assert_eq!(answer, [ErrorCode::None, expected], "{replicas:?}");
    }
    assert_eq!(reassigned(0, &[(0, None)]), [RequestTimedOut, RequestTimedOut]);
}

#[test]
fn a_replica_stays_in_its_directory() {
    let cluster = cluster();
    let topic = cluster.image.topic("t1").unwrap();
    let placement = cluster.view().placement;
    let of = |path: &'static str, partition: i32| {
        let topics =
            vec![AlterReplicaLogDirTopic { name: "t1".into(), partitions: vec![partition] }];
        let request = AlterReplicaLogDirsRequest {
            dirs: vec![AlterReplicaLogDir { path: path.into(), topics }],
        };
        let shard = leader(topic, partition, placement);
        let at = |shard| {
            let view = View { shard, ..cluster.view() };
            let answer = alter_replica_log_dirs(&view, "/data", &request);
            code(answer.results[0].partitions[0].error_code)
        };
        [at(shard), at(1 - shard)]
    };
    assert_eq!(of("/data", 0), [ErrorCode::None, NotLeaderOrFollower]);
    assert_eq!(of("/data", 1), [KafkaStorageError, NotLeaderOrFollower]);
    assert_eq!(of("/data", 3), [UnknownTopicOrPartition; 2]);
    assert_eq!(of("/other", 0), [LogDirNotFound; 2]);
    let long = |length| {
        let topics =
            vec![AlterReplicaLogDirTopic { name: "n".repeat(length).into(), partitions: vec![0] }];
        let dirs = vec![AlterReplicaLogDir { path: "/other".into(), topics }];
        let request = AlterReplicaLogDirsRequest { dirs };
        let answer = alter_replica_log_dirs(&cluster.view(), "/data", &request);
        code(answer.results[0].partitions[0].error_code)
    };
    assert_eq!((long(213), long(214)), (LogDirNotFound, InvalidTopicException));
}

/// The expected answer is that of Kafka's `AlterReplicaLogDirsRequest.getErrorResponse`.
#[test]
fn a_request_that_is_refused_is_answered_as_it_was_asked() {
    let topic = |partitions: &[i32]| AlterReplicaLogDirTopic {
        name: "t1".into(),
        partitions: partitions.to_vec(),
    };
    let topics = vec![topic(&[-1, 0, -1]), topic(&[]), topic(&[0])];
    let dirs = vec![AlterReplicaLogDir { path: "/data".into(), topics }];
    let denied = ErrorCode::ClusterAuthorizationFailed;
    let answer = refused_log_dirs(&AlterReplicaLogDirsRequest { dirs }, denied);
    let named = answer.results.iter().map(|topic| {
        assert!(topic.partitions.iter().all(|it| it.error_code == denied.code()));
        topic.partitions.iter().map(|it| it.partition_index).collect()
    });
    assert_eq!(named.collect::<Vec<Vec<i32>>>(), [vec![-1, 0, -1], vec![], vec![0]]);
}

#[test]
fn features_stay_at_their_levels() {
    let of = |words: &[&str], version, feature: &'static str, level, upgrade_type| {
        let update = FeatureUpdateKey {
            feature: feature.into(),
            max_version_level: level,
            allow_downgrade: upgrade_type > 1,
            upgrade_type,
        };
        let feature_updates = vec![update];
        let request = UpdateFeaturesRequest { feature_updates, ..Default::default() };
        let cluster = Cluster::new(words);
        let answer = update_features(&cluster.view(), version, &request);
        (code(answer.error_code), answer.results.len())
    };
    let (done, refused) = (ErrorCode::None, InvalidUpdateVersion);
    assert_eq!(of(&[], 2, "share.version", 2, 1), (done, 0));
    assert_eq!(of(&[], 1, "share.version", 2, 1), (done, 1));
    assert_eq!(of(&[], 1, "share.version", 3, 1), (refused, 0));
    assert_eq!(of(&[], 1, "share.version", 1, 2), (refused, 0));
    assert_eq!(of(&[], 0, "share.version", 0, 2), (refused, 0));
    assert_eq!(of(&[], 1, "share.version", 2, 0), (refused, 0));
    assert_eq!(of(&[], 1, "metadata.version", 1, 1), (refused, 0));
    let classic = &["group.coordinator.rebalance.protocols=classic"];
    assert_eq!(of(classic, 1, "group.version", 1, 1), (refused, 0));
}
