//! Records and responses as lines of a script.

use crate::ids::short;
use muster_codec::consumer_protocol::ConsumerProtocolSubscription;
use muster_codec::messages::TxnOffsetCommitResponse;
use muster_codec::records::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue,
    ConsumerGroupOwnedTopicPartitions, GroupMetadataValue, GroupRecord,
};
use muster_codec::{ErrorCode, Response, Uuid};
use muster_coordinator::{CausedBy, Event, EventBody, OpenTransaction, Removal};

pub fn record(record: &GroupRecord<'_>) -> String {
    match record {
        GroupRecord::OffsetCommit(key, None) => {
            format!("  offset {} {}-{} gone", key.group, key.topic, key.partition)
        }
        GroupRecord::OffsetCommit(key, Some(value)) => {
            let mut line = format!(
                "  offset {} {}-{} {} {:?} at {}",
                key.group,
                key.topic,
                key.partition,
                value.offset,
                value.metadata,
                value.commit_timestamp
            );
            if value.expire_timestamp != -1 {
                line += &format!(" until {}", value.expire_timestamp);
            }
            if !value.topic_id.is_zero() {
                line += &format!(" of topic {}", value.topic_id.0[15]);
            }
            line
        }
        GroupRecord::GroupMetadata(key, None) => format!("  group {} gone", key.group),
        GroupRecord::GroupMetadata(key, Some(value)) => {
            format!("  group {} {}", key.group, metadata(value))
        }
        GroupRecord::ConsumerGroupMetadata(key, Some(value)) => {
            format!("  group {} epoch {}", key.group_id, value.epoch)
        }
        GroupRecord::ConsumerGroupMetadata(key, None) => format!("  group {} gone", key.group_id),
        GroupRecord::ConsumerGroupPartitionMetadata(key, value) => {
            format!("  partitions of {} {}", key.group_id, there(value))
        }
        GroupRecord::ConsumerGroupMemberMetadata(key, value) => match value {
            Some(value) => format!("  member {} {}", short(&key.member_id), profile(value)),
            None => format!("  member {} gone", short(&key.member_id)),
        },
        GroupRecord::ConsumerGroupTargetAssignmentMetadata(key, value) => match value {
            Some(value) => format!("  target of {} epoch {}", key.group_id, value.assignment_epoch),
            None => format!("  target of {} gone", key.group_id),
        },
        GroupRecord::ConsumerGroupTargetAssignmentMember(key, value) => match value {
            Some(value) => {
                let topics = value.topic_partitions.iter();
                let topics = topics.map(|it| partitions(&it.topic_id, &it.partitions));
                format!("  target {}{}", short(&key.member_id), topics.collect::<String>())
            }
            None => format!("  target {} gone", short(&key.member_id)),
        },
        GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value) => match value {
            Some(value) => format!("  current {} {}", short(&key.member_id), current(value)),
            None => format!("  current {} gone", short(&key.member_id)),
        },
        GroupRecord::ConsumerGroupRegularExpression(key, value) => match value {
            Some(value) => {
                format!("  regex {} matches {}", key.regular_expression, value.topics.join(" "))
            }
            None => format!("  regex {} gone", key.regular_expression),
        },
        // No script has share or streams groups: they are compared with Kafka's transcripts.
        GroupRecord::ShareGroupMetadata(..)
        | GroupRecord::ShareGroupMemberMetadata(..)
        | GroupRecord::ShareGroupTargetAssignmentMetadata(..)
        | GroupRecord::ShareGroupTargetAssignmentMember(..)
        | GroupRecord::ShareGroupCurrentMemberAssignment(..)
        | GroupRecord::ShareGroupStatePartitionMetadata(..)
        | GroupRecord::StreamsGroupMetadata(..)
        | GroupRecord::StreamsGroupMemberMetadata(..)
        | GroupRecord::StreamsGroupTargetAssignmentMetadata(..)
        | GroupRecord::StreamsGroupTargetAssignmentMember(..)
        | GroupRecord::StreamsGroupCurrentMemberAssignment(..)
        | GroupRecord::StreamsGroupTopology(..) => format!("  {record:?}"),
    }
}

