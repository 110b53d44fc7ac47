//! Group APIs in front of the coordinator, one file for each: which groups a request names, how it
//! is refused, how its answer fails. Groups of other shards, and topics that do not exist, are
//! refused here and do not get to the coordinator; KafkaApis does the same.

mod consumer_group_describe;
mod consumer_group_heartbeat;
mod delete_groups;
mod describe_groups;
mod heartbeat;
mod join_group;
mod leave_group;
mod list;
mod list_groups;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod sync_group;
#[cfg(test)]
mod tests;
mod topics;

pub(super) use list::{GroupList, once};

use crate::placement::Slot;
use muster_codec::messages::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest, OffsetFetchRequest,
};
use muster_codec::{ErrorCode, GroupRequest, GroupResponse, Response, Str};
use muster_coordinator::Topics;

/// A request of a group API.
pub(super) trait GroupApi {
    /// The groups that a request of this version names.
    fn named(&mut self, version: i16) -> Named<'_>;

    /// The response that refuses all of it.
    fn refused(&self, version: i16, error: ErrorCode) -> Response<'static>;

    /// The error of a request that is wrong whichever shard its group is on.
    fn invalid(&self, _version: i16) -> Option<ErrorCode> {
        None
    }

    /// Takes out the topics and partitions that do not exist.
    fn screen_topics(&mut self, _version: i16, _topics: &dyn Topics) -> Screened {
        Screened::Passed
    }
}

/// A response of a group API.
pub(super) trait GroupAnswer {
    /// Adds the answer to another part of the same request.
    fn merge(&mut self, other: Self);

    /// Turns it into one of failure: the records of its request were not written.
    fn fail(&mut self, error: ErrorCode);
}

