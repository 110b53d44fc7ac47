//! The values that pushes lead to, with their names, labels and limits; and what is forwarded.

use super::super::limits::{PUSH_SERIES_MAX, SERIES_MAX};
use super::super::protobuf::{Content, put, put_bytes};
use super::*;
use muster_codec::record_batch::Compression;

const BYTES_MAX: usize = 8 << 20;

/// OpenTelemetry's aggregation temporalities.
const DELTA: u64 = 1;
const CUMULATIVE: u64 = 2;

fn nested(fields: &[(u32, Content<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|field| put(&mut out, *field));
    out
}

fn attribute(name: &str, value: &str) -> Vec<u8> {
    let value = nested(&[(1, Content::Bytes(value.as_bytes()))]);
    nested(&[(1, Content::Bytes(name.as_bytes())), (2, Content::Bytes(&value))])
}

fn point(value: f64, attributes: &[(&str, &str)]) -> Vec<u8> {
    let mut point = nested(&[(4, Content::Fixed64(value.to_bits()))]);
    attributes.iter().for_each(|(name, of)| put_bytes(&mut point, 7, &attribute(name, of)));
    point
}

fn gauge(name: &str, value: f64, attributes: &[(&str, &str)]) -> Vec<u8> {
    let gauge = nested(&[(1, Content::Bytes(&point(value, attributes)))]);
    nested(&[(1, Content::Bytes(name.as_bytes())), (5, Content::Bytes(&gauge))])
}

fn sum(name: &str, value: f64, temporality: u64) -> Vec<u8> {
    let point = point(value, &[]);
    let fields =
        [(1, Content::Bytes(&point)), (2, Content::Varint(temporality)), (3, Content::Varint(1))];
    nested(&[(1, Content::Bytes(name.as_bytes())), (7, Content::Bytes(&nested(&fields)))])
}

/// The encoded metrics of a consumer.
fn metrics(all: &[Vec<u8>]) -> Vec<u8> {
    let resource = nested(&[(1, Content::Bytes(&attribute("group_id", "billing")))]);
    let mut scope = Vec::new();
    all.iter().for_each(|metric| put_bytes(&mut scope, 2, metric));
    let of_resource = nested(&[(1, Content::Bytes(&resource)), (2, Content::Bytes(&scope))]);
    nested(&[(1, Content::Bytes(&of_resource))])
}

fn push_of(id: Uuid, compression: Compression, metrics: Vec<u8>) -> Push {
    Push::new(&client(id), REQUEST, compression, metrics, 10_000, BYTES_MAX)
}

fn take(receiver: &mut Receiver, metrics: Vec<u8>) -> ErrorCode {
    let (outcome, _) = receiver.take(0, &push_of(CLIENT, Compression::None, metrics));
    outcome.error
}

/// The lines of the text without comments.
fn lines(receiver: &mut Receiver, now: i64) -> Vec<String> {
    let text = receiver.text(now, false).text;
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

const LABELS: &str =
    "client_instance_id=\"BwcHBwcHBwcHBwcHBwcHBw\",client_id=\"billing-1\",group=\"billing\"";

#[test]
fn figures_have_names_and_labels_of_prometheus() {
    let mut receiver = Receiver::new(true, false);
    let pushed = metrics(&[
        gauge("org.apache.kafka.consumer.fetch.manager.fetch.latency.avg", 1.5, &[]),
        gauge("lag", 7.0, &[("topic", "a\"b\\\n"), ("partition.id", "0"), ("client_id", "no")]),
        sum("consumed.total", 3.0, DELTA),
    ]);
    assert_eq!(take(&mut receiver, pushed), ErrorCode::None);
    let expected = [
        format!("consumed_total{{{LABELS}}} 3"),
        format!("lag{{{LABELS},partition_id=\"0\",topic=\"a\\\"b\\\\\\n\"}} 7"),
        format!("org_apache_kafka_consumer_fetch_manager_fetch_latency_avg{{{LABELS}}} 1.5"),
    ];
    assert_eq!(lines(&mut receiver, 0), expected);
    let text = receiver.text(0, true).text;
    assert!(text.starts_with("# HELP consumed Pushed by clients.\n# TYPE consumed counter\n"));
}

#[test]
fn what_is_added_adds_up_and_what_is_no_longer_pushed_is_gone() {
    let mut receiver = Receiver::new(true, false);
    let pushes = [
        [sum("a", 3.0, DELTA), sum("b", 10.0, CUMULATIVE), gauge("c", 1.0, &[])],
        [sum("a", 4.0, DELTA), sum("b", 12.0, CUMULATIVE), gauge("d", 2.0, &[])],
    ];
    for all in pushes {
        assert_eq!(take(&mut receiver, metrics(&all)), ErrorCode::None);
    }
    let expected = ["a_total", "b_total", "d"].iter().zip([7, 12, 2]);
    let expected: Vec<_> = expected.map(|(name, it)| format!("{name}{{{LABELS}}} {it}")).collect();
    assert_eq!(lines(&mut receiver, 59_999), expected);
    assert_eq!(lines(&mut receiver, 60_000), [""; 0], "a minute after the last push");
}

#[test]
fn malformed_and_too_large_pushes_leave_the_former_figures() {
    let mut receiver = Receiver::new(true, false);
    let good = metrics(&[gauge("a", 1.0, &[])]);
    assert_eq!(take(&mut receiver, good.clone()), ErrorCode::None);
    assert_eq!(take(&mut receiver, good[..good.len() - 1].to_vec()), ErrorCode::InvalidRecord);
    let cases = [
        (Compression::Zstd, good, ErrorCode::InvalidRecord),
        (Compression::None, vec![0; BYTES_MAX + 1], ErrorCode::TelemetryTooLarge),
    ];
    for (compression, bytes, error) in cases {
        assert_eq!(receiver.take(0, &push_of(CLIENT, compression, bytes)).0.error, error);
    }
    assert_eq!(lines(&mut receiver, 0).len(), 1);
}

#[test]
fn names_that_would_break_the_text_are_left_out() {
    let mut receiver = Receiver::new(true, false);
    let long = "x".repeat(257);
    let names = ["", "muster.up", "kafka_x", "process.cpu", "a.created", &long];
    let mut all: Vec<_> = names.iter().map(|name| gauge(name, 1.0, &[])).collect();
    // `same` and `same.total` get the same name: the second value and its type replace the first.
    all.extend([gauge("same", 1.0, &[]), sum("same.total", 1.0, DELTA), gauge("9é", 1.0, &[])]);
    assert_eq!(take(&mut receiver, metrics(&all)), ErrorCode::None);
    let expected = [format!("_9_{{{LABELS}}} 1"), format!("same_total{{{LABELS}}} 1")];
    assert_eq!(lines(&mut receiver, 0), expected);
    assert_eq!(receiver.text(0, false).numbers[1], names.len() as f64);
}

#[test]
fn series_are_bounded_and_clients_that_have_not_pushed_for_longest_give_way() {
    let mut receiver = Receiver::new(true, false);
    let many: Vec<_> =
        (0..PUSH_SERIES_MAX + 5).map(|number| gauge(&format!("m{number}"), 1.0, &[])).collect();
    let many = metrics(&many);
    let clients = SERIES_MAX / PUSH_SERIES_MAX;
    for number in 0..=clients {
        let id = Uuid([number as u8 + 1; 16]);
        let taken = receiver.take(0, &push_of(id, Compression::None, many.clone()));
        assert_eq!(taken.0.error, ErrorCode::None);
    }
    assert_eq!(receiver.series(), (SERIES_MAX, SERIES_MAX));
    let numbers = receiver.text(0, false).numbers;
    assert_eq!(numbers[1..3], [5.0 * (clients as f64 + 1.0), PUSH_SERIES_MAX as f64]);
    let first = format!("client_instance_id=\"{}\"", Uuid([1; 16]));
    assert!(!receiver.text(0, false).text.contains(&first));
}

#[test]
fn what_is_forwarded_has_the_attributes_of_the_client() {
    let mut receiver = Receiver::new(false, true);
    let pushed = metrics(&[gauge("a", 1.0, &[])]);
    let (outcome, forwarded) = receiver.take(0, &push_of(CLIENT, Compression::None, pushed));
    assert_eq!(outcome.error, ErrorCode::None);
    let forwarded = forwarded.unwrap().0;
    let text = String::from_utf8_lossy(&forwarded);
    for expected in ["group_id", "billing", "client_instance_id", "10.0.0.1", "User:ANONYMOUS"] {
        assert!(text.contains(expected), "{expected}");
    }
    // The forwarded copy reads like the original.
    let mut shows = Receiver::new(true, false);
    assert_eq!(take(&mut shows, forwarded), ErrorCode::None);
    assert_eq!(lines(&mut shows, 0), [format!("a{{{LABELS}}} 1")]);
    assert_eq!(receiver.text(0, false).text, "");
}

#[test]
fn what_would_grow_too_much_is_not_forwarded() {
    let mut receiver = Receiver::new(true, true);
    let many = b"\n\0".repeat(BYTES_MAX / 2);
    let (outcome, forwarded) = receiver.take(0, &push_of(CLIENT, Compression::None, many));
    assert_eq!(outcome.error, ErrorCode::None);
    assert!(forwarded.is_none());
    assert_eq!(receiver.too_long, 1);
}