fn there<T>(value: &Option<T>) -> &'static str {
    if value.is_some() { "there" } else { "gone" }
}

fn profile(value: &ConsumerGroupMemberMetadataValue<'_>) -> String {
    let instance = value.instance_id.as_deref().map(|it| format!("({it})")).unwrap_or_default();
    let regex = value.subscribed_topic_regex.as_deref().filter(|it| !it.is_empty());
    let regex = regex.map(|it| format!(" /{it}/")).unwrap_or_default();
    let classic = if value.classic_member_metadata.0.is_some() { " classic" } else { "" };
    let topics = value.subscribed_topic_names.join(",");
    format!("{instance}[{topics}]{regex} {}{classic}", value.rebalance_timeout_ms)
}

fn current(value: &ConsumerGroupCurrentMemberAssignmentValue) -> String {
    let state = match value.state {
        0 => "stable",
        1 => "unrevoked",
        2 => "unreleased",
        _ => "unknown",
    };
    let of = |all: &[ConsumerGroupOwnedTopicPartitions]| -> String {
        all.iter().map(|it| partitions(&it.topic_id, &it.partitions)).collect()
    };
    let revoking = of(&value.partitions_pending_revocation);
    let revoking = if revoking.is_empty() { revoking } else { format!(" revoking{revoking}") };
    let (epoch, assigned) = (value.member_epoch, of(&value.assigned_partitions));
    format!("{state} {epoch} after {}{assigned}{revoking}", value.previous_member_epoch)
}

fn partitions(topic_id: &Uuid, partitions: &[i32]) -> String {
    format!(" {}:{partitions:?}", topic_id.0[15]).replace(", ", ",")
}

fn metadata(value: &GroupMetadataValue<'_>) -> String {
    let members = value.members.iter().map(|member| {
        let instance = member.group_instance_id.as_deref();
        let instance = instance.map(|it| format!("({it})")).unwrap_or_default();
        format!(
            " {}{instance} {}/{} [{}] <{}>",
            short(&member.member_id),
            member.session_timeout,
            member.rebalance_timeout,
            text(&member.subscription),
            text(&member.assignment),
        )
    });
    format!(
        "generation {} type {:?} protocol {} leader {} since {}{}",
        value.generation,
        value.protocol_type,
        value.protocol.as_deref().unwrap_or("-"),
        value.leader.as_deref().map(short).unwrap_or("none".to_owned()),
        value.current_state_timestamp,
        members.collect::<String>(),
    )
}

