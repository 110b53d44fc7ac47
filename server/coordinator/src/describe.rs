//! ListGroups, DescribeGroups and ConsumerGroupDescribe.
//!
//! - ListGroups: v4 filters by state, v5 by type.
//! - DescribeGroups: before v6, a group that does not exist is one that is Dead.

use crate::classic::state::State;
use crate::context::Context;
use crate::coordinator::{Caller, Coordinator};
use crate::group::{Group, Listed};
use crate::limits::RESPONSE_METADATA_BYTES_MAX;
use crate::output::Output;
use crate::text::{owned, prefix};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use muster_codec::limits::STRING_BYTES_MAX;
use muster_codec::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, DescribedConsumerGroup, DescribedGroup, ListGroupsRequest,
    ListGroupsResponse, ListedGroup,
};
use muster_codec::{ErrorCode, Str};

/// The first version of DescribeGroups with an error of its own for unknown groups (KIP-1043).
const GROUP_ID_NOT_FOUND_FROM: i16 = 6;

impl Coordinator {
    pub(crate) fn list_groups<'r>(
        &self,
        caller: Caller<'r>,
        request: &ListGroupsRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let filter = Filter::new(request);
        let groups = self.groups.iter().filter_map(|group| filter.listed(group)).collect();
        let response = ListGroupsResponse { groups, ..Default::default() };
        output.answer(caller.request, response, self.written_at);
    }

    pub(crate) fn describe_groups<'r>(
        &mut self,
        caller: Caller<'r>,
        request: DescribeGroupsRequest<'r>,
        output: &mut Output<'r>,
    ) {
        request.groups.iter().for_each(|group_id| self.touch(group_id));
        let (mut visible_at, mut described_bytes) = (0, 0);
        let describe = |group_id: Str<'r>| {
            let entry = self.groups.get(&group_id);
            visible_at = entry.map_or(self.removed_at, |it| it.written_at).max(visible_at);
            match entry.and_then(|entry| entry.group.as_ref()) {
                Some(_) if described_bytes > RESPONSE_METADATA_BYTES_MAX => DescribedGroup {
                    error_code: ErrorCode::UnknownServerError as i16,
                    group_id,
                    ..Default::default()
                },
                Some(Group::Classic(group)) => {
                    described_bytes += group.described_bytes();
                    group.describe(group_id)
                }
                Some(Group::Consumer(_)) | None => unknown(group_id, caller.api_version),
            }
        };
        let groups = request.groups.into_iter().map(describe).collect();
        let response = DescribeGroupsResponse { groups, ..Default::default() };
        output.answer(caller.request, response, visible_at);
    }

    pub(crate) fn describe_consumer_groups<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        request: ConsumerGroupDescribeRequest<'r>,
        output: &mut Output<'r>,
    ) {
        request.group_ids.iter().for_each(|group_id| self.touch(group_id));
        let (mut visible_at, mut described_bytes) = (0, 0);
        let assignors = &self.config.group_consumer_assignors;
        let describe = |group_id: Str<'r>| {
            let entry = self.groups.get(&group_id);
            visible_at = entry.map_or(self.removed_at, |it| it.written_at).max(visible_at);
            match entry.and_then(|entry| entry.group.as_ref()) {
                _ if group_id.is_empty() => refused(group_id, ErrorCode::InvalidGroupId),
                Some(Group::Consumer(_)) if described_bytes > RESPONSE_METADATA_BYTES_MAX => {
                    refused(group_id, ErrorCode::UnknownServerError)
                }
                Some(Group::Consumer(group)) => {
                    described_bytes += group.described_bytes();
                    group.describe(group_id, assignors, context.topics)
                }
                Some(Group::Classic(_)) | None => DescribedConsumerGroup {
                    error_message: Some(Str::Owned(not_found(&group_id))),
                    ..refused(group_id, ErrorCode::GroupIdNotFound)
                },
            }
        };
        let groups = request.group_ids.into_iter().map(describe).collect();
        let response = ConsumerGroupDescribeResponse { groups, ..Default::default() };
        output.answer(caller.request, response, visible_at);
    }
}

fn refused(group_id: Str<'_>, error: ErrorCode) -> DescribedConsumerGroup<'_> {
    DescribedConsumerGroup { error_code: error as i16, group_id, ..Default::default() }
}

fn unknown(group_id: Str<'_>, api_version: i16) -> DescribedGroup<'_> {
    let group_state = Str::Borrowed(State::Dead.name());
    match api_version >= GROUP_ID_NOT_FOUND_FROM {
        true => DescribedGroup {
            error_code: ErrorCode::GroupIdNotFound as i16,
            error_message: Some(Str::Owned(not_found(&group_id))),
            group_id,
            group_state,
            ..Default::default()
        },
        false => DescribedGroup { group_id, group_state, ..Default::default() },
    }
}

fn not_found(group_id: &str) -> String {
    let message = format!("Group {group_id} not found.");
    prefix(&message, STRING_BYTES_MAX).into()
}

/// What a ListGroups asks for; no names at all mean any.
struct Filter {
    states: Vec<String>,
    types: Vec<String>,
}

impl Filter {
    fn new(request: &ListGroupsRequest<'_>) -> Self {
        let lower = |names: &[Str<'_>]| names.iter().map(|it| it.trim().to_lowercase()).collect();
        Self { states: lower(&request.states_filter), types: lower(&request.types_filter) }
    }

    fn listed(&self, group: Listed<'_>) -> Option<ListedGroup<'static>> {
        let (group_id, state, kind, protocol_type) = match group {
            Listed::Live(entry) => {
                let group = entry.group.as_ref()?;
                (&*entry.id, group.state_name(), group.type_name(), group.protocol_type())
            }
            // Groups with members are brought to life when they are loaded.
            Listed::Cold(group) => {
                (group.id, State::Empty.name(), group.entry.kind.type_name()?, group.protocol_type)
            }
        };
        let wanted = allows(&self.states, state) && allows(&self.types, kind);
        wanted.then(|| ListedGroup {
            group_id: owned(group_id),
            protocol_type: owned(protocol_type),
            group_state: Str::Borrowed(state),
            group_type: Str::Borrowed(kind),
        })
    }
}

fn allows(filter: &[String], name: &str) -> bool {
    filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
}
