//! One address uses up a limit of the partitions; then another address comes.

use super::super::limits::*;
use super::super::{
    Effects, LettersEnd, NewLetters, Outcome, PARTITION_OF_FETCH_BYTES, PartitionId, Partitions,
};
use super::support::*;
use crate::volume::Volume;
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response, Wall};
use muster_fairness::Address;

/// A fetch that has to wait. It names one partition that exists, and others that do not.
fn wide_fetch(max_wait_ms: i32, partitions: usize) -> FetchRequest<'static> {
    let wants: Vec<_> = (1..=partitions as i32).map(|partition| (partition, 0)).collect();
    fetch_request(max_wait_ms, &wants)
}

/// Sends fetches with many partitions until one is not parked. Returns the number of partitions in
/// the parked fetches, and for how many ms the client of the last fetch is throttled.
fn park(world: &mut World, address: &str, request: &FetchRequest<'_>) -> (usize, i64) {
    world.address = Address::of(address);
    let partitions = request.topics[0].partitions.len();
    let before = world.replies.len();
    for fetches in 0.. {
        let fetch = world.call(12, request, Partitions::fetch);
        if world.replies.len() == before {
            continue;
        }
        let Some(Outcome::Throttle(response, wait_ms)) = world.outcome(fetch) else {
            panic!("not throttled")
        };
        let Response::Fetch(FetchResponse { throttle_time_ms, responses, .. }) = response else {
            panic!("not a fetch")
        };
        assert_eq!((i64::from(throttle_time_ms), responses.len()), (wait_ms, 0));
        return (fetches * partitions, wait_ms);
    }
    unreachable!("without an end")
}

#[test]
fn an_address_whose_fetches_wait_leaves_an_eighth_of_the_partitions_to_others() {
    let mut world = World::new();
    let hog = park(&mut world, "/127.0.0.2", &wide_fetch(300_000, 4_000));
    assert_eq!(hog, (172_000, 1_000), "the wait is bounded");
    assert_eq!(park(&mut world, "/127.0.0.1", &wide_fetch(500, 500)), (14_000, 500));
    assert_eq!(park(&mut world, "/127.0.0.3", &wide_fetch(1, 500)), (7_000, 100));
    let held = world.partitions.waiting_bytes() / PARTITION_OF_FETCH_BYTES;
    assert!((193_000..WAITING_PARTITIONS_MAX).contains(&held), "{held}");
    world.pass(500);
    world.replies.clear();
    let again = park(&mut world, "/127.0.0.1", &wide_fetch(500, 500));
    assert_eq!(again, (14_000, 500), "what is answered is released");
    world.partitions.connection_closed(1);
    assert_eq!(world.partitions.waiting_bytes(), 0);
    assert_eq!(park(&mut world, "/127.0.0.1", &wide_fetch(500, 4_000)).0, 172_000);
}

#[test]
fn an_address_whose_fetches_wait_leaves_an_eighth_of_the_fetches_to_others() {
    let mut world = World::new();
    let one = fetch_request(300_000, &[(0, 0)]);
    let most = WAITING_FETCHES_MAX / 8 * 7;
    assert_eq!(park(&mut world, "/127.0.0.2", &one), (most, 1_000));
    assert_eq!(park(&mut world, "/127.0.0.1", &one), (WAITING_FETCHES_MAX / 16, 1_000));
    world.append(0, &batch(1));
    world.replies.clear();
    assert_eq!(park(&mut world, "/127.0.0.1", &fetch_request(9, &[(0, 1)])), (most, 100));
}

#[test]
fn a_fetch_that_may_not_wait_gets_the_records_that_there_are() {
    let mut world = World::new();
    world.append(0, &batch(3));
    park(&mut world, "/127.0.0.2", &wide_fetch(500, 4_000));
    let mut many = FetchRequest { min_bytes: 1 << 20, ..wide_fetch(500, 4_000) };
    many.topics[0].partitions[1].partition = 0;
    let fetch = world.start_fetch(&many);
    world.settle();
    let partitions = &world.fetched(fetch).unwrap().responses[0].partitions;
    let read: Vec<_> = partitions.iter().flat_map(ranges).collect();
    assert_eq!(read, [(0, 2)]);
}

/// Sends first batches, each of another new producer, until one is refused. Returns the number of
/// accepted batches.
fn invent(world: &mut World, address: &str, ids: &mut std::ops::RangeFrom<i64>) -> usize {
    world.address = Address::of(address);
    let sent = ids.map(|id| error(world.produce(0, &sequenced(1, id, 0, 0)).error_code));
    let mut sent = sent.enumerate().skip_while(|(_, error)| *error == ErrorCode::None);
    let (accepted, error) = sent.next().unwrap();
    assert_eq!(error, ErrorCode::RequestTimedOut, "it is sent again");
    accepted
}

#[test]
fn invented_producers_do_not_displace_one_that_was_active_within_five_minutes() {
    let mut world = World::new();
    world.partitions.disk_mut().producers_max = 800;
    world.set("retention.ms", "-1");
    let mut ids = 1_000..;
    world.append(0, &sequenced(1, 7, 0, 0));
    world.pass(1);
    assert_eq!(invent(&mut world, "/127.0.0.2", &mut ids), 699);
    assert_eq!(invent(&mut world, "/127.0.0.1", &mut ids), 49, "an eighth is left to others");
    world.pass(PRODUCER_ACTIVE_MS - 2);
    assert_eq!(invent(&mut world, "/127.0.0.2", &mut ids), 0);
    assert_eq!(world.append(0, &sequenced(1, 7, 0, 0)), 0, "the first batch is known again");
    assert_eq!(world.append(0, &sequenced(1, 7, 0, 1)), 749);
}

