//! One case for each kind of quota. A case sends requests to one server, and reports the answers.

use super::admin::{Admin, batch, create, create_partitions, delete};
use super::client::Seen;
use crate::wire::Ask;
use muster_codec::messages::{
    ApiVersionsRequest, FetchPartition, FetchRequest, FetchTopic, FindCoordinatorRequest,
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use serde_json::Value;
use std::io;
use std::thread;
use std::time::Instant;

pub(crate) type Case = fn(&mut Admin<'_>) -> io::Result<Vec<Seen>>;

pub(crate) const CASES: [(&str, Case); 8] = [
    ("producer_byte_rate", produce),
    ("producer_byte_rate, acks=0", produce_without_answers),
    ("consumer_byte_rate", fetch),
    ("request_percentage", request_time),
    ("controller_mutation_rate, strict", mutations_of_new_clients),
    ("controller_mutation_rate, permissive", mutations_of_old_clients),
    ("connection_creation_rate", connections_of_an_address),
    ("max.connection.creation.rate", connections_of_all),
];

/// The quotas on bytes, in bytes per second.
const BYTES: f64 = 10_000.0;

fn produce(admin: &mut Admin<'_>) -> io::Result<Vec<Seen>> {
    admin.topic("p", 1)?;
    admin.quota("client-id", "producer", "producer_byte_rate", Some(BYTES))?;
    let mut client = admin.client("producer")?;
    let step = |bytes: usize| {
        let what = format!("{bytes} bytes");
        client.ask(&what, &produce_of(&admin.name("p"), bytes, 1), |body| errors(body, "errorCode"))
    };
    [60_000, 60_000, 30_000, 100, 100].into_iter().map(step).collect()
}

/// Produces with acks=0, which is not answered. The time until the next answer shows how long the
/// server did not read from the connection.
fn produce_without_answers(admin: &mut Admin<'_>) -> io::Result<Vec<Seen>> {
    admin.topic("q", 1)?;
    admin.quota("client-id", "silent", "producer_byte_rate", Some(BYTES))?;
    let mut client = admin.client("silent")?;
    client.send(&produce_of(&admin.name("q"), 130_000, 0))?;
    let find = find_coordinator();
    let step = |_| client.ask("FindCoordinator", &find, |body| errors(body, "errorCode"));
    (0..2).map(step).collect()
}

fn fetch(admin: &mut Admin<'_>) -> io::Result<Vec<Seen>> {
    admin.topic("f", 1)?;
    let mut producer = admin.client("unlimited")?;
    for _ in 0..6 {
        producer.call(&produce_of(&admin.name("f"), 30_000, 1))?;
    }
    admin.quota("client-id", "consumer", "consumer_byte_rate", Some(BYTES))?;
    let mut client = admin.client("consumer")?;
    let step = |offset: i64| {
        let what = format!("offset {offset}");
        client.ask(&what, &fetch_of(&admin.name("f"), offset), |body| {
            format!("{} {}", errors(body, "errorCode"), records(body))
        })
    };
    [0, 1, 2, 3, 3].into_iter().map(step).collect()
}

fn request_time(admin: &mut Admin<'_>) -> io::Result<Vec<Seen>> {
    admin.quota("client-id", "busy", "request_percentage", Some(0.000_01))?;
    let mut client = admin.client("busy")?;
    let find = find_coordinator();
    let step = |_| client.ask("FindCoordinator", &find, |body| errors(body, "errorCode"));
    (0..4).map(step).collect()
}

fn mutations_of_new_clients(admin: &mut Admin<'_>) -> io::Result<Vec<Seen>> {
    mutations(admin, "new", [7, 3, 6])
}

fn mutations_of_old_clients(admin: &mut Admin<'_>) -> io::Result<Vec<Seen>> {
    mutations(admin, "old", [5, 2, 4])
}

/// As a client with a quota, creates, changes and deletes topics. The versions are those of
/// CreateTopics, CreatePartitions and DeleteTopics.
fn mutations(
    admin: &mut Admin<'_>,
    client_id: &str,
    [creates, adds, deletes]: [i16; 3],
) -> io::Result<Vec<Seen>> {
    admin.topic(&format!("{client_id}-0"), 1)?;
    admin.quota("client-id", client_id, "controller_mutation_rate", Some(1.0))?;
    let mut client = admin.client(client_id)?;
    let names = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| admin.name(&format!("{client_id}-{name}"))).collect()
    };
    let is_new = creates == 7;
    let steps = [
        ("only checked", Ask::new(creates, create(&names(&["a"]), 4, true))),
        ("creates 8", Ask::new(creates, create(&names(&["a", "b"]), 4, false))),
        ("creates 12 of three", Ask::new(creates, create(&names(&["c", "d", "e"]), 4, false))),
        ("creates one that exists", Ask::new(creates, create(&names(&["a"]), 1, false))),
        ("adds 2", Ask::new(adds, create_partitions(&names(&["0"]), 3))),
        ("deletes two", Ask::new(deletes, delete(&names(&["a", "b"]), is_new))),
        ("deletes again", Ask::new(deletes, delete(&names(&["a", "b"]), is_new))),
        ("creates one", Ask::new(creates, create(&names(&["g"]), 1, false))),
    ];
    let errors = |body: &Value| errors(body, "errorCode");
    steps.iter().map(|(what, ask)| client.ask(what, ask, errors)).collect()
}

