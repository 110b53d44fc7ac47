//! Compares the metrics with Kafka's, and with the page about them.

use super::family::{Families, Form, Type};
use super::gather::{Gather, SERVER_ROWS};
use super::health::ShardStates;
use super::sums::{Sums, Windows};
use super::{catalog, kafka, lag, own, process};
use crate::limit_gauges::Limit;
use crate::shard::World;
use crate::telemetry::{ClientsText, ROWS};
use muster_counters::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");

/// Kafka has attributes about parts that muster does not have. These are the prefixes of their
/// names.
const ABSENT: [&str; 4] = [
    // Background threads.
    "background_",
    // Buffers that Kafka keeps for batches.
    "batch_buffer_cache_",
    // Kafka's coordinator of share group state.
    "kafka_server_share_coordinator_metrics_",
    // The plug-in that keeps descriptions of topologies.
    "streams_group_topology_description_",
];

/// The name and labels that the JMX exporter derives from an attribute.
fn exported(mbean: &str, attribute: &str) -> (String, BTreeMap<String, String>) {
    let (domain, keys) = mbean.split_once(':').unwrap();
    let mut name = domain.replace('.', "_");
    let mut labels = BTreeMap::new();
    for (key, value) in keys.split(',').map(|key| key.split_once('=').unwrap()) {
        match key {
            "type" | "name" => name += &format!("_{value}"),
            _ => drop(labels.insert(key.to_owned(), value.to_owned())),
        }
    }
    if attribute != "Value" {
        name += &format!("_{attribute}");
    }
    (name.replace('-', "_").to_lowercase(), labels)
}

/// All Kafka families of a server without shards.
fn of_kafka() -> Families {
    let (mut families, mut windows) = (Families::default(), Windows::new(Instant::now()));
    let sums = Sums::default();
    kafka::add(&mut families, &windows.recent(Instant::now(), &sums));
    families
}

#[test]
fn each_metric_of_kafkas_coordinators_has_its_name_its_labels_and_its_type() {
    let text = of_kafka().write(Form::Prometheus, "");
    let rows = include_str!("tests/kafka_4_4.tsv").lines().filter(|line| !line.starts_with('#'));
    let mut found = 0;
    for (mbean, attribute) in rows.map(|row| row.split_once('\t').unwrap()) {
        let (name, labels) = exported(mbean, attribute);
        let is_absent = ABSENT.iter().any(|absent| name.contains(absent));
        let labels: Vec<_> = labels.iter().map(|(key, it)| format!("{key}=\"{it}\"")).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let is_there = text.lines().any(|line| line.starts_with(&format!("{name}{labels} ")));
        assert_eq!(is_there, !is_absent, "{name}{labels}");
        let of_type = if attribute == "Value" { "gauge" } else { "untyped" };
        let has_type = text.contains(&format!("# TYPE {name} {of_type}\n"));
        assert_eq!(has_type, !is_absent, "{name} is {of_type}");
        found += usize::from(is_there);
    }
    assert_eq!(found, 80);
}

