//! Requests that no client of good will makes: the protocol's own error, and bounded answers.
#![allow(clippy::unwrap_used)]

use muster_codec::messages::*;
use muster_codec::{Bytes, ErrorCode, Request, Response, Uuid};
use muster_coordinator::limits::{
    MEMBER_PROTOCOLS_BYTES_MAX, MEMBER_PROTOCOLS_MAX, RESPONSE_METADATA_BYTES_MAX,
};
use muster_coordinator::{Caller, Config, Context, Coordinator, Ids, NoTopics, RequestId};

#[test]
fn more_protocols_than_any_client_has_are_refused() {
    let mut shard = Shard::new();
    let protocol = |_| JoinGroupRequestProtocol { name: "p".into(), ..Default::default() };
    let many = join((0..=MEMBER_PROTOCOLS_MAX).map(protocol).collect());
    assert_eq!(error_of(&shard.ask("c", many)), ErrorCode::InconsistentGroupProtocol);

    let metadata = Bytes::from(vec![0; MEMBER_PROTOCOLS_BYTES_MAX]);
    let large = join(vec![JoinGroupRequestProtocol { name: "p".into(), metadata }]);
    assert_eq!(error_of(&shard.ask("c", large)), ErrorCode::UnknownServerError);
    assert_eq!(shard.coordinator.durable_records().len(), 0, "they make no group");
}

#[test]
fn a_protocol_that_is_named_twice_counts_once() {
    let mut shard = Shard::new();
    let range = || JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    shard.ask("a", join(vec![range(), range()]));
    shard.ask("b", join(vec![range()]));
    let Some(Response::JoinGroup(joined)) = shard.expire() else { panic!("the join ends") };
    assert_eq!(joined.protocol_name.as_deref(), Some("range"));
}

#[test]
fn the_longest_ids_fit_into_their_answers() {
    let mut shard = Shard::new();
    let longest: String = "\u{e4}".repeat(i16::MAX as usize / 2);
    let range = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    shard.ask(&longest, join(vec![range]));
    let Some(Response::JoinGroup(joined)) = shard.expire() else { panic!("the join ends") };
    assert!(joined.member_id.len() <= i16::MAX as usize);

    let groups = vec![longest.clone().into()];
    let described = shard.ask("c", DescribeGroupsRequest { groups, ..Default::default() });
    let Some(Response::DescribeGroups(described)) = described else { panic!() };
    assert!(described.groups[0].error_message.as_ref().unwrap().len() <= i16::MAX as usize);
}

#[test]
fn what_is_named_over_and_over_is_not_repeated_without_end() {
    let mut shard = Shard::new();
    let metadata = "m".repeat(4_096);
    shard.ask("c", commit(metadata));
    let times = RESPONSE_METADATA_BYTES_MAX / 4_096 + 1;
    let topic = OffsetFetchRequestTopics {
        name: "t".into(),
        partition_indexes: vec![0; times],
        ..Default::default()
    };
    let groups = vec![OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics: Some(vec![topic]),
        ..Default::default()
    }];
    let fetched = shard.ask("c", OffsetFetchRequest { groups, ..Default::default() });
    let Some(Response::OffsetFetch(fetched)) = fetched else { panic!() };
    let partitions = &fetched.groups[0].topics[0].partitions;
    let refused = partitions.iter().filter(|it| it.error_code != ErrorCode::None as i16);
    assert_eq!((partitions.len(), refused.count()), (times, 1));
}

fn error_of(response: &Option<Response<'_>>) -> ErrorCode {
    let Some(Response::JoinGroup(response)) = response else { panic!("{response:?}") };
    ErrorCode::from_code(response.error_code).unwrap()
}

fn join(protocols: Vec<JoinGroupRequestProtocol<'static>>) -> JoinGroupRequest<'static> {
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        protocol_type: "connect".into(),
        protocols,
        ..Default::default()
    }
}

fn commit(metadata: String) -> OffsetCommitRequest<'static> {
    let partition = OffsetCommitRequestPartition {
        committed_metadata: Some(metadata.into()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "t".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    OffsetCommitRequest { group_id: "g".into(), topics: vec![topic], ..Default::default() }
}

struct Shard {
    coordinator: Coordinator,
    position: u64,
}

impl Shard {
    fn new() -> Self {
        let mut coordinator = Coordinator::new(Config::default());
        coordinator.loaded(0, &NoTopics);
        Self { coordinator, position: 0 }
    }

    fn ask<'r>(
        &mut self,
        client_id: &'r str,
        request: impl Into<Request<'r>>,
    ) -> Option<Response<'r>> {
        let request = request.into();
        let api_version = match request {
            Request::JoinGroup(_) => 3,
            Request::DescribeGroups(_) => 6,
            _ => 8,
        };
        self.position += 1;
        let request_id = RequestId { connection: 0, sequence: self.position };
        let client_host = "/1.2.3.4";
        let caller = Caller { request: request_id, api_version, client_id, client_host };
        let mut context =
            Context { now: 0, position: self.position, ids: &mut OneId, topics: &NoTopics };
        let output = self.coordinator.handle(&mut context, caller, request);
        output.records.iter().for_each(|it| self.coordinator.replay(it, self.position));
        output.answers.into_iter().next().map(|answer| answer.response)
    }

    /// The first answer that the end of the initial delay gives.
    fn expire(&mut self) -> Option<Response<'static>> {
        let mut answers = Vec::new();
        for now in [3_000, 6_000] {
            let mut context = Context { now, position: 9, ids: &mut OneId, topics: &NoTopics };
            answers.extend(self.coordinator.expire(&mut context).answers);
        }
        answers.into_iter().next().map(|answer| answer.response)
    }
}

struct OneId;

impl Ids for OneId {
    fn next_id(&mut self) -> Uuid {
        Uuid([1; 16])
    }
}
