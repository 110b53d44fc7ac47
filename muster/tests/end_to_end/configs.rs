//! Altered configs: no change locks out all clients, the command line wins, and `muster config`
//! changes stored configs while no server runs.

use crate::support::offsets::{Ended, commit, committed, muster, muster_log};
use crate::support::{Client, PATIENCE, Server, create_topic, rules};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response};
use std::path::Path;
use std::time::Instant;

/// Alters a config of all brokers. Returns the error code and its message.
fn alter(client: &mut Client, key: &str, value: Option<&str>) -> (i16, String) {
    alter_of(client, "", key, value)
}

/// Like [`alter`], for one broker.
fn alter_of(
    client: &mut Client,
    broker: &'static str,
    key: &str,
    value: Option<&str>,
) -> (i16, String) {
    let request = rules::alter_configs(rules::BROKER, broker, &[(key, value)]);
    let response = client.call(1, request.into());
    let Response::IncrementalAlterConfigs(body) = response else { panic!("{response:?}") };
    let message = body.responses[0].error_message.as_deref().unwrap_or_default().to_owned();
    (body.responses[0].error_code, message)
}

fn is_served(client: &mut Client) -> bool {
    client.try_call(9, MetadataRequest::default().into()).is_some()
}

fn config(data: &Path, words: &[&str]) -> Ended {
    muster(["config", data.to_str().unwrap()].iter().chain(words))
}

#[test]
fn a_limit_of_zero_that_would_lock_clients_out_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, &[]);
    for key in ["max.connections", "max.connections.per.ip"] {
        let (error, message) = alter(&mut server.client(0), key, Some("0"));
        assert_eq!(error, ErrorCode::InvalidRequest.code());
        assert!(message.contains("Value must be at least 1"), "{message}");
    }
    assert!(is_served(&mut server.client(0)));
}

/// Tools set configs that have no effect in muster: kafka-reassign-partitions sets rates, Cruise
/// Control sets its own keys.
#[test]
fn broker_configs_without_effect_are_kept_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), 1, &[]);
    let mut client = server.client(0);
    let rate = "leader.replication.throttled.rate";
    for (key, value) in [("log.cleaner.threads", "2"), (rate, "1000"), ("x.secret", "hush")] {
        assert_eq!(alter(&mut client, key, Some(value)), (0, String::new()), "{key}");
        server.says(&format!("altered by a client, but without effect in muster: {key}"));
    }
    assert_eq!(alter_of(&mut client, "0", rate, Some("70")).0, 0);
    let threads = [("2", 3), ("1", 5)].map(|(it, of)| (it.to_owned(), of));
    let rates = [("70", 2), ("1000", 3)].map(|(it, of)| (it.to_owned(), of));
    for _ in 0..2 {
        let mut client = server.client(0);
        assert_eq!(described(&mut client, 0, "log.cleaner.threads")[1..], threads);
        assert_eq!(described(&mut client, 0, rate)[1..], rates);
        assert_eq!(hidden(&mut client, "x.secret"), (None, 3, true));
        assert!(server.stop().success());
        server = Server::start(directory.path(), 1, &[]);
        server.says("altered for all brokers, but without effect in muster: leader.replication.");
    }
    let mut client = server.client(0);
    let refused = |client: &mut Client, key: &str, value: &str| {
        let (error, message) = alter(client, key, Some(value));
        assert_ne!(error, 0, "{key}");
        message
    };
    assert!(refused(&mut client, rate, "fast").contains("Not a number of type LONG"));
    assert!(refused(&mut client, "ssl.provider", "x").starts_with("Cannot update these configs"));
    let large = "x".repeat(16_384);
    assert!(refused(&mut client, "y", &large).contains("UNSERVED_CONFIG_BYTES_MAX"));
    assert_eq!(alter(&mut client, "x.secret", None).0, 0, "it can be removed");
}

