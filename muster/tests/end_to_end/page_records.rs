//! Records of a topic on the admin listener: only if the config and an ACL allow it.

use crate::support::http::api;
use crate::support::{Server, alice, create_topic, free_ports, produce_to};
use muster_codec::Response;
use muster_codec::messages::{AclCreation, CreateAclsRequest};
use serde_json::{Value, json};

const TOPIC: &str = "orders";

/// The arguments of a server, and the port of its admin listener.
fn arguments(more: &str) -> (Vec<String>, u16) {
    let port = free_ports(1);
    (vec![format!("admin.listener=127.0.0.1:{port}"), more.to_owned()], port)
}

fn fill(server: &Server) {
    create_topic(server, TOPIC, 2);
    for partition in 0..2 {
        let shard = crate::support::transactional::leader(server, TOPIC, partition);
        let mut client = server.client(shard);
        for number in 0..30 {
            let value = format!("{{\"partition\":{partition},\"number\":{number}}}");
            produce_to(&mut client, TOPIC, partition, value.as_bytes()).unwrap();
        }
    }
}

/// The offsets and values of records.
fn rows(found: &Value) -> Vec<(i64, String)> {
    let records = found["records"].as_array().unwrap().iter();
    let row = |it: &Value| {
        let text = it["value"]["text"].as_str().unwrap();
        (it["offset"].as_i64().unwrap(), text.to_owned())
    };
    records.map(row).collect()
}

#[test]
fn the_last_records_are_shown_and_those_before_them() {
    let data = tempfile::tempdir().unwrap();
    let (words, port) = arguments("admin.records=true");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let server = Server::start(data.path(), 2, &words);
    fill(&server);
    let row = |partition: i32, number: i64| {
        (number, format!("{{\"partition\":{partition},\"number\":{number}}}"))
    };
    assert_eq!(api(port, "topics/orders").1["shows_records"], json!(true));
    for partition in 0..2 {
        let path = format!("records/orders?partition={partition}");
        let (status, last) = api(port, &path);
        assert_eq!(status, 200, "{last}");
        assert_eq!(
            (&last["start"], &last["end"], &last["next"]),
            (&json!(0), &json!(30), &json!(30))
        );
        let wanted: Vec<_> = (10..30).map(|number| row(partition, number)).collect();
        assert_eq!(rows(&last), wanted);
        let (_, before) = api(port, &format!("{path}&from=4&rows=2"));
        assert_eq!(rows(&before), [row(partition, 4), row(partition, 5)]);
        assert_eq!(before["next"], json!(6));
        let (_, beyond) = api(port, &format!("{path}&from=99"));
        assert_eq!((rows(&beyond).len(), &beyond["from"]), (0, &json!(30)));
    }
    let status = |path: &str| api(port, path).0;
    assert_eq!(status("records/other"), 404);
    assert_eq!(status("records/orders?partition=2"), 404);
    assert_eq!(status("records/orders?partition=x"), 400);
    assert_eq!(status("records/orders?rows=101"), 400);
}

#[test]
fn records_are_not_shown_unless_the_config_allows_it() {
    let data = tempfile::tempdir().unwrap();
    let (words, port) = arguments("admin.lag.interval.ms=100");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let server = Server::start(data.path(), 2, &words);
    fill(&server);
    assert_eq!(api(port, "topics/orders").1["shows_records"], json!(false));
    let (status, refused) = api(port, "records/orders");
    assert_eq!(status, 403);
    assert!(refused["error"].as_str().unwrap().contains("admin.records=true"), "{refused}");
}

#[test]
fn an_authorizer_decides_on_the_records_of_a_topic() {
    let data = tempfile::tempdir().unwrap();
    let (words, port) = arguments("admin.records=true");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (server, _) = alice::start(data.path(), 2, &words);
    fill(&server);
    assert_eq!(api(port, "records/orders").0, 403);
    let acl = AclCreation {
        resource_type: 2,
        resource_name: TOPIC.into(),
        resource_pattern_type: 3,
        principal: "User:muster-page".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
    };
    let request = CreateAclsRequest { creations: vec![acl] };
    let Response::CreateAcls(answer) = server.client(0).call(3, request.into()) else { panic!() };
    assert_eq!(answer.results[0].error_code, 0);
    let (status, found) = api(port, "records/orders");
    assert_eq!((status, rows(&found).len()), (200, 20));
}
