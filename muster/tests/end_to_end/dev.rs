//! `muster dev` and data in memory: how a developer starts them, and which files they leave.

use crate::support::sessions::join_alone;
use crate::support::{Server, binary, command_with, create_topic, free_ports, produce, said};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A server for a developer. Its temporary files are in `place`.
fn dev(place: &Path, port: u16, shards: u16, arguments: &[&str]) -> Server {
    let listen = format!("127.0.0.1:{port}");
    let mut command = binary();
    command.args(["dev", "--listen", &listen, "admin.listener="]).args(arguments);
    command.env("TMPDIR", place).stdout(Stdio::piped()).stderr(Stdio::piped());
    Server::of(command, place, port, shards)
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// How long the first member of a group has to wait for its join.
fn joined_after(server: &Server) -> Duration {
    let began = Instant::now();
    let mut client = server.coordinator("readers");
    join_alone(&mut client, "readers");
    began.elapsed()
}

#[test]
fn a_developer_needs_three_lines_and_finds_nothing_left() {
    let place = tempfile::tempdir().unwrap();
    let port = free_ports(1);
    let mut server = dev(place.path(), port, 1, &[]);
    server.says(&format!("shards: 1, on 127.0.0.1:{port}"));
    server.says(&format!("clients need: bootstrap.servers=127.0.0.1:{port}"));
    server.says(&format!("try: echo hello | kcat -b 127.0.0.1:{port} -P -t greetings"));
    server.says(&format!("data are in {}/muster-dev-", place.path().display()));
    server.says("removed when the server ends; --data DIR keeps them");
    create_topic(&server, "greetings", 1);
    assert_eq!(produce(&mut server.client(0), "greetings", b"hello"), Some(0));
    assert!(joined_after(&server) < Duration::from_secs(2), "no wait for further members");
    assert_eq!(entries(place.path()), 1);
    assert!(server.stop().success());
    assert_eq!(entries(place.path()), 0, "the data have gone");
}

#[test]
fn options_and_configs_win_over_what_a_developer_gets() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("kept");
    let file = place.path().join("server.properties");
    std::fs::write(&file, "group.initial.rebalance.delay.ms=2500\n").unwrap();
    let arguments = ["--data", data.to_str().unwrap(), "--shards", "2"];
    let of_file = ["--config", file.to_str().unwrap()];
    let mut server = dev(place.path(), free_ports(2), 2, &[&arguments[..], &of_file].concat());
    server.says(&format!("data are in {}, kept when the server ends", data.display()));
    assert!(joined_after(&server) >= Duration::from_millis(2_400), "the file's delay");
    assert!(server.stop().success());
    assert!(data.join("meta.properties").exists());
}

#[test]
fn the_next_server_removes_what_a_killed_one_left() {
    let place = tempfile::tempdir().unwrap();
    let [mut killed, mut other] = [(); 2].map(|()| dev(place.path(), free_ports(1), 1, &[]));
    killed.kill();
    assert_eq!(entries(place.path()), 2, "it could not remove its own");
    let mut next = dev(place.path(), free_ports(1), 1, &[]);
    next.says(", which a server has left");
    assert_eq!(entries(place.path()), 2, "that of the server that runs, and its own");
    assert!(other.stop().success() && next.stop().success());
    assert_eq!(entries(place.path()), 0);
}

/// The disk space that the files below a directory take, without the reserve.
fn taken(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let bytes = entries.filter(|it| it.file_name() != "reserve").map(|entry| {
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() { taken(&entry.path()) } else { 512 * metadata.blocks() }
    });
    bytes.sum()
}

#[test]
fn an_empty_data_directory_takes_little_of_the_disk() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path(), 2, &[]);
    assert!(server.stop().success());
    let taken = taken(data.path());
    // Two segments of 1 MiB per shard, and a few small files.
    assert!(taken <= 2 * (2 << 20) + (128 << 10), "{taken}");
}

#[test]
fn data_in_memory_go_with_the_server() {
    let place = tempfile::tempdir().unwrap();
    let port = free_ports(1);
    let listen = format!("127.0.0.1:{port}");
    let arguments = ["--listen", &listen];
    let command = command_with(Path::new(":memory:"), 1, &arguments);
    let mut server = Server::of(command, place.path(), port, 1);
    let line = server.line_with("data in /");
    let data = line.split_once("data in ").unwrap().1.split(',').next().unwrap().to_owned();
    let file_system = Command::new("stat").args(["-f", "-c", "%T", &data]).output().unwrap();
    assert_eq!(said(&file_system).trim(), "tmpfs", "{data}");
    create_topic(&server, "greetings", 1);
    assert_eq!(produce(&mut server.client(0), "greetings", b"hello"), Some(0));
    assert!(server.stop().success());
    assert!(!Path::new(&data).exists());
}

#[test]
fn memory_and_a_promise_of_durability_exclude_each_other() {
    let arguments = ["--listen", "127.0.0.1:29000", "log.flush.interval.messages=1"];
    let output = command_with(Path::new(":memory:"), 1, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.contains(":memory: is not on a disk"), "{text}");
}
