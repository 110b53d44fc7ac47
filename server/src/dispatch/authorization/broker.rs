//! Authorization of the APIs of the role `broker`: Metadata, InitProducerId, telemetry, log
//! directories and delegation tokens.

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
                // A client that may write to at least one topic may use an idempotent producer
                // (KIP-679).
                None if by.any_topic(Write) => Ok(()),
                None => by.cluster(IdempotentWrite),
            };
            Verdict::whole(allowed, InitProducerIdResponse::refused)
        }
        // As in Kafka, any client may ask and push, as these are the client's own metrics.
        BrokerRequest::GetTelemetrySubscriptions(_) | BrokerRequest::PushTelemetry(_) => {
            Verdict::Passed
        }
        BrokerRequest::AlterReplicaLogDirs(body) => {
            Verdict::whole(by.cluster(Alter), |error| refused_log_dirs(body, error))
        }
        BrokerRequest::DescribeLogDirs(_) => Verdict::whole(by.cluster(Describe), |error| {
            DescribeLogDirsResponse { error_code: error.code(), ..Default::default() }
        }),
        // As in Kafka, the handler first checks whether the client may use tokens at all.
        BrokerRequest::CreateDelegationToken(_)
        | BrokerRequest::RenewDelegationToken(_)
        | BrokerRequest::ExpireDelegationToken(_)
        | BrokerRequest::DescribeDelegationToken(_) => Verdict::Passed,
    }
}

/// A request for all topics is allowed, and its answer shows only the topics that the client may
/// describe. In a request that names topics, a topic is refused if the client may not describe it,
/// or if it would have to be created and the client may not create it.
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
    // A request that has at least one topic id is a request by ids: as in `admin::metadata`, topics
    // in it that have only a name are ignored. Remove these here. If all ids are denied, only the
    // names would be left, and the handler would take the rest for a request by names.
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
    // In version 0 an empty list would mean all topics. So the denied topics stay in the request,
    // and their results are removed from the answer.
    if topics.is_empty() && by.version == 0 {
        *topics = denied;
        body.allow_auto_topic_creation = false;
    }
    Verdict::InPart(refused.into())
}
