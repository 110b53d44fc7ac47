//! ListGroups, DescribeGroups, and the descriptions of consumer, share and streams groups.
//!
//! - ListGroups: v4 filters by state, v5 by type.
//! - DescribeGroups: before v6, a group that does not exist is described as Dead.
//! - This crate has no authorizer: a client that asks for its allowed operations on a group gets
//!   all. The caller removes the operations that ACLs deny.
//! - A group, or a list of groups, that exceeds the answer's budget gets UNKNOWN_SERVER_ERROR.
//!   Kafka has neither this limit nor an error for it.

use super::{Caller, Coordinator};
use crate::classic::state::State;
use crate::context::Context;
use crate::group::Group;
use crate::groups::Listed;
use crate::output::Output;
use crate::streams::AskedDescription;
use crate::text::{Text, owned, prefix};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use muster_codec::limits::STRING_BYTES_MAX;
use muster_codec::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, DescribedConsumerGroup, DescribedGroup, DescribedShareGroup,
    DescribedStreamsGroup, ListGroupsRequest, ListGroupsResponse, ListedGroup,
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
};
use muster_codec::{AnswerBudget, ErrorCode, Field, Str};

/// From this version on, DescribeGroups has an error for unknown groups (KIP-1043).
const GROUP_ID_NOT_FOUND_FROM: i16 = 6;

/// All operations on a group: read, delete, describe, describe configs, alter configs (Kafka's
/// `AclOperation` codes as bits). The caller removes the operations that ACLs deny.
const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// The error of a group or list that exceeds the answer's budget.
const TOO_LARGE: ErrorCode = ErrorCode::UnknownServerError;