/// Metadata or an assignment as text: the topics of a subscription, or the bytes themselves.
fn text(bytes: &[u8]) -> String {
    match ConsumerProtocolSubscription::read(bytes) {
        Ok(subscription) if bytes.starts_with(&[0, 0]) => subscription.topics.join(","),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

pub fn error(code: i16) -> String {
    match ErrorCode::from_code(code).unwrap() {
        ErrorCode::None => "ok".to_owned(),
        error => format!("{error:?}"),
    }
}

pub fn response(response: &Response<'_>) -> String {
    match response {
        Response::JoinGroup(it) if it.error_code != 0 => {
            format!("{} member {}", error(it.error_code), short(&it.member_id))
        }
        Response::JoinGroup(it) => {
            let members = it.members.iter().map(|member| {
                let instance = member.group_instance_id.as_deref();
                let instance = instance.map(|it| format!("({it})")).unwrap_or_default();
                format!(" {}{instance} [{}]", short(&member.member_id), text(&member.metadata))
            });
            format!(
                "member {} generation {} protocol {} leader {}{}{}",
                short(&it.member_id),
                it.generation_id,
                it.protocol_name.as_deref().unwrap_or("-"),
                short(&it.leader),
                if it.skip_assignment { " skip" } else { "" },
                members.collect::<String>(),
            )
        }
        Response::SyncGroup(it) if it.error_code != 0 => error(it.error_code),
        Response::SyncGroup(it) => {
            let protocol = it.protocol_name.as_deref().unwrap_or("-");
            format!("<{}> protocol {protocol}", text(&it.assignment))
        }
        Response::Heartbeat(it) => error(it.error_code),
        Response::ConsumerGroupHeartbeat(it) if it.error_code != 0 => error(it.error_code),
        Response::ConsumerGroupHeartbeat(it) => {
            let owned = it.assignment.as_ref().map(|assignment| {
                let topics = assignment.topic_partitions.iter();
                let topics = topics.map(|it| partitions(&it.topic_id, &it.partitions));
                format!(" owns{}", topics.collect::<String>())
            });
            format!("epoch {}{}", it.member_epoch, owned.unwrap_or_default())
        }
        Response::ConsumerGroupDescribe(it) => {
            let groups = it.groups.iter().map(|group| {
                let members = group.members.iter().map(|member| {
                    let kind = if member.member_type == 0 { " classic" } else { "" };
                    format!(", {} epoch {}{kind}", short(&member.member_id), member.member_epoch)
                });
                let (epoch, target) = (group.group_epoch, group.assignment_epoch);
                let (state, assignor) = (&group.group_state, &group.assignor_name);
                let error = error(group.error_code);
                let members = members.collect::<String>();
                let may = operations(group.authorized_operations);
                format!("{error} {state} epoch {epoch} target {target} by {assignor}{members}{may}")
            });
            groups.collect::<Vec<_>>().join("; ")
        }
        Response::LeaveGroup(it) => {
            let members = it.members.iter().map(|member| {
                let instance = member.group_instance_id.as_deref();
                let instance = instance.map(|it| format!("({it})")).unwrap_or_default();
                format!(", {}{instance} {}", short(&member.member_id), error(member.error_code))
            });
            error(it.error_code) + &members.collect::<String>()
        }
        Response::OffsetCommit(it) => {
            let partitions = it.topics.iter().flat_map(|topic| {
                topic.partitions.iter().map(|partition| {
                    let topic = if topic.name.is_empty() { "id" } else { &topic.name };
                    format!("{topic}-{} {}", partition.partition_index, error(partition.error_code))
                })
            });
            partitions.collect::<Vec<_>>().join(", ")
        }
        Response::OffsetFetch(it) => fetched(it),
        Response::OffsetDelete(it) => {
            let partitions = it.topics.iter().flat_map(|topic| {
                topic.partitions.iter().map(|partition| {
                    let error = error(partition.error_code);
                    format!(", {}-{} {error}", topic.name, partition.partition_index)
                })
            });
            error(it.error_code) + &partitions.collect::<String>()
        }
        Response::ListGroups(it) => {
            let groups = it.groups.iter().map(|group| {
                let kind = &group.group_type;
                format!(
                    ", {} {} {:?} {kind}",
                    group.group_id, group.group_state, group.protocol_type
                )
            });
            error(it.error_code) + &groups.collect::<String>()
        }
        Response::DescribeGroups(it) => {
            let groups = it.groups.iter().map(|group| {
                let members = group.members.iter().map(|member| {
                    format!(
                        " {}@{}{} [{}] <{}>",
                        short(&member.member_id),
                        member.client_id,
                        member.client_host,
                        text(&member.member_metadata),
                        text(&member.member_assignment),
                    )
                });
                format!(
                    "{} {} {} type {:?} protocol {:?}{}{}",
                    group.group_id,
                    error(group.error_code),
                    group.group_state,
                    group.protocol_type,
                    group.protocol_data,
                    members.collect::<String>(),
                    operations(group.authorized_operations),
                )
            });
            groups.collect::<Vec<_>>().join(", ")
        }
        Response::DeleteGroups(it) => {
            let results =
                it.results.iter().map(|it| format!("{} {}", it.group_id, error(it.error_code)));
            results.collect::<Vec<_>>().join(", ")
        }
        other => panic!("{other:?} is not a coordinator's"),
    }
}

/// The authorized operations on a group, if the client asked for them.
fn operations(operations: i32) -> String {
    if operations == i32::MIN { String::new() } else { format!(" may {operations}") }
}

pub fn transactional(it: &TxnOffsetCommitResponse<'_>) -> String {
    let partitions = it.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| {
            let topic = if topic.name.is_empty() { "id" } else { &topic.name };
            format!("{topic}-{} {}", partition.partition_index, error(partition.error_code))
        })
    });
    partitions.collect::<Vec<_>>().join(", ")
}

