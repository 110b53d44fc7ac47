//! Configs as users write them, and the effective values.

mod page;

use super::*;
use crate::cluster::ClusterImage;
use muster_codec::records::{ClusterRecord, ConfigKey, ConfigValue as Value};
use muster_coordinator::assignors::Assignor;

fn load(words: &[&str]) -> Result<Config, String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Config::load("", &words).map_err(|error| error.to_string())
}

/// The `config/server.properties` that Kafka ships, without its comments.
const KAFKAS_OWN: &str = include_str!("../../../muster/tests/data/properties/server.properties");

#[test]
fn the_keys_are_in_order_so_that_they_can_be_searched() {
    assert!(Config::KEYS.is_sorted_by(|a, b| a.name < b.name));
    assert!(TopicConfig::KEYS.is_sorted_by(|a, b| a.name < b.name));
    assert!(GroupConfig::KEYS.is_sorted_by(|a, b| a.name < b.name));
    let of_groups = GroupConfig::KEYS.iter().flat_map(|key| key.synonyms);
    for synonym in TopicConfig::KEYS.iter().flat_map(|key| key.synonyms).chain(of_groups) {
        assert!(Config::key(synonym).is_some(), "{synonym}");
    }
}

#[test]
fn the_defaults_pass_their_own_checks() {
    let defaults = Config::default();
    for key in Config::KEYS {
        key.valid.check(key.get(&defaults)).unwrap();
    }
    assert_eq!(rules::check(&defaults), []);
    assert_eq!(TopicConfig::validate(&defaults, &Overrides::new()), Ok(()));
    assert_eq!(GroupConfig::validate(&defaults, &Overrides::new()), Ok(()));
}

#[test]
fn kafkas_own_file_is_understood() {
    let config = Config::load(KAFKAS_OWN, &[]).unwrap();
    assert_eq!(config.data_dirs(), ["/tmp/kraft-combined-logs"]);
    let of = |host: &str| Listener {
        address: Address { host: host.to_owned(), port: 9092 },
        ..Listener::default()
    };
    assert_eq!(config.client_listeners().unwrap(), [of("")]);
    assert_eq!(config.advertised_client_listeners().unwrap(), [of("localhost")]);
    let inert: Vec<_> = config.set_without_effect().collect();
    assert!(inert.contains(&"num.io.threads") && !inert.contains(&"log.dirs"), "{inert:?}");
}

#[test]
fn a_promise_is_no_harmless_key_and_the_last_value_counts() {
    let file = "min.insync.replicas=2\ndefault.replication.factor=3\nnum.io.threads=9\n";
    let words = ["default.replication.factor=1".to_owned()];
    let (config, findings) = Config::read(file, &words);
    assert_eq!(findings.fatal().count(), 0);
    let inert: Vec<_> = config.set_without_effect().collect();
    assert_eq!(inert, ["default.replication.factor", "num.io.threads"]);
    let line = "min.insync.replicas=2: not kept, as with one replica an acknowledged record is on \
                one machine alone";
    assert_eq!(config.promises().collect::<Vec<_>>(), [line]);
}

#[test]
fn the_command_line_wins_over_the_file() {
    let words = ["group.max.size=7".to_owned(), "num.partitions = 3 ".to_owned()];
    let config = Config::load("group.max.size=5\ngroup.initial.rebalance.delay.ms: 0", &words);
    assert_eq!(
        config.unwrap_err().to_string(),
        "unknown key \"num.partitions \": did you mean num.partitions?"
    );
    let config = Config::load("group.max.size=5\nnum.partitions: 2", &words[..1]).unwrap();
    assert_eq!((config.group_max_size, config.num_partitions), (7, 2));
    assert_eq!(config.coordinator().group_max_size, 7);
    assert_eq!(config.set_text("group.max.size"), Some("7"));
    assert_eq!(config.set_text("group.min.session.timeout.ms"), None);
}

