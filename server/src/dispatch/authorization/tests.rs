//! Authorization by a shard whose image is older than the controller's.

use super::{By, Verdict, screen};
use crate::cluster::ClusterImage;
use crate::config::Config;
use crate::security::Principal;
use crate::security::acls::{
    Acl, AclRules, Acls, Entry, Operation, Pattern, PatternType, Permission, Permissions,
    ResourceType,
};
use muster_codec::messages::{DeleteTopicState, DeleteTopicsRequest};
use muster_codec::{ControllerRequest, ErrorCode, Response, Routed, Uuid};
use std::cell::RefCell;
use std::sync::Arc;

/// The permissions of a client that may perform only this operation on the topic `late`.
fn permissions(operation: Operation) -> Permissions {
    let (resource_type, pattern_type) = (ResourceType::Topic, PatternType::Literal);
    let pattern = Pattern { resource_type, pattern_type, name: "late".into() };
    let permission = Permission::Allow;
    let entry = Entry { principal: "User:a".into(), host: "*".into(), operation, permission };
    let mut acls = Acls::default();
    acls.add(Acl { pattern, entry });
    Permissions::new(Arc::new(AclRules::default()), acls, &Principal::user("a"), "/10.0.0.1")
}

/// The errors of a deletion that is refused here; empty if it is passed to the controller.
fn refused(topic: DeleteTopicState<'_>, operation: Operation) -> Vec<i16> {
    let config = Config::default();
    let by = By {
        version: 6,
        permissions: &permissions(operation),
        image: &ClusterImage::new(&config),
        config: &config,
        denied: RefCell::default(),
    };
    let body = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() };
    let mut request = Routed::Controller(ControllerRequest::DeleteTopics(body));
    match screen(&mut request, &by) {
        Verdict::Refused(Response::DeleteTopics(body)) => {
            body.responses.iter().map(|it| it.error_code).collect()
        }
        Verdict::Passed => Vec::new(),
        other => panic!("{other:?}"),
    }
}

/// Without a check of topics that the shard does not know, the controller would delete a topic that
/// it has just created.
#[test]
fn a_topic_that_is_not_known_yet_is_not_deleted_by_a_client_that_may_describe_it() {
    let by_name = || DeleteTopicState { name: Some("late".into()), topic_id: Uuid::ZERO };
    let by_id = || DeleteTopicState { name: None, topic_id: Uuid([1; 16]) };
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(refused(by_name(), Operation::Read), [unknown]);
    assert!(refused(by_name(), Operation::Delete).is_empty());
    assert_eq!(refused(by_id(), Operation::Read), [ErrorCode::UnknownTopicId.code()]);
    let both = DeleteTopicState { topic_id: Uuid([1; 16]), ..by_name() };
    assert!(refused(both, Operation::Read).is_empty(), "it is refused as invalid");
}
