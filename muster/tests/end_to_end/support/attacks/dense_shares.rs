//! The densest requests of share groups: see `dense.rs`.

use super::dense::{Form, Target, indexes, names};
use muster_codec::messages::*;
use muster_codec::{ApiKey, Request};

/// The densest request of one of these APIs in this form.
///
/// # Panics
///
/// The API is another one.
pub(super) fn request(api: ApiKey, form: Form, target: &Target) -> Request<'static> {
    let (group_id, topic_id) = (target.consumer.clone(), target.topic_id);
    let all = indexes(form, target);
    match api {
        ApiKey::ShareGroupHeartbeat => share_heartbeat(form, target).into(),
        ApiKey::ShareGroupDescribe => {
            let group_ids = names(form, &target.consumer);
            ShareGroupDescribeRequest { group_ids, include_authorized_operations: true }.into()
        }
        ApiKey::DescribeShareGroupOffsets => {
            let group = |group_id| DescribeShareGroupOffsetsRequestGroup { group_id, topics: None };
            let groups = names(form, &target.consumer).into_iter().map(group).collect();
            DescribeShareGroupOffsetsRequest { groups }.into()
        }
        ApiKey::AlterShareGroupOffsets => alter_share_offsets(form, target).into(),
        ApiKey::DeleteShareGroupOffsets => delete_share_offsets(form, target).into(),
        ApiKey::ShareFetch => {
            let partition = |partition_index| ShareFetchPartition {
                partition_index,
                acknowledgement_batches: Vec::new(),
            };
            let partitions = all.into_iter().map(partition).collect();
            ShareFetchRequest {
                group_id: Some(group_id.into()),
                member_id: Some("m".into()),
                max_records: i32::MAX,
                topics: vec![ShareFetchTopic { topic_id, partitions }],
                ..Default::default()
            }
            .into()
        }
        ApiKey::ShareAcknowledge => {
            let partition = |partition_index| ShareAcknowledgePartition {
                partition_index,
                acknowledgement_batches: vec![AcknowledgementBatch {
                    acknowledge_types: vec![1],
                    ..Default::default()
                }],
            };
            let partitions = all.into_iter().map(partition).collect();
            ShareAcknowledgeRequest {
                group_id: Some(group_id.into()),
                member_id: Some("m".into()),
                share_session_epoch: 1,
                topics: vec![ShareAcknowledgeTopic { topic_id, partitions }],
                ..Default::default()
            }
            .into()
        }
        ApiKey::InitializeShareGroupState => {
            let partition = |partition| InitializeStatePartition {
                partition,
                state_epoch: 1,
                start_offset: -1,
            };
            let partitions = all.into_iter().map(partition).collect();
            let topics = vec![InitializeStateTopic { topic_id, partitions }];
            InitializeShareGroupStateRequest { group_id: group_id.into(), topics }.into()
        }
        ApiKey::ReadShareGroupState => {
            let partition = |partition| ReadStatePartition { partition, leader_epoch: 0 };
            let partitions = all.into_iter().map(partition).collect();
            let topics = vec![ReadStateTopic { topic_id, partitions }];
            ReadShareGroupStateRequest { group_id: group_id.into(), topics }.into()
        }
        ApiKey::WriteShareGroupState => {
            let partition = |partition| WriteStatePartition { partition, ..Default::default() };
            let partitions = all.into_iter().map(partition).collect();
            let topics = vec![WriteStateTopic { topic_id, partitions }];
            WriteShareGroupStateRequest { group_id: group_id.into(), topics }.into()
        }
        ApiKey::DeleteShareGroupState => {
            let partition = |partition| DeleteStatePartition { partition };
            let partitions = all.into_iter().map(partition).collect();
            let topics = vec![DeleteStateTopic { topic_id, partitions }];
            DeleteShareGroupStateRequest { group_id: group_id.into(), topics }.into()
        }
        ApiKey::ReadShareGroupStateSummary => {
            let partition = |partition| ReadStateSummaryPartition { partition, leader_epoch: 0 };
            let partitions = all.into_iter().map(partition).collect();
            let topics = vec![ReadStateSummaryTopic { topic_id, partitions }];
            ReadShareGroupStateSummaryRequest { group_id: group_id.into(), topics }.into()
        }
        other => panic!("{other:?} is no API of share groups"),
    }
}

fn share_heartbeat(form: Form, target: &Target) -> ShareGroupHeartbeatRequest<'static> {
    ShareGroupHeartbeatRequest {
        group_id: target.consumer.clone().into(),
        member_id: "m".into(),
        subscribed_topic_names: Some(names(form, &target.topic)),
        ..Default::default()
    }
}

fn alter_share_offsets(form: Form, target: &Target) -> AlterShareGroupOffsetsRequest<'static> {
    let topic = |topic_name| AlterShareGroupOffsetsRequestTopic {
        topic_name,
        partitions: vec![AlterShareGroupOffsetsRequestPartition::default()],
    };
    let topics = names(form, &target.topic).into_iter().map(topic).collect();
    AlterShareGroupOffsetsRequest { group_id: target.consumer.clone().into(), topics }
}

fn delete_share_offsets(form: Form, target: &Target) -> DeleteShareGroupOffsetsRequest<'static> {
    let topic = |topic_name| DeleteShareGroupOffsetsRequestTopic { topic_name };
    let topics = names(form, &target.topic).into_iter().map(topic).collect();
    DeleteShareGroupOffsetsRequest { group_id: target.consumer.clone().into(), topics }
}