#[test]
fn a_shard_has_all_numbers_of_the_catalog_and_no_other() {
    let world = World::new(&[]);
    let known: BTreeSet<&str> = catalog::all().map(|metric| metric.name).collect();
    assert_eq!(known.len(), catalog::all().count(), "each name is there once");
    let mut seen = BTreeSet::new();
    muster_counters::Walk::walk(&world.shard.inspect().numbers(), &mut |metric, labels, _| {
        assert!(known.contains(metric.name), "{}", metric.name);
        assert!(labels.iter().map(|(label, _)| label).eq(metric.labels), "{}", metric.name);
        seen.insert(metric.name);
    });
    let has_labels = |name: &str| catalog::all().any(|it| it.name == name && !it.labels.is_empty());
    let of_reactor = |name: &str| name.starts_with("files_") || name.starts_with("tls_");
    let missing = known.difference(&seen).filter(|name| !has_labels(name) && !of_reactor(name));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn shard_0_has_each_limit_with_its_use() {
    let world = World::new(&[]);
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    muster_counters::Walk::walk(&world.shard.inspect().numbers(), &mut |metric, labels, value| {
        if let ("limit_used" | "limit_max", Value::Number(number)) = (metric.name, value) {
            found.entry(labels[0].1.to_owned()).or_default().push(number);
        }
    });
    for limit in Limit::ALL.iter().filter(|limit| !limit.is_of_handshakes()) {
        let numbers = &found[limit.name()];
        assert!(numbers.len() == 2 && numbers[0] < numbers[1], "{}: {numbers:?}", limit.name());
    }
}

#[test]
fn times_are_in_seconds_and_bytes_say_so() {
    use muster_counters::Unit;
    for metric in catalog::all() {
        let name = own::name(metric);
        let is_of_time = matches!(metric.unit, Unit::Microseconds);
        assert_eq!(is_of_time, metric.name.ends_with("_micros"), "{name}");
        let is_of_bytes = matches!(metric.unit, Unit::Bytes);
        assert_eq!(is_of_bytes, metric.name.contains("bytes"), "{name}");
        assert!(!name.ends_with("_total") && !metric.help.is_empty(), "{name}");
    }
}

#[test]
fn a_server_that_starts_is_alive_and_not_ready() {
    let listeners = vec!["PLAINTEXT".to_owned()];
    let mut gather = Gather::new("1", listeners, ShardStates::new(1), Instant::now());
    assert!(gather.alive().is_well);
    assert_eq!(gather.ready().text, "shard 0 loads its log\n");
    let text = gather.metrics(Form::OpenMetrics, None, &ClientsText::default());
    assert!(text.contains("\nmuster_shard_serving{shard=\"0\"} 0\n"), "{text}");
    assert!(text.contains("\nmuster_build_info{version=\"1\"} 1\n"));
    assert!(text.ends_with("# EOF\n"));
}

/// An expected row of the page.
fn row(name: &str, of_type: Type, unit: &str, labels: &str, help: &str) -> String {
    let name = if of_type == Type::Counter { format!("{name}_total") } else { name.to_owned() };
    let help = help.replace('|', "\\|");
    format!("| `{name}` | {} | {unit} | {labels} | {help} |", of_type.name(Form::Prometheus))
}

fn unit(name: &str) -> &'static str {
    match name {
        _ if name.contains("seconds") => "seconds",
        _ if name.contains("bytes") => "bytes",
        _ if name.contains("time_ms") || name.contains("timems") => "ms",
        _ if name.contains("load_time") => "ms",
        _ if name.ends_with("_rate") => "1/s",
        _ => "",
    }
}

/// The tables that the page must have, by their titles.
fn tables() -> [(&'static str, Vec<String>); 6] {
    let own = catalog::all().filter(|metric| own::is_shown(metric)).map(|metric| {
        let labels: Vec<&str> = ["shard"].iter().chain(metric.labels).copied().collect();
        let name = own::name(metric);
        row(&name, own::of_type(metric), unit(&name), &labels.join(", "), metric.help)
    });
    let labels = |name: &str| match name {
        "muster_build_info" => "version",
        "muster_certificate_expiry_timestamp_seconds" => "listener",
        "muster_disk_free_bytes" | "muster_disk_total_bytes" => "path",
        _ => "shard",
    };
    let server = SERVER_ROWS.iter();
    let server = server.map(|(name, help)| row(name, Type::Gauge, unit(name), labels(name), help));
    let process = process::ROWS.iter();
    let process = process.map(|(name, help, of_type)| row(name, *of_type, unit(name), "", help));
    let lag = lag::ROWS.iter();
    let lag = lag.map(|(name, help, labels)| row(name, Type::Gauge, unit(name), labels, help));
    let clients = ROWS.iter().map(|(name, help, is_counter)| {
        let of_type = if *is_counter { Type::Counter } else { Type::Gauge };
        row(name, of_type, unit(name), "", help)
    });
    let limits = Limit::ALL.iter().map(|it| format!("| `{}` | {} |", it.name(), it.help()));
    let families = of_kafka();
    let of_kafka = families.iter().map(|(name, family)| {
        let labels = match name.rsplit('_').next() {
            Some("requests") => "request, version".to_owned(),
            Some("errors") => "request, error".to_owned(),
            _ if family.of_type == Type::Summary => "request, quantile".to_owned(),
            _ => family.labels().join(", "),
        };
        row(name, family.of_type, unit(name), &labels, &family.help)
    });
    [
        ("Kafka's names", of_kafka.collect()),
        ("Of each shard", own.collect()),
        ("Limits", limits.collect()),
        ("Lag of groups", lag.collect()),
        ("Pushed by clients", clients.collect()),
        ("Of the process", server.chain(process).collect()),
    ]
}

#[test]
fn the_page_has_each_metric_with_its_name_type_unit_and_meaning() {
    let mut page = std::fs::read_to_string(PAGE).unwrap();
    for (title, rows) in tables() {
        let beginning = page.find(&format!("\n## {title}\n")).unwrap();
        let begin = beginning + page[beginning..].find("|---|").unwrap();
        let begin = begin + page[begin..].find('\n').unwrap() + 1;
        let end = page[begin..].find("\n\n").map_or(page.trim_end().len(), |end| begin + end);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            page.replace_range(begin..end, &rows.join("\n"));
            std::fs::write(PAGE, &page).unwrap();
            continue;
        }
        let found: Vec<&str> = page[begin..end].lines().collect();
        assert_eq!(found, rows, "{title}: UPDATE_EXPECT=1 writes this table");
    }
}
