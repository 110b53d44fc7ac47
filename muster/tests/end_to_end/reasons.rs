//! The reasons that clients give for joining and leaving, as the log, the API and a metric show
//! them.

use crate::support::http::{api, api_until, get};
use crate::support::{Client, Server, free_ports};
use muster_codec::Response;
use muster_codec::messages::*;
use serde_json::json;

const POLL_TIMEOUT: &str = "consumer poll timeout has expired.";

/// A reason that looks like a new line, a further field and a further cause, if it is not escaped.
const HOSTILE: &str = "x'), 9 expired (y\ncauses=\"none\" \u{202e}";

/// The only member of a classic group.
struct Member {
    client: Client,
    id: String,
    generation: i32,
}

impl Member {
    fn new(server: &Server) -> Self {
        let (client, id) = (server.coordinator("billing"), String::new());
        Self { client, id, generation: 0 }
    }

    /// Joins with a reason, in this version of JoinGroup, and syncs.
    fn join(&mut self, version: i16, reason: &'static str) {
        let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
        let request = JoinGroupRequest {
            group_id: "billing".into(),
            member_id: self.id.clone().into(),
            session_timeout_ms: 30_000,
            rebalance_timeout_ms: 30_000,
            protocol_type: "consumer".into(),
            protocols: vec![protocol],
            reason: Some(reason.into()),
            ..Default::default()
        };
        let Response::JoinGroup(joined) = self.client.call(version, request.into()) else {
            panic!()
        };
        (self.id, self.generation) = (joined.member_id.into_owned(), joined.generation_id);
        if joined.error_code == muster_codec::ErrorCode::MemberIdRequired.code() {
            return self.join(version, reason);
        }
        let request = SyncGroupRequest {
            group_id: "billing".into(),
            generation_id: self.generation,
            member_id: self.id.clone().into(),
            ..Default::default()
        };
        let Response::SyncGroup(synced) = self.client.call(3, request.into()) else { panic!() };
        assert_eq!((joined.error_code, synced.error_code), (0, 0));
    }

    fn leave(&mut self, version: i16, reason: &'static str) {
        let member = MemberIdentity {
            member_id: self.id.clone().into(),
            reason: Some(reason.into()),
            ..Default::default()
        };
        let request = LeaveGroupRequest {
            group_id: "billing".into(),
            members: vec![member],
            ..Default::default()
        };
        let Response::LeaveGroup(left) = self.client.call(version, request.into()) else {
            panic!()
        };
        assert_eq!((left.error_code, left.members[0].error_code), (0, 0));
        self.id.clear();
    }
}

#[test]
fn a_rebalance_has_the_words_of_the_clients_that_caused_it() {
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(1);
    let listener = format!("admin.listener=127.0.0.1:{port}");
    let server = Server::start(data.path(), 1, &[&*listener, "group.initial.rebalance.delay.ms=0"]);
    let mut member = Member::new(&server);
    member.join(9, "first");
    let first = member.id.clone();
    member.join(8, "rebalance enforced by user");
    member.leave(5, POLL_TIMEOUT);
    member.join(7, "not in this version");
    let second = member.id.clone();
    member.leave(5, HOSTILE);
    member.join(9, "");
    member.leave(4, "not in this version");

    let shown = api_until(port, "groups/billing", |it| it["rebalances"][6].is_object());
    let causes: Vec<_> = (0..5).map(|at| &shown["rebalances"][at]["causes"]).collect();
    let joined = |cause: &str, id: &str, reason: Option<&str>| {
        let named = json!({ "id": id, "client_id": null, "client_host": null, "reason": reason });
        json!([{ "cause": cause, "count": 1, "members": [id], "named": [named] }])
    };
    let left = |id: &str, reason: Option<&str>| {
        let client = ("test", "/127.0.0.1");
        let named =
            json!({ "id": id, "client_id": client.0, "client_host": client.1, "reason": reason });
        json!([{ "cause": "left", "count": 1, "members": [id], "named": [named] }])
    };
    let expected = [
        &joined("joined", &first, Some("first")),
        &joined("rejoined", &first, Some("rebalance enforced by user")),
        &left(&first, Some(POLL_TIMEOUT)),
        &joined("joined", &second, None),
        &left(&second, Some(HOSTILE)),
    ];
    assert_eq!(causes, expected);
    let (_, again) = api(port, "groups/billing");
    assert_eq!(again["rebalances"][6]["causes"][0]["named"][0]["reason"], json!(null));

    let line = server.line_with("poll timeout");
    let words = format!("causes=\"1 left ({first} of test at /127.0.0.1: '{POLL_TIMEOUT}')\"");
    assert!(line.contains(&words), "{line}");
    let line = server.line_with("9 expired");
    let escaped = r#"x\\'), 9 expired (y\\ncauses=\"none\" \\u{202e}"#;
    let words = format!("causes=\"1 left ({second} of test at /127.0.0.1: '{escaped}')\"");
    assert!(line.contains(&words), "{line}");
    let (_, _, text) = get(port, "/metrics", "text/plain");
    let unpolled = "muster_groups_members_left_unpolled_total{shard=\"0\"} 1\n";
    assert!(text.contains(unpolled), "of three that left");
}
