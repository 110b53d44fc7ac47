//! Metrics and health of the real server over HTTP. Metrics show what clients do. Hostile requests
//! are refused, and do not delay others.

use crate::support::http::{get, raw};
use crate::support::{Client, Server, command, free_ports};
use muster_codec::messages::*;
use std::collections::BTreeMap;
use std::net::TcpStream;

/// A server with two shards and an admin listener, and that listener's port.
fn server(data: &std::path::Path) -> (Server, u16) {
    let port = free_ports(1);
    (Server::start(data, 2, &[&format!("admin.listener=127.0.0.1:{port}")]), port)
}

/// The samples of a text, by name and labels. Each line must have the right format.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            let (kind, name) = (words.next().unwrap(), words.next().unwrap_or_default());
            assert!(["HELP", "TYPE", "UNIT", "EOF"].contains(&kind), "{line}");
            family = name.trim_end_matches("_total").to_owned();
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with(&family), "{line} in {family}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let before = samples.insert(name.to_owned(), value.parse().unwrap());
        assert_eq!(before, None, "{line} is there twice");
    }
    samples
}

/// Commits an offset in each of these groups, at their coordinators.
fn commit(server: &Server, groups: usize) {
    let coordinators = server.coordinators();
    let mut clients = [server.client(0), server.client(1)];
    for group in 0..groups {
        let group = format!("g-{group}");
        let shard = coordinators.shard(&group).unwrap();
        let partition = OffsetCommitRequestPartition { committed_offset: 7, ..Default::default() };
        let topic = OffsetCommitRequestTopic {
            name: "__consumer_offsets".into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: group.into(),
            generation_id_or_member_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        };
        clients[usize::from(shard)].call(8, request.into());
    }
}

fn join(client: &mut Client) -> ConsumerGroupHeartbeatResponse<'static> {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "readers".into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["__consumer_offsets".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    match client.call(1, request.into()) {
        muster_codec::Response::ConsumerGroupHeartbeat(joined) => joined,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_scrape_shows_what_clients_did() {
    const GROUPS: usize = 500;
    let data = tempfile::tempdir().unwrap();
    let (server, port) = server(data.path());
    commit(&server, GROUPS);
    assert_eq!(join(&mut server.coordinator("readers")).error_code, 0);
    let (status, head, text) = get(port, "/metrics", "text/plain");
    assert_eq!(status, 200);
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    let samples_of_text = samples(&text);
    let of = |name: &str| samples_of_text[name];
    let of_both =
        |name: &str| of(&format!("{name}{{shard=\"0\"}}")) + of(&format!("{name}{{shard=\"1\"}}"));
    assert_eq!(of_both("muster_groups_classic_empty"), GROUPS as f64);
    assert_eq!(of_both("muster_groups_consumer_stable"), 1.0);
    assert_eq!(of("kafka_coordinator_group_groupmetadatamanager_numgroups"), GROUPS as f64);
    assert_eq!(of("kafka_coordinator_group_groupmetadatamanager_numoffsets"), GROUPS as f64);
    let coordinator = "kafka_server_group_coordinator_metrics";
    assert_eq!(of(&format!("{coordinator}_offset_commit_count")), GROUPS as f64);
    assert_eq!(of(&format!("{coordinator}_group_count{{protocol=\"consumer\"}}")), 1.0);
    assert_eq!(of(&format!("{coordinator}_consumer_group_rebalance_count")), 1.0);
    assert_eq!(of(&format!("{coordinator}_num_partitions{{state=\"active\"}}")), 50.0);
    let commits =
        "kafka_network_requestmetrics_requests_total{request=\"OffsetCommit\",version=\"8\"}";
    assert_eq!(of(commits), GROUPS as f64);
    let times = "kafka_network_requestmetrics_totaltimems";
    assert_eq!(of(&format!("{times}_count{{request=\"OffsetCommit\"}}")), GROUPS as f64);
    assert!(of(&format!("{times}{{request=\"OffsetCommit\",quantile=\"0.5\"}}")) > 0.0);
    assert_eq!(of_both("muster_rebalances_consumer_seconds_count"), 1.0);
    assert_eq!(of_both("muster_shard_serving"), 2.0);
    let line = server.line_with("rebalanced");
    for part in ["group=readers", "kind=\"consumer\"", "epoch=2", "causes=\"1 joined (m)\""] {
        assert!(line.contains(part), "{line}");
    }

    let (status, head, text) = get(port, "/metrics", "application/openmetrics-text");
    assert_eq!((status, text.ends_with("# EOF\n")), (200, true));
    assert!(head.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0"));
    let of_both_forms = samples(&text);
    assert!(samples_of_text.keys().all(|name| of_both_forms.contains_key(name)));
}

#[test]
fn health_has_reasons_and_other_paths_are_unknown() {
    let data = tempfile::tempdir().unwrap();
    let (mut server, port) = server(data.path());
    server.says("ready after");
    // Warnings may follow: the disk of the test machine may be slow or almost full.
    for (path, verdict) in [("/healthz", "alive\n"), ("/readyz?verbose", "ready\n")] {
        let (status, _, body) = get(port, path, "");
        assert!(status == 200 && body.starts_with(verdict), "{status} {body}");
    }
    assert_eq!(get(port, "/other", "").0, 404);
    let head = raw(port, b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(server.stop().success());
}

#[test]
fn hostile_requests_are_refused_and_hold_up_no_other() {
    let data = tempfile::tempdir().unwrap();
    let (server, port) = server(data.path());
    let status = |bytes: &[u8]| raw(port, bytes).split(' ').nth(1).map(str::to_owned);
    let refused = |code: &str| Some(code.to_owned());
    assert_eq!(status(b"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), refused("405"));
    assert_eq!(status(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"), refused("413"));
    assert_eq!(status(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), refused("400"));
    assert_eq!(status(&[b'x'; 1 << 20]), refused("431"));
    let long = [b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec(), vec![b'y'; 20_000]].concat();
    assert_eq!(status(&long), refused("431"));
    assert_eq!(status(b""), None);

    // Opens more connections than the listener allows, and sends nothing. The oldest are closed.
    let silent: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(port, path, "").0, 200, "{path}");
    }
    assert!(join(&mut server.coordinator("readers")).error_code == 0, "clients are served");
    drop(silent);
}

#[test]
fn an_address_that_was_set_must_be_free_and_json_is_a_line_an_object() {
    let data = tempfile::tempdir().unwrap();
    let (_server, port) = server(data.path());
    let other = tempfile::tempdir().unwrap();
    let configs = [format!("admin.listener=127.0.0.1:{port}")];
    let output = command(other.path(), free_ports(1), 1, &configs).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && errors.contains("admin.listener="), "{errors}");

    let mut command = command(other.path(), free_ports(1), 1, &configs);
    let output = command.args(["--log-format", "json"]).output().unwrap();
    let lines = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let fields = ["timestamp", "level", "message", "target"];
        assert!(fields.iter().all(|field| line[field].is_string()), "{line}");
    }
    assert!(lines.lines().count() >= 2, "{lines}");
}
