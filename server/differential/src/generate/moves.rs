//! Requests about replica assignments, elections, feature levels, and the quorum of controllers.

use crate::world::World;
use muster_codec::Request;
use muster_codec::messages::*;

/// Always names partitions, because histories see each other's topics.
pub(super) fn elect_leaders(world: &mut World) -> Request<'static> {
    let topic = |world: &mut World| TopicPartitionsToElect {
        topic: world.topic().name.into(),
        partitions: world.some(2, |it| *it, index),
    };
    ElectLeadersRequest {
        election_type: world.one(&[0, 0, 1, 1, 2, -1]),
        topic_partitions: Some(world.some(2, |it| it.topic.clone(), topic)),
        timeout_ms: world.timeout(),
    }
    .into()
}

/// Each new assignment is either the current one, or one that a server must refuse.
pub(super) fn alter_partition_reassignments(world: &mut World) -> Request<'static> {
    let partition = |world: &mut World| ReassignablePartition {
        partition_index: index(world),
        replicas: world.one(&[
            Some(vec![0]),
            Some(vec![0]),
            None,
            Some(vec![]),
            Some(vec![77]),
            Some(vec![0, 0]),
            Some(vec![-1]),
        ]),
    };
    let topic = |world: &mut World| ReassignableTopic {
        name: world.topic().name.into(),
        partitions: world.some(2, |it| it.partition_index, partition),
    };
    AlterPartitionReassignmentsRequest {
        timeout_ms: world.timeout(),
        allow_replication_factor_change: world.chance(50),
        topics: world.some(2, |it| it.name.clone(), topic),
    }
    .into()
}

/// Names only directories that exist on neither server.
pub(super) fn alter_replica_log_dirs(world: &mut World) -> Request<'static> {
    let topic = |world: &mut World| AlterReplicaLogDirTopic {
        name: world.topic().name.into(),
        partitions: world.some(2, |it| *it, index),
    };
    let dir = |world: &mut World| AlterReplicaLogDir {
        path: world.one(&["/nowhere", "", "nowhere"]).into(),
        topics: world.some(2, |it| it.name.clone(), topic),
    };
    AlterReplicaLogDirsRequest { dirs: world.some(1, |it| it.path.clone(), dir) }.into()
}

/// Requests only current levels, or levels that must be refused. Others would affect all histories.
pub(super) fn update_features(world: &mut World) -> Request<'static> {
    let update = |world: &mut World| {
        let (feature, max_version_level) = world.one(&[
            ("group.version", 1),
            ("transaction.version", 2),
            ("share.version", 2),
            ("group.version", 99),
            ("share.version", -1),
            ("no.such.feature", 1),
            ("", 0),
        ]);
        FeatureUpdateKey {
            feature: feature.into(),
            max_version_level,
            allow_downgrade: world.chance(30),
            upgrade_type: world.one(&[1, 1, 1, 2, 3, 0, 4]),
        }
    };
    UpdateFeaturesRequest {
        timeout_ms: world.timeout(),
        feature_updates: world.some(2, |it| it.feature.clone(), update),
        validate_only: world.chance(30),
    }
    .into()
}

/// Names only partitions that do not exist. The existing one, the log of Kafka's controller, has
/// offsets that muster cannot equal.
pub(super) fn describe_quorum(world: &mut World) -> Request<'static> {
    let topic = |world: &mut World| DescribeQuorumTopic {
        topic_name: world.one(&["no-topic", "", "__cluster_metadata"]).into(),
        partitions: world.some(
            2,
            |it: &DescribeQuorumPartition| it.partition_index,
            |world| DescribeQuorumPartition { partition_index: world.one(&[1, 7, -1]) },
        ),
    };
    DescribeQuorumRequest { topics: world.some(2, |it| it.topic_name.clone(), topic) }.into()
}

/// Names controllers that do not exist, or the active one.
pub(super) fn unregister_controller(world: &mut World) -> Request<'static> {
    UnregisterControllerRequest { controller_id: world.one(&[0, 1, 77, -1, i32::MAX, i32::MIN]) }
        .into()
}

fn index(world: &mut World) -> i32 {
    world.one(&[0, 0, 0, 1, 7, -1])
}
