//! Tests of files: direct and buffered, durable and not, errors, and wake-ups.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::{Duration, Instant};

mod support;

use muster_uring::{AlignedBuf, Config, Driver, Durability, Event, File, Ring};
use support::{Made, of_both};
use test_skips::skip;

of_both! {
    written_bytes_are_read_back_past_the_page_cache,
    written_bytes_are_read_back_through_the_page_cache,
    written_bytes_are_read_back_from_tmpfs,
    errors_return_token_and_buffer,
    a_full_device_is_an_error,
    a_file_dropped_by_its_owner_stays_open_for_queued_operations,
    any_thread_wakes_the_ring_and_no_wake_up_is_lost,
    a_turn_without_events_ends_at_its_timeout,
    a_file_whose_name_is_in_memory_is_opened_at_once_and_none_is_created,
}

fn next<D: Driver>(ring: &mut D) -> Event<D::Data> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(event) = ring.next_event() {
            return event;
        }
        assert!(Instant::now() < deadline, "no event for 10 s");
        ring.turn(Some(Duration::from_millis(100))).unwrap();
    }
}

fn filled(byte: u8, len: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::with_capacity(len);
    buf.extend_from_slice(&vec![byte; len]);
    buf
}

fn round_trip<D: Made>(dir: &Path, open: fn(&Path, bool) -> std::io::Result<File>) {
    let mut ring = D::made();
    let file = open(&dir.join("segment"), true).unwrap();
    let block = file.block_bytes().unwrap_or(100);
    let writes = 50;
    for i in 0..writes {
        let durability = if i % 2 == 0 { Durability::Durable } else { Durability::Cached };
        ring.write(&file, i * block as u64, filled(i as u8, block), durability, i);
    }
    let mut tokens: Vec<u64> = (0..writes)
        .map(|_| match next(&mut ring) {
            Event::Written { token, result: Ok(()), buf } if buf.len() == block => token,
            _ => panic!("another event"),
        })
        .collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..writes).collect::<Vec<_>>());
    ring.sync(&file, 77);
    assert!(matches!(next(&mut ring), Event::Synced { token: 77, result: Ok(()) }));
    // A read beyond the end of the file returns the bytes up to the end.
    ring.read(&file, 40 * block as u64, 20 * block, AlignedBuf::default(), 78);
    let Event::Read { token: 78, result: Ok(()), buf } = next(&mut ring) else { panic!() };
    assert_eq!(buf.len(), 10 * block);
    for (i, chunk) in buf.chunks(block).enumerate() {
        assert!(chunk.iter().all(|&byte| byte == 40 + i as u8));
    }
}

fn written_bytes_are_read_back_past_the_page_cache<D: Made>() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    round_trip::<D>(dir.path(), File::open_direct);
}

fn written_bytes_are_read_back_through_the_page_cache<D: Made>() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    round_trip::<D>(dir.path(), File::open_buffered);
}

fn written_bytes_are_read_back_from_tmpfs<D: Made>() {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => round_trip::<D>(dir.path(), File::open_direct),
        Err(error) => skip(format!("/dev/shm cannot be written: {error}")),
    }
}

fn errors_return_token_and_buffer<D: Made>() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("read-only");
    std::fs::write(&path, b"here").unwrap();
    let mut ring = D::made();
    let file = File::from_std(std::fs::File::open(&path).unwrap());
    ring.write(&file, 0, filled(1, 10), Durability::Durable, 5);
    let Event::Written { token: 5, result: Err(error), buf } = next(&mut ring) else { panic!() };
    assert_eq!(error.raw_os_error(), Some(9), "EBADF: not open for writing");
    assert_eq!(buf.len(), 10);
    ring.read(&file, 100, 10, buf, 6);
    let Event::Read { token: 6, result: Ok(()), buf } = next(&mut ring) else { panic!() };
    assert!(buf.is_empty(), "past the end");
    let directory = File::from_std(std::fs::File::open(dir.path()).unwrap());
    ring.read(&directory, 0, 10, buf, 7);
    assert!(matches!(next(&mut ring), Event::Read { token: 7, result: Err(_), .. }));
    ring.sync(&directory, 8);
    assert!(matches!(next(&mut ring), Event::Synced { token: 8, result: Ok(()) }));
}

fn a_full_device_is_an_error<D: Made>() {
    let full = match std::fs::OpenOptions::new().write(true).open("/dev/full") {
        Ok(full) => full,
        Err(error) => return skip(format!("/dev/full cannot be opened: {error}")),
    };
    let mut ring = D::made();
    ring.write(&File::from_std(full), 0, filled(1, 4096), Durability::Cached, 1);
    let Event::Written { result: Err(error), .. } = next(&mut ring) else { panic!() };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

fn a_file_dropped_by_its_owner_stays_open_for_queued_operations<D: Made>() {
    let dir = tempfile::tempdir().unwrap();
    let mut ring = D::made();
    let file = File::open_buffered(&dir.path().join("a"), true).unwrap();
    ring.write(&file, 0, filled(1, 10), Durability::Cached, 1);
    drop(file);
    let other = File::open_buffered(&dir.path().join("b"), true).unwrap();
    assert!(matches!(next(&mut ring), Event::Written { result: Ok(()), .. }));
    assert_eq!(other.std().metadata().unwrap().len(), 0);
    assert_eq!(std::fs::read(dir.path().join("a")).unwrap(), [1; 10]);
}

#[test]
fn dropping_a_ring_waits_for_its_writes() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut ring = Ring::new(Config::default()).unwrap();
    let file = File::open_direct(&dir.path().join("a"), true).unwrap();
    for i in 0..32 {
        ring.write(&file, i << 16, filled(i as u8, 1 << 16), Durability::Durable, i);
    }
    ring.turn(Some(Duration::ZERO)).unwrap();
    drop(ring);
}

fn any_thread_wakes_the_ring_and_no_wake_up_is_lost<D: Made>() {
    let mut ring = D::made();
    let waker = ring.waker();
    let (sender, receiver) = std::sync::mpsc::channel();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (waker, sender) = (waker.clone(), sender.clone());
            std::thread::spawn(move || {
                for i in 0..1000 {
                    sender.send(i).unwrap();
                    waker.wake();
                }
            })
        })
        .collect();
    let mut seen = 0;
    while seen < 2000 {
        assert!(matches!(next(&mut ring), Event::Woken));
        seen += receiver.try_iter().count();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(ring);
    waker.wake();
}

fn a_turn_without_events_ends_at_its_timeout<D: Made>() {
    let mut ring = D::made();
    let start = Instant::now();
    ring.turn(Some(Duration::from_millis(20))).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert!(ring.next_event().is_none());
    ring.turn(Some(Duration::ZERO)).unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
}

fn a_file_whose_name_is_in_memory_is_opened_at_once_and_none_is_created<D: Made>() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("segment");
    assert!(File::open_cached(&path).is_none());
    assert!(!path.exists());
    std::fs::write(&path, b"here").unwrap();
    let file = File::open_cached(&path).expect("it was written a moment ago");
    let mut ring = D::made();
    ring.read(&file, 1, 2, AlignedBuf::default(), 7);
    let Event::Read { token: 7, result: Ok(()), buf } = next(&mut ring) else { panic!() };
    assert_eq!(&*buf, b"er");
}
