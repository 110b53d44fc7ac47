//! Several listeners. Each has ports for all shards, and returns its own addresses to its clients.

use crate::support::{Client, Server, command_with, free_ports, said};
use muster_codec::Response;
use muster_codec::messages::*;

const SHARDS: u16 = 2;

/// The addresses of the brokers in an answer to Metadata.
fn brokers(port: u16) -> Vec<String> {
    let Response::Metadata(body) =
        Client::connect(port).call(12, MetadataRequest::default().into())
    else {
        panic!()
    };
    body.brokers.iter().map(|it| format!("{}:{}", it.host, it.port)).collect()
}

fn coordinator(port: u16) -> String {
    let request = FindCoordinatorRequest { key: "group".into(), ..Default::default() };
    let Response::FindCoordinator(body) = Client::connect(port).call(3, request.into()) else {
        panic!()
    };
    format!("{}:{}", body.host, body.port)
}

#[test]
fn clients_of_each_listener_have_its_addresses() {
    let data = tempfile::tempdir().unwrap();
    let (inside, outside) = (free_ports(SHARDS), free_ports(SHARDS));
    let listeners = format!("listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}");
    let arguments = [
        listeners.as_str(),
        "advertised.listeners=OUTSIDE://example.org:19092",
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    ];
    let server = Server::with_arguments(data.path(), inside, SHARDS, &arguments);
    server.says(&format!(
        "shard 1 listens on 127.0.0.1:{} for OUTSIDE (PLAINTEXT), clients connect to \
         example.org:19093",
        outside + 1
    ));
    for shard in 0..SHARDS {
        let of_inside = [inside, inside + 1].map(|port| format!("127.0.0.1:{port}"));
        assert_eq!(brokers(inside + shard), of_inside);
        assert_eq!(brokers(outside + shard), ["example.org:19092", "example.org:19093"]);
        assert!(of_inside.contains(&coordinator(inside + shard)));
        assert!(coordinator(outside + shard).starts_with("example.org:"));
    }
}

#[test]
fn listeners_that_need_the_same_ports_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(3);
    let arguments = [
        &format!("listeners=INSIDE://127.0.0.1:{port},OUTSIDE://0.0.0.0:{}", port + 1),
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    ];
    let output = command_with(data.path(), SHARDS, &arguments).output().unwrap();
    let text = said(&output);
    assert!(text.contains("need the same ports") && text.contains("INSIDE"), "{text}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0, "nothing was made");
}
