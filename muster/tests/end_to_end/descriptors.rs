//! A process with few descriptors: thousands of clients take none of those that the server needs
//! itself.

use crate::support::{Server, create_topic, produce_to, produce_to_all};
use std::net::TcpStream;

const OPEN_FILES: u64 = 1_024;
const CONNECTIONS: usize = 1_500;
/// More than a shard keeps open then.
const PARTITIONS: i32 = 2_000;

#[test]
fn connections_leave_descriptors_to_the_files() {
    assert!(muster_uring::raise_open_files().unwrap().soft > CONNECTIONS as u64 + 100);
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::with_open_files(directory.path(), OPEN_FILES);
    create_topic(&server, "t", PARTITIONS);
    let mut client = server.client(0);
    assert_eq!(produce_to(&mut client, "t", 0, b"before"), Some(0));
    let address = ("127.0.0.1", server.port);
    let hoard: Vec<_> = (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
    for at_once in [1..100, 100..101, 101..PARTITIONS] {
        let offsets = produce_to_all(&mut client, "t", at_once, b"beside").unwrap();
        assert!(offsets.iter().all(|offset| *offset == 0));
    }
    drop(hoard);
    assert!(server.stop().success());
    let server = server.restart();
    let mut client = server.client(0);
    assert_eq!(produce_to(&mut client, "t", PARTITIONS - 1, b"after"), Some(1));
}
