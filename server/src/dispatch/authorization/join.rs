//! Adds the answer to the denied parts of a request to the answer to its other parts.

use crate::dispatch::{group_apis, transaction_apis};
use muster_codec::Response;
use muster_codec::messages::{DescribeShareGroupOffsetsResponse, OffsetFetchResponse};

/// Adds the refused topics of each group to the group's entry in the answer, or drops them if that
/// entry is an error. If another part of the answer follows, returns the groups without an entry,
/// which may have one there.
macro_rules! join_groups {
    ($body:ident, $refused:ident, $is_last:ident) => {{
        let mut later = Vec::new();
        for group in $refused.groups {
            match $body.groups.iter_mut().find(|it| it.group_id == group.group_id) {
                Some(it) if it.error_code == 0 => it.topics.extend(group.topics),
                Some(_) => {}
                None if $is_last => $body.groups.push(group),
                None => later.push(group),
            }
        }
        (!later.is_empty()).then_some(later)
    }};
}

/// Adds the refusals to an answer, or to one part of a long answer. Returns the refusals that have
/// to be added to a later part.
///
/// # Panics
/// If the responses are of different APIs.
pub(super) fn join(
    response: &mut Response<'_>,
    refused: Response<'static>,
    is_last: bool,
) -> Option<Response<'static>> {
    match (response, refused) {
        (Response::OffsetFetch(body), Response::OffsetFetch(refused)) => {
            return join_offsets(body, refused, is_last).map(Into::into);
        }
        (
            Response::DescribeShareGroupOffsets(body),
            Response::DescribeShareGroupOffsets(refused),
        ) => {
            let groups = join_groups!(body, refused, is_last)?;
            return Some(DescribeShareGroupOffsetsResponse { groups, ..Default::default() }.into());
        }
        (Response::Produce(body), Response::Produce(it)) => body.responses.extend(it.responses),
        (Response::Fetch(body), Response::Fetch(it)) => body.responses.extend(it.responses),
        (Response::ListOffsets(body), Response::ListOffsets(it)) => body.topics.extend(it.topics),
        (Response::DeleteRecords(body), Response::DeleteRecords(it)) => {
            body.topics.extend(it.topics);
        }
        (Response::OffsetForLeaderEpoch(body), Response::OffsetForLeaderEpoch(it)) => {
            body.topics.extend(it.topics);
        }
        (Response::DescribeProducers(body), Response::DescribeProducers(it)) => {
            body.topics.extend(it.topics);
        }
        (Response::CreateTopics(body), Response::CreateTopics(it)) => body.topics.extend(it.topics),
        (Response::DeleteTopics(body), Response::DeleteTopics(it)) => {
            body.responses.extend(it.responses);
        }
        (Response::CreatePartitions(body), Response::CreatePartitions(it)) => {
            body.results.extend(it.results);
        }
        (Response::AlterConfigs(body), Response::AlterConfigs(it)) => {
            body.responses.extend(it.responses);
        }
        (Response::IncrementalAlterConfigs(body), Response::IncrementalAlterConfigs(it)) => {
            body.responses.extend(it.responses);
        }
        (Response::DescribeConfigs(body), Response::DescribeConfigs(it)) => {
            body.results.extend(it.results);
        }
        (Response::FindCoordinator(body), Response::FindCoordinator(it)) => {
            body.coordinators.extend(it.coordinators);
        }
        (Response::DescribeTopicPartitions(body), Response::DescribeTopicPartitions(it)) => {
            body.topics.extend(it.topics);
        }
        (Response::Metadata(body), Response::Metadata(it)) => body.topics.extend(it.topics),
        (body @ Response::DescribeTransactions(_), it) => transaction_apis::merge(body, it),
        (body, it) => group_apis::merge(body, it),
    }
    None
}

fn join_offsets(
    body: &mut OffsetFetchResponse<'_>,
    refused: OffsetFetchResponse<'static>,
    is_last: bool,
) -> Option<OffsetFetchResponse<'static>> {
    if body.error_code == 0 {
        body.topics.extend(refused.topics);
    }
    let groups = join_groups!(body, refused, is_last)?;
    Some(OffsetFetchResponse { groups, ..Default::default() })
}
