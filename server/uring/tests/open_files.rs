//! Tests a process that runs out of descriptors. This binary has no other test, because the limit
//! is per process.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use muster_uring::{Config, Event, Ring, raise_open_files};

fn next(ring: &mut Ring) -> Event {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(event) = ring.next_event() {
            return event;
        }
        assert!(Instant::now() < deadline, "no event for 10 s");
        ring.turn(Some(Duration::from_millis(20))).unwrap();
    }
}

#[test]
fn without_descriptors_a_listener_waits_until_one_is_free() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to a valid limit.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = 64;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
    let mut ring = Ring::new(Config::default()).unwrap();
    let listener = ring.listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    let addr = ring.local_addr(listener).unwrap();
    let _first = TcpStream::connect(addr).unwrap();
    let Event::Accepted { conn, .. } = next(&mut ring) else { panic!() };

    let _second = TcpStream::connect(addr).unwrap();
    let mut hoard = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        hoard.push(file);
    }
    let Event::AcceptFailed { error, .. } = next(&mut ring) else { panic!() };
    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    ring.turn(Some(Duration::from_millis(20))).unwrap();
    assert!(ring.next_event().is_none(), "it does not retry at once");

    ring.close(conn);
    assert!(matches!(next(&mut ring), Event::Closed { .. }));
    let Event::Accepted { conn: second, .. } = next(&mut ring) else { panic!() };
    assert_eq!(second.index(), conn.index());

    let files = raise_open_files().unwrap();
    assert_eq!((files.soft, files.hard), (limit.rlim_max, limit.rlim_max));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let room = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
    assert!(room.trim().parse::<u64>().unwrap() >= files.soft.min(1 << 16), "{room}");
    assert!(files.require(65, None).is_ok() && files.require(u64::MAX, None).is_err());
}
