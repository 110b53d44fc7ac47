//! The other APIs that any broker answers.

use super::Verdict;
use super::by::{By, take_denied};
use crate::admin::{asks_for_all, refusal_of_metadata, refused_log_dirs};
use crate::dispatch::answer::owned;
use crate::security::acls::Operation::{Alter, Create, Describe, IdempotentWrite, Write};
use crate::security::acls::ResourceType;
use muster_codec::messages::*;
use muster_codec::{BrokerRequest, ErrorCode};
use muster_faults::Fault;
use std::collections::HashSet;

pub(super) fn screen(request: &mut BrokerRequest<'_>, by: &By<'_>) -> Verdict {
    match request {
        BrokerRequest::Metadata(body) => metadata(body, by),
        BrokerRequest::InitProducerId(body) => {
            let allowed = match &body.transactional_id {
                Some(id) => by.transactional_id(Write, id),
                // A client that may write to some topic may do so idempotently (KIP-679).
                None if by.any_topic(Write) => Ok(()),
                None => by.cluster(IdempotentWrite),
            };
            Verdict::whole(allowed, InitProducerIdResponse::refused)
        }
        // As in Kafka anyone may ask and push: what is asked for are metrics of the client itself.
        BrokerRequest::GetTelemetrySubscriptions(_) | BrokerRequest::PushTelemetry(_) => {
            Verdict::Passed
        }
        BrokerRequest::AlterReplicaLogDirs(body) => {
            Verdict::whole(by.cluster(Alter), |error| refused_log_dirs(body, error))
        }
        BrokerRequest::DescribeLogDirs(_) => Verdict::whole(by.cluster(Describe), |error| {
            DescribeLogDirsResponse { error_code: error.code(), ..Default::default() }
        }),
        // As in Kafka, it is first asked if a client may use tokens at all.
        BrokerRequest::CreateDelegationToken(_)
        | BrokerRequest::RenewDelegationToken(_)
        | BrokerRequest::ExpireDelegationToken(_)
        | BrokerRequest::DescribeDelegationToken(_) => Verdict::Passed,
    }
}

/// All topics are restricted to those that may be described. Of those that are named, the denied
/// ones are refused, and so are those that would have to be created and may not.
fn metadata(body: &mut MetadataRequest<'_>, by: &By<'_>) -> Verdict {
    if asks_for_all(by.version, body) {
        return Verdict::Restricted;
    }
    if refusal_of_metadata(by.version, body).is_some() {
        return Verdict::Passed;
    }
    let creates = by.config.auto_create_topics_enable && body.allow_auto_topic_creation;
    let may_create = |name: &str| {
        by.permissions.allow_on_cluster(Create)
            || by.permissions.allow(Create, ResourceType::Topic, name)
    };
    let topics = body.topics.get_or_insert_default();
    // As in `admin::metadata`, one id makes it a request by ids, and names alone are ignored: they
    // must not be what is left of it.
    let is_by_ids = topics.iter().any(|it| !it.topic_id.is_zero());
    topics.retain(|it| !is_by_ids || !it.topic_id.is_zero());
    let is_allowed = |it: &MetadataRequestTopic<'_>| {
        if is_by_ids {
            let topic = by.image.topic_by_id(it.topic_id);
            return topic.is_none_or(|topic| by.topic(Describe, &topic.name));
        }
        let name = it.name.as_deref().unwrap_or_default();
        let is_there = by.image.topic(name).is_some();
        by.topic(Describe, name) && (is_there || !creates || may_create(name))
    };
    let denied = take_denied(topics, is_allowed);
    let of = |it: &MetadataRequestTopic<'_>| MetadataResponseTopic {
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        name: it.name.as_ref().filter(|_| it.topic_id.is_zero()).map(owned),
        topic_id: if Fault::TellingRefusal.is_injected() {
            it.name.as_ref().and_then(|name| by.image.topic(name)).map_or(it.topic_id, |it| it.id)
        } else {
            it.topic_id
        },
        ..Default::default()
    };
    let Some(denied) = denied else { return Verdict::Restricted };
    let mut seen = HashSet::new();
    let once = denied.iter().filter(|it| {
        let name = it.name.as_ref().filter(|_| it.topic_id.is_zero());
        seen.insert((it.topic_id, name))
    });
    let refused = MetadataResponse { topics: once.map(of).collect(), ..Default::default() };
    // No topics would be all of them in version 0: the answer leaves out those that are denied.
    if topics.is_empty() && by.version == 0 {
        *topics = denied;
        body.allow_auto_topic_creation = false;
    }
    Verdict::InPart(refused.into())
}
