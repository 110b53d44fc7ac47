//! Tests of streams: parts of files to sockets, with peers that read and peers that do not.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

mod support;

use muster_uring::{ConnId, Driver, Event, File};
use support::{Made, of_both};

of_both! {
    a_peer_gets_all_bytes_at_the_speed_at_which_it_reads,
    bytes_and_files_are_sent_in_order,
    a_slice_is_read_for_the_caller_whatever_the_socket_does,
    a_slice_that_cannot_be_read_is_no_slice,
    a_file_that_ends_too_early_sends_nothing,
    a_peer_that_does_not_read_blocks_nothing,
    a_connection_may_end_at_any_time,
    a_stream_to_a_disconnected_peer_fails,
    long_and_short_parts_cached_and_not_come_in_order,
    a_turn_starts_a_few_slices_and_the_next_ones_the_others,
}

const SLICE: usize = 100_000;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    File::from_std(file)
}

fn pair<D: Made>() -> (D, ConnId, UnixStream) {
    let mut ring = D::made();
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let conn = ring.adopt(ours.into()).unwrap();
    (ring, conn, theirs)
}

fn next<D: Driver>(ring: &mut D) -> Event<D::Data> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(event) = ring.next_event() {
            return event;
        }
        assert!(Instant::now() < deadline, "no event for 10 s");
        ring.turn(Some(Duration::from_millis(20))).unwrap();
    }
}

/// Sends as much as the socket accepts, from `from` on. Returns the end of the sent bytes.
fn send_some<D: Made>(ring: &mut D, conn: ConnId, file: &File, from: usize, end: usize) -> usize {
    let mut slice = ring.slice();
    slice.put_file(file, from as u64, SLICE.min(end - from) as u32);
    assert!(ring.stream(conn, slice));
    match next(ring) {
        Event::Streamed { conn: on, sent } if on == conn => from + sent,
        _ => panic!("another event"),
    }
}

fn a_peer_gets_all_bytes_at_the_speed_at_which_it_reads<D: Made>() {
    for pause in [Duration::ZERO, Duration::from_millis(1)] {
        let (mut ring, conn, mut theirs) = pair::<D>();
        let bytes = pattern(3_000_000);
        let file = file(&bytes);
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; 3_000_000];
            for piece in got.chunks_mut(70_000) {
                std::thread::sleep(pause);
                theirs.read_exact(piece).unwrap();
            }
            (got, theirs)
        });
        let mut at = 0;
        while at < bytes.len() {
            let before = at;
            at = send_some(&mut ring, conn, &file, at, bytes.len());
            if at < bytes.len().min(before + SLICE) {
                ring.await_writable(conn);
                assert!(matches!(next(&mut ring), Event::Writable { .. }));
            }
        }
        // Keep the peer open, because its end would cause another event.
        let (got, _theirs) = reader.join().unwrap();
        assert!(got == bytes);
    }
}

fn bytes_and_files_are_sent_in_order<D: Made>() {
    let (mut ring, conn, mut theirs) = pair::<D>();
    let (a, b) = (file(b"0123456789"), file(b"abcdef"));
    for _ in 0..3 {
        let mut slice = ring.slice();
        assert!(slice.is_empty());
        slice.put(b"<");
        slice.put_file(&a, 2, 5);
        slice.put(b"|");
        slice.put_file(&b, 0, 6);
        slice.put_file(&a, 9, 1);
        slice.put(b">");
        drop_clones_do_no_harm(&a, &b);
        assert!(ring.stream(conn, slice));
        assert!(matches!(next(&mut ring), Event::Streamed { sent: 15, .. }));
        let mut got = [0; 15];
        theirs.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"<23456|abcdef9>");
    }
}