impl Coordinator {
    pub(crate) fn list_groups<'r>(
        &self,
        caller: Caller<'r>,
        request: &ListGroupsRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let mut listing = Listing::new(request);
        self.list(&mut listing, usize::MAX);
        output.answer(caller.request, listing.take(), self.written_at);
    }

    /// Continues a listing with at most `count` groups of this coordinator. Returns the number of
    /// groups visited. If it is less than `count`, this coordinator has no further groups, and the
    /// listing may continue with another coordinator. A group that exists during the whole listing
    /// is listed once.
    pub fn list(&self, listing: &mut Listing, count: usize) -> usize {
        let Listing { filter, budget, after, groups, is_too_large } = listing;
        let mut looked_at = 0;
        let mut last = None;
        for group in self.groups.iter_after(after.as_deref()).take(count) {
            looked_at += 1;
            last = Some(group.id());
            let Some(listed) = filter.listed(&group) else { continue };
            let Some(listed) = budget.fit(listed) else {
                *is_too_large = true;
                return looked_at;
            };
            groups.push(listed);
        }
        *after = last.filter(|_| looked_at == count).map(Text::from);
        looked_at
    }

    pub(crate) fn describe_groups<'r>(
        &mut self,
        caller: Caller<'r>,
        request: DescribeGroupsRequest<'r>,
        output: &mut Output<'r>,
    ) {
        request.groups.iter().for_each(|group_id| self.load(group_id));
        let is_asked = request.include_authorized_operations;
        let describe = |group: Option<&Group>, group_id: &Str<'r>, budget| match group {
            Some(Group::Classic(group)) => group.describe(group_id.clone(), budget),
            Some(Group::Consumer(_) | Group::Share(_) | Group::Streams(_)) | None => {
                Some(unknown(group_id, caller.api_version))
            }
        };
        let (groups, visible_at) = self.describe_each(request.groups, is_asked, describe);
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
        request.group_ids.iter().for_each(|group_id| self.load(group_id));
        let is_asked = request.include_authorized_operations;
        let assignors = self.config.group_consumer_assignors.clone();
        let describe = |group: Option<&Group>, group_id: &Str<'r>, budget| match group {
            _ if group_id.is_empty() => {
                Some(Described::refused(group_id.clone(), ErrorCode::InvalidGroupId))
            }
            Some(Group::Consumer(group)) => {
                group.describe(group_id.clone(), &assignors, context.topics, budget)
            }
            Some(Group::Classic(_) | Group::Share(_) | Group::Streams(_)) | None => {
                Some(DescribedConsumerGroup::unknown(group_id))
            }
        };
        let (groups, visible_at) = self.describe_each(request.group_ids, is_asked, describe);
        let response = ConsumerGroupDescribeResponse { groups, ..Default::default() };
        output.answer(caller.request, response, visible_at);
    }

    pub(crate) fn describe_share_groups<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        request: ShareGroupDescribeRequest<'r>,
        output: &mut Output<'r>,
    ) {
        request.group_ids.iter().for_each(|group_id| self.load(group_id));
        let is_asked = request.include_authorized_operations;
        let describe = |group: Option<&Group>, group_id: &Str<'r>, budget| match group {
            _ if group_id.is_empty() => {
                Some(Described::refused(group_id.clone(), ErrorCode::InvalidGroupId))
            }
            Some(Group::Share(group)) => group.describe(group_id.clone(), context.topics, budget),
            Some(Group::Classic(_) | Group::Consumer(_) | Group::Streams(_)) | None => {
                Some(DescribedShareGroup::unknown(group_id))
            }
        };
        let (groups, visible_at) = self.describe_each(request.group_ids, is_asked, describe);
        let response = ShareGroupDescribeResponse { groups, ..Default::default() };
        output.answer(caller.request, response, visible_at);
    }

    pub(crate) fn describe_streams<'r>(
        &mut self,
        caller: Caller<'r>,
        request: StreamsGroupDescribeRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let includes_description = request.include_topology_description;
        request.group_ids.iter().for_each(|group_id| self.load(group_id));
        let is_asked = request.include_authorized_operations;
        let describe = |group: Option<&Group>, group_id: &Str<'r>, budget| match group {
            _ if group_id.is_empty() => {
                Some(Described::refused(group_id.clone(), ErrorCode::InvalidGroupId))
            }
            Some(Group::Streams(group)) => {
                let assignor = self.group_configs.task_assignor(group_id, &self.config);
                let asked = AskedDescription { assignor, includes_description };
                group.describe(group_id.clone(), asked, budget)
            }
            Some(Group::Classic(_) | Group::Consumer(_) | Group::Share(_)) | None => {
                Some(DescribedStreamsGroup::unknown(group_id))
            }
        };
        let (groups, visible_at) = self.describe_each(request.group_ids, is_asked, describe);
        let response = StreamsGroupDescribeResponse { groups, ..Default::default() };
        output.answer(caller.request, response, visible_at);
    }

    /// Describes each group within the answer's budget. The groups must be loaded. Also returns the
    /// position that the answer waits for.
    fn describe_each<'r, D: Described<'r>>(
        &self,
        mut group_ids: Vec<Str<'r>>,
        asks_for_operations: bool,
        describe: impl Fn(Option<&Group>, &Str<'r>, AnswerBudget) -> Option<D>,
    ) -> (Vec<D>, u64) {
        let (mut visible_at, mut budget) = (0, AnswerBudget::of_answer());
        budget.reserve(&mut group_ids, |group_id| D::refused(group_id.clone(), TOO_LARGE));
        let describe_next = |group_id: Str<'r>| {
            let entry = self.groups.get(&group_id);
            visible_at = entry.map_or(self.removed_at, |it| it.written_at).max(visible_at);
            let described =
                describe(entry.and_then(|entry| entry.group.as_ref()), &group_id, budget);
            let described = described.and_then(|group| budget.fit(group));
            let mut described = described.unwrap_or_else(|| D::refused(group_id, TOO_LARGE));
            let (error_code, operations_of) = described.operations();
            *operations_of = operations(asks_for_operations, error_code);
            described
        };
        (group_ids.into_iter().map(describe_next).collect(), visible_at)
    }
}

