//! The requests of classic members, in all versions.

use muster_codec::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
    LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, SyncGroupRequest,
    SyncGroupRequestAssignment,
};
use muster_codec::{ApiKey, ErrorCode, Str};

use super::assignors::protocol::{Joining, join_metadata};
use super::classic::Classic;
use super::core::{Core, Turn, millis};
use super::error::{Fatal, Step, fatal};
use super::io::Request;
use super::text::text;
use crate::plan::{ClassicAssignor, Protocol};
use crate::topics::Topics;

const PROTOCOL_TYPE: &str = "consumer";
const STATIC: &str = " of static members";
/// The first versions whose requests have `group.instance.id` (KIP-345).
const STATIC_JOIN: i16 = 5;
const STATIC_SYNC: i16 = 3;
const STATIC_HEARTBEAT: i16 = 3;
/// The first version in which LeaveGroup has a list of members, including static members.
const LEAVE_LIST: i16 = 3;

pub(super) fn join(member: &Classic, core: &Core, turn: &Turn<'_, '_>) -> Step<(i16, Request)> {
    let version = version(core, turn, ApiKey::JoinGroup, STATIC_JOIN)?;
    let group = core.group();
    let request = JoinGroupRequest {
        group_id: text(&group.id),
        session_timeout_ms: millis(group.session_timeout),
        rebalance_timeout_ms: millis(group.rebalance_timeout),
        member_id: text(&member.member_id),
        group_instance_id: instance_id(core),
        protocol_type: PROTOCOL_TYPE.into(),
        protocols: protocols(member, core, turn),
        reason: None,
    };
    Ok((version, request.into()))
}

fn instance_id(core: &Core) -> Option<Str<'static>> {
    core.plan.instance_id.as_deref().map(text)
}

fn protocols(
    member: &Classic,
    core: &Core,
    turn: &Turn<'_, '_>,
) -> Vec<JoinGroupRequestProtocol<'static>> {
    let Protocol::Classic { assignors } = &core.group().protocol else { return Vec::new() };
    let metadata = |assignor: &ClassicAssignor| {
        let sticky = *assignor == ClassicAssignor::Sticky;
        let owned = if sticky { &member.last.0 } else { core.owned.partitions() };
        let joining = Joining {
            topics: core.group().subscription.topics(),
            owned,
            generation: if sticky { member.last.1 } else { member.generation },
            rack: core.plan.rack.as_deref(),
        };
        let metadata = join_metadata(*assignor, &joining, turn.context.topics).into();
        JoinGroupRequestProtocol { name: assignor.name().into(), metadata }
    };
    assignors.iter().map(metadata).collect()
}

pub(super) fn sync(
    member: &Classic,
    assignments: Vec<SyncGroupRequestAssignment<'static>>,
    core: &Core,
    turn: &Turn<'_, '_>,
) -> Step<(i16, Request)> {
    let version = version(core, turn, ApiKey::SyncGroup, STATIC_SYNC)?;
    let request = SyncGroupRequest {
        group_id: text(&core.group().id),
        generation_id: member.generation,
        member_id: text(&member.member_id),
        group_instance_id: instance_id(core),
        protocol_type: Some(PROTOCOL_TYPE.into()),
        protocol_name: member.assignor().map(|one| one.name().into()),
        assignments,
    };
    Ok((version, request.into()))
}

pub(super) fn heartbeat(
    member: &Classic,
    core: &Core,
    turn: &Turn<'_, '_>,
) -> Step<(i16, Request)> {
    let version = version(core, turn, ApiKey::Heartbeat, STATIC_HEARTBEAT)?;
    let request = HeartbeatRequest {
        group_id: text(&core.group().id),
        generation_id: member.generation,
        member_id: text(&member.member_id),
        group_instance_id: instance_id(core),
    };
    Ok((version, request.into()))
}

pub(super) fn leave(member: &Classic, core: &Core, turn: &Turn<'_, '_>) -> Step<(i16, Request)> {
    let version = version(core, turn, ApiKey::LeaveGroup, LEAVE_LIST)?;
    let mut request =
        LeaveGroupRequest { group_id: text(&core.group().id), ..LeaveGroupRequest::default() };
    let member_id = text(&member.member_id);
    match version {
        LEAVE_LIST.. => {
            let group_instance_id = instance_id(core);
            request.members = vec![MemberIdentity { member_id, group_instance_id, reason: None }];
        }
        _ => request.member_id = member_id,
    }
    Ok((version, request.into()))
}

/// The error of LeaveGroup's answer, if there is one.
pub(super) fn left(response: &LeaveGroupResponse<'_>) -> Option<i16> {
    let of_members = response.members.iter().map(|member| member.error_code);
    [response.error_code].into_iter().chain(of_members).find(|code| *code != 0)
}

/// The assignor that the coordinator chose. It must be one that the member named.
pub(super) fn chosen(response: &JoinGroupResponse<'_>, core: &Core) -> Step<ClassicAssignor> {
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

/// Whether members keep their partitions while they rejoin. All assignors of the member must
/// support it (`ConsumerCoordinator` uses the protocol that all have in common).
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