fn a_slice_is_read_for_the_caller_whatever_the_socket_does<D: Made>() {
    let (mut ring, conn, mut theirs) = pair::<D>();
    let bytes = pattern(SLICE);
    let (a, b) = (file(&bytes), file(b"abcdef"));
    for round in 0..3 {
        // Output and a slice that is being read do not wait for each other.
        ring.output(conn).unwrap().push(b'x');
        let mut slice = ring.slice();
        slice.put(b"<");
        slice.put_file(&a, 0, SLICE as u32);
        slice.put_file(&b, 1, 3);
        slice.put(b">");
        assert!(ring.read_slice(conn, slice));
        let slice = loop {
            match next(&mut ring) {
                Event::SliceRead { conn: on, slice } if on == conn => break slice,
                Event::Sent { .. } => {}
                _ => panic!("another event"),
            }
        };
        let expected = [b"<", &bytes[..], b"bcd>"].concat();
        assert!(*slice == *expected, "round {round}");
        ring.drop_slice(slice);
    }
    let mut got = [0; 3];
    theirs.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"xxx");
}

fn a_slice_that_cannot_be_read_is_no_slice<D: Made>() {
    let (mut ring, conn, _theirs) = pair::<D>();
    let mut slice = ring.slice();
    slice.put_file(&file(b"0123456789"), 5, 6);
    assert!(ring.read_slice(conn, slice));
    let Event::StreamFailed { error, .. } = next(&mut ring) else { panic!() };
    assert!(error.to_string().contains("5 of 6"), "{error}");
    let mut slice = ring.slice();
    slice.put(b"bytes");
    ring.read_slice(conn, slice);
    ring.close(conn);
    assert!(matches!(next(&mut ring), Event::Closed { .. }), "nothing but the end");
}

fn drop_clones_do_no_harm(a: &File, b: &File) {
    drop((a.clone(), b.clone()));
}

fn a_file_that_ends_too_early_sends_nothing<D: Made>() {
    let (mut ring, conn, mut theirs) = pair::<D>();
    let file = file(b"0123456789");
    let mut slice = ring.slice();
    slice.put(b"head");
    slice.put_file(&file, 5, 6);
    ring.stream(conn, slice);
    let Event::StreamFailed { error, .. } = next(&mut ring) else { panic!() };
    assert!(error.to_string().contains("5 of 6"), "{error}");
    theirs.set_nonblocking(true).unwrap();
    assert!(theirs.read(&mut [0; 1]).is_err(), "nothing was sent");
}

fn a_peer_that_does_not_read_blocks_nothing<D: Made>() {
    let (mut ring, conn, theirs) = pair::<D>();
    let file = file(&pattern(10_000_000));
    let mut at = 0;
    loop {
        let after = send_some(&mut ring, conn, &file, at, 10_000_000);
        if after < at + SLICE {
            at = after;
            break;
        }
        at = after;
    }
    assert_eq!(send_some(&mut ring, conn, &file, at, 10_000_000), at, "the socket is full");
    ring.await_writable(conn);
    ring.turn(Some(Duration::from_millis(50))).unwrap();
    assert!(ring.next_event().is_none(), "the socket is still full");
    ring.close(conn);
    assert!(matches!(next(&mut ring), Event::Closed { .. }));
    drop(theirs);
}

fn a_connection_may_end_at_any_time<D: Made>() {
    for turns in 0..4 {
        for finish in [false, true] {
            let (mut ring, conn, theirs) = pair::<D>();
            let file = file(&pattern(1_000_000));
            let mut slice = ring.slice();
            slice.put_file(&file, 0, 1_000_000);
            ring.stream(conn, slice);
            for _ in 0..turns {
                ring.turn(Some(Duration::ZERO)).unwrap();
                if let Some(Event::Streamed { .. }) = ring.next_event() {
                    ring.await_writable(conn);
                }
            }
            if finish {
                ring.finish(conn)
            } else {
                ring.close(conn)
            }
            let mut refused = ring.slice();
            refused.put(b"late");
            assert!(!ring.stream(conn, refused));
            while !matches!(next(&mut ring), Event::Closed { .. }) {}
            assert_eq!(ring.connections(), 0);
            drop(theirs);
        }
    }
}

fn a_stream_to_a_disconnected_peer_fails<D: Made>() {
    let (mut ring, conn, theirs) = pair::<D>();
    drop(theirs);
    let file = file(b"0123456789");
    let mut slice = ring.slice();
    slice.put_file(&file, 0, 10);
    ring.stream(conn, slice);
    loop {
        match next(&mut ring) {
            Event::SendFailed { .. } => break,
            Event::Ended { .. } => {}
            _ => panic!("another event"),
        }
    }
}

