//! Audit: the log lines about changes of the cluster, and about clients that are turned away.

use crate::support::alice::{self, log_in};
use crate::support::{Client, Server, rules};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Request};
use serde_json::{Value, json};

/// A server that logs JSON lines, and the port of its listener that requires a password.
fn server(data: &std::path::Path) -> (Server, u16) {
    alice::start(data, 1, &["--log-format", "json"])
}

/// The first line that contains these words, without its time.
fn line(server: &Server, words: &str) -> Value {
    let line = server.line_with(words);
    let mut line: Value = serde_json::from_str(&line[line.find('{').unwrap()..]).unwrap();
    line.as_object_mut().unwrap().remove("timestamp");
    line
}

fn set_user() -> AlterUserScramCredentialsRequest<'static> {
    let upsertion = ScramCredentialUpsertion {
        name: "bob".into(),
        mechanism: 1,
        iterations: 4_096,
        salt: b"a salt".to_vec().into(),
        salted_password: b"a salted password of bob".to_vec().into(),
    };
    AlterUserScramCredentialsRequest { upsertions: vec![upsertion], ..Default::default() }
}

fn set_quota() -> AlterClientQuotasRequest<'static> {
    let entity =
        vec![QuotaEntity { entity_type: "user".into(), entity_name: Some("alice".into()) }];
    let op = QuotaOp { key: "producer_byte_rate".into(), value: 1_024.0, remove: false };
    let entries = vec![QuotaAlteration { entity, ops: vec![op] }];
    AlterClientQuotasRequest { entries, validate_only: false }
}

#[test]
fn a_change_has_a_line_with_its_client_and_without_secrets() {
    let data = tempfile::tempdir().unwrap();
    let (server, _) = server(data.path());
    let changes: [(Request<'_>, i16, &str, Value); 4] = [
        (
            set_user().into(),
            0,
            "set a credential",
            json!({ "user": "bob", "mechanism": "SCRAM-SHA-256" }),
        ),
        (
            rules::alice_reads_orders().into(),
            3,
            "added ACLs",
            json!({
                "acls": "\"Allow User:alice from * Read Literal Topic:orders\"", "count": 1,
            }),
        ),
        (
            set_quota().into(),
            1,
            "altered quotas",
            json!({ "of": "\"user=alice\"", "quotas": "\"producer_byte_rate=1024\"" }),
        ),
        (
            rules::alter_configs(
                rules::CLIENT_METRICS,
                "latencies",
                &[("interval.ms", Some("60000"))],
            )
            .into(),
            1,
            "altered configs",
            json!({ "kind": "client-metrics", "of": "latencies", "keys": "interval.ms" }),
        ),
    ];
    for (request, version, words, fields) in changes {
        server.client(0).call(version, request);
        let mut expected = json!({
            "level": "INFO", "target": "change", "message": words,
            "principal": "User:ANONYMOUS", "client": "test", "host": "/127.0.0.1",
        });
        expected.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        assert_eq!(line(&server, words), expected);
    }
    assert_eq!(server.lines_with("salt"), 0, "nothing of a password is logged");
}

#[test]
fn a_client_that_is_turned_away_has_a_warning_and_no_error() {
    let data = tempfile::tempdir().unwrap();
    let (server, outside) = server(data.path());
    let mut alice = Client::connect(outside);
    assert_eq!(log_in(&mut alice, "secret"), 0);
    let request = FindCoordinatorRequest { key: "billing".into(), ..Default::default() };
    alice.call(3, request.into());
    let expected = json!({
        "level": "WARN", "target": "audit", "message": "denied", "principal": "User:alice",
        "client": "test", "host": "/127.0.0.1", "api": "FindCoordinator",
        "operation": "Describe", "resource": "Group", "name": "billing",
    });
    assert_eq!(line(&server, "denied"), expected);

    let failed = log_in(&mut Client::connect(outside), "wrong");
    assert_eq!(failed, ErrorCode::SaslAuthenticationFailed.code());
    let expected = json!({
        "level": "WARN", "target": "audit", "message": "authentication failed", "user": "alice",
        "host": "/127.0.0.1", "listener": "OUTSIDE", "mechanism": "PLAIN",
        "reason": "wrong name or password",
    });
    assert_eq!(line(&server, "authentication failed\""), expected);

    // A client that does not wait for the answer is logged, too.
    let mut hasty = Client::connect(outside);
    hasty.call(1, SaslHandshakeRequest { mechanism: "PLAIN".into() }.into());
    let auth_bytes = b"\0hasty\0wrong".to_vec().into();
    hasty.send(2, &SaslAuthenticateRequest { auth_bytes }.into()).unwrap();
    drop(hasty);
    assert_eq!(line(&server, "hasty")["message"], "authentication failed");
    assert_eq!(server.lines_with("\"ERROR\""), 0, "the server has no trouble of its own");
}
