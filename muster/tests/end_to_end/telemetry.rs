//! Metrics that clients push (KIP-714): their subscriptions, and how the server passes the metrics
//! on, in `/metrics` and to an OTLP endpoint.

use crate::support::http::get;
use crate::support::{Client, Server, free_ports, rules};
use muster_codec::messages::*;
use muster_codec::{ApiKey, ErrorCode, Response, Uuid};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

/// A push of a Java consumer of Kafka 4.3, reduced to two metrics: a gauge and a counter.
const PUSHED: &[u8] = include_bytes!("../data/pushed-metrics.bin");

/// Subscribes to the metrics of all clients.
fn subscribe(server: &Server) {
    let configs = [("interval.ms", Some("60000")), ("metrics", Some("org.apache.kafka."))];
    let request = rules::alter_configs(rules::CLIENT_METRICS, "all", &configs);
    let response = server.client(0).call(1, request.into());
    let mut errors = Vec::new();
    response.errors(&mut |code| errors.push(code));
    assert_eq!(errors, [0i16; 0]);
}

/// Asks for subscriptions. Returns the client's id, and the id of its subscriptions.
fn ask(client: &mut Client) -> (Uuid, i32) {
    let answer = client.call(0, GetTelemetrySubscriptionsRequest::default().into());
    let Response::GetTelemetrySubscriptions(body) = answer else { panic!("{answer:?}") };
    assert_eq!((body.error_code, body.requested_metrics.len()), (0, 1));
    (body.client_instance_id, body.subscription_id)
}

fn push(client: &mut Client, (id, subscription_id): (Uuid, i32), metrics: &[u8]) -> ErrorCode {
    let request = PushTelemetryRequest {
        client_instance_id: id,
        subscription_id,
        metrics: metrics.to_vec().into(),
        ..Default::default()
    };
    let answer = client.call(0, request.into());
    let Response::PushTelemetry(body) = answer else { panic!("{answer:?}") };
    ErrorCode::from_code(body.error_code).unwrap()
}

/// Takes and answers one HTTP request. Returns its head and body.
fn take_one(listener: &TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    let end = loop {
        let mut part = [0; 4_096];
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "the request ends early");
        bytes.extend_from_slice(&part[..read]);
        let head = bytes.windows(4).position(|it| it == b"\r\n\r\n");
        let Some(end) = head.map(|at| at + 4) else { continue };
        let text = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = text.split("content-length: ").nth(1).unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        if bytes.len() >= end + length {
            break end;
        }
    };
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), bytes[end..].to_vec())
}

#[test]
fn what_clients_push_is_shown_and_forwarded() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/metrics", collector.local_addr().unwrap());
    let data = tempfile::tempdir().unwrap();
    let admin = free_ports(1);
    let keys = [
        format!("admin.listener=127.0.0.1:{admin}"),
        format!("client.telemetry.otlp.endpoint={url}"),
    ];
    let server = Server::start(data.path(), 2, &keys.each_ref().map(String::as_str));
    subscribe(&server);
    // A client may ask one shard for its subscriptions, and push to another.
    let id = ask(&mut server.client(0));
    let mut client = server.client(1);
    assert_eq!(push(&mut client, id, b"nonsense"), ErrorCode::InvalidRecord);
    assert_eq!(push(&mut client, id, PUSHED), ErrorCode::ThrottlingQuotaExceeded);
    assert_eq!(push(&mut server.client(0), id, PUSHED), ErrorCode::None);

    let (_, _, text) = get(admin, "/metrics", "text/plain");
    let labels = format!("client_instance_id=\"{}\",client_id=\"", id.0);
    let of_client: Vec<&str> = text.lines().filter(|line| line.contains(&labels)).collect();
    assert!(of_client.len() >= 2, "{text}");
    assert!(of_client.iter().all(|line| line.starts_with("org_apache_kafka_")), "{of_client:?}");
    assert!(of_client.iter().any(|line| line.contains(",group=\"billing\"")), "{of_client:?}");

    let (head, body) = take_one(&collector);
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/x-protobuf\r\n"), "{head}");
    let body = String::from_utf8_lossy(&body);
    for expected in ["client_instance_id", &id.0.to_string(), "client_source_address", "127.0.0.1"]
    {
        assert!(body.contains(expected), "{expected}");
    }
    let deadline = Instant::now() + PATIENCE;
    while !get(admin, "/metrics", "text/plain")
        .2
        .contains("\nmuster_client_metrics_forwarded_total 1\n")
    {
        assert!(Instant::now() < deadline, "the push is not counted");
    }
}

#[test]
fn a_server_with_no_place_for_metrics_does_not_ask_for_them() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), 1, &["admin.listener="]);
    let answer = server.client(0).call(0, ApiVersionsRequest::default().into());
    let Response::ApiVersions(body) = answer else { panic!("{answer:?}") };
    let is_listed = |api: ApiKey| body.api_keys.iter().any(|it| it.api_key == api as i16);
    assert!(is_listed(ApiKey::ApiVersions));
    assert!(!is_listed(ApiKey::GetTelemetrySubscriptions) && !is_listed(ApiKey::PushTelemetry));
}
