//! The requests of classic members, in all versions.

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;
use muster_codec::ApiKey;
use muster_codec::ErrorCode;

use super::assignors::protocol::{Joining, join_metadata};
use super::classic::Classic;
use super::core::{Core, Turn, millis};
use super::error::{Fatal, Step, fatal};
use super::io::Request;
use crate::plan::{ClassicAssignor, Protocol};
use crate::topics::Topics;

const PROTOCOL_TYPE: &str = "consumer";
const STATIC: &str = " of static members";
/// From these versions on requests have `group.instance.id` (KIP-345).
const STATIC_JOIN: i16 = 5;
const STATIC_SYNC: i16 = 3;
const STATIC_HEARTBEAT: i16 = 3;
/// From this version on LeaveGroup has a list of members, also static ones.
const LEAVE_LIST: i16 = 3;

pub(super) fn join(member: &Classic, core: &Core, turn: &Turn<'_, '_>) -> Step<(i16, Request)> {
    let version = version(core, turn, ApiKey::JoinGroup, STATIC_JOIN)?;
    let group = core.group();
    let request = JoinGroupRequest::default()
        .with_group_id(group.id.clone().into())
        .with_session_timeout_ms(millis(group.session_timeout))
        .with_rebalance_timeout_ms(millis(group.rebalance_timeout))
        .with_member_id(member.member_id.clone())
        .with_group_instance_id(core.plan.instance_id.clone())
        .with_protocol_type(StrBytes::from_static_str(PROTOCOL_TYPE))
        .with_protocols(protocols(member, core, turn)?);
    Ok((version, Request::JoinGroup(request)))
}

fn protocols(
    member: &Classic,
    core: &Core,
    turn: &Turn<'_, '_>,
) -> Step<Vec<JoinGroupRequestProtocol>> {
    let Protocol::Classic { assignors } = &core.group().protocol else { return Ok(Vec::new()) };
    let metadata = |assignor: &ClassicAssignor| {
        let sticky = *assignor == ClassicAssignor::Sticky;
        let owned = if sticky { &member.last.0 } else { core.owned.partitions() };
        let joining = Joining {
            topics: core.group().subscription.topics(),
            owned,
            generation: if sticky { member.last.1 } else { member.generation },
            rack: core.plan.rack.as_ref(),
        };
        let metadata = join_metadata(*assignor, &joining, turn.context.topics);
        let metadata = metadata.map_err(|error| Fatal(format!("a member can't join: {error}")))?;
        Ok(JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(assignor.name()))
            .with_metadata(metadata))
    };
    assignors.iter().map(metadata).collect()
}

pub(super) fn sync(
    member: &Classic,
    assignments: Vec<SyncGroupRequestAssignment>,
    core: &Core,
    turn: &Turn<'_, '_>,
) -> Step<(i16, Request)> {
    let version = version(core, turn, ApiKey::SyncGroup, STATIC_SYNC)?;
    let request = SyncGroupRequest::default()
        .with_group_id(core.group().id.clone().into())
        .with_generation_id(member.generation)
        .with_member_id(member.member_id.clone())
        .with_group_instance_id(core.plan.instance_id.clone())
        .with_protocol_type(Some(StrBytes::from_static_str(PROTOCOL_TYPE)))
        .with_protocol_name(member.assignor().map(|one| StrBytes::from_static_str(one.name())))
        .with_assignments(assignments);
    Ok((version, Request::SyncGroup(request)))
}

pub(super) fn heartbeat(
    member: &Classic,
    core: &Core,
    turn: &Turn<'_, '_>,
) -> Step<(i16, Request)> {
    let version = version(core, turn, ApiKey::Heartbeat, STATIC_HEARTBEAT)?;
    let request = HeartbeatRequest::default()
        .with_group_id(core.group().id.clone().into())
        .with_generation_id(member.generation)
        .with_member_id(member.member_id.clone())
        .with_group_instance_id(core.plan.instance_id.clone());
    Ok((version, Request::Heartbeat(request)))
}

pub(super) fn leave(member: &Classic, core: &Core, turn: &Turn<'_, '_>) -> Step<(i16, Request)> {
    let version = version(core, turn, ApiKey::LeaveGroup, LEAVE_LIST)?;
    let request = LeaveGroupRequest::default().with_group_id(core.group().id.clone().into());
    let id = member.member_id.clone();
    let request = match version {
        LEAVE_LIST.. => request.with_members(vec![
            MemberIdentity::default()
                .with_member_id(id)
                .with_group_instance_id(core.plan.instance_id.clone()),
        ]),
        _ => request.with_member_id(id),
    };
    Ok((version, Request::LeaveGroup(request)))
}

/// The error of LeaveGroup's answer, if it has one.
pub(super) fn left(response: &LeaveGroupResponse) -> Option<i16> {
    let of_members = response.members.iter().map(|member| member.error_code);
    [response.error_code].into_iter().chain(of_members).find(|code| *code != 0)
}

/// The assignor that the coordinator chose: one of those that the member named.
pub(super) fn chosen(response: &JoinGroupResponse, core: &Core) -> Step<ClassicAssignor> {
    let Protocol::Classic { assignors } = &core.group().protocol else {
        return Err(inconsistent(core));
    };
    let named = response.protocol_name.as_ref().and_then(|name| ClassicAssignor::named(name));
    let of_type = response.protocol_type.as_ref().is_none_or(|name| &**name == PROTOCOL_TYPE);
    named.filter(|name| of_type && assignors.contains(name)).ok_or_else(|| inconsistent(core))
}

fn inconsistent(core: &Core) -> Fatal {
    fatal(ApiKey::JoinGroup, &core.group().id, ErrorCode::InconsistentGroupProtocol, None)
}

fn version(core: &Core, turn: &Turn<'_, '_>, api: ApiKey, for_static: i16) -> Step<i16> {
    let least = if core.plan.instance_id.is_some() { for_static } else { 0 };
    core.version(turn, api, least, if least > 0 { STATIC } else { "" })
}

/// Members rejoin with their partitions only if all their assignors support that
/// (`ConsumerCoordinator` uses the protocol that all have in common).
pub(super) fn is_cooperative(core: &Core) -> bool {
    match &core.group().protocol {
        Protocol::Classic { assignors } => {
            assignors.iter().all(|assignor| assignor.is_cooperative())
        }
        Protocol::Consumer { .. }
        | Protocol::Manual { .. }
        | Protocol::Producer(_)
        | Protocol::Reader(_)
        | Protocol::Share(_)
        | Protocol::Streams(_) => false,
    }
}

pub(super) fn partition_counts(core: &Core, topics: &Topics) -> Box<[u32]> {
    core.group().subscription.topics().iter().map(|topic| topics.partitions(*topic)).collect()
}
