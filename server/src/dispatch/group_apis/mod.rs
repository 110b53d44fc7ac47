//! Checks group requests before they reach the coordinator. As in Kafka's `KafkaApis`, topics that
//! do not exist and groups of other shards are removed from the request and refused, and the
//! coordinator gets only the rest. Each API has a file that defines which groups a request names,
//! the response that refuses the request, and the response if its records were not written.

mod alter_share_group_offsets;
mod delete_groups;
mod delete_share_group_offsets;
mod describe_groups;
mod describe_share_group_offsets;
mod heartbeat;
mod join_group;
mod leave_group;
mod list;
mod list_groups;
mod modern_groups;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
pub(crate) mod streams_topics;
mod sync_group;
#[cfg(test)]
mod tests;
mod topics;

pub(super) use topics::{OfTopic, gather};

use list::BySlot;
pub(super) use list::{GroupList, once};
pub(crate) use offset_fetch::GROUPS_FROM as OFFSET_FETCH_OF_GROUPS_FROM;

use super::answer::{CoordinatorAnswer, merge_responses, owned};
use super::authorization::{By, Verdict};
use super::serving::LOADING;
use crate::placement::Slot;
use muster_codec::{ErrorCode, GroupRequest, GroupResponse, Response};
use muster_coordinator::Topics;

/// A request of a group API.
pub(super) trait GroupApi {
    /// The groups that a request of this version names.
    fn named(&mut self, version: i16) -> NamedGroups<'_>;

    /// The response that refuses the whole request.
    fn refused(&self, version: i16, error: ErrorCode) -> Response<'static>;

