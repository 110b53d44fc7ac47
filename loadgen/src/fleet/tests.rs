//! A worker in this process, and clients of all kinds that connect to it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use proptest::prelude::*;

use super::frame::{greet, greeted, read, write};
use super::message::{Answer, Order};
use super::*;
use crate::plan::{Load, MemberIndex, Workload};
use crate::time::Time;

const BEGIN: Begin = Begin { seed: 1, members_per_connection: 1, members: 10, connections: 10 };

/// A worker whose cluster is unreachable. It serves until the test process ends.
fn worker() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let target = || Err("there is no cluster".to_owned());
    std::thread::spawn(move || worker::serve(&listener, "here", target, |_| ()));
    address
}

fn refusal(address: &str) -> String {
    let address = address.to_owned();
    start(&[address], &BEGIN).map(drop).unwrap_err()
}

#[test]
fn a_worker_that_cannot_begin_says_why() {
    let address = worker();
    assert_eq!(refusal(&address), format!("worker {address}: there is no cluster"));
    let unfit = Begin { members: u32::MAX, ..BEGIN };
    let error = start(&[address], &unfit).map(drop).unwrap_err();
    assert!(error.contains("too many members"), "{error}");
}

#[test]
fn what_does_not_serve_is_no_worker() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    assert!(refusal(&closed).contains("refused"));
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in other.incoming() {
            let mut client = client.unwrap();
            client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        }
    });
    assert!(refusal(&address).contains("not a muster-load that serves"));
    assert_eq!(start(&[], &BEGIN).map(drop).unwrap_err(), "no worker is named");
}

/// The worker closes the connections of strangers, and serves the next client.
#[test]
fn strangers_do_not_stop_a_worker() {
    let address = worker();
    for stranger in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"MUSTLOAD\0\0\0\x63",
        b"MUSTLOAD\0\0\0\x01\xff\xff\xff\xff",
        b"MUSTLOAD\0\0\0\x01\0\0\0\x02{}",
        b"MUSTLOAD\0\0\0\x01\0\0\0\x11{\"end\":{\"core\":0}}",
        b"",
    ] {
        let mut client = TcpStream::connect(&address).unwrap();
        client.write_all(stranger).unwrap();
        // The worker sends at most its greeting. Input that it has not read may end the connection
        // with a reset, even before the shutdown.
        let _ = client.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        assert!(rest.len() <= 12, "{stranger:?}: {rest:?}");
    }
    assert!(refusal(&address).contains("there is no cluster"));
}

/// One client connects and stays silent. Other clients do not have to wait for it.
#[test]
fn a_silent_client_does_not_keep_a_worker_busy() {
    let address = worker();
    let mut silent = TcpStream::connect(&address).unwrap();
    greet(&mut silent).unwrap();
    greeted(&mut silent).unwrap();
    assert!(refusal(&address).contains("there is no cluster"));
    write(&mut silent, &Order::Begin(BEGIN)).unwrap();
    let answer: Answer = read(&mut silent).unwrap();
    assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
}

#[test]
fn orders_out_of_bounds_are_refused() {
    let load = Load { rate: None, in_flight: 1, partitions: 0 };
    let commit = |load| Workload { commit: Some(load), ..Workload::default() };
    message::check_workload(&commit(load)).unwrap();
    for wrong in [
        Load { in_flight: 0, ..load },
        Load { in_flight: u32::MAX, ..load },
        Load { rate: Some(0.0), ..load },
        Load { rate: Some(-1.0), ..load },
        Load { rate: Some(f64::INFINITY), ..load },
        Load { rate: Some(f64::NAN), ..load },
    ] {
        assert!(message::check_workload(&commit(wrong)).is_err(), "{wrong:?}");
    }
    message::check_member(MemberIndex(9), &BEGIN).unwrap();
    assert!(message::check_member(MemberIndex(10), &BEGIN).is_err());
}

fn group_of(heartbeat: Duration, assignors: &str) -> Result<(), String> {
    let heartbeat = serde_json::to_string(&heartbeat).unwrap();
    let second = serde_json::to_string(&Duration::from_secs(1)).unwrap();
    let json = format!(
        "{{\"index\":0,\"id\":\"g\",\"protocol\":{{\"classic\":{{\"assignors\":{assignors}}}}},\
         \"subscription\":{{\"topics\":[0]}},\"session_timeout\":{second},\
         \"heartbeat_interval\":{heartbeat},\"rebalance_timeout\":{second},\
         \"revocation_takes\":{second},\"fetches_on_assignment\":true,\
         \"backoff\":{{\"initial\":{second},\"max\":{second}}}}}"
    );
    let plan = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    message::check_group(&plan)
}

#[test]
fn groups_out_of_bounds_are_refused() {
    let second = Duration::from_secs(1);
    group_of(second, "[\"range\"]").unwrap();
    assert!(group_of(second, "[]").unwrap_err().contains("no assignor"));
    assert!(group_of(second, "[\"best\"]").unwrap_err().contains("unknown variant"));
    for heartbeat in [Duration::ZERO, Duration::MAX] {
        assert!(group_of(heartbeat, "[\"range\"]").unwrap_err().contains("out of bounds"));
    }
}

proptest! {
    /// Arbitrary bytes are read as an order or refused; they never cause a panic.
    #[test]
    fn no_bytes_are_too_strange(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        at in 0_usize..80,
        instead: u8,
    ) {
        let _ = read::<Order>(&mut bytes.as_slice());
        let mut frame = Vec::new();
        write(&mut frame, &Order::Stop {
            core: 1,
            at: Time::from_micros(5),
            member: MemberIndex(3),
            how: crate::event::Stop::Crash,
        }).unwrap();
        if let Some(byte) = frame.get_mut(at) {
            *byte = instead;
        }
        let _ = read::<Order>(&mut frame.as_slice());
    }
}
