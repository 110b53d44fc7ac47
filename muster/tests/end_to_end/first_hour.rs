//! A new user's first contacts with muster: addresses, configuration, the first and last lines of
//! the log, and their messages.

use crate::support::{
    Client, Server, binary, command, command_with, create_topic, free_ports, produce_to, rules,
    said,
};
use muster_codec::Response;
use muster_codec::messages::*;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The addresses of all brokers, from the answers of each API that contains them.
fn advertised(port: u16) -> Vec<String> {
    let mut client = Client::connect(port);
    let Response::Metadata(body) = client.call(12, MetadataRequest::default().into()) else {
        panic!()
    };
    let brokers: Vec<_> =
        body.brokers.iter().map(|it| format!("{}:{}", it.host, it.port)).collect();
    let Response::DescribeCluster(body) = client.call(1, DescribeClusterRequest::default().into())
    else {
        panic!()
    };
    let described = body.brokers.iter().map(|it| format!("{}:{}", it.host, it.port));
    assert_eq!(described.collect::<Vec<_>>(), brokers);
    let request = FindCoordinatorRequest { key: "group".into(), ..Default::default() };
    let Response::FindCoordinator(body) = client.call(3, request.into()) else { panic!() };
    assert!(brokers.contains(&format!("{}:{}", body.host, body.port)), "{body:?}");
    brokers
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

/// Runs a server that must end by itself. Returns its output.
#[track_caller]
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    said(&output)
}

fn muster(arguments: &[&str]) -> Output {
    binary().args(arguments).output().unwrap()
}

#[test]
fn answers_have_the_advertised_ports() {
    let data = tempfile::tempdir().unwrap();
    let listeners = "advertised.listeners=PLAINTEXT://127.0.0.1:29330";
    let server = Server::start(data.path(), 2, &[listeners]);
    assert_eq!(advertised(server.port), ["127.0.0.1:29330", "127.0.0.1:29331"]);
    server
        .says(&format!("listens on 127.0.0.1:{}, clients connect to 127.0.0.1:29330", server.port));
    drop(server);
    let server = Server::start(data.path(), 2, &["--advertise", "example.org:80", listeners]);
    assert_eq!(advertised(server.port), ["example.org:80", "example.org:81"]);
    drop(server);
    let server = Server::start(data.path(), 2, &["--advertise", "example.org"]);
    let ports = [server.port, server.port + 1];
    assert_eq!(advertised(server.port), ports.map(|port| format!("example.org:{port}")));
}

#[test]
fn answers_have_the_host_name_if_all_interfaces_are_listened_on() {
    let data = tempfile::tempdir().unwrap();
    for host in ["0.0.0.0", "", "*", "[::]"] {
        let port = free_ports(1);
        let listen = format!("{host}:{port}");
        let server = Server::with_arguments(data.path(), port, 1, &["--listen", &listen]);
        assert_eq!(advertised(port), [format!("{}:{port}", host_name())], "{listen}");
        server.says(&format!("clients connect to {}:{port}", host_name()));
        // The log shows an IPv4 client by its IPv4 address, even if the listener serves both
        // address families.
        std::io::Write::write_all(&mut server.client(0).stream(), b"what").unwrap();
        server.says("closed the connection of 127.0.0.1:");
    }
    let port = free_ports(1);
    let arguments = ["--listen", &format!("0.0.0.0:{port}"), "--advertise", "localhost"];
    let server = Server::with_arguments(data.path(), port, 1, &arguments);
    server.says("clients connect to localhost");
    server.says("a loopback address, which clients on other hosts cannot use");
}

