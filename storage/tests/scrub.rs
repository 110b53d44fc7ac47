//! Scrubbing. If batches are damaged while their log is served, these batches are refused, and all
//! others are served.

#![allow(clippy::unwrap_used)]

mod common;

use common::partition::{READ, World, batch, small_config};
use muster_codec::record_batch::{Batches, validate};
use muster_storage::limits::SCRUB_READ_BYTES;
use muster_storage::{DamagedPart, Scrub, Searched, Suspect, TopicConfig};
use std::collections::BTreeMap;
use std::ops::Range;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}

/// A batch of a log: the base offset of its segment, its bytes in the file, its offsets.
#[derive(Debug, Clone)]
struct Place {
    segment: i64,
    bytes: Range<usize>,
    offsets: Range<i64>,
}

/// `LENGTH` and `MAGIC` are the header fields that a reader needs to find the next batch.
/// `LEADER_EPOCH` is verified by nothing.
const LENGTH: Range<usize> = 8..12;
const LEADER_EPOCH: Range<usize> = 12..16;
const MAGIC: usize = 16;

fn scrub_on(world: &mut World, mut scrub: Scrub) -> Vec<DamagedPart> {
    let mut found = Vec::new();
    loop {
        let mut ops = Vec::new();
        let len = world.log.scrub_read(&mut scrub, READ, &mut world.files, &mut ops);
        let Some(len) = len else { return found };
        assert!(len <= SCRUB_READ_BYTES);
        let data = world.read_bytes(ops);
        found.extend(world.log.scrubbed(&mut scrub, &data));
    }
}

/// Scrubs all segments.
fn scrub(world: &mut World) -> Vec<DamagedPart> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some((segment, scrub)) = world.log.scrub_from(from) {
        found.extend(scrub_on(world, scrub));
        from = segment + 1;
    }
    found
}

/// The first offset of each part, and the offset after it.
fn offsets(parts: &[DamagedPart]) -> Vec<(i64, i64)> {
    parts.iter().map(|it| (it.offsets.start, it.offsets.end)).collect()
}

fn bytes(world: &mut World, base_offset: i64) -> &mut Vec<u8> {
    let path = world.path(base_offset);
    world.disk.live.get_mut(&path).unwrap()
}

/// Damages a byte in each of these batches.
fn damage(world: &mut World, hits: &[usize]) {
    let places = places(world);
    for Place { segment, bytes: range, .. } in hits.iter().map(|hit| places[*hit].clone()) {
        bytes(world, segment)[range.end - 1] ^= 1;
    }
}

fn places(world: &mut World) -> Vec<Place> {
    let mut places = Vec::new();
    for segment in world.segments() {
        let mut at = 0;
        for batch in Batches::new(&bytes(world, segment).clone()) {
            let (header, len) = batch.map(|it| (it.header, it.bytes.len())).unwrap();
            let offsets = header.base_offset..header.next_offset();
            places.push(Place { segment, bytes: at..at + len, offsets });
            at += len;
        }
    }
    places
}

/// The base offsets of the batches that fetches return. Each of them must match its checksum.
fn served(world: &mut World) -> Vec<i64> {
    let (mut bases, mut offset) = (Vec::new(), 0);
    while offset < world.log.high_watermark() {
        if let Some(end) = world.log.damage_at(offset) {
            assert!(end > offset);
            offset = end;
            continue;
        }
        let header = validate(&world.read(offset, 1)).unwrap();
        bases.push(header.base_offset);
        offset = header.next_offset();
    }
    bases
}

/// Six batches with one to three records.
fn small() -> World {
    let mut world = World::new(small_config());
    for i in 0..6 {
        world.append(batch(&vec![1_000 + i; 1 + i as usize % 3], 5));
    }
    world
}

#[test]
fn a_damaged_byte_costs_one_batch_or_those_up_to_the_next_index_entry() {
    let places = places(&mut small());
    let mut costs = BTreeMap::new();
    for (hit, place) in places.iter().enumerate() {
        for at in place.bytes.clone() {
            for flip in [1u8, 0x10, 0x80, 0xff] {
                let mut world = small();
                bytes(&mut world, 0)[at] ^= flip;
                let in_batch = at - place.bytes.start;
                let case = format!("byte {in_batch} of batch {hit}, with {flip:#x}");
                let found = scrub(&mut world);
                let lost = match in_batch {
                    _ if LEADER_EPOCH.contains(&in_batch) => hit..hit,
                    _ if LENGTH.contains(&in_batch) || in_batch == MAGIC => hit..places.len(),
                    _ => hit..hit + 1,
                };
                let left = (0..places.len()).filter(|it| !lost.contains(it));
                let left: Vec<_> = left.map(|it| places[it].offsets.start).collect();
                assert_eq!(served(&mut world), left, "{case}: {found:?}");
                assert_eq!(found.len(), usize::from(!lost.is_empty()), "{case}: {found:?}");
                assert!(found.iter().eq(world.log.damaged()), "{case}");
                // The damage is reported only once, and the log takes further batches.
                assert_eq!(scrub(&mut world), [], "{case}");
                let next = world.append(batch(&[9], 5)).base_offset;
                assert_eq!(world.read(next, 1).len(), batch(&[9], 5).len(), "{case}");
                *costs.entry(lost.len()).or_insert(0) += 1;
            }
        }
    }
    assert!((0..=6).all(|cost| costs.contains_key(&cost)), "{costs:?}");
}

