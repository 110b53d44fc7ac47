//! One group: members with assignments, committed offsets with lag, and recent rebalances with
//! causes.

use super::answer::{Answer, Refused, late};
use super::bounds::{ByPartition, bounds};
use super::share;
use crate::cluster::ClusterImage;
use crate::inquiry::{About, Finding, GroupFound};
use crate::operator::shards::Shards;
use crate::operator::{Query, SHARE};
use crate::partitions::PartitionId;
use muster_coordinator::{
    Assigned, AssignedTo, Cause, CausedBy, Causes, CommitView, Event, EventBody, GroupAsked,
    GroupView, MemberView, Rebalance,
};
use serde_json::{Value, json};

pub(super) fn answer(shards: &Shards, id: &str, query: &Query) -> Result<Value, Refused> {
    let asked = GroupAsked {
        group_id: id.into(),
        members_from: query.number("members_from", 0).map_err(Answer::malformed)?,
        commits_after: commits_after(query)?,
    };
    let shard = shards.placement().group_shard(id);
    let Some(Finding::Group(found)) = shards.ask(shard, About::Group(asked)) else {
        return Err(late(shard));
    };
    let GroupFound { view, rebalances, under_way } = *found;
    if view.is_none() && rebalances.is_empty() {
        return Err(Answer::unknown("there is no such group"));
    }
    let image = shards.image().ok_or_else(|| late(0))?;
    let of_history = rebalances.last().map_or("none", |event| event.protocol);
    let is_there = view.is_some();
    let view = view.unwrap_or_else(|| GroupView { state: "Dead", ..GroupView::default() });
    let commits = view.commits.iter();
    let known = commits.filter_map(|it| Some((image.topic(&it.topic)?, it.partition)));
    let ends = bounds(shards, known)?;
    let commit = |it: &CommitView| commit(it, &image, &ends);
    let is_of_shares = view.kind == Some(SHARE);
    let found = is_of_shares.then(|| share::partitions(shards, &image, id)).transpose()?;
    let (shares, has_more_shares) = found.unwrap_or_default();
    let next_commit = view.commits.last().filter(|_| view.has_more_commits);
    Ok(json!({
        "id": id,
        "shard": shard,
        "exists": is_there,
        "kind": view.kind.unwrap_or(of_history),
        "state": view.state,
        "protocol_type": view.protocol_type.as_deref(),
        "protocol": view.protocol.as_deref(),
        "epoch": view.epoch,
        "target_epoch": view.target_epoch,
        "members": view.members,
        "shown": view.shown.iter().map(|it| member(it, &image)).collect::<Vec<_>>(),
        "next_member": view.next_member,
        "offsets": view.offsets,
        "commits": view.commits.iter().map(commit).collect::<Vec<_>>(),
        "next_commit": next_commit.map(place_of),
        "hides_commits": view.hides_commits,
        "shares": shares,
        "has_more_shares": has_more_shares,
        "rebalances": rebalances.iter().filter_map(ended).collect::<Vec<_>>(),
        "under_way": under_way.map(|it| rebalance(&it)),
    }))
}

fn place_of(commit: &CommitView) -> Value {
    json!({ "topic": &*commit.topic, "partition": commit.partition })
}

/// # Errors
/// The partition is not a number.
fn commits_after(query: &Query) -> Result<Option<(std::sync::Arc<str>, i32)>, Refused> {
    let Some(topic) = query.text("after_topic") else { return Ok(None) };
    let partition = query.number("after_partition", -1).map_err(Answer::malformed)?;
    Ok(Some((topic.into(), partition)))
}

fn commit(commit: &CommitView, image: &ClusterImage, ends: &ByPartition) -> Value {
    let CommitView { topic, partition, offset, at, metadata } = commit;
    let id = image.topic(topic).map(|topic| PartitionId { topic: topic.id, index: *partition });
    let end = id.and_then(|id| *ends.get(&id)?).map(|bounds| bounds.high_watermark);
    json!({
        "topic": &**topic,
        "partition": partition,
        "offset": offset,
        "end": end,
        "lag": end.map(|end| end.saturating_sub(*offset).max(0)),
        "at": at,
        "metadata": &**metadata,
    })
}

fn member(member: &MemberView, image: &ClusterImage) -> Value {
    json!({
        "id": &*member.id,
        "instance_id": member.instance_id.as_deref(),
        "client_id": &*member.client_id,
        "client_host": &*member.client_host,
        "epoch": member.epoch,
        "state": member.state,
        "silent_ms": member.silent_ms,
        "topics": member.topics.iter().map(|it| &**it).collect::<Vec<_>>(),
        "expression": member.expression.as_deref(),
        "assigned": member.assigned.as_ref().map(|it| assigned(it, image)),
        "target": member.target.as_ref().map(|it| assigned(it, image)),
    })
}

fn assigned(assigned: &Assigned, image: &ClusterImage) -> Value {
    let part = |(to, partitions): &(AssignedTo, Vec<i32>)| match to {
        AssignedTo::Topic(name) => json!({ "topic": &**name, "partitions": partitions }),
        AssignedTo::TopicId(id) => {
            let name = image.topic_by_id(*id).map(|topic| topic.name.to_string());
            json!({ "topic": name.unwrap_or_else(|| id.to_string()), "partitions": partitions })
        }
        AssignedTo::Tasks(role, subtopology) => {
            json!({ "role": role, "subtopology": &**subtopology, "partitions": partitions })
        }
    };
    let first: Vec<_> = assigned.first.iter().map(part).collect();
    json!({ "partitions": assigned.partitions, "first": first })
}

fn ended(event: &Event) -> Option<Value> {
    let EventBody::Rebalanced(of_group) = &event.body else { return None };
    let mut value = rebalance(of_group);
    value["ended"] = json!(event.at.0);
    value["kind"] = json!(event.protocol);
    Some(value)
}

fn rebalance(rebalance: &Rebalance) -> Value {
    let Rebalance { epoch, began, took_ms, restarts, causes, members, moved } = rebalance;
    json!({
        "epoch": epoch,
        "began": began.0,
        "took_ms": took_ms,
        "restarts": restarts,
        "members": members,
        "members_moved": moved.members,
        "partitions_moved": moved.partitions,
        "more_moved": moved.has_more,
        "causes": causes_of(causes),
    })
}

fn causes_of(causes: &Causes) -> Vec<Value> {
    let cause = |(cause, count): (Cause, u32)| {
        let named = causes.named_for(cause);
        let members: Vec<_> = named.clone().map(|it| &*it.member_id).collect();
        let named: Vec<_> = named.map(caused_by).collect();
        json!({ "cause": cause.name(), "count": count, "members": members, "named": named })
    };
    causes.iter().map(cause).collect()
}

fn caused_by(by: &CausedBy) -> Value {
    let client = by.client.as_ref();
    json!({
        "id": &*by.member_id,
        "client_id": client.map(|it| &*it.id),
        "client_host": client.map(|it| &*it.host),
        "reason": by.reason.as_deref(),
    })
}