#[test]
fn an_assignor_may_be_named_by_its_class() {
    const PACKAGE: &str = "org.apache.kafka.coordinator.group.assignor.";
    let word = |key, class: &str| format!("group.{key}.assignors={PACKAGE}{class}");
    let words = [word("consumer", "RangeAssignor") + ",uniform", word("share", "SimpleAssignor")];
    let config = Config::load("", &words).unwrap();
    let assignors = config.coordinator().group_consumer_assignors;
    assert_eq!(assignors[..], [Assignor::Range, Assignor::Uniform]);
    assert!(Config::load("", &[word("consumer", "SimpleAssignor")]).is_err());
    assert!(Config::load("", &[word("share", "RangeAssignor")]).is_err());
}

#[test]
fn an_item_of_a_list_counts_once() {
    let words = ["group.consumer.assignors=range, uniform,range".to_owned()];
    let config = Config::load("log.cleanup.policy=compact,compact", &words).unwrap();
    assert_eq!(config.group_consumer_assignors, ["range", "uniform"]);
    assert!(config.log_cleanup_policy.compact && !config.log_cleanup_policy.delete);
    for policy in [",", "compact,,", ",compact", " , "] {
        assert!(Config::load(&format!("log.cleanup.policy={policy}"), &[]).is_err(), "{policy}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let cases: &[(&[&str], &str)] = &[
        (&["foo=1"], "unknown key \"foo\""),
        (&["foo"], "\"foo\" is not of the form key=value"),
        (
            &["ssl.provider=BC"],
            "ssl.provider: refused, as muster has TLS of its own (rustls), without providers and \
             plug-ins of Java",
        ),
        (
            &["group.coordinator.rebalance.protocols=consumer"],
            "group.coordinator.rebalance.protocols: Disabling the 'classic' protocol is not \
             supported.",
        ),
        (
            &["advertised.listeners=PLAINTEXT://0.0.0.0:9092"],
            "advertised.listeners: clients cannot connect to 0.0.0.0, use an address of this host \
             or a name",
        ),
        (&["group.max.size=0"], "group.max.size=0: Value must be at least 1"),
        (&["group.max.size=1k"], "group.max.size=1k: Not a number of type INT"),
        (
            &["group.share.max.size=1001"],
            "group.share.max.size=1001: Value must be no more than 1000",
        ),
        (
            &["offsets.topic.num.partitions=2147483648"],
            "offsets.topic.num.partitions=2147483648: Not a number of type INT",
        ),
        (
            &["transaction.state.log.num.partitions=10001"],
            "transaction.state.log.num.partitions=10001: Value must be no more than 10000",
        ),
        (
            &["auto.create.topics.enable=yes"],
            "auto.create.topics.enable=yes: Expected value to be either true or false",
        ),
        (
            &["log.cleanup.policy=delete,shred"],
            "log.cleanup.policy=shred: String must be one of: compact, delete",
        ),
        (
            &["log.cleaner.min.cleanable.ratio=NaN"],
            "log.cleaner.min.cleanable.ratio=NaN: Value must be at least 0",
        ),
        (
            &["group.consumer.migration.policy=maybe"],
            "group.consumer.migration.policy=maybe: String must be one of (case insensitive): \
             DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL",
        ),
        (
            &["group.consumer.session.timeout.ms=44999"],
            "group.consumer.session.timeout.ms must be greater than or equal to \
             group.consumer.min.session.timeout.ms",
        ),
        (
            &["group.share.max.heartbeat.interval.ms=4999"],
            "group.share.max.heartbeat.interval.ms must be greater than or equal to \
             group.share.min.heartbeat.interval.ms",
        ),
        (
            &["group.streams.heartbeat.interval.ms=15001"],
            "group.streams.heartbeat.interval.ms must be less than or equal to \
             group.streams.max.heartbeat.interval.ms",
        ),
        (
            &[
                "group.streams.max.heartbeat.interval.ms=45000",
                "group.streams.heartbeat.interval.ms=45000",
            ],
            "group.streams.heartbeat.interval.ms must be less than \
             group.streams.session.timeout.ms",
        ),
        (
            &["group.streams.num.standby.replicas=3"],
            "group.streams.max.standby.replicas must be greater than or equal to \
             group.streams.num.standby.replicas",
        ),
        (
            &["offsets.topic.num.partitions=51", "share.coordinator.state.topic.num.partitions=50"],
            "share.coordinator.state.topic.num.partitions must be greater than or equal to \
             offsets.topic.num.partitions",
        ),
        (&["group.consumer.assignors="], "group.consumer.assignors must not be empty"),
        (
            &["group.share.assignors=simple,uniform"],
            "group.share.assignors must contain exactly one assignor, simple",
        ),
        (
            &["log.retention.hours=0"],
            "log.retention.ms must be unlimited (-1) or, equal or greater than 1",
        ),
        (&["log.dirs=/a,/b"], "log.dirs: muster keeps its data in exactly one directory"),
        (
            &["listeners=A://:9093"],
            "listeners=A://:9093: listener.security.protocol.map has no protocol for it",
        ),
        (
            &["listeners=A://:9093", "listener.security.protocol.map=A:TLS"],
            "listeners=A://:9093: listener.security.protocol.map gives it TLS, which is not \
             a protocol",
        ),
        (
            &["listeners=PLAINTEXT://:9092, plaintext://:9093"],
            "listeners: PLAINTEXT is named twice",
        ),
        (
            &[
                "listeners=PLAINTEXT://:9092, A://:9092",
                "listener.security.protocol.map=A:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            ],
            "listeners: two of them listen on :9092",
        ),
        (
            &[
                "listeners=PLAINTEXT://:9092",
                "advertised.listeners=A://a:9092",
                "listener.security.protocol.map=A:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            ],
            "advertised.listeners: A is not in listeners",
        ),
        (&["listeners=9092"], "listeners=9092: not of the form NAME://host:port"),
        (
            &["queued.max.request.bytes=5"],
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
    ];
    for (words, error) in cases {
        assert_eq!(load(words).unwrap_err().lines().next(), Some(*error));
    }
}

#[test]
fn everything_is_found_at_once_and_each_with_its_line() {
    let file = "ssl.provider=x\n\nzookeeper.connect=zk\nnum.partitons=1\n\
                group.max.size=0\na=\\u1\nlog.retention.hours=0\nlog.cleaner.threads=2\n";
    let words = ["num.io.threads=3".to_owned(), "junk".to_owned()];
    let (config, findings) = Config::read(file, &words);
    let found: Vec<_> = findings.all.iter().map(|it| (it.line, it.key.as_str())).collect();
    let expected = [
        (Some(1), "ssl.provider"),
        (Some(3), "zookeeper.connect"),
        (Some(4), "num.partitons"),
        (Some(5), "group.max.size"),
        (Some(6), ""),
        (Some(7), "log.retention.hours"),
        (Some(8), "log.cleaner.threads"),
        (None, "num.io.threads"),
        (None, "junk"),
    ];
    assert_eq!(found, expected);
    let fatal: Vec<_> = findings.fatal().map(|it| it.key.as_str()).collect();
    let keys = ["ssl.provider", "num.partitons", "group.max.size", ""];
    assert_eq!(fatal, [&keys[..], &["log.retention.hours", "junk"]].concat());
    let inert: Vec<_> = config.set_without_effect().collect();
    assert_eq!(inert, ["log.cleaner.threads", "num.io.threads", "zookeeper.connect"]);
    assert_eq!(config.promises().count(), 0);
    assert!(Config::load(file, &words).is_err());
    let named = Findings { file: Some("server.properties".to_owned()), ..findings };
    assert!(named.to_string().starts_with("server.properties:1: ssl.provider: refused"));
}

#[test]
fn retention_and_rolling_take_the_finest_unit_that_is_set() {
    let retention = |words: &[&str]| load(words).unwrap().log_retention_ms();
    assert_eq!(retention(&[]), 604_800_000);
    assert_eq!(retention(&["log.retention.minutes=2"]), 120_000);
    assert_eq!(retention(&["log.retention.minutes=2", "log.retention.ms=5"]), 5);
    assert_eq!(retention(&["log.retention.hours=-7"]), -1);
    assert_eq!(load(&["log.roll.hours=1"]).unwrap().log_roll_ms(), 3_600_000);
}

fn altered(image: &mut ClusterImage, resource_type: i8, resource: &str, name: &str, value: &str) {
    let key = ConfigKey {
        resource_type,
        resource_name: resource.to_owned().into(),
        name: name.to_owned().into(),
    };
    let value = Value { value: value.to_owned().into() };
    image.apply(&ClusterRecord::Config(key, Some(value)));
}

#[test]
fn what_is_altered_for_one_broker_wins_over_all_brokers_and_the_file() {
    let mut image = ClusterImage::default();
    altered(&mut image, 4, "", "log.retention.ms", "10");
    altered(&mut image, 4, "", "max.connections", "nonsense");
    altered(&mut image, 4, "1", "log.retention.ms", "20");
    let config = Config::load("log.retention.ms=5\nmax.connections=9", &[]).unwrap();
    assert_eq!(config.with_dynamic(&image, 0).topic_defaults().retention_ms, 10);
    assert_eq!(config.with_dynamic(&image, 1).topic_defaults().retention_ms, 20);
    assert_eq!(config.with_dynamic(&image, 1).max_connections, 9);
}

#[test]
fn the_command_line_wins_over_what_is_altered_and_the_file_does_not() {
    let mut image = ClusterImage::default();
    altered(&mut image, 4, "", "max.connections", "5");
    altered(&mut image, 4, "0", "max.connections", "6");
    let file = |words: &[String]| Config::load("max.connections=7", words).unwrap();
    let (by_file, by_word) = (file(&[]), file(&["max.connections=8".to_owned()]));
    assert_eq!(by_file.with_dynamic(&image, 0).max_connections, 6);
    assert_eq!(by_word.with_dynamic(&image, 0).max_connections, 8);
    assert!(by_file.unused_dynamic(&image, "").is_empty());
    assert_eq!(
        by_word.unused_dynamic(&image, "0"),
        ["max.connections=6, which is stored for broker 0, is not used: the command line says \
          max.connections=8"]
    );
    let key = Config::key("max.connections").unwrap();
    let described = Describer::new(&by_word, &image, 0).broker(key);
    assert_eq!(described.value.as_deref(), Some("8"));
    assert_eq!((described.source, described.read_only), (Source::StaticBroker, true));
}

#[test]
fn a_stored_value_that_would_lock_out_all_clients_is_not_used() {
    let mut image = ClusterImage::default();
    altered(&mut image, 4, "", "max.connections", "0");
    let config = Config::default();
    assert_eq!(config.with_dynamic(&image, 0).max_connections, i32::MAX);
    let unused = config.unused_dynamic(&image, "");
    assert!(unused[0].ends_with("Value must be at least 1"), "{unused:?}");
    for words in [
        "max.connections=0",
        "max.connections.per.ip=0",
        "socket.request.max.bytes=1",
        "connections.max.idle.ms=0",
    ] {
        assert!(load(&[words]).unwrap_err().contains("at least"), "{words}");
    }
    assert!(load(&["connections.max.idle.ms=-1"]).is_ok(), "for no limit");
}

#[test]
fn topic_configs_are_refused_with_kafkas_words() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("nonsense", "1")], "Unknown topic config name: nonsense"),
        (
            &[("retention.ms", "-2")],
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            &[("retention.ms", "x")],
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            &[("cleanup.policy", "delete,foo")],
            "Invalid value foo for configuration cleanup.policy: \
             String must be one of: compact, delete",
        ),
        (
            &[("compression.type", "foo")],
            "Invalid value foo for configuration compression.type: \
             String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            &[("compression.gzip.level", "0")],
            "Invalid value 0 for configuration compression.gzip.level: \
             Value must be between 1 and 9 or equal to -1",
        ),
        (
            &[("min.cleanable.dirty.ratio", "1.5")],
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: \
             Value must be no more than 1",
        ),
        (
            &[("preallocate", "yes")],
            "Invalid value yes for configuration preallocate: \
             Expected value to be either true or false",
        ),
        (
            &[("message.timestamp.type", "yes")],
            "Invalid value yes for configuration message.timestamp.type: \
             String must be one of: CreateTime, LogAppendTime",
        ),
        (
            &[("leader.replication.throttled.replicas", "yes")],
            "Invalid value [yes] for configuration leader.replication.throttled.replicas: \
             leader.replication.throttled.replicas must be the literal '*' or a list of replicas \
             in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            &[("min.compaction.lag.ms", "100"), ("max.compaction.lag.ms", "10")],
            "conflict topic config setting min.compaction.lag.ms (100) > \
             max.compaction.lag.ms (10)",
        ),
        (
            &[("remote.storage.enable", "true")],
            "Tiered Storage functionality is disabled in the broker. \
             Topic cannot be configured with remote log storage.",
        ),
    ];
    for (overrides, error) in cases {
        let refused = TopicConfig::validate(&Config::default(), &of(overrides));
        assert_eq!(refused.unwrap_err(), *error);
    }
}

