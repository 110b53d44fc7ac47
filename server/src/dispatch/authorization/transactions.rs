//! Authorization of the APIs of transactions.

use super::Verdict;
use super::by::{By, take_denied};
use crate::dispatch::transaction_apis::{of_topic, refused};
use crate::security::acls::Operation::{ClusterAction, Describe, Read, Write};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Str, TransactionRequest};

/// The first version of AddPartitionsToTxn that only brokers send, for several transactions at
/// once.
const OF_BROKERS_FROM: i16 = 4;

pub(super) fn screen(request: &mut TransactionRequest<'_>, by: &By<'_>) -> Verdict {
    let allowed = match request {
        TransactionRequest::AddPartitionsToTxn(body) if by.version < OF_BROKERS_FROM => {
            let allowed = by.transactional_id(Write, &body.v3_and_below_transactional_id);
            if let (Ok(()), Some(refused)) = (allowed, denied_topics(body, by)) {
                return Verdict::Refused(refused.into());
            }
            allowed
        }
        TransactionRequest::AddPartitionsToTxn(_) => {
            return Verdict::whole(by.cluster(ClusterAction), |error| AddPartitionsToTxnResponse {
                error_code: error.code(),
                ..Default::default()
            });
        }
        TransactionRequest::AddOffsetsToTxn(body) => by
            .transactional_id(Write, &body.transactional_id)
            .and_then(|()| by.group(Read, &body.group_id)),
        TransactionRequest::EndTxn(body) => by.transactional_id(Write, &body.transactional_id),
        TransactionRequest::ListTransactions(_) => return Verdict::Restricted,
        TransactionRequest::DescribeTransactions(body) => return describe(body, by),
    };
    Verdict::whole(allowed, |error| refused(request, by.version, error))
}

/// The answer to a request with a topic that the client may not write to; None if the client may
/// write to all topics. As in Kafka, a single denied topic refuses the whole request: no partition
/// is added to the transaction.
fn denied_topics(
    body: &AddPartitionsToTxnRequest<'_>,
    by: &By<'_>,
) -> Option<AddPartitionsToTxnResponse<'static>> {
    let topics = &body.v3_and_below_topics;
    if topics.iter().all(|it| by.topic(Write, &it.name)) {
        return None;
    }
    let error = |topic: &AddPartitionsToTxnTopic<'_>| match by.image.topic(&topic.name) {
        _ if !by.topic(Write, &topic.name) => ErrorCode::TopicAuthorizationFailed,
        None => ErrorCode::UnknownTopicOrPartition,
        Some(_) => ErrorCode::OperationNotAttempted,
    };
    let of = |topic: &AddPartitionsToTxnTopic<'_>| of_topic(topic, error(topic));
    let results_by_topic_v3_and_below = topics.iter().map(of).collect();
    Some(AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() })
}

fn describe(body: &mut DescribeTransactionsRequest<'_>, by: &By<'_>) -> Verdict {
    let is_allowed = |id: &Str<'_>| by.transactional_id(Describe, id).is_ok();
    let denied = take_denied(&mut body.transactional_ids, is_allowed);
    let refuse = |transactional_ids| {
        let denied = DescribeTransactionsRequest { transactional_ids }.into();
        refused(&denied, by.version, ErrorCode::TransactionalIdAuthorizationFailed)
    };
    Verdict::of_parts(denied.map(refuse), body.transactional_ids.is_empty()).restricted()
}
