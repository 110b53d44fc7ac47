//! Reading arbitrary bytes neither panics nor takes more memory than a small multiple of their
//! length. The test is a binary of its own, because it replaces the allocator by one that counts.

#![allow(clippy::unwrap_used)]

mod kafka_vectors;

use kafka_vectors::{Vector, vectors};
use muster_codec::limits::{ARRAY_BYTES_MIN, ARRAY_BYTES_PER_BYTE};
use muster_codec::messages::*;
use muster_codec::{ApiKey, DecodeError, Reader, Request, Response};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The memory for a string, for each of its bytes on the wire. An invalid byte may become three
/// bytes (U+FFFD). The string's buffer doubles when it grows, and the old buffer exists until its
/// content is copied.
const TEXT_BYTES_PER_BYTE: usize = 9;

/// Memory that the test harness may take in another thread during a measurement.
const NOISE_BYTES: usize = 16 << 10;

/// The counter covers the whole process, so only one test may run at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The peak of memory in use during `work`, less the memory in use before.
fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let result = work();
    (MEMORY.peak_usage().saturating_sub(before), result)
}

/// Reads a body in one version and checks that the memory stays within the bound.
fn read(api: ApiKey, version: i16, is_request: bool, body: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(body);
    let (peak, result) = peak(|| {
        if is_request {
            Request::read(api, version, &mut reader).map(drop)
        } else {
            Response::read(api, version, &mut reader).map(drop)
        }
    });
    let per_byte = ARRAY_BYTES_PER_BYTE + TEXT_BYTES_PER_BYTE;
    let bound = body.len() * per_byte + ARRAY_BYTES_MIN + NOISE_BYTES;
    assert!(peak <= bound, "{} v{version}: {peak} bytes for {}", api.name(), body.len());
    result
}

/// Runs `test` on `cases` values; PROPTEST_RNG_SEED repeats the run with a seed that failed.
fn for_all<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value)) {
    let mut config = Config { cases, failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(RandomState::new().hash_one(cases));
    }
    println!("PROPTEST_RNG_SEED={}", config.rng_seed);
    let run = TestRunner::new(config).run(&strategy, |value| {
        test(value);
        Ok(())
    });
    run.unwrap();
}

/// Random bytes, many of which are small numbers. These are plausible as lengths, so the codec
/// decodes more of them than of uniform noise before it fails.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), 0..4u8, Just(0xff)];
    prop::collection::vec(byte, 0..400)
}

#[test]
fn noise_is_read_within_bounds_in_every_version() {
    let _alone = alone();
    for_all(128, noise(), |bytes| {
        for api in ApiKey::ALL {
            for version in api.versions() {
                let _ = read(*api, version, true, &bytes);
                let _ = read(*api, version, false, &bytes);
            }
        }
    });
}

/// A change of a body at a random place. The place is an `Index`, a random fraction of the body's
/// length.
#[derive(Debug, Clone)]
enum Edit {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Cut(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        1 => (at(), noise()).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        1 => (at(), 1..40usize).prop_map(|(at, length)| Edit::Cut(at, length)),
        1 => (at(), 1..40usize, 1..200usize)
            .prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
    ]
}

fn apply(edit: &Edit, body: &mut Vec<u8>) {
    if body.is_empty() {
        return;
    }
    match edit {
        Edit::Set(at, byte) => *at.get_mut(body) = *byte,
        Edit::Insert(at, bytes) => {
            let at = at.index(body.len());
            body.splice(at..at, bytes.iter().copied());
        }
        Edit::Cut(at, length) => {
            let at = at.index(body.len());
            body.drain(at..(at + length).min(body.len()));
        }
        Edit::Repeat(at, length, times) => {
            let at = at.index(body.len());
            let part = body[at..(at + length).min(body.len())].repeat(*times);
            body.splice(at..at, part);
        }
    }
}

#[test]
fn damaged_bodies_of_kafka_are_read_within_bounds() {
    let _alone = alone();
    let vectors = vectors();
    let edits = prop::collection::vec(edit(), 1..6);
    for_all(8_000, (any::<prop::sample::Index>(), edits), |(which, edits)| {
        let Vector { api, version, is_request, body } = which.get(&vectors);
        let mut body = body.clone();
        edits.iter().for_each(|edit| apply(edit, &mut body));
        let _ = read(*api, *version, *is_request, &body);
    });
}

fn body(request: impl Into<Request<'static>>, version: i16) -> Vec<u8> {
    let mut out = Vec::new();
    request.into().write(version, &mut out).unwrap();
    out
}

#[test]
fn a_count_without_elements_takes_no_memory() {
    let _alone = alone();
    let count = 1i32 << 20;
    let mut body = count.to_be_bytes().to_vec();
    body.resize(4 + count as usize, 0xff);
    for (api, version) in [(ApiKey::DeleteGroups, 1), (ApiKey::CreatePartitions, 1)] {
        let (peak, result) = peak(|| Request::read(api, version, &mut Reader::new(&body)).is_err());
        assert!(result);
        assert!(peak <= NOISE_BYTES, "{} took {peak} bytes", api.name());
    }
}

/// An OffsetFetch with three nested lists: groups, topics, partitions. Each of their lengths claims
/// a sixth as many elements as the body has bytes. Each list alone would be within the bound, but
/// all three are not.
#[test]
fn nested_counts_share_one_bound() {
    let _alone = alone();
    let count = |bytes: usize| {
        let mut out = Vec::new();
        muster_codec::wire::put_uvarint(&mut out, bytes as u32 / 6);
        out
    };
    let filler = 1 << 20;
    let mut nested = count(filler);
    nested.extend([2, b'g']);
    nested.extend(count(filler));
    nested.extend([2, b't']);
    nested.extend(count(filler));
    nested.resize(filler, 0xff);
    assert_eq!(read(ApiKey::OffsetFetch, 8, true, &nested), Err(DecodeError::LengthTooLong));
}

#[test]
fn a_hundred_thousand_empty_strings_are_refused() {
    let _alone = alone();
    let names = vec!["".into(); 100_000];
    let empty = body(DeleteGroupsRequest { groups_names: names }, 2);
    assert_eq!(read(ApiKey::DeleteGroups, 2, true, &empty), Err(DecodeError::LengthTooLong));
}

/// The requests have ten thousand elements each, of the smallest meaningful size.
#[test]
fn requests_that_make_sense_are_within_the_bound() {
    let _alone = alone();
    let groups_names = vec!["g".into(); 10_000];
    let delete = body(DeleteGroupsRequest { groups_names }, 2);
    read(ApiKey::DeleteGroups, 2, true, &delete).unwrap();

    let topic = MetadataRequestTopic { name: Some("t".into()), ..Default::default() };
    let topics = Some(vec![topic; 10_000]);
    let metadata = body(MetadataRequest { topics, ..Default::default() }, 9);
    read(ApiKey::Metadata, 9, true, &metadata).unwrap();

    let group =
        OffsetFetchRequestGroup { group_id: "g1".into(), topics: None, ..Default::default() };
    let groups = vec![group; 10_000];
    let fetch = body(OffsetFetchRequest { groups, ..Default::default() }, 8);
    read(ApiKey::OffsetFetch, 8, true, &fetch).unwrap();

    let protocol = JoinGroupRequestProtocol { name: "r".into(), ..Default::default() };
    let protocols = vec![protocol; 10_000];
    let join = body(JoinGroupRequest { protocols, ..Default::default() }, 9);
    read(ApiKey::JoinGroup, 9, true, &join).unwrap();
}