#[test]
fn invalid_addresses_are_refused_with_the_expected_form() {
    let data = tempfile::tempdir().unwrap();
    for listen in ["29000", "::1:29000", "[::1]", "host:", "host:0"] {
        let text = refused(&mut command_with(data.path(), 1, &["--listen", listen]));
        assert!(text.contains(listen) && text.contains("[::1]:9092"), "{text}");
    }
    for advertise in ["a:b:1", "http://a:1", "a:0", "0.0.0.0"] {
        let arguments = ["--listen", "127.0.0.1:29000", "--advertise", advertise];
        let text = refused(&mut command_with(data.path(), 1, &arguments));
        assert!(text.contains(&format!("--advertise {advertise}: ")), "{text}");
    }
    let advertised = ["--listen", "127.0.0.1:29000", "--advertise", "a:65535"];
    let text = refused(&mut command_with(data.path(), 2, &advertised));
    assert!(text.contains("shard 1 would have port 65536"), "{text}");
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn an_ipv6_address_is_listened_on_and_advertised() {
    if TcpListener::bind("[::1]:0").is_err() {
        return test_skips::skip("this host has no IPv6 loopback address");
    }
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(1);
    let listen = format!("[::1]:{port}");
    let server = Server::with_arguments(data.path(), port, 1, &["--listen", &listen]);
    server.says(&format!("listens on {listen}, clients connect to {listen}"));
    std::net::TcpStream::connect(("::1", port)).unwrap();
}

#[test]
fn a_port_in_use_is_reported_with_its_shard_and_nothing_is_made() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let port = free_ports(2);
    let _other = TcpListener::bind(("127.0.0.1", port + 1)).unwrap();
    let text = refused(&mut command(&data, port, 2, &[]));
    let in_use = port + 1;
    assert!(text.contains(&format!("shards: 2, on 127.0.0.1:{port} to {in_use}")), "{text}");
    assert!(text.contains(&format!("127.0.0.1:{in_use} is in use: waits up to 3 s")), "{text}");
    let expected = format!("could not listen on 127.0.0.1:{in_use}, the port of shard 1");
    assert!(text.contains(&expected), "{text}");
    assert!(text.contains(&format!("Each shard has a port, {port} to {in_use}: ")), "{text}");
    assert!(!data.exists());
    let text = refused(&mut command(&data, in_use, 1, &[]));
    assert!(text.contains(". Free the port, or choose another one with --listen"), "{text}");
}

#[test]
fn a_directory_of_kafka_is_distinguished_from_a_damaged_one() {
    let data = tempfile::tempdir().unwrap();
    let kafkas = "version=1\ncluster.id=x\nnode.id=1\ndirectory.id=y\n";
    std::fs::write(data.path().join("meta.properties"), kafkas).unwrap();
    let directory = data.path().to_str().unwrap();
    let command = format!("muster log import {directory} --data");
    let text = refused(&mut command_with(data.path(), 1, &["--listen", "127.0.0.1:29000"]));
    assert!(text.contains("Apache Kafka") && text.contains(&command), "{text}");
    for tool in [&["log", "verify"][..], &["log", "dump"], &["log", "recover"]] {
        let output = muster(&[tool, &[directory]].concat());
        let text = said(&output);
        assert!(!output.status.success(), "{tool:?}");
        assert!(text.contains("Apache Kafka") && text.contains(&command), "{tool:?}: {text}");
    }
}

