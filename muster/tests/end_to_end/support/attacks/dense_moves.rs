//! The densest requests about reassignments, elections and feature levels.

use super::dense::{Form, Target, indexes, names};
use muster_codec::messages::*;

pub(super) fn log_dirs(form: Form, target: &Target) -> AlterReplicaLogDirsRequest<'static> {
    let (name, partitions) = (target.topic.clone().into(), indexes(form, target));
    let topics = vec![AlterReplicaLogDirTopic { name, partitions }];
    AlterReplicaLogDirsRequest { dirs: vec![AlterReplicaLogDir { path: "d".into(), topics }] }
}

pub(super) fn elections(form: Form, target: &Target) -> ElectLeadersRequest<'static> {
    let topics = match form {
        Form::All => None,
        form => {
            let (topic, partitions) = (target.topic.clone().into(), indexes(form, target));
            Some(vec![TopicPartitionsToElect { topic, partitions }])
        }
    };
    ElectLeadersRequest { topic_partitions: topics, ..Default::default() }
}

pub(super) fn reassignments(
    form: Form,
    target: &Target,
) -> AlterPartitionReassignmentsRequest<'static> {
    let of = |partition_index| ReassignablePartition { partition_index, replicas: Some(vec![0]) };
    let partitions = indexes(form, target).into_iter().map(of).collect();
    let topics = vec![ReassignableTopic { name: target.topic.clone().into(), partitions }];
    AlterPartitionReassignmentsRequest { topics, ..Default::default() }
}

pub(super) fn quorum(form: Form, target: &Target) -> DescribeQuorumRequest<'static> {
    let of = |partition_index| DescribeQuorumPartition { partition_index };
    let partitions = indexes(form, target).into_iter().map(of).collect();
    let topics = vec![DescribeQuorumTopic { topic_name: target.topic.clone().into(), partitions }];
    DescribeQuorumRequest { topics }
}

pub(super) fn features(form: Form) -> UpdateFeaturesRequest<'static> {
    let of = |feature| FeatureUpdateKey { feature, ..Default::default() };
    let feature_updates = names(form, "share.version").into_iter().map(of).collect();
    UpdateFeaturesRequest { feature_updates, validate_only: true, ..Default::default() }
}