#[test]
fn producers_that_came_once_and_never_again_are_forgotten_first() {
    let mut world = World::new();
    world.partitions.disk_mut().producers_max = 4_000;
    world.config.log_retention_check_interval_ms = i64::MAX / 2;
    world.set("retention.ms", "-1");
    let mut ids = 10_000..;
    for sequence in 0..2 {
        world.append(0, &sequenced(1, 7, 0, sequence));
        world.append(0, &sequenced(1, 8, 0, sequence));
    }
    assert_eq!(invent(&mut world, "/127.0.0.2", &mut ids), 3_498);
    let once = world.append(0, &sequenced(1, 10_000, 0, 0));
    assert_eq!(once, 4, "a duplicate");
    world.pass(PRODUCER_ACTIVE_MS);
    world.address = Address::of("/127.0.0.2");
    world.append(0, &sequenced(1, 9_000, 0, 0));
    assert_eq!(world.append(0, &sequenced(1, 7, 0, 1)), 2, "a producer of several batches");
    assert_eq!(world.partitions.disk().producers.total(), 3_501 - 1_024);
    world.remove_topic(topic_id());
    assert_eq!(world.partitions.disk().producers.total(), 0);
}

#[test]
fn producers_that_expire_and_those_of_a_log_are_counted() {
    let mut world = World::new();
    world.config.producer_id_expiration_ms = 400_000;
    world.partitions.disk_mut().producers_max = 800;
    world.set("retention.ms", "-1");
    let mut ids = 1_000..;
    assert_eq!(invent(&mut world, "/127.0.0.2", &mut ids), 700);
    world.reopen();
    assert_eq!(world.partitions.disk().producers.total(), 700, "of an unknown address");
    world.partitions.disk_mut().producers_max = 800;
    assert_eq!(invent(&mut world, "/127.0.0.2", &mut ids), 50);
    world.pass(300_000);
    assert_eq!(world.partitions.disk().producers.total(), 0, "little was left");
    assert_eq!(invent(&mut world, "/127.0.0.2", &mut ids), 700);
}

#[test]
fn an_address_whose_batches_wait_for_the_disk_leaves_an_eighth_of_the_bytes_to_others() {
    let mut world = World::new();
    let batch = large_batch(10_000);
    world.partitions.disk_mut().unwritten_max = 80 * batch.len();
    let fill = |world: &mut World, address| {
        world.address = Address::of(address);
        let is_written = |produce, world: &mut World| world.produced(produce).is_none();
        let sent = (0..100).take_while(|_| {
            let produce = world.start_produce(0, &batch);
            is_written(produce, world)
        });
        sent.count()
    };
    assert_eq!(fill(&mut world, "/127.0.0.2"), 70);
    assert_eq!(fill(&mut world, "/127.0.0.1"), 5);
    world.settle();
    assert_eq!(world.partitions.disk().unwritten_bytes(), 0);
    world.replies.clear();
    assert_eq!(fill(&mut world, "/127.0.0.1"), 70);
    world.remove_topic(topic_id());
    assert_eq!(world.partitions.disk().unwritten_bytes(), 0);
}

#[test]
fn produces_are_refused_while_the_disk_is_short_and_all_else_is_served() {
    let mut world = World::new();
    world.append(0, &batch(1));
    let space = world.partitions.table().identity().space.clone();
    let volume = Volume { total: 1 << 30, usable: 1 << 20 };
    space.set(volume, true, 0);
    let refused = world.produce(0, &batch(1));
    assert_eq!(error(refused.error_code), ErrorCode::KafkaStorageError);
    assert_eq!(world.partitions.disk().counters.refused_batches, 1);
    let id = PartitionId { topic: topic_id(), index: 0 };
    let mut effects = Effects::default();
    let (address, bytes) = (Address::default(), batch(1));
    let letters = NewLetters { number: 7, wall: Wall(0), address, id, batch: &bytes };
    world.partitions.append_letters(letters, &mut effects);
    assert_eq!(effects.letters, [(7, LettersEnd::NoSpace)]);
    assert_eq!(world.partitions.disk().counters.refused_batches, 2);
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 0)]);
    assert_eq!(world.list(0, -1).offset, 1);
    assert_eq!(world.delete_before(0, 1), (1, ErrorCode::None));
    space.set(volume, false, u64::MAX);
    assert_eq!(world.append(0, &batch(1)), 1);
}

#[test]
fn a_producer_is_refused_once_the_room_of_a_check_is_used_up_and_served_after_the_next() {
    let mut world = World::new();
    let space = world.partitions.table().identity().space.clone();
    let volume = Volume { total: 80 << 20, usable: 11 << 20 };
    let one = batch(1);
    space.set(volume, false, 2 * one.len() as u64);
    assert_eq!((world.append(0, &one), world.append(0, &one)), (0, 1));
    let refused = world.produce(0, &one);
    assert_eq!(error(refused.error_code), ErrorCode::KafkaStorageError);
    assert_eq!(world.partitions.disk().counters.refused_batches, 1);
    space.set(volume, false, one.len() as u64);
    assert_eq!(world.append(0, &one), 2);
}