#[test]
fn the_command_line_wins_over_stored_configs() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), 1, &[]);
    let mut first = server.client(0);
    assert_eq!(alter(&mut first, "max.connections.per.ip", Some("1")).0, 0);
    assert!(!is_served(&mut server.client(0)), "one is open already");
    assert!(server.stop().success());

    let server = Server::start(directory.path(), 1, &["max.connections.per.ip=3"]);
    let mut clients: Vec<Client> = (0..2).map(|_| server.client(0)).collect();
    assert!(clients.iter_mut().all(is_served));
    server.says("max.connections.per.ip=1, which is stored for all brokers, is not used");
    server.says("the command line says max.connections.per.ip=3");
    let (error, message) = alter(&mut clients[0], "max.connections.per.ip", Some("2"));
    assert_eq!(error, ErrorCode::InvalidRequest.code());
    assert!(message.contains("command line"), "{message}");
    assert_eq!(alter(&mut clients[0], "max.connections.per.ip", None).0, 0, "it can be removed");
    drop(server);

    let server = Server::start(directory.path(), 1, &[]);
    let mut clients: Vec<Client> = (0..2).map(|_| server.client(0)).collect();
    assert!(clients.iter_mut().all(is_served));
}

/// The value of a broker's config with its source, followed by its synonyms in order of precedence.
fn described(client: &mut Client, shard: u16, key: &'static str) -> Vec<(String, i8)> {
    let request = rules::describe_configs(rules::BROKER, &shard.to_string(), Some(key));
    let request = DescribeConfigsRequest { include_synonyms: true, ..request };
    let Response::DescribeConfigs(body) = client.call(4, request.into()) else { panic!() };
    let config = &body.results[0].configs[0];
    let text = |value: &Option<muster_codec::Str<'_>>| value.as_deref().unwrap().to_owned();
    let value = (text(&config.value), config.config_source);
    let synonyms = config.synonyms.iter().map(|it| (text(&it.value), it.source));
    [value].into_iter().chain(synonyms).collect()
}

/// The value of a broker's config, its source, and whether the config is sensitive.
fn hidden(client: &mut Client, key: &'static str) -> (Option<String>, i8, bool) {
    let request = rules::describe_configs(rules::BROKER, "0", Some(key));
    let Response::DescribeConfigs(body) = client.call(4, request.into()) else { panic!() };
    let config = &body.results[0].configs[0];
    let value = config.value.as_deref().map(str::to_owned);
    (value, config.config_source, config.is_sensitive)
}

#[test]
fn altered_configs_reach_all_shards_and_survive_a_restart() {
    const KEY: &str = "max.connections.per.ip";
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server.properties");
    std::fs::write(&file, format!("{KEY}=30\n")).unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data, 2, &["--config", file.to_str().unwrap()]);
    let mut client = server.client(0);
    assert_eq!(alter(&mut client, KEY, Some("20")).0, 0);
    assert_eq!(alter_of(&mut client, "1", KEY, Some("1")).0, 0);
    let all =
        [("20", 3), ("30", 4), (&i32::MAX.to_string(), 5)].map(|(it, of)| (it.to_owned(), of));
    let of_0: Vec<_> = all[..1].iter().chain(&all).cloned().collect();
    let own = ("1".to_owned(), 2);
    let of_1: Vec<_> = [own.clone(), own].into_iter().chain(all.iter().cloned()).collect();
    let is_in_force = |server: &Server| {
        assert_eq!(described(&mut server.client(0), 0, KEY), of_0);
        let (mut only, began) = (server.client(1), Instant::now());
        while described(&mut only, 1, KEY) != of_1 {
            assert!(began.elapsed() < PATIENCE, "{:?}", described(&mut only, 1, KEY));
        }
        assert!(!is_served(&mut server.client(1)), "the limit of shard 1 is one");
    };
    is_in_force(&server);
    drop(client);
    let server = {
        let mut server = server;
        assert!(server.stop().success());
        server.restart()
    };
    is_in_force(&server);
}

