//! The input of a request's authorization.

use crate::cluster::ClusterImage;
use crate::config::Config;
use crate::dispatch::extract::extract;
use crate::security::acls::{Operation, Permissions, ResourceType};
use muster_codec::{ApiKey, ErrorCode, Str, Uuid};
use std::cell::RefCell;

/// The permissions of a client, and further input of the checks.
pub(crate) struct By<'b> {
    pub(crate) version: i16,
    pub(crate) permissions: &'b Permissions,
    pub(crate) image: &'b ClusterImage,
    pub(crate) config: &'b Config,
    /// The first denied operation, for the log.
    pub(crate) denied: RefCell<Option<Denial>>,
}

/// An operation that was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) operation: Operation,
    pub(crate) resource_type: ResourceType,
    pub(crate) name: String,
}

type Allowed = Result<(), ErrorCode>;

impl By<'_> {
    pub(in crate::dispatch) fn cluster(&self, operation: Operation) -> Allowed {
        let allowed = self.permissions.allow_on_cluster(operation);
        self.check(allowed, (operation, ResourceType::Cluster, ""))
            .ok_or(ErrorCode::ClusterAuthorizationFailed)
    }

    pub(in crate::dispatch) fn group(&self, operation: Operation, name: &str) -> Allowed {
        self.allow(operation, ResourceType::Group, name).ok_or(ErrorCode::GroupAuthorizationFailed)
    }

    pub(in crate::dispatch) fn transactional_id(&self, operation: Operation, id: &str) -> Allowed {
        self.allow(operation, ResourceType::TransactionalId, id)
            .ok_or(ErrorCode::TransactionalIdAuthorizationFailed)
    }

    pub(in crate::dispatch) fn topic(&self, operation: Operation, name: &str) -> bool {
        self.allow(operation, ResourceType::Topic, name).is_some()
    }

    /// Whether an operation is allowed on a topic that is named by id in newer versions. An unknown
    /// id is allowed: there is nothing to protect, and the answer says that the id is unknown.
    pub(in crate::dispatch) fn named_topic(
        &self,
        operation: Operation,
        (name, id): (&str, Uuid),
        api: ApiKey,
    ) -> bool {
        if !api.has_topic_ids(self.version) {
            return self.topic(operation, name);
        }
        let topic = self.image.topic_by_id(id);
        topic.is_none_or(|topic| self.topic(operation, &topic.name))
    }

    /// Whether the operation is allowed on at least one topic.
    pub(in crate::dispatch) fn any_topic(&self, operation: Operation) -> bool {
        self.permissions.allow_on_any(operation, ResourceType::Topic)
    }

    fn allow(&self, operation: Operation, of: ResourceType, name: &str) -> Option<()> {
        let allowed = self.permissions.allow(operation, of, name);
        self.check(allowed, (operation, of, name))
    }

    fn check(
        &self,
        allowed: bool,
        (operation, resource_type, name): (Operation, ResourceType, &str),
    ) -> Option<()> {
        if !allowed {
            let denial = || Denial { operation, resource_type, name: name.to_owned() };
            self.denied.borrow_mut().get_or_insert_with(denial);
        }
        allowed.then_some(())
    }
}

/// Removes and returns the elements that are denied; None if there are none.
pub(in crate::dispatch) fn take_denied<T>(
    elements: &mut Vec<T>,
    is_allowed: impl Fn(&T) -> bool,
) -> Option<Vec<T>> {
    extract(elements, |element| !is_allowed(element))
}

/// Kafka's messages for errors of authorization and for unknown topics (`Errors`).
const WORDS: [(ErrorCode, &str); 6] = [
    (ErrorCode::UnknownTopicId, "This server does not host this topic ID."),
    (ErrorCode::UnknownTopicOrPartition, "This server does not host this topic-partition."),
    (ErrorCode::TopicAuthorizationFailed, "Topic authorization failed."),
    (ErrorCode::GroupAuthorizationFailed, "Group authorization failed."),
    (ErrorCode::ClusterAuthorizationFailed, "Cluster authorization failed."),
    (ErrorCode::TransactionalIdAuthorizationFailed, "The transactional id authorization failed."),
];

/// Kafka's message for an error; None if the error is not in [`WORDS`].
pub(in crate::dispatch) fn words(error: ErrorCode) -> Option<Str<'static>> {
    let found = WORDS.iter().find(|(of, _)| *of == error);
    found.map(|(_, words)| Str::Borrowed(*words))
}
