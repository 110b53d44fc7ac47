//! Helpers for the tests of several APIs, and rules for all APIs.

use super::*;
use crate::cluster::ClusterImage;
use muster_codec::messages::*;
use muster_codec::records::{ClusterRecord, TopicKey, TopicValue};
use muster_codec::{GroupRequest, Uuid};

pub(super) const ID: Uuid = Uuid([1; 16]);
pub(super) const UNKNOWN: Uuid = Uuid([9; 16]);
pub(super) const NONE: i16 = ErrorCode::None as i16;
pub(super) const UNKNOWN_PARTITION: i16 = ErrorCode::UnknownTopicOrPartition as i16;
pub(super) const UNKNOWN_ID: i16 = ErrorCode::UnknownTopicId as i16;

/// Topics with the error of each partition.
pub(super) type Outcome = Vec<(String, Vec<(i32, i16)>)>;

pub(super) fn of(name: &str, partitions: &[(i32, i16)]) -> (String, Vec<(i32, i16)>) {
    (name.to_owned(), partitions.to_vec())
}

/// An image with the topic t, which has two partitions.
pub(super) fn image() -> ClusterImage {
    let mut image = ClusterImage::default();
    let value = TopicValue { name: "t".into(), partitions: 2, ..Default::default() };
    image.apply(&ClusterRecord::Topic(TopicKey { topic_id: ID }, Some(value)));
    image
}

fn not_here(_group: &str) -> Result<Slot, ErrorCode> {
    Err(ErrorCode::NotCoordinator)
}

#[test]
fn a_sync_without_its_protocol_is_refused_before_its_group_is_looked_for() {
    let named = SyncGroupRequest {
        group_id: "g".into(),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        ..Default::default()
    };
    let unnamed = SyncGroupRequest { protocol_name: None, ..named.clone() };
    let error = |request: &SyncGroupRequest<'static>, version| {
        let context =
            ScreenContext { version, topics: &image(), slot_of: &not_here, is_loading: false };
        match screen(&mut GroupRequest::from(request.clone()), &context) {
            Destination::Answered(Response::SyncGroup(body)) => body.error_code,
            screened => panic!("{screened:?}"),
        }
    };
    assert_eq!(error(&named, 5), ErrorCode::NotCoordinator.code());
    assert_eq!(error(&unnamed, 5), ErrorCode::InconsistentGroupProtocol.code());
    assert_eq!(error(&unnamed, 4), ErrorCode::NotCoordinator.code());
}

#[test]
fn a_request_without_a_group_is_refused_by_each_shard() {
    let error = |mut request: GroupRequest<'static>| {
        let context =
            ScreenContext { version: 3, topics: &image(), slot_of: &not_here, is_loading: false };
        let Destination::Answered(response) = screen(&mut request, &context) else { panic!() };
        let mut errors = Vec::new();
        response.errors(&mut |code| errors.push(code));
        errors
    };
    let refused = [ErrorCode::InvalidGroupId.code()];
    assert_eq!(error(JoinGroupRequest::default().into()), refused);
    assert_eq!(error(SyncGroupRequest::default().into()), refused);
    assert_eq!(error(HeartbeatRequest::default().into()), refused);
    assert_eq!(error(LeaveGroupRequest::default().into()), refused);
    assert_eq!(error(OffsetDeleteRequest::default().into()), refused);
    assert_eq!(error(AlterShareGroupOffsetsRequest::default().into()), refused);
    assert_eq!(error(DeleteShareGroupOffsetsRequest::default().into()), refused);
    let partitions = vec![TxnOffsetCommitRequestPartition::default()];
    let topic = TxnOffsetCommitRequestTopic { name: "t".into(), partitions, ..Default::default() };
    let commit = TxnOffsetCommitRequest { topics: vec![topic], ..Default::default() };
    assert_eq!(error(commit.into()), refused);
    let named = HeartbeatRequest { group_id: "g".into(), ..Default::default() };
    assert_eq!(error(named.into()), [ErrorCode::NotCoordinator.code()]);
}

/// Requests that name one group must not return [`NamedGroups::Each`]: [`by_slot`] would split them
/// into no requests at all, so they would get no answer.
#[test]
fn apis_of_one_group_name_no_list() {
    for mut request in requests_of_one() {
        let key = request.api_key();
        for version in key.versions() {
            let named = api(&mut request).named(version);
            assert!(!matches!(named, NamedGroups::Each(_)), "{key:?} {version}");
        }
    }
}
