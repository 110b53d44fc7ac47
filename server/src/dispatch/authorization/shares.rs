//! Authorization of the APIs of share partitions. The handler of ShareFetch checks the topics: the
//! share session may have more topics than the request names.

use super::Verdict;
use super::by::{By, words};
use crate::security::acls::Operation::{ClusterAction, Read};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response, ShareRequest, Str};

pub(super) fn screen(request: &mut ShareRequest<'_>, by: &By<'_>) -> Verdict {
    let allowed = match request {
        ShareRequest::ShareFetch(body) => may_read(body.group_id.as_ref(), by),
        ShareRequest::ShareAcknowledge(body) => may_read(body.group_id.as_ref(), by),
        ShareRequest::InitializeShareGroupState(_)
        | ShareRequest::ReadShareGroupState(_)
        | ShareRequest::WriteShareGroupState(_)
        | ShareRequest::DeleteShareGroupState(_)
        | ShareRequest::ReadShareGroupStateSummary(_) => by.cluster(ClusterAction),
    };
    Verdict::whole(allowed, |error| refused(request, error))
}

/// Whether the client may read the group. The handler refuses a request without a group.
fn may_read(group_id: Option<&Str<'_>>, by: &By<'_>) -> Result<(), ErrorCode> {
    group_id.map_or(Ok(()), |group_id| by.group(Read, group_id))
}

/// A response in which each partition has the error. `$rest` are further fields of each result.
macro_rules! all_refused {
    ($body:ident, $error:ident, $response:ident, $topic:ident, $partition:ident $($rest:tt)*) => {{
        let topics = $body.topics.iter().map(|topic| $topic {
            topic_id: topic.topic_id,
            partitions: topic
                .partitions
                .iter()
                .map(|it| $partition {
                    partition: it.partition,
                    error_code: $error.code(),
                    error_message: words($error)
                    $($rest)*
                })
                .collect(),
        });
        $response { results: topics.collect() }.into()
    }};
}

/// The answer to a request that is denied as a whole.
fn refused(request: &ShareRequest<'_>, error: ErrorCode) -> Response<'static> {
    let error_code = error.code();
    match request {
        ShareRequest::ShareFetch(_) => {
            ShareFetchResponse { error_code, ..Default::default() }.into()
        }
        ShareRequest::ShareAcknowledge(_) => {
            ShareAcknowledgeResponse { error_code, ..Default::default() }.into()
        }
        ShareRequest::InitializeShareGroupState(body) => all_refused!(
            body,
            error,
            InitializeShareGroupStateResponse,
            InitializeStateResult,
            InitializeStatePartitionResult
        ),
        ShareRequest::ReadShareGroupState(body) => all_refused!(
            body,
            error,
            ReadShareGroupStateResponse,
            ReadStateResult,
            ReadStatePartitionResult,
            ..Default::default()
        ),
        ShareRequest::WriteShareGroupState(body) => all_refused!(
            body,
            error,
            WriteShareGroupStateResponse,
            WriteStateResult,
            WriteStatePartitionResult
        ),
        ShareRequest::DeleteShareGroupState(body) => all_refused!(
            body,
            error,
            DeleteShareGroupStateResponse,
            DeleteStateResult,
            DeleteStatePartitionResult
        ),
        ShareRequest::ReadShareGroupStateSummary(body) => all_refused!(
            body,
            error,
            ReadShareGroupStateSummaryResponse,
            ReadStateSummaryResult,
            ReadStateSummaryPartitionResult,
            ..Default::default()
        ),
    }
}