/// An event of a group, with its causes and their members.
pub fn event(event: &Event) -> String {
    let (group, protocol, at) = (&event.group_id, event.protocol, event.at.0);
    let what = match &event.body {
        EventBody::Rebalanced(it) => {
            let named = |cause| it.causes.named_for(cause).map(caused_by).collect::<String>();
            let causes = it.causes.iter();
            let causes = causes.map(|(cause, n)| format!("; {n} {}{}", cause.name(), named(cause)));
            let moved = if it.moved.has_more { " and more" } else { "" };
            format!(
                "rebalanced to {} in {} ms, restarts {}: members {}, moved {}, partitions {}\
                 {moved}{}",
                it.epoch,
                it.took_ms,
                it.restarts,
                it.members,
                it.moved.members,
                it.moved.partitions,
                causes.collect::<String>()
            )
        }
        EventBody::Refused(it) => {
            format!("refused {} of {}: {:?}", it.client_id, it.client_host, it.error)
        }
        EventBody::Removed(Removal { member_id, why, silent_ms, .. }) => {
            format!("removed {}: {}, silent {silent_ms} ms", short(member_id), why.name())
        }
    };
    format!("  {protocol} {group} at {at} {what}")
}

fn caused_by(by: &CausedBy) -> String {
    let client = by.client.as_ref().map(|it| format!(" of {} at {}", it.id, it.host));
    let reason = by.reason.as_ref().map(|it| format!(" {it:?}"));
    let said = [client, reason].into_iter().flatten().collect::<String>();
    format!(" {}{said}", short(&by.member_id))
}

pub fn open(it: OpenTransaction<'_>) -> String {
    format!("  {}/{} in {}", it.producer.id, it.producer.epoch, it.group_id)
}

fn fetched(it: &muster_codec::messages::OffsetFetchResponse<'_>) -> String {
    let line = |topic: &str, partition: i32, offset: i64, metadata: Option<&str>, code: i16| {
        let metadata = metadata.filter(|it| !it.is_empty());
        let metadata = metadata.map(|it| format!(" {it:?}")).unwrap_or_default();
        let code = if code == 0 { String::new() } else { format!(" {}", error(code)) };
        format!(" {topic}-{partition} {offset}{metadata}{code}")
    };
    let single = it.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|it| {
            let metadata = it.metadata.as_deref();
            line(&topic.name, it.partition_index, it.committed_offset, metadata, it.error_code)
        })
    });
    let groups = it.groups.iter().map(|group| {
        let offsets = group.topics.iter().flat_map(|topic| {
            let name = if topic.topic_id.is_zero() {
                topic.name.to_string()
            } else {
                format!("id{}", topic.topic_id.0[15])
            };
            topic.partitions.iter().map(move |it| {
                let metadata = it.metadata.as_deref();
                line(&name, it.partition_index, it.committed_offset, metadata, it.error_code)
            })
        });
        format!(" {}:{}", group.group_id, offsets.collect::<String>())
    });
    error(it.error_code) + &single.chain(groups).collect::<String>()
}
