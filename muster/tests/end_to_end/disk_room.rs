//! A disk that fills up is reported before it is full: by metrics, and by a warning of `/readyz`.

use crate::support::http::get;
use crate::support::{PATIENCE, Server, command_with, free_ports};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A server whose data directory is a file system of 200 MiB in its own mount namespace. `None` if
/// the machine does not permit that.
fn server(data: &Path, admin: u16) -> Option<Server> {
    let tried = Command::new("unshare").args(["--mount", "true"]).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        test_skips::skip("mounting a file system needs root and a mount namespace");
        return None;
    }
    let listener = format!("admin.listener=127.0.0.1:{admin}");
    let (port, listen) = (free_ports(1), "--listen");
    let address = format!("127.0.0.1:{port}");
    let serve = command_with(&data.join("data"), 1, &[listen, &address, &listener]);
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=200m none \"$0\" && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(data);
    command.arg(serve.get_program()).args(serve.get_args());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(Server::of(command, data, port, 1))
}

/// The value of the metric `name` for the data directory. Waits until the metric has a value.
fn bytes(admin: u16, name: &str, data: &Path) -> u64 {
    bytes_once(admin, name, data, |_| true)
}

/// Like [`bytes`], but waits until the value is as wanted: the server reads the disk once in a
/// while.
fn bytes_once(admin: u16, name: &str, data: &Path, is_wanted: impl Fn(u64) -> bool) -> u64 {
    let line = format!("{name}{{path=\"{}\"}} ", data.join("data").display());
    let began = Instant::now();
    loop {
        let (_, _, text) = get(admin, "/metrics", "text/plain");
        let value = text.lines().find_map(|it| it.strip_prefix(&line));
        let value = value.map(|it| it.parse::<f64>().unwrap() as u64);
        if let Some(value) = value.filter(|it| is_wanted(*it)) {
            return value;
        }
        assert!(began.elapsed() < PATIENCE, "no {name} of {}: {text}", data.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn available(place: &Path) -> u64 {
    let output = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(place).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(|number| number.parse::<u64>().unwrap()).product()
}

fn ready_once(admin: u16, is_wanted: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let (status, _, text) = get(admin, "/readyz", "");
        if is_wanted(&text) {
            assert_eq!(status, 200, "{text}");
            return text;
        }
        assert!(began.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_disk_that_fills_is_seen_before_it_is_full() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().canonicalize().unwrap();
    let admin = free_ports(1);
    let Some(server) = server(&data, admin) else { return };
    assert_eq!(ready_once(admin, |text| text.starts_with("ready")), "ready\n");
    assert_eq!(bytes(admin, "muster_disk_total_bytes", &data), 200 * MIB);
    let free = bytes(admin, "muster_disk_free_bytes", &data);
    assert!(free < 200 * MIB && free > 100 * MIB, "{free}");

    // The file system is mounted for the server only. This process reaches it below `/proc`, by the
    // root directory of the server's process.
    let inside = PathBuf::from(format!("/proc/{}/root{}", server.pid(), data.display()));
    let filler = available(&inside) - 15 * MIB;
    std::fs::write(inside.join("filler"), vec![1; filler as usize]).unwrap();
    let text = ready_once(admin, |text| text.contains("the disk fills"));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("ready"));
    let warning = lines.next().unwrap();
    assert!(warning.ends_with("of 200 MiB are free"));
    // The warning may have come while the filler was being written.
    bytes_once(admin, "muster_disk_free_bytes", &data, |free| free <= 15 * MIB);
    std::fs::remove_file(inside.join("filler")).unwrap();
    ready_once(admin, |text| text == "ready\n");
}
