//! Authorization of the APIs of the role `controller`.

use super::Verdict;
use super::by::{By, take_denied, words};
use crate::cluster::{
    self, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, LOGGER_RESOURCE, TOPIC_RESOURCE,
};
use crate::dispatch::answer::owned;
use crate::security::acls::Operation::{Alter, AlterConfigs, Create, Delete, Describe};
use muster_codec::messages::*;
use muster_codec::{ControllerRequest, ErrorCode, Str, Uuid};
use std::collections::BTreeSet;

const DENIED: i16 = ErrorCode::TopicAuthorizationFailed as i16;

pub(super) fn screen(request: &mut ControllerRequest<'_>, by: &By<'_>) -> Verdict {
    match request {
        ControllerRequest::CreateTopics(body) => create_topics(body, by).restricted(),
        ControllerRequest::DeleteTopics(body) => delete_topics(body, by),
        ControllerRequest::CreatePartitions(body) => create_partitions(body, by),
        ControllerRequest::AlterConfigs(body) => {
            let denied = take_allowed(&mut body.resources, by);
            let denied =
                denied.map(|responses| AlterConfigsResponse { responses, ..Default::default() });
            Verdict::of_parts(denied, body.resources.is_empty())
        }
        ControllerRequest::IncrementalAlterConfigs(body) => {
            let denied = take_allowed(&mut body.resources, by);
            let denied = denied.map(|responses| IncrementalAlterConfigsResponse {
                responses,
                ..Default::default()
            });
            Verdict::of_parts(denied, body.resources.is_empty())
        }
        ControllerRequest::AlterUserScramCredentials(body) => {
            Verdict::whole(by.cluster(Alter), |error| refused_users(body, error))
        }
        ControllerRequest::DescribeQuorum(_) => {
            Verdict::whole(by.cluster(Describe), |error| DescribeQuorumResponse {
                error_code: error.code(),
                error_message: words(error),
                ..Default::default()
            })
        }
        ControllerRequest::AlterClientQuotas(body) => {
            Verdict::whole(by.cluster(AlterConfigs), |error| refused_quotas(body, error))
        }
        ControllerRequest::CreateAcls(body) => Verdict::whole(by.cluster(Alter), |error| {
            let (error_code, error_message) = (error.code(), words(error));
            let result = AclCreationResult { error_code, error_message };
            CreateAclsResponse { results: vec![result; body.creations.len()], ..Default::default() }
        }),
        ControllerRequest::DeleteAcls(body) => Verdict::whole(by.cluster(Alter), |error| {
            let (error_code, error_message) = (error.code(), words(error));
            let matching_acls = Vec::new();
            let result = DeleteAclsFilterResult { error_code, error_message, matching_acls };
            DeleteAclsResponse {
                filter_results: vec![result; body.filters.len()],
                ..Default::default()
            }
        }),
    }
}

fn refused_quotas(
    body: &AlterClientQuotasRequest<'_>,
    error: ErrorCode,
) -> AlterClientQuotasResponse<'static> {
    let entity = |it: &QuotaEntity<'_>| QuotaEntity {
        entity_type: owned(&it.entity_type),
        entity_name: it.entity_name.as_ref().map(owned),
    };
    let entries = body.entries.iter().map(|it| QuotaAlterationResult {
        error_code: error.code(),
        error_message: words(error),
        entity: it.entity.iter().map(entity).collect(),
    });
    AlterClientQuotasResponse { entries: entries.collect(), ..Default::default() }
}

fn create_topics(body: &mut CreateTopicsRequest<'_>, by: &By<'_>) -> Verdict {
    if by.permissions.allow_on_cluster(Create) {
        return Verdict::Passed;
    }
    // If the timeout has expired, the controller refuses the whole request, even denied topics. As
    // in Kafka this requires that at least one topic is allowed: `QuorumController.createTopics`
    // answers a request without topics at once.
    if body.timeout_ms <= 0 && body.topics.iter().any(|it| by.topic(Create, &it.name)) {
        return Verdict::Passed;
    }
    // A topic that the request names twice is left in it even if it is denied: the handler refuses
    // it with another error.
    let twice = named_twice(body.topics.iter().map(|it| owned(&it.name)));
    let denied =
        take_denied(&mut body.topics, |it| twice.contains(&it.name) || by.topic(Create, &it.name));
    let of = |topic: CreatableTopic<'_>| CreatableTopicResult {
        name: owned(&topic.name),
        error_code: DENIED,
        error_message: Some("Authorization failed.".into()),
        ..Default::default()
    };
    let denied = denied.map(|denied| CreateTopicsResponse {
        topics: denied.into_iter().map(of).collect(),
        ..Default::default()
    });
    Verdict::of_parts(denied, body.topics.is_empty())
}