#[test]
fn all_invalid_lines_of_a_config_file_are_reported_at_once() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("server.properties");
    let text = "zookeeper.connect=zk:2181\nsasl.jaas.config=secret\nnum.partitons=3\n\
                num.io.threads=many\nmetric.reporters=com.example.Reporter\n\
                authorizer.class.name=com.example.Authorizer\n";
    std::fs::write(&file, text).unwrap();
    let name = file.to_str().unwrap();
    let arguments = ["--listen", "127.0.0.1:29000", "--config", name];
    let text = refused(&mut command_with(place.path(), 1, &arguments));
    let fatal = [
        "2: sasl.jaas.config: refused, as muster has PLAIN",
        "3: unknown key \"num.partitons\": did you mean num.partitions?",
        "4: num.io.threads=many: Not a number of type INT",
        "6: authorizer.class.name=com.example.Authorizer: muster serves org.apache.kafka",
    ];
    let has = |text: &str, line: &str| text.contains(&format!("{name}:{line}"));
    assert!(fatal.iter().all(|line| has(&text, line)), "{text}");
    assert!(!text.contains("secret"), "{text}");

    let checked = muster(&["serve", "--check-config", name]);
    assert_eq!(checked.status.code(), Some(1));
    let text = said(&checked);
    assert!(fatal.iter().all(|line| has(&text, line)), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let (first, last) = lines.split_at(4);
    assert!(first.iter().all(|it| fatal.iter().any(|line| has(it, line))), "{text}");
    let expected = [
        "5: metric.reporters=com.example.Reporter: not kept, as muster has no plug-ins: its \
         metrics are at admin.listener",
        " without effect in muster: zookeeper.connect",
        " muster does not start with this: 4 to change; not kept: 1; without effect: 1",
    ];
    assert_eq!(last, expected.map(|line| format!("{name}:{line}")), "{text}");

    let text = b"# Latin-1: f\xfcr\nzookeeper.connect=zk:2181\nmin.insync.replicas=2\n\
                 controlled.shutdown.max.retries=3\n";
    std::fs::write(&file, text).unwrap();
    let checked = muster(&["serve", "--check-config", name]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    let missing = muster(&["serve", "--check-config", "/no/such/file"]);
    assert_eq!(missing.status.code(), Some(2));
    let server = Server::start(&place.path().join("data"), 1, &["--config", name]);
    server.says("without effect in muster: controlled.shutdown.max.retries, zookeeper.connect");
    server.says("WARN min.insync.replicas=2: not kept, as with one replica");
}

/// The files that ship with Kafka 4.3, without the comments that explain their keys, and a file as
/// a production cluster may have it.
#[test]
fn files_of_kafka_start_a_server_or_list_what_must_change() {
    let place = tempfile::tempdir().unwrap();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/properties");
    for (file, fatal, promises) in [
        ("server.properties", &[][..], 0),
        ("broker.properties", &[], 0),
        ("controller.properties", &["process.roles", "listeners"], 0),
        ("production.properties", &["log.dirs"], 6),
    ] {
        let path = files.join(file);
        let checked = muster(&["serve", "--check-config", path.to_str().unwrap()]);
        let text = said(&checked);
        assert_eq!(checked.status.success(), fatal.is_empty(), "{file}: {text}");
        // Each fatal finding and each broken promise has a line. All other findings share a line.
        // The last line is a summary.
        assert_eq!(text.lines().count(), fatal.len() + promises + 2, "{file}: {text}");
        for key in fatal {
            assert!(text.contains(&format!(": {key}")), "{file}, {key}: {text}");
        }
        if fatal.is_empty() {
            let data = place.path().join(file);
            Server::start(&data, 1, &["--config", path.to_str().unwrap()]);
        }
    }
}

#[test]
fn the_first_lines_name_data_and_config_and_the_last_a_clean_stop() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().canonicalize().unwrap().join("data");
    let file = place.path().join("server.properties");
    std::fs::write(&file, "num.partitions=2\n").unwrap();
    let mut server = Server::start(&data, 1, &["--config", file.to_str().unwrap()]);
    server.says(&format!("muster {}", env!("CARGO_PKG_VERSION")));
    server.says(&format!("data in {}", data.display()));
    server.says(&format!("configs from {}", file.display()));
    server.says("ready after");
    let stamp = std::fs::read_to_string(data.join("meta.properties")).unwrap();
    let cluster = stamp.lines().find_map(|line| line.strip_prefix("cluster.id=")).unwrap();
    server.says(&format!("cluster {cluster}"));
    for signal in ["HUP", "USR1", "USR2"] {
        let pid = server.pid().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }
    for signal in [1, 10, 12] {
        server.says(&format!("signal {signal} changes nothing"));
    }
    assert!(server.client(0).try_call(9, MetadataRequest::default().into()).is_some());
    assert!(server.stop().success());
    server.says("stopped after");
}

#[test]
fn errors_go_to_the_standard_error() {
    let data = tempfile::tempdir().unwrap();
    let output = command(data.path(), free_ports(1), 1, &["junk".to_owned()]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("\"junk\" is not of the form"));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("junk"));
}

/// Runs the server's command under `prlimit` with these arguments, because root has no limits.
fn limited(limits: &[&str], server: &Command) -> Command {
    let mut command = Command::new("prlimit");
    command.args(limits).args(["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-all"]);
    command.arg(server.get_program()).args(server.get_args());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn rings_fit_the_limit_of_locked_memory_or_the_error_names_a_number_that_does() {
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(6);
    let server = command(data.path(), port, 6, &["io.driver=io_uring".to_owned()]);
    // A third of the memory for six rings of full size.
    let memory = limited(&["--memlock=854016"], &server);
    let server = Server::of(memory, data.path(), port, 6);
    server.says("RLIMIT_MEMLOCK (ulimit -l) allows no full rings: each shard's ring has");
    (0..6).for_each(|shard| drop(advertised(server.port + shard)));
    drop(server);

    let server = command(data.path(), free_ports(8), 8, &["io.driver=io_uring".to_owned()]);
    let text = refused(&mut limited(&["--memlock=131072"], &server));
    assert!(text.contains("RLIMIT_MEMLOCK allows 128 KiB"), "{text}");
    assert!(text.contains("start with `--shards 4`"), "{text}");
}

#[test]
fn too_few_descriptors_are_reported_with_a_number_of_shards_that_starts() {
    let data = tempfile::tempdir().unwrap();
    let server = command(data.path(), free_ports(8), 8, &[]);
    let text = refused(&mut limited(&["--nofile=1500"], &server));
    assert!(text.contains("RLIMIT_NOFILE allows 1500") && text.contains("`--shards 3`"), "{text}");
}

/// Joins a consumer group with a heartbeat, then describes the group. Returns the two error codes.
fn consumer_group_errors(client: &mut Client) -> [i16; 2] {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: "m".into(),
        ..Default::default()
    };
    let heartbeat = client.call(1, request.into());
    let Response::ConsumerGroupHeartbeat(heartbeat) = heartbeat else { panic!() };
    let group_ids = vec!["g".into()];
    let request = ConsumerGroupDescribeRequest { group_ids, ..Default::default() };
    let described = client.call(1, request.into());
    let Response::ConsumerGroupDescribe(described) = described else { panic!() };
    [heartbeat.error_code, described.groups[0].error_code]
}