#[test]
fn topic_configs_that_kafka_takes_are_taken() {
    let taken = [
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete, compact"),
        ("cleanup.policy", "delete,delete"),
        ("retention.ms", " 86400000 "),
        ("leader.replication.throttled.replicas", "1:1,2:2"),
        ("leader.replication.throttled.replicas", "*"),
        ("local.retention.ms", "999999999999"),
        ("min.insync.replicas", "3"),
    ];
    for pair in taken {
        assert_eq!(TopicConfig::validate(&Config::default(), &of(&[pair])), Ok(()), "{pair:?}");
    }
}

fn of(pairs: &[(&str, &str)]) -> Overrides {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_group_has_its_own_configs_within_the_bounds_of_its_broker() {
    let mut image = ClusterImage::default();
    let key = ConfigKey {
        resource_type: 32,
        resource_name: "g".into(),
        name: "consumer.session.timeout.ms".into(),
    };
    image.apply(&ClusterRecord::Config(key, Some(Value { value: "60000".into() })));
    let session = |words: &[&str], group| {
        group_overrides(&load(words).unwrap(), &image, group).consumer_session_timeout_ms
    };
    assert_eq!((session(&[], "g"), session(&[], "other")), (Some(60_000), None));
    // The broker's bound was lowered after the group's value was set.
    assert_eq!(session(&["group.consumer.max.session.timeout.ms=50000"], "g"), Some(50_000));
}

/// The keys have the coordinator's defaults. This test finds a key that sets the wrong field.
#[test]
fn defaults_of_the_coordinator_are_those_of_the_keys() {
    assert_eq!(Config::default().coordinator(), muster_coordinator::Config::default());
}

#[test]
fn each_slot_has_a_partition_of_share_state() {
    for (words, partitions) in [
        (&[][..], 50),
        (&["offsets.topic.num.partitions=60"], 60),
        (&["offsets.topic.num.partitions=6"], 50),
        (&["offsets.topic.num.partitions=6", "share.coordinator.state.topic.num.partitions=6"], 6),
    ] {
        let words: Vec<_> = words.iter().map(|it| (*it).to_owned()).collect();
        let placement = Config::load("", &words).unwrap().placement(2);
        assert_eq!(placement.share_state_partitions, partitions, "{words:?}");
    }
}