#[test]
fn an_unknown_config_is_stored_with_a_note_and_a_time_in_hours_is_refused_with_the_cure() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    drop(Server::start(data, 1, &[]));
    let stored = config(data, &["set", "max.conections=7", "log.cleaner.threads=2"]);
    let note = "the value is stored without effect: unknown key \"max.conections\": did you mean \
                max.connections?\n";
    assert_eq!((stored.status, stored.out.as_str()), (0, note));
    let refused = config(data, &["set", "log.retention.hours=5"]);
    assert_eq!(refused.status, 2);
    assert!(refused.error.contains("Set log.retention.ms instead"), "{}", refused.error);
}

#[test]
fn stored_configs_are_changed_while_no_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let mut server = Server::start(data, 2, &[]);
    create_topic(&server, "payments", 1);
    commit(&server, "bills", "payments", 0, 7);
    let held = config(data, &["list"]);
    assert_eq!(held.status, 2);
    assert!(held.error.contains("held by another process"), "{}", held.error);
    assert_eq!(alter(&mut server.client(0), "max.connections", Some("1")).0, 0);
    server.kill();
    drop(server);

    assert_eq!(config(data, &["list"]).out, {
        let internal = "topic __consumer_offsets: cleanup.policy=compact\n\
                        topic __consumer_offsets: compression.type=producer\n\
                        topic __consumer_offsets: segment.bytes=16777216\n\
                        topic __share_group_state: cleanup.policy=delete\n\
                        topic __share_group_state: compression.type=producer\n\
                        topic __share_group_state: min.insync.replicas=2\n\
                        topic __share_group_state: retention.ms=-1\n\
                        topic __share_group_state: segment.bytes=104857600\n\
                        topic __transaction_state: cleanup.policy=compact\n\
                        topic __transaction_state: compression.type=uncompressed\n\
                        topic __transaction_state: min.insync.replicas=2\n\
                        topic __transaction_state: segment.bytes=104857600\n\
                        topic __transaction_state: unclean.leader.election.enable=false\n";
        format!("all brokers: max.connections=1\n{internal}")
    });
    let changes: [&[&str]; 4] = [
        &["unset", "max.connections"],
        &["set", "--broker", "1", "log.retention.ms=5000", "max.connections.per.ip=9"],
        &["set", "--topic", "payments", "retention.ms=7000"],
        &["set", "--group", "bills", "consumer.session.timeout.ms=50000"],
    ];
    for change in changes {
        let ended = config(data, change);
        assert_eq!((ended.status, ended.error.as_str()), (0, ""), "{change:?}");
    }
    let refused: [(&[&str], &str); 4] = [
        (&["set", "max.connections=0"], "at least 1"),
        (&["set", "num.partitions=3"], "Cannot update these configs dynamically"),
        (&["set", "--topic", "bills", "retention.ms=1"], "does not exist"),
        (&["set", "--broker", "2", "max.connections=3"], "Unexpected broker id"),
    ];
    for (change, why) in refused {
        let ended = config(data, change);
        assert_eq!(ended.status, 2, "{change:?}");
        assert!(ended.error.contains(why), "{}", ended.error);
    }
    let listed = config(data, &["list"]).out;
    let expected = [
        "broker 1: log.retention.ms=5000\n",
        "broker 1: max.connections.per.ip=9\n",
        "topic payments: retention.ms=7000\n",
        "group bills: consumer.session.timeout.ms=50000\n",
    ];
    assert!(expected.iter().all(|line| listed.contains(line)), "{listed}");
    assert!(!listed.contains("all brokers"), "{listed}");
    let verified = muster_log(["verify", data.to_str().unwrap()]);
    assert_eq!(verified.status, 0, "{}", verified.out);

    let server = Server::start(data, 2, &[]);
    let mut clients: Vec<Client> = (0..3).map(|_| server.client(0)).collect();
    assert!(clients.iter_mut().all(is_served));
    assert_eq!(committed(&server, "bills").len(), 1);
}

#[test]
fn other_directories_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    for words in [&["list"][..], &["set", "max.connections=9"], &["unset", "max.connections"]] {
        assert_eq!(config(directory.path(), words).status, 2);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
