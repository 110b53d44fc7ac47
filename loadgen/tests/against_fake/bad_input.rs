//! Bad input is refused before a run starts, with one sentence and a non-zero exit status.

use std::net::TcpListener;
use std::process::Command;

use kafka_protocol::messages::ApiKey;
use tempfile::TempDir;

use crate::fake::{Config, Fake};
use crate::run::{PROGRAM, called_with, outcome, play, play_with, scenario, write};

const UNSUPPORTED_VERSION: i16 = 35;
const GROUP_AUTHORIZATION_FAILED: i16 = 30;

#[test]
fn an_invalid_address() {
    for address in ["nowhere", "127.0.0.1:none", "127.0.0.1:99999", ":9092"] {
        called_with(&["--bootstrap", address]).assert_refused(&[address]);
    }
    let unknown = "no-such-host.invalid:9092";
    called_with(&["--bootstrap", unknown]).assert_refused(&["no-such-host.invalid"]);
}

#[test]
fn a_refused_connection() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    called_with(&["--bootstrap", &closed]).assert_refused(&[&closed, "refused"]);
}

/// A proxy does so if its server is down, and a broker if its connection limit is reached.
#[test]
fn a_server_that_accepts_connections_and_closes_them() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    called_with(&["--bootstrap", &address])
        .assert_refused(&[&address, "closed it without an answer"]);
}

#[test]
fn one_file_for_two_results() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("result");
    let file = file.to_str().unwrap();
    called_with(&["--json", file, "--html", file]).assert_refused(&["--json", "--html", file]);
    called_with(&["--csv", file, "--history", file]).assert_refused(&["--csv", "--history"]);
    let scenario = write(&directory, &scenario("range", "", ""));
    let scenario = scenario.to_str().unwrap();
    called_with(&[scenario, "--json", scenario]).assert_refused(&["the scenario", "--json"]);
    called_with(&["compare", file, scenario, "--html", file]).assert_refused(&["--html", file]);
}

fn with_password() -> Config {
    Config { password: Some(("alice", "secret")), ..Config::default() }
}

#[test]
fn a_wrong_or_missing_password() {
    let login = ["--sasl-mechanism", "plain", "--username", "alice", "--password"];
    let wrong = [&login[..], &["guess"]].concat();
    let formation = scenario("range", "", "");
    let outcome = play_with(with_password(), &formation, &wrong);
    outcome.assert_refused(&["alice", "refused"]);
    assert!(!outcome.errors.contains("guess"), "a password is printed: {outcome}");
    play(with_password(), &formation).assert_refused(&["SASL"]);
    let right = [&login[..], &["secret"]].concat();
    let outcome = play_with(with_password(), &formation, &right);
    assert_eq!(outcome.status, Some(0), "{outcome}");
}

#[test]
fn a_file_of_kafkas_clients_logs_in() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("client.properties");
    let play = |more: &str| {
        let login = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n\
            sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
            username=\"alice\" password=\"secret\";\n";
        std::fs::write(&file, format!("{login}{more}")).unwrap();
        let options = ["--command-config", file.to_str().unwrap()];
        play_with(with_password(), &scenario("range", "", ""), &options)
    };
    let outcome = play("group.id=mine\n");
    assert_eq!(outcome.status, Some(0), "{outcome}");
    assert!(outcome.errors.contains("client.properties: group.id: without effect"), "{outcome}");
    play("ssl.provider=X\n").assert_refused(&["client.properties", "ssl.provider"]);
}

#[test]
fn a_mechanism_that_the_broker_does_not_have() {
    let login =
        ["--sasl-mechanism", "scram-sha-256", "--username", "alice", "--password", "secret"];
    let outcome = play_with(with_password(), &scenario("range", "", ""), &login);
    outcome.assert_refused(&["SCRAM-SHA-256", "PLAIN"]);
}

#[test]
fn an_api_that_the_broker_does_not_have() {
    let without = |without| Config { without, ..Config::default() };
    let consumer = scenario("consumer", "", "");
    play(without(&[ApiKey::ConsumerGroupHeartbeat]), &consumer)
        .assert_refused(&["ConsumerGroupHeartbeat"]);
    play(without(&[ApiKey::JoinGroup]), &scenario("range", "", "")).assert_refused(&["JoinGroup"]);
    play(without(&[ApiKey::Metadata]), &consumer).assert_refused(&["Metadata"]);
}

/// Failed members do not stop the run. They are counted, and the reason is reported.
#[test]
fn an_error_that_is_fatal_for_all_members() {
    for (protocol, api) in
        [("range", ApiKey::JoinGroup), ("consumer", ApiKey::ConsumerGroupHeartbeat)]
    {
        for error in [UNSUPPORTED_VERSION, GROUP_AUTHORIZATION_FAILED] {
            let config = Config { refuses: Some((api, error)), ..Config::default() };
            let scenario = scenario(protocol, "", "").replace("limit = \"30s\"", "limit = \"2s\"");
            let outcome = play(config, &scenario);
            assert_eq!(outcome.status, Some(1), "{protocol} {error}: {outcome}");
            assert_eq!(outcome.report.as_ref().unwrap().members.failed_count, 6, "{outcome}");
        }
    }
}

#[test]
fn an_invalid_scenario() {
    let directory = TempDir::new().unwrap();
    let good = scenario("range", "", "");
    for (from, to, word) in [
        ("partitions = 12", "partitons = 12", "partitons"),
        ("members = 6", "members = \"six\"", "six"),
        ("protocol = \"classic\"", "protocol = \"clasic\"", "clasic"),
        ("until = \"stable\"", "until = \"later\"", "later"),
        ("start = {}", "start = { groups = \"h\" }", "h"),
        ("limit = \"30s\"", "limit = \"99999999h\"", "phase formation: limit"),
        ("start = {}", "start = {}\ncrash = {}", "crash has no effect"),
        ("[[topic]]", "[[topic]", "unclosed"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        let file = write(&directory, &bad);
        let outcome = called_with(&[file.to_str().unwrap()]);
        assert!(matches!(outcome.status, Some(1..=123)), "{outcome}");
        assert!(outcome.errors.contains(word), "no {word:?}: {outcome}");
    }
    called_with(&["no-such-scenario"]).assert_refused(&["no-such-scenario"]);
}

#[test]
fn too_few_descriptors() {
    let fake = Fake::start(Config::default());
    let directory = TempDir::new().unwrap();
    let file = write(&directory, &scenario("range", "", ""));
    let limited = "ulimit -n 200 && exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited, PROGRAM]).arg(file);
    command.args(["--members", "3000", "--bootstrap", &fake.bootstrap()]);
    outcome(&command.output().unwrap()).assert_refused(&["descriptors", "200"]);
}
