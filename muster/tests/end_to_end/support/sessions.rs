//! Members that only keep their membership.

use super::{Client, Server};
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol,
};
use muster_codec::{ApiKey, Bytes, ErrorCode, Response};
use std::time::Duration;

pub const MEMBERS: usize = 40;
pub const SESSION_MS: u64 = 2_000;

/// The configs of a server with sessions of `SESSION_MS`.
pub const SESSION_CONFIGS: [&str; 4] = [
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=2000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
];

/// A member with its own connection.
pub struct Member {
    client: Client,
    group: String,
    id: String,
    epoch: i32,
}

/// The members of a group, after all have joined.
pub fn join_all(server: &Server, group: &str) -> Vec<Member> {
    (0..MEMBERS).map(|index| Member::join(server, group, &format!("member-{index}"))).collect()
}

/// Joins as the only member of a classic group. Returns the member id.
pub fn join_alone(client: &mut Client, group: &str) -> String {
    let protocol = JoinGroupRequestProtocol { name: "range".into(), metadata: Bytes::default() };
    let request = JoinGroupRequest {
        group_id: group.to_owned().into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    };
    // In version 3 a member does not have to repeat the request with its id.
    let Response::JoinGroup(body) = client.call(3, request.into()) else { panic!() };
    assert_eq!(body.error_code, 0);
    body.member_id.to_string()
}

impl Member {
    pub fn join(server: &Server, group: &str, id: &str) -> Self {
        let client = server.coordinator(group);
        let mut member = Self { client, group: group.to_owned(), id: id.to_owned(), epoch: 0 };
        let asked = member.ask();
        assert!(member.is_answered(asked));
        member
    }

    /// From now on panics if an answer takes longer than `patience`.
    pub fn waits_for(&self, patience: Duration) {
        self.client.stream().set_read_timeout(Some(patience)).unwrap();
    }

    /// Sends a heartbeat. Returns its correlation id.
    pub fn ask(&mut self) -> i32 {
        let joins = self.epoch == 0;
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.group.clone().into(),
            member_id: self.id.clone().into(),
            member_epoch: self.epoch,
            rebalance_timeout_ms: if joins { 60_000 } else { -1 },
            subscribed_topic_names: joins.then(|| vec!["t".into()]),
            topic_partitions: joins.then(Vec::new),
            ..Default::default()
        };
        self.client.send(0, &request.into()).expect("a connection")
    }

    /// Whether the heartbeat with this correlation id was answered without error.
    pub fn is_answered(&mut self, id: i32) -> bool {
        let api = ApiKey::ConsumerGroupHeartbeat;
        let response = self.client.receive(api, 0, id).expect("an answer");
        let Response::ConsumerGroupHeartbeat(body) = response else { panic!("{response:?}") };
        self.epoch = body.member_epoch;
        body.error_code == ErrorCode::None as i16
    }
}