/// Checks the deletion of topics. The answer about an id includes the topic's name only if the
/// client may describe the topic.
fn delete_topics(body: &mut DeleteTopicsRequest<'_>, by: &By<'_>) -> Verdict {
    // The controller refuses the whole request if its timeout has expired.
    if by.permissions.allow_on_cluster(Delete) || body.timeout_ms <= 0 {
        return Verdict::Passed;
    }
    // Malformed entries, and entries that the request names twice, are left in it even if they are
    // denied: the handler refuses them with another error.
    let once: BTreeSet<_> =
        cluster::named_once(body).map(|it| (it.name.map(str::to_owned), it.id)).collect();
    let refusal = |name: Option<&str>, id| {
        let is_work = once.contains(&(name.map(str::to_owned), id));
        refusal_of_deletion(name, id, by).filter(|_| is_work)
    };
    let mut responses = Vec::new();
    let mut is_passed = |name: Option<&str>, topic_id| {
        let refused = refusal(name, topic_id).map(|error| DeletableTopicResult {
            name: name.or_else(|| shown_name(topic_id, by)).map(|it| it.to_owned().into()),
            topic_id,
            error_code: error.code(),
            error_message: words(error),
        });
        let is_passed = refused.is_none();
        responses.extend(refused);
        is_passed
    };
    body.topic_names.retain(|name| is_passed(Some(name), Uuid::ZERO));
    body.topics.retain(|it| is_passed(it.name.as_deref(), it.topic_id));
    if responses.is_empty() {
        return Verdict::Passed;
    }
    let is_empty = body.topics.is_empty() && body.topic_names.is_empty();
    Verdict::of_parts(Some(DeleteTopicsResponse { responses, ..Default::default() }), is_empty)
}

/// The name of the topic with an id, if the client may describe the topic.
fn shown_name<'b>(id: Uuid, by: &'b By<'_>) -> Option<&'b str> {
    let topic = by.image.topic_by_id(id)?;
    by.topic(Describe, &topic.name).then_some(&topic.name)
}

/// Returns an error if a client may not delete a topic. The permission is needed even if this shard
/// does not know the topic: the controller may know it already, and does not check permissions.
fn refusal_of_deletion(name: Option<&str>, id: Uuid, by: &By<'_>) -> Option<ErrorCode> {
    let topic = name.map_or_else(|| by.image.topic_by_id(id), |name| by.image.topic(name));
    let Some(name) = name.or(topic.map(|topic| &*topic.name)) else {
        return Some(ErrorCode::UnknownTopicId);
    };
    match topic {
        _ if !by.topic(Describe, name) => Some(ErrorCode::TopicAuthorizationFailed),
        _ if by.topic(Delete, name) => None,
        Some(_) => Some(ErrorCode::TopicAuthorizationFailed),
        None => Some(ErrorCode::UnknownTopicOrPartition),
    }
}

fn create_partitions(body: &mut CreatePartitionsRequest<'_>, by: &By<'_>) -> Verdict {
    let twice = named_twice(body.topics.iter().map(|it| owned(&it.name)));
    let denied =
        take_denied(&mut body.topics, |it| twice.contains(&it.name) || by.topic(Alter, &it.name));
    let of = |topic: CreatePartitionsTopic<'_>| CreatePartitionsTopicResult {
        name: owned(&topic.name),
        error_code: DENIED,
        error_message: None,
    };
    let denied = denied.map(|denied| CreatePartitionsResponse {
        results: denied.into_iter().map(of).collect(),
        ..Default::default()
    });
    Verdict::of_parts(denied, body.topics.is_empty())
}

