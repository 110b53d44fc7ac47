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
    /// Adds what was refused to the coordinator's answer to the rest.
    fn merge(&mut self, refused: Self);

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
pub(super) struct Front<'f> {
    pub(super) version: i16,
    pub(super) topics: &'f dyn Topics,
    /// Whether another shard has the group.
    pub(super) is_foreign: &'f dyn Fn(&str) -> bool,
}

/// The one list of group APIs.
macro_rules! group_apis {
    ($($name:ident),*) => {
        fn api<'m>(request: &'m mut GroupRequest<'_>) -> &'m mut dyn GroupApi {
            match request {
                $(GroupRequest::$name(body) => body,)*
            }
        }

        /// Adds what was refused of a request to the coordinator's answer to the rest.
        pub(super) fn merge(response: &mut Response<'_>, refused: Response<'static>) {
            match (response, refused) {
                $((Response::$name(body), Response::$name(refused)) => body.merge(refused),)*
                (response, refused) => {
                    let (answered, refused) = (response.api_key(), refused.api_key());
                    debug_assert!(false, "{refused:?} refused, {answered:?} answered");
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

/// Refuses what the coordinator must not see of a request.
pub(super) fn screen(request: &mut GroupRequest<'_>, front: &Front<'_>) -> Screened {
    let (api, version) = (api(request), front.version);
    let absent = match api.screen_topics(version, front.topics) {
        Screened::Passed => None,
        Screened::InPart(absent) => Some(absent),
        refused @ Screened::Refused(_) => return refused,
    };
    let invalid = api.invalid(version);
    let foreign = match api.named(version) {
        Named::One(group) => (front.is_foreign)(group).then_some(ErrorCode::NotCoordinator),
        Named::Each(list) => return list::screen(list, front),
        Named::OfShard => None,
    };
    let Some(error) = invalid.or(foreign) else {
        return absent.map_or(Screened::Passed, Screened::InPart);
    };
    let mut refused = api.refused(version, error);
    if let Some(absent) = absent {
        merge(&mut refused, absent);
    }
    Screened::Refused(refused)
}

/// The response that refuses a whole request.
pub(super) fn refused(
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
pub(super) fn failed(response: Response<'_>, error: ErrorCode) -> Response<'_> {
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