#[test]
fn consumer_groups_that_are_switched_off_are_neither_announced_nor_served() {
    let unsupported = muster_codec::ErrorCode::UnsupportedVersion.code();
    let data = tempfile::tempdir().unwrap();
    for (protocols, is_served) in [("classic", false), ("classic,consumer", true)] {
        let config = format!("group.coordinator.rebalance.protocols={protocols}");
        let server = Server::start(data.path(), 1, &[&config]);
        let mut client = server.client(0);
        let (name, version) = ("test".into(), "1".into());
        let request = ApiVersionsRequest {
            client_software_name: name,
            client_software_version: version,
            ..Default::default()
        };
        let Response::ApiVersions(body) = client.call(3, request.into()) else { panic!() };
        for key in [68, 69] {
            assert_eq!(body.api_keys.iter().any(|api| api.api_key == key), is_served, "{key}");
        }
        let mut finalized = body.finalized_features.iter();
        assert_eq!(finalized.any(|feature| feature.name == "group.version"), is_served);
        for error in consumer_group_errors(&mut client) {
            assert_eq!(error != unsupported, is_served, "{error}");
        }
    }
}

#[test]
fn a_broker_describes_what_file_and_command_line_set_as_static() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), 2, &["--advertise", "example.org:19092"]);
    let request = rules::describe_configs(rules::BROKER, "1", None);
    let response = server.client(1).call(4, request.into());
    let Response::DescribeConfigs(body) = response else { panic!() };
    let path = data.path().display().to_string();
    let listen = format!("PLAINTEXT://127.0.0.1:{}", server.port + 1);
    for (name, value) in [
        ("node.id", "1"),
        ("broker.id", "1"),
        ("listeners", &listen),
        ("advertised.listeners", "PLAINTEXT://example.org:19093"),
        ("log.dirs", &path),
    ] {
        let config = body.results[0].configs.iter().find(|config| config.name == name).unwrap();
        assert_eq!((config.value.as_deref(), config.config_source), (Some(value), 4), "{name}");
    }
}

#[test]
fn help_of_the_checks_runs_none_of_them() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/run");
    for (word, status) in [("--help", 0), ("-h", 0), ("nope", 2)] {
        let output = Command::new(&run).arg(word).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{word}");
        assert!(said(&output).contains("The checks of each change"), "{word}");
    }
    let help = said(&muster(&["serve", "--help"]));
    for part in ["127.0.0.1:9092", "./data", "docs/configs.md", "HOST[:PORT]", "each usable core"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn other_users_of_the_machine_read_no_data() {
    let directory = tempfile::tempdir().unwrap();
    let (data, port) = (directory.path().join("data"), free_ports(1));
    let serve = command(&data, port, 1, &[]);
    let mut generous = Command::new("sh");
    generous.args(["-c", "umask 0 && exec \"$@\"", "sh"]).arg(serve.get_program());
    generous.args(serve.get_args()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = Server::of(generous, &data, port, 1);
    create_topic(&server, "t", 1);
    assert_eq!(produce_to(&mut server.client(0), "t", 0, b"record"), Some(0));
    assert!(server.stop().success());
    let (mut left, mut files) = (vec![data], 0);
    while let Some(path) = left.pop() {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        let most = if meta.is_dir() { 0o750 } else { 0o640 };
        let mode = meta.permissions().mode() & 0o777;
        assert_eq!(mode & !most, 0, "{} has {mode:o}", path.display());
        if meta.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files += 1;
        }
    }
    assert!(files > 3, "{files} files");
}
