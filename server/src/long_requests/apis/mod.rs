//! The APIs with long requests. Each has a file, which defines when a request is long, how it is
//! split, and which list in its answer is built in parts.

mod delete_groups;
mod describe_configs;
mod describe_groups;
mod describe_topic_partitions;
mod find_coordinator;
mod list_config_resources;
mod list_groups;
mod list_transactions;
mod metadata;
mod modern_group_describe;
mod offset_fetch;

use super::answer::Answer;
use super::rest::Rest;
use super::weight::Sizes;
#[cfg(test)]
use muster_codec::ApiKey;
use muster_codec::{ErrorCode, Request, Response};

/// A request of an API that may have long requests.
trait LongApi {
    /// Whether answering takes longer than a slice.
    fn is_long(&self, version: i16, sizes: &mut Sizes<'_>) -> bool;

    /// Splits the request. The result no longer borrows from the frame of the request.
    fn take_apart(self, version: i16) -> Box<dyn Rest>;
}

/// Lists the APIs whose long requests are answered in slices, and those whose long requests are
/// answered whole, in one slice. Requests of all other APIs are answered at once.
macro_rules! long_apis {
    (in slices: $($sliced:ident),*; whole: $($whole:ident),*) => {
        /// Whether an API has long requests.
        #[cfg(test)]
        pub(super) fn has_long_requests(api: ApiKey) -> bool {
            matches!(api, $(ApiKey::$sliced |)* $(ApiKey::$whole)|*)
        }

        /// Whether answering a request takes longer than a slice.
        pub(crate) fn is_long(version: i16, request: &Request<'_>, mut sizes: Sizes<'_>) -> bool {
            match request {
                $(Request::$sliced(body) => body.is_long(version, &mut sizes),)*
                $(Request::$whole(body) => body.is_long(version, &mut sizes),)*
                _ => false,
            }
        }

        /// Splits a request into items. Returns None if its API has no long requests.
        pub(super) fn take_apart(request: Request<'_>, version: i16) -> Option<Box<dyn Rest>> {
            match request {
                $(Request::$sliced(body) => Some(body.take_apart(version)),)*
                $(Request::$whole(body) => Some(body.take_apart(version)),)*
                _ => None,
            }
        }

        /// Moves the list of a slice's response to the answer. Returns the size of the fields after
        /// the list.
        pub(super) fn gather(response: &mut Response<'_>, answer: &mut Answer) -> usize {
            match response {
                $(Response::$sliced(body) => answer.gather(body),)*
                other => unreachable!("{:?} is not answered in slices", other.api_key()),
            }
        }
    };
}

long_apis! {
    in slices: OffsetFetch, DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe,
        StreamsGroupDescribe, DeleteGroups, ListGroups, DescribeConfigs, FindCoordinator, Metadata,
        ListConfigResources, ListTransactions;
    whole: DescribeTopicPartitions
}

/// The error of an element that exceeds the budget.
const TOO_LARGE: i16 = ErrorCode::UnknownServerError as i16;