/// The description of a group, in one of several APIs.
trait Described<'r>: Field<'r> {
    fn refused(group_id: Str<'r>, error: ErrorCode) -> Self;

    /// The description of a group that does not exist.
    fn unknown(group_id: &Str<'r>) -> Self;

    /// The error code, and the field of authorized operations.
    fn operations(&mut self) -> (i16, &mut i32);
}

macro_rules! described {
    ($($name:ident),*) => {
        $(impl<'r> Described<'r> for $name<'r> {
            fn refused(group_id: Str<'r>, error: ErrorCode) -> Self {
                Self { error_code: error as i16, group_id, ..Default::default() }
            }

            fn unknown(group_id: &Str<'r>) -> Self {
                Self {
                    error_message: Some(Str::Owned(not_found(group_id))),
                    ..Self::refused(group_id.clone(), ErrorCode::GroupIdNotFound)
                }
            }

            fn operations(&mut self) -> (i16, &mut i32) {
                (self.error_code, &mut self.authorized_operations)
            }
        })*
    };
}

described! { DescribedGroup, DescribedConsumerGroup, DescribedShareGroup, DescribedStreamsGroup }

/// The operations on a described group, if the client asked for them.
fn operations(is_asked: bool, error_code: i16) -> i32 {
    if is_asked && error_code == ErrorCode::None as i16 { GROUP_OPERATIONS } else { i32::MIN }
}

fn unknown<'r>(group_id: &Str<'r>, api_version: i16) -> DescribedGroup<'r> {
    let group_state = Str::Borrowed(State::Dead.name());
    if api_version >= GROUP_ID_NOT_FOUND_FROM {
        DescribedGroup { group_state, ..DescribedGroup::unknown(group_id) }
    } else {
        DescribedGroup { group_id: group_id.clone(), group_state, ..Default::default() }
    }
}

fn not_found(group_id: &str) -> String {
    let message = format!("Group {group_id} not found.");
    prefix(&message, STRING_BYTES_MAX).into()
}

/// A ListGroups under way.
#[derive(Debug)]
pub struct Listing {
    filter: Filter,
    budget: AnswerBudget,
    /// The last group that was visited.
    after: Option<Text>,
    groups: Vec<ListedGroup<'static>>,
    is_too_large: bool,
}

impl Listing {
    /// The groups that were found since the last call, or the error of the whole list.
    pub fn take(&mut self) -> ListGroupsResponse<'static> {
        let groups = core::mem::take(&mut self.groups);
        if self.is_too_large {
            return ListGroupsResponse { error_code: TOO_LARGE as i16, ..Default::default() };
        }
        ListGroupsResponse { groups, ..Default::default() }
    }

    /// Whether the list exceeds the answer's budget.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    pub fn new(request: &ListGroupsRequest<'_>) -> Self {
        let (filter, budget) = (Filter::new(request), AnswerBudget::of_answer());
        Self { filter, budget, after: None, groups: Vec::new(), is_too_large: false }
    }
}

/// The filters of a ListGroups; an empty list matches all.
#[derive(Debug)]
struct Filter {
    states: Vec<String>,
    types: Vec<String>,
}

impl Filter {
    fn new(request: &ListGroupsRequest<'_>) -> Self {
        let lower = |names: &[Str<'_>]| names.iter().map(|it| it.trim().to_lowercase()).collect();
        Self { states: lower(&request.states_filter), types: lower(&request.types_filter) }
    }

    fn listed(&self, group: &Listed<'_>) -> Option<ListedGroup<'static>> {
        let (group_id, state, kind, protocol_type) = match group {
            Listed::Live(entry) => {
                let group = entry.group.as_ref()?;
                (&*entry.id, group.state_name(), group.kind().type_name()?, group.protocol_type())
            }
            // Groups with members are loaded at startup, so this group is empty.
            Listed::Unloaded(group) => {
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