/// A part of a slice: literal bytes, or a range of a file as offset and length.
#[derive(Clone, Copy)]
enum Part {
    Bytes(&'static [u8]),
    File(usize, usize),
}

/// Adds the parts to a slice, without their first `skip` bytes.
fn put_parts(
    ring: &mut impl Driver,
    file: &File,
    parts: &[Part],
    mut skip: usize,
) -> muster_uring::Slice {
    let mut slice = ring.slice();
    for part in parts {
        let len = match *part {
            Part::Bytes(bytes) => bytes.len(),
            Part::File(_, len) => len,
        };
        let skipped = skip.min(len);
        skip -= skipped;
        match *part {
            _ if skipped == len => {}
            Part::Bytes(bytes) => slice.put(&bytes[skipped..]),
            Part::File(at, len) => {
                slice.put_file(file, (at + skipped) as u64, (len - skipped) as u32);
            }
        }
    }
    slice
}

fn long_and_short_parts_cached_and_not_come_in_order<D: Made>() {
    const MIB: usize = 1 << 20;
    let (mut ring, conn, mut theirs) = pair::<D>();
    // A file with a hole in the middle. The hole is not in the page cache.
    let mut bytes = pattern(MIB);
    let file = file(&bytes);
    file.std().set_len(2 * MIB as u64).unwrap();
    bytes.resize(2 * MIB, 0);
    let slices = [
        &[Part::Bytes(b"head"), Part::File(7, 100_000), Part::Bytes(b"tail")][..],
        &[Part::File(50_000, 300), Part::File(70_000, 60_000), Part::File(3, 20)],
        &[Part::Bytes(b"<"), Part::File(MIB - 50_000, 100_000), Part::Bytes(b">")],
        &[Part::File(5, 40_000), Part::File(MIB + 10, 30_000), Part::File(9, 40_000)],
        &[Part::File(5, 40), Part::File(MIB + 70_000, 30), Part::Bytes(b"|"), Part::File(9, 400)],
        &[Part::File(1, 50_000), Part::File(MIB + 90_000, 50), Part::File(MIB / 2, 50_000)],
    ];
    let expected: Vec<u8> =
        slices.iter().flat_map(|it| it.iter()).fold(Vec::new(), |mut all, it| {
            match *it {
                Part::Bytes(part) => all.extend_from_slice(part),
                Part::File(at, len) => all.extend_from_slice(&bytes[at..at + len]),
            }
            all
        });
    let mut got = vec![0; expected.len()];
    let reader = std::thread::spawn(move || {
        got.chunks_mut(30_000).for_each(|piece| theirs.read_exact(piece).unwrap());
        (got, theirs)
    });
    for parts in slices {
        let mut at = 0;
        loop {
            let slice = put_parts(&mut ring, &file, parts, at);
            if slice.is_empty() {
                break;
            }
            assert!(ring.stream(conn, slice));
            let Event::Streamed { sent, .. } = next(&mut ring) else { panic!("another event") };
            at += sent;
            if sent == 0 {
                ring.await_writable(conn);
                assert!(matches!(next(&mut ring), Event::Writable { .. }));
            }
        }
    }
    let (got, _theirs) = reader.join().unwrap();
    assert!(got == expected);
}

fn a_turn_starts_a_few_slices_and_the_next_ones_the_others<D: Made>() {
    let mut ring = D::made();
    let file = file(&pattern(250_000));
    let mut peers = Vec::new();
    for _ in 0..12 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (conn, mut slice) = (ring.adopt(ours.into()).unwrap(), ring.slice());
        slice.put_file(&file, 0, 250_000);
        assert!(ring.stream(conn, slice));
        peers.push((conn, theirs));
    }
    let mut sent = Vec::new();
    for turn in 1.. {
        ring.turn(Some(Duration::from_secs(10))).unwrap();
        let before = sent.len();
        while let Some(Event::Streamed { conn, .. }) = ring.next_event() {
            sent.push(conn);
        }
        assert!((1..=3).contains(&(sent.len() - before)), "in turn {turn}");
        if sent.len() == 12 {
            break;
        }
    }
    assert!(sent.iter().eq(peers.iter().map(|(conn, _)| conn)), "in the order of the calls");
}