/// The names that occur more than once in a request. The handler refuses their entries for that.
fn named_twice<K: Ord + Clone>(names: impl Iterator<Item = K>) -> BTreeSet<K> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(name.clone())).collect()
}

/// A resource whose configs a request alters.
trait Altered {
    /// Whether a refusal about loggers has a message, as in Kafka.
    const HAS_WORDS_ON_LOGGERS: bool;

    fn named(&self) -> (i8, &Str<'_>);

    /// Whether a config is named twice or lacks a required value. Kafka refuses such a resource
    /// before it checks permissions.
    fn is_malformed(&self) -> bool;
}

impl Altered for ReplacedConfigsResource<'_> {
    const HAS_WORDS_ON_LOGGERS: bool = true;

    fn named(&self) -> (i8, &Str<'_>) {
        (self.resource_type, &self.resource_name)
    }

    fn is_malformed(&self) -> bool {
        let names = self.configs.iter().map(|it| owned(&it.name));
        !named_twice(names).is_empty() || self.configs.iter().any(|it| it.value.is_none())
    }
}

impl Altered for AlterConfigsResource<'_> {
    const HAS_WORDS_ON_LOGGERS: bool = false;

    fn named(&self) -> (i8, &Str<'_>) {
        (self.resource_type, &self.resource_name)
    }

    fn is_malformed(&self) -> bool {
        const DELETE: i8 = 1;
        let names = self.configs.iter().map(|it| owned(&it.name));
        let lacks_value =
            |it: &AlterableConfig<'_>| it.value.is_none() && it.config_operation != DELETE;
        !named_twice(names).is_empty() || self.configs.iter().any(lacks_value)
    }
}

/// Keeps the resources that the client may alter, and returns the refusals of the others.
fn take_allowed<T: Altered>(
    resources: &mut Vec<T>,
    by: &By<'_>,
) -> Option<Vec<AlterConfigsResourceResponse<'static>>> {
    let allowed = |resource: &T| {
        let (resource_type, name) = resource.named();
        by.configs(AlterConfigs, resource_type, name)
    };
    let place = |resource: &T| {
        let (resource_type, name) = resource.named();
        (resource_type, owned(name))
    };
    let twice = named_twice(resources.iter().map(place));
    let is_passed = |resource: &T| {
        twice.contains(&place(resource)) || resource.is_malformed() || allowed(resource).is_ok()
    };
    let denied = take_denied(resources, is_passed)?;
    let refuse = |resource: T| {
        let error = allowed(&resource).err().unwrap_or(ErrorCode::None);
        let (resource_type, resource_name) = place(&resource);
        let error_code = error.code();
        let has_words = T::HAS_WORDS_ON_LOGGERS || resource_type != LOGGER_RESOURCE;
        let error_message = words(error).filter(|_| has_words);
        AlterConfigsResourceResponse { error_code, error_message, resource_type, resource_name }
    };
    Some(denied.into_iter().map(refuse).collect())
}

impl By<'_> {
    /// Checks an operation on the configs of a resource. The handler refuses unknown resource
    /// types.
    pub(super) fn configs(
        &self,
        operation: crate::security::acls::Operation,
        resource_type: i8,
        name: &str,
    ) -> Result<(), ErrorCode> {
        match resource_type {
            TOPIC_RESOURCE if self.topic(operation, name) => Ok(()),
            TOPIC_RESOURCE => Err(ErrorCode::TopicAuthorizationFailed),
            GROUP_RESOURCE => self.group(operation, name),
            BROKER_RESOURCE | LOGGER_RESOURCE | CLIENT_METRICS_RESOURCE => self.cluster(operation),
            _ => Ok(()),
        }
    }
}

fn refused_users(
    body: &AlterUserScramCredentialsRequest<'_>,
    error: ErrorCode,
) -> AlterUserScramCredentialsResponse<'static> {
    let deleted = body.deletions.iter().map(|it| &it.name);
    let users: BTreeSet<_> = deleted.chain(body.upsertions.iter().map(|it| &it.name)).collect();
    let refuse = |user: &Str<'_>| AlterUserScramCredentialsResult {
        user: owned(user),
        error_code: error.code(),
        error_message: words(error),
    };
    AlterUserScramCredentialsResponse {
        results: users.into_iter().map(refuse).collect(),
        ..Default::default()
    }
}