/// Batches of all sizes in several segments. Some batches are longer than a read.
fn large(random: &mut Random) -> World {
    let config = TopicConfig { segment_bytes: 1 << 20, ..TopicConfig::default() };
    let mut world = World::new(config);
    let mut time = 0;
    while world.segments().len() < 4 {
        let value = [10, 100, 3_000, 300_000][random.below(4)];
        let count = if value > 1_000 { 1 } else { 1 + random.below(9) };
        time += 1;
        world.append(batch(&vec![time; count], value));
    }
    world
}

#[test]
fn damage_in_many_places_costs_what_is_near() {
    let (mut refused, mut near) = (0, 0);
    for seed in 0..60 {
        let mut random = Random(seed + 1);
        let mut world = large(&mut random);
        let places = places(&mut world);
        assert_eq!(scrub(&mut world), [], "seed {seed}");
        let hits: Vec<usize> = (0..=random.below(20)).map(|_| random.below(places.len())).collect();
        for hit in &hits {
            let Place { segment, bytes: range, .. } = places[*hit].clone();
            let at = range.start + random.below(range.len());
            bytes(&mut world, segment)[at] ^= 1 + random.below(255) as u8;
        }
        let is_hit = |world: &mut World, place: &Place| {
            let file = bytes(world, place.segment);
            let read = muster_codec::record_batch::Batch::read(&file[place.bytes.clone()]);
            let read = read.and_then(|batch| batch.validate().map(|()| batch.header));
            read.map(|it| it.base_offset..it.next_offset()).ok() != Some(place.offsets.clone())
        };
        scrub(&mut world);
        for place in &places {
            let was_hit = is_hit(&mut world, place);
            let is_refused = world.log.damage_at(place.offsets.start).is_some();
            assert!(is_refused || !was_hit, "seed {seed}: {place:?} is served");
            // An intact batch is refused only if it begins less than 4,096 bytes after a damaged
            // batch.
            let is_near = hits.iter().map(|hit| &places[*hit]).any(|hit| {
                hit.segment == place.segment
                    && hit.bytes.start <= place.bytes.start
                    && place.bytes.start < hit.bytes.end + 4_096
            });
            assert!(!is_refused || is_near, "seed {seed}: {place:?} is lost: {hits:?}");
            refused += usize::from(is_refused);
            near += usize::from(is_refused && !was_hit);
        }
        served(&mut world);
        assert_eq!(scrub(&mut world), [], "seed {seed}");
    }
    assert!(refused > 400 && near > 0, "{refused} batches were refused, {near} of them whole");
}

#[test]
fn a_suspect_is_scrubbed_without_the_rest_of_its_segment() {
    let mut world = World::new(small_config());
    for i in 0..100 {
        world.append(batch(&[i], 100));
    }
    let places = places(&mut world);
    let (first, second) = (places[30].clone(), places[90].clone());
    for hit in [&first, &second] {
        bytes(&mut world, 0)[hit.bytes.start + 70] ^= 1;
    }
    let position = first.bytes.start as u64;
    let found = world.log.scrub_suspect(&Suspect { segment: 0, position }).unwrap();
    let found = scrub_on(&mut world, found);
    assert_eq!(offsets(&found), [(30, 31)]);
    // A full scrub finds only the other damage, because the first is known.
    let found = scrub(&mut world);
    assert_eq!(offsets(&found), [(90, 91)]);
    assert!(world.log.scrub_suspect(&Suspect { segment: 7, position }).is_none());
}

#[test]
fn a_file_that_is_shorter_than_it_was_and_a_failed_read_find_nothing() {
    let mut world = World::new(small_config());
    for i in 0..100 {
        world.append(batch(&[i], 100));
    }
    bytes(&mut world, 0).truncate(5_000);
    assert_eq!(scrub(&mut world), []);
    let (_, mut failed) = world.log.scrub_from(0).unwrap();
    let mut ops = Vec::new();
    assert!(world.log.scrub_read(&mut failed, READ, &mut world.files, &mut ops).is_some());
    world.log.scrub_failed(&mut failed);
    assert_eq!(world.log.scrub_read(&mut failed, READ, &mut world.files, &mut ops), None);
}