fn connections_of_an_address(admin: &mut Admin<'_>) -> io::Result<Vec<Seen>> {
    admin.quota("ip", "127.0.0.1", "connection_creation_rate", Some(1.0))?;
    let seen = connections(admin, 14);
    admin.quota("ip", "127.0.0.1", "connection_creation_rate", None)?;
    seen
}

fn connections_of_all(admin: &mut Admin<'_>) -> io::Result<Vec<Seen>> {
    admin.config("max.connection.creation.rate", Some("1"))?;
    let seen = connections(admin, 13);
    admin.config("max.connection.creation.rate", None)?;
    seen
}

/// Opens connections one right after the other, and sends a request on each. Reports for each
/// whether it was answered or closed, and when.
fn connections(admin: &Admin<'_>, count: usize) -> io::Result<Vec<Seen>> {
    let began = Instant::now();
    let open = |_| -> io::Result<_> {
        let mut client = admin.client("many")?;
        let ask = Ask::new(0, ApiVersionsRequest::default());
        client.send(&ask)?;
        Ok(thread::spawn(move || {
            let answer = client.receive(&ask)?;
            Ok((answer.is_some(), began.elapsed().as_millis() as i64, client))
        }))
    };
    let opened = (0..count).map(open).collect::<io::Result<Vec<_>>>()?;
    let mut kept = Vec::new();
    let mut seen = opened.into_iter().enumerate().map(|(index, waits)| -> io::Result<_> {
        let ended: io::Result<_> = waits.join().map_err(|_| io::Error::other("panic"))?;
        let (is_answered, after_ms, client) = ended?;
        kept.push(client);
        let errors = if is_answered { "answered" } else { "closed" }.to_owned();
        Ok(Seen { what: format!("connection {index}"), errors, throttle_ms: 0, after_ms })
    });
    seen.by_ref().collect()
}

fn produce_of(topic: &str, bytes: usize, acks: i16) -> Ask {
    let partition = PartitionProduceData { index: 0, records: Some(batch(bytes).into()) };
    let name = topic.to_owned().into();
    let topic = TopicProduceData { name, partition_data: vec![partition], ..Default::default() };
    let request =
        ProduceRequest { acks, timeout_ms: 10_000, topic_data: vec![topic], ..Default::default() };
    Ask::new(9, request)
}

fn fetch_of(topic: &str, offset: i64) -> Ask {
    let partition =
        FetchPartition { fetch_offset: offset, partition_max_bytes: 20_000, ..Default::default() };
    let topic = topic.to_owned().into();
    let topics = vec![FetchTopic { topic, partitions: vec![partition], ..Default::default() }];
    let request = FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 20_000,
        topics,
        ..Default::default()
    };
    Ask::new(12, request)
}

fn find_coordinator() -> Ask {
    Ask::new(3, FindCoordinatorRequest { key: "group".into(), ..Default::default() })
}

/// All values of a field, at any depth. They are sorted, because Kafka answers deletions in any
/// order.
fn errors(body: &Value, field: &str) -> String {
    let mut found = Vec::new();
    collect(body, field, &mut found);
    found.sort_unstable();
    found.join(",")
}

fn collect(value: &Value, field: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == field {
                    found.push(value.to_string());
                }
                collect(value, field, found);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|it| collect(it, field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether an answer to Fetch contains records.
fn records(body: &Value) -> &'static str {
    let partitions = &body["responses"][0]["partitions"][0];
    if partitions["records"].is_null() { "no records" } else { "records" }
}