/// The groups that a request names.
pub(super) enum Named<'m> {
    One(&'m str),
    /// Those of other shards are taken out of the list.
    Each(&'m mut dyn GroupList),
    /// None: it is about all groups of the shard that it was sent to.
    OfShard,
}

/// What remains of a request for the coordinator.
#[derive(Debug)]
pub(super) enum Screened {
    /// All of it.
    Passed,
    /// A part; this response is about the other one.
    InPart(Response<'static>),
    /// Nothing: this is the answer.
    Refused(Response<'static>),
}

/// What requests are held against.
pub(crate) struct Front<'f> {
    pub(crate) version: i16,
    pub(crate) topics: &'f dyn Topics,
    /// The slot of a group; None if another shard has it.
    pub(crate) slot_of: &'f dyn Fn(&str) -> Option<Slot>,
}

impl Front<'_> {
    fn is_foreign(&self, group_id: &str) -> bool {
        (self.slot_of)(group_id).is_none()
    }
}

/// Where a request goes.
#[derive(Debug)]
pub(crate) enum Destination {
    /// To the coordinator of the slot that has its group. The response is about the part that was
    /// refused.
    Slot(Slot, Option<Response<'static>>),
    /// The same, to those of several groups: see [`by_slot`].
    Slots(Option<Response<'static>>),
    /// It is about all groups of the shard.
    Shard,
    /// Nowhere: this is the answer.
    Refused(Response<'static>),
}

/// The one list of group APIs.
macro_rules! group_apis {
    ($($name:ident),*) => {
        fn api<'m>(request: &'m mut GroupRequest<'_>) -> &'m mut dyn GroupApi {
            match request {
                $(GroupRequest::$name(body) => body,)*
            }
        }

        /// Adds the answer to another part of the same request.
        ///
        /// # Panics
        /// If they are responses of different APIs.
        pub(crate) fn merge<'r>(response: &mut Response<'r>, other: Response<'r>) {
            match (response, other) {
                $((Response::$name(body), Response::$name(other)) => body.merge(other),)*
                (response, other) => {
                    let (one, other) = (response.api_key(), other.api_key());
                    unreachable!("{one:?} and {other:?} are answers to one request")
                }
            }
        }

        fn fail(response: &mut GroupResponse<'_>, error: ErrorCode) {
            match response {
                $(GroupResponse::$name(body) => body.fail(error),)*
            }
        }
    };
}

group_apis! {
    JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, ConsumerGroupDescribe,
    OffsetCommit, OffsetFetch, OffsetDelete, DescribeGroups, ListGroups, DeleteGroups
}

/// Refuses what the coordinator must not see of a request, and finds where the rest goes.
pub(crate) fn screen(request: &mut GroupRequest<'_>, front: &Front<'_>) -> Destination {
    let (api, version) = (api(request), front.version);
    let absent = match api.screen_topics(version, front.topics) {
        Screened::Passed => None,
        Screened::InPart(absent) => Some(absent),
        Screened::Refused(refused) => return Destination::Refused(refused),
    };
    let invalid = api.invalid(version);
    let slot = match api.named(version) {
        Named::One(group) => (front.slot_of)(group).ok_or(ErrorCode::NotCoordinator),
        Named::Each(list) => {
            return match list::screen(list, front) {
                Some(destination) => destination,
                None => Destination::Refused(api.refused(version, ErrorCode::None)),
            };
        }
        Named::OfShard => return Destination::Shard,
    };
    let error = match (invalid, slot) {
        (None, Ok(slot)) => return Destination::Slot(slot, absent),
        (Some(error), _) | (None, Err(error)) => error,
    };
    let mut refused = api.refused(version, error);
    if let Some(absent) = absent {
        merge(&mut refused, absent);
    }
    Destination::Refused(refused)
}

/// Splits a request that names several groups into requests for groups of one slot each, in the
/// order in which it names them; none for a request that names no list.
pub(crate) fn by_slot<'r>(
    request: GroupRequest<'r>,
    slot_of: impl Fn(&str) -> Slot,
) -> Vec<(Slot, GroupRequest<'r>)> {
    match request {
        GroupRequest::DescribeGroups(body) => list::runs(body.groups, |it| slot_of(it))
            .map(|(slot, groups)| (slot, DescribeGroupsRequest { groups, ..body }.into()))
            .collect(),
        GroupRequest::ConsumerGroupDescribe(body) => list::runs(body.group_ids, |it| slot_of(it))
            .map(|(slot, ids)| {
                (slot, ConsumerGroupDescribeRequest { group_ids: ids, ..body }.into())
            })
            .collect(),
        GroupRequest::DeleteGroups(body) => list::runs(body.groups_names, |it| slot_of(it))
            .map(|(slot, names)| (slot, DeleteGroupsRequest { groups_names: names }.into()))
            .collect(),
        GroupRequest::OffsetFetch(body) => list::runs(body.groups, |it| slot_of(&it.group_id))
            .map(|(slot, groups)| {
                let require_stable = body.require_stable;
                let some = OffsetFetchRequest { groups, require_stable, ..Default::default() };
                (slot, some.into())
            })
            .collect(),
        GroupRequest::JoinGroup(_)
        | GroupRequest::SyncGroup(_)
        | GroupRequest::Heartbeat(_)
        | GroupRequest::LeaveGroup(_)
        | GroupRequest::ConsumerGroupHeartbeat(_)
        | GroupRequest::OffsetCommit(_)
        | GroupRequest::OffsetDelete(_)
        | GroupRequest::ListGroups(_) => Vec::new(),
    }
}

/// The response that refuses a whole request.
pub(crate) fn refused(
    request: &mut GroupRequest<'_>,
    version: i16,
    error: ErrorCode,
) -> Response<'static> {
    api(request).refused(version, error)
}

/// Names each group once.
pub(super) fn name_once(request: &mut GroupRequest<'_>, version: i16) {
    if let Named::Each(list) = api(request).named(version) {
        list.name_once();
    }
}

/// The response to a request whose records were not written. (The coordinator answers group APIs
/// only.)
pub(crate) fn failed(response: Response<'_>, error: ErrorCode) -> Response<'_> {
    match GroupResponse::try_from(response) {
        Ok(mut response) => {
            fail(&mut response, error);
            response.into()
        }
        Err(other) => other,
    }
}

fn owned(text: &Str<'_>) -> Str<'static> {
    Str::Owned(text.to_string())
}
