//! A server under a service manager (sd_notify(3)).

use crate::support::{Server, command, free_ports};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

/// The socket of the service manager.
fn manager(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

fn heard(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 64];
    let count = manager.recv(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn a_manager_is_notified_when_the_server_is_ready_alive_and_stopping() {
    let folder = tempfile::tempdir().unwrap();
    let (path, data) = (folder.path().join("notify"), folder.path().join("data"));
    let manager = manager(&path);
    let port = free_ports(2);
    let mut server = command(&data, port, 2, &[]);
    server.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let mut server = Server::of(server, &data, port, 2);
    let mut first = [heard(&manager), heard(&manager)];
    first.sort();
    assert_eq!(first, ["READY=1", "WATCHDOG=1"]);
    (0..3).for_each(|_| assert_eq!(heard(&manager), "WATCHDOG=1"));
    assert!(server.stop().success());
    assert!((0..100).any(|_| heard(&manager) == "STOPPING=1"));
}

#[test]
fn a_manager_that_does_not_listen_costs_a_line_of_the_log() {
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(1);
    let mut server = command(data.path(), port, 1, &[]);
    server
        .env("NOTIFY_SOCKET", "/no/such/socket")
        .env("WATCHDOG_USEC", "5")
        .env("WATCHDOG_PID", "1");
    Server::of(server, data.path(), port, 1)
        .says("the service manager cannot be notified of READY=1");
}