#[test]
fn a_search_in_a_batch_that_is_found_to_be_damaged_continues_behind_it() {
    let cases = [(vec![0, 1], (101, 300)), (vec![0], (100, 200)), (vec![], (90, 90))];
    for (hits, expected) in cases.into_iter().chain([(vec![1], (90, 90))]) {
        let mut world = World::new(TopicConfig { segment_bytes: 1 << 20, ..small_config() });
        for times in [(0..100).collect(), vec![200], vec![300]] {
            world.append(batch(&times, 2_000));
        }
        // The search needs two reads: one of the header, one of some of the records.
        let mut search = world.log.search(90);
        for _ in 0..2 {
            let mut ops = Vec::new();
            assert!(world.log.search_read(&mut search, READ, &mut world.files, &mut ops));
            let data = world.read_bytes(ops);
            assert_eq!(search.look(&data), Ok(Searched::ReadOn));
        }
        damage(&mut world, &hits);
        assert_eq!(scrub(&mut world).len(), usize::from(!hits.is_empty()), "{hits:?}");
        assert_eq!(world.search_on(search).0, Some(expected), "{hits:?}");
    }
}

#[test]
fn a_search_by_time_skips_damaged_batches_that_begin_an_index_entry() {
    // Each batch has an index entry, and each segment has three batches.
    let cases = [
        (vec![4], vec![(3, Some(3)), (4, Some(5)), (5, Some(5))]),
        (vec![4, 5], vec![(4, Some(6)), (5, Some(6))]),
        (vec![3, 4, 5, 6], vec![(2, Some(2)), (3, Some(7)), (6, Some(7))]),
        (vec![6, 7, 8], vec![(5, Some(5)), (6, None), (8, None)]),
    ];
    for (hits, searches) in cases {
        let mut world = World::new(small_config());
        for time in 0..9 {
            world.append(batch(&[time], 6_000));
        }
        assert_eq!(world.segments(), [0, 3, 6]);
        damage(&mut world, &hits);
        scrub(&mut world);
        for (time, expected) in searches {
            let expected = expected.map(|found| (found, found));
            assert_eq!(world.offset_for(time), expected, "time {time}, {hits:?}");
        }
    }
}

#[test]
fn parts_that_touch_are_one_part_in_whichever_order_they_are_found() {
    for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        let mut world = World::new(TopicConfig { segment_bytes: 1 << 20, ..small_config() });
        for time in 0..8 {
            world.append(batch(&[time], 6_000));
        }
        let places = places(&mut world);
        damage(&mut world, &[1, 2, 3, 6]);
        for (before, hit) in order.into_iter().enumerate() {
            let position = places[hit].bytes.start as u64;
            let suspect = world.log.scrub_suspect(&Suspect { segment: 0, position }).unwrap();
            let found = scrub_on(&mut world, suspect);
            let offsets: Vec<_> = found.iter().map(|it| it.offsets.clone()).collect();
            assert_eq!(offsets, [places[hit].offsets.clone()], "{order:?}, {before} before");
        }
        let parts: Vec<_> = world.log.damaged().cloned().collect();
        let bytes = places[1].bytes.start as u64..places[3].bytes.end as u64;
        let what = "a checksum does not match";
        assert_eq!(parts, [DamagedPart { segment: 0, bytes, offsets: 1..4, what }], "{order:?}");
        for offset in 1..4 {
            assert_eq!(world.log.damage_at(offset), Some(4), "{order:?}");
        }
        // A full scrub also finds the damage in the rest of the segment.
        let found = scrub(&mut world);
        assert_eq!(offsets(&found), [(6, 7)]);
        assert_eq!(served(&mut world), [0, 4, 5, 7], "{order:?}");
    }
}

#[test]
fn a_batch_that_another_scrub_finds_meanwhile_does_not_end_a_scrub() {
    let mut world = World::new(TopicConfig { segment_bytes: 1 << 21, ..small_config() });
    for time in 0..4 {
        world.append(batch(&[time], 3 * SCRUB_READ_BYTES as usize));
    }
    damage(&mut world, &[0, 2]);
    let (_, mut pass) = world.log.scrub_from(0).unwrap();
    let mut ops = Vec::new();
    world.log.scrub_read(&mut pass, READ, &mut world.files, &mut ops).unwrap();
    let data = world.read_bytes(ops);
    assert_eq!(world.log.scrubbed(&mut pass, &data), []);
    let suspect = world.log.scrub_suspect(&Suspect { segment: 0, position: 0 }).unwrap();
    assert_eq!(offsets(&scrub_on(&mut world, suspect)), [(0, 1)]);
    assert_eq!(offsets(&scrub_on(&mut world, pass)), [(2, 3)]);
    assert_eq!(served(&mut world), [1, 3]);
}