    /// Checks the permissions that the request requires, and removes its denied parts.
    fn authorize(&mut self, by: &By<'_>) -> Verdict;

    /// Whether the answer has to list the operations that the client may perform.
    fn asks_for_operations(&self) -> bool {
        false
    }

    /// The error of a request that is invalid on any shard. It takes precedence over
    /// NOT_COORDINATOR.
    fn invalid(&self, _version: i16) -> Option<ErrorCode> {
        None
    }

    /// Removes topics and partitions that do not exist, and refuses them.
    fn screen_topics(&mut self, _version: i16, _topics: &dyn Topics) -> ScreenedTopics {
        ScreenedTopics::Passed
    }
}

/// Returns INVALID_GROUP_ID if a request names no group. As in Kafka, this is checked before the
/// group's coordinator is looked up.
pub(super) fn without_group(group_id: &str) -> Option<ErrorCode> {
    group_id.is_empty().then_some(ErrorCode::InvalidGroupId)
}

/// The groups that a request names.
pub(super) enum NamedGroups<'m> {
    One(&'m str),
    /// A list of groups, from which groups of other shards are removed.
    Each(&'m mut dyn GroupList),
    /// The request names no group: it is about all groups of this shard (ListGroups).
    OfShard,
}

/// The result of checking the topics of a request.
#[derive(Debug)]
pub(super) enum ScreenedTopics {
    /// All topics exist; the whole request remains.
    Passed,
    /// Part of the request remains. The rest was removed, and is refused with this response.
    InPart(Response<'static>),
    /// Nothing remains: this response is the answer.
    Refused(Response<'static>),
}

/// The state against which requests are checked.
pub(crate) struct ScreenContext<'f> {
    pub(crate) version: i16,
    pub(crate) topics: &'f dyn Topics,
    /// The slot of a group. The error is NOT_COORDINATOR if another broker leads the slot, and
    /// [`LOADING`] if this node leads it but does not serve it yet.
    pub(crate) slot_of: &'f dyn Fn(&str) -> Result<Slot, ErrorCode>,
    /// Whether there are slots that this node leads but does not serve yet.
    pub(crate) is_loading: bool,
}

/// Where a request goes.
#[derive(Debug)]
pub(crate) enum Destination {
    /// To the coordinator of the group's slot. The response refuses the parts that were removed
    /// from the request, if there are any.
    Slot(Slot, Option<Response<'static>>),
    /// To the coordinators of several groups; see [`by_slot`]. The response is as in `Slot`.
    Slots(Option<Response<'static>>),
    /// To all coordinators of the shard, as the request is about all groups.
    Shard,
    /// Answered at once: the whole request is refused, or it names no group.
    Answered(Response<'static>),
}

/// All group APIs. APIs whose requests may name several groups come first.
macro_rules! group_apis {
    (of several: $($several:ident),*; of one: $($one:ident),*) => {
        group_apis! { $($several),*, $($one),* }

        /// Splits a request that lists groups into several requests, in the order of the list. Each
        /// of them has consecutive groups of one slot. Returns nothing if the API has no list.
        pub(crate) fn by_slot<'r>(
            request: GroupRequest<'r>,
            slot_of: impl Fn(&str) -> Slot,
        ) -> Vec<(Slot, GroupRequest<'r>)> {
            match request {
                $(GroupRequest::$several(body) => {
                    let parts = body.by_slot(&slot_of).into_iter();
                    parts.map(|(slot, part)| (slot, part.into())).collect()
                })*
                $(GroupRequest::$one(_))|* => Vec::new(),
            }
        }

        #[cfg(test)]
        fn requests_of_one() -> Vec<GroupRequest<'static>> {
            vec![$(GroupRequest::$one(Default::default())),*]
        }
    };
    ($($name:ident),*) => {
        fn api<'m>(request: &'m mut GroupRequest<'_>) -> &'m mut dyn GroupApi {
            match request {
                $(GroupRequest::$name(body) => body,)*
            }
        }

        merge_responses! { $($name),* }

        fn fail(response: &mut GroupResponse<'_>, error: ErrorCode) {
            match response {
                $(GroupResponse::$name(body) => body.fail(error),)*
            }
        }
    };
}

group_apis! {
    of several: ConsumerGroupDescribe, DeleteGroups, DescribeGroups, DescribeShareGroupOffsets,
        OffsetFetch, ShareGroupDescribe, StreamsGroupDescribe;
    of one: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, OffsetCommit,
        OffsetDelete, TxnOffsetCommit, ListGroups, ShareGroupHeartbeat, StreamsGroupHeartbeat,
        AlterShareGroupOffsets, DeleteShareGroupOffsets, StreamsGroupTopologyDescriptionUpdate
}

/// Removes and refuses the parts that the coordinator must not get (unknown topics, groups of other
/// shards). Returns where to send the rest.
pub(crate) fn screen(request: &mut GroupRequest<'_>, context: &ScreenContext<'_>) -> Destination {
    let (api, version) = (api(request), context.version);
    let absent = match api.screen_topics(version, context.topics) {
        ScreenedTopics::Passed => None,
        ScreenedTopics::InPart(absent) => Some(absent),
        ScreenedTopics::Refused(refused) => return Destination::Answered(refused),
    };
    let invalid = api.invalid(version);
    let slot = match api.named(version) {
        NamedGroups::One(group) => (context.slot_of)(group),
        NamedGroups::Each(list) => {
            return match list::screen(list, context) {
                Some(destination) => destination,
                None => Destination::Answered(api.refused(version, ErrorCode::None)),
            };
        }
        NamedGroups::OfShard if context.is_loading => Err(LOADING),
        NamedGroups::OfShard => return Destination::Shard,
    };
    let error = match (invalid, slot) {
        (None, Ok(slot)) => return Destination::Slot(slot, absent),
        (Some(error), _) | (None, Err(error)) => error,
    };
    let mut refused = api.refused(version, error);
    if let Some(absent) = absent {
        merge(&mut refused, absent);
    }
    Destination::Answered(refused)
}

/// Whether a request names a group that fulfils a condition, or is about all groups of the shard.
pub(crate) fn names_any(
    request: &mut GroupRequest<'_>,
    version: i16,
    is: &dyn Fn(&str) -> bool,
) -> bool {
    match api(request).named(version) {
        NamedGroups::One(group) => is(group),
        NamedGroups::Each(list) => list.any(is),
        NamedGroups::OfShard => true,
    }
}

/// Checks the permissions that a request requires, and removes its denied parts.
pub(super) fn authorize(request: &mut GroupRequest<'_>, by: &By<'_>) -> Verdict {
    // As in Kafka, an API that is switched off is refused before authorization.
    if !by.config.serves(request.api_key()) {
        return Verdict::Passed;
    }
    api(request).authorize(by)
}

/// Whether the answer to a request has to list the operations that the client may perform.
pub(super) fn asks_for_operations(request: &mut GroupRequest<'_>) -> bool {
    api(request).asks_for_operations()
}

/// The response that refuses a whole request.
pub(crate) fn refused(
    request: &mut GroupRequest<'_>,
    version: i16,
    error: ErrorCode,
) -> Response<'static> {
    api(request).refused(version, error)
}

/// Removes repeated groups from a request's list; see [`GroupList::name_once`].
pub(super) fn name_once(request: &mut GroupRequest<'_>, version: i16) {
    if let NamedGroups::Each(list) = api(request).named(version) {
        list.name_once();
    }
}

/// A copy of a response that does not borrow from the request. Only some APIs need it: their
/// answers may have to wait for the leaders of partitions.
///
/// # Panics
/// If the response is of another API.
pub(crate) fn detached(response: Response<'_>) -> Response<'static> {
    let api = response.api_key();
    if let Response::DeleteGroups(body) = response {
        delete_groups::detached(body).into()
    } else if let Response::DescribeShareGroupOffsets(body) = response {
        describe_share_group_offsets::detached(body).into()
    } else {
        unreachable!("{api:?} is answered at once")
    }
}

/// The response to a request whose records were not written. A response of another API than the
/// group APIs is returned unchanged, but coordinators have none.
pub(crate) fn failed(response: Response<'_>, error: ErrorCode) -> Response<'_> {
    match GroupResponse::try_from(response) {
        Ok(mut response) => {
            fail(&mut response, error);
            response.into()
        }
        Err(other) => other,
    }
}
