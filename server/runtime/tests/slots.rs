//! Tests of the machines of a topic, with a toy machine: a sum that has a timer while it is odd.

mod toys;

use muster_codec::record_batch::{Batch, BatchBuilder};
use muster_runtime::{Damage, Machine, Slots, Topic};
use toys::{Sum, record};

/// The slots of partitions 1, 4 and 6.
fn slots() -> Slots<Sum> {
    Slots::new([1, 4, 6], 0, Sum::default)
}

fn add(slots: &mut Slots<Sum>, index: u32, amount: i64) -> i64 {
    slots.on(index, |sum, others| {
        sum.sum += amount;
        others
    })
}

#[test]
fn a_machine_is_found_by_its_index_and_others_are_not_there() {
    let mut slots = slots();
    add(&mut slots, 4, 2);
    let sums = [0, 1, 2, 4, 5, 6, 7, u32::MAX].map(|index| slots.get(index).map(|sum| sum.sum));
    assert_eq!(sums, [None, Some(0), None, Some(2), None, Some(0), None, None]);
    assert!(slots.has(6) && !slots.has(5));
    for (first, found) in [(0, &[1, 4, 6][..]), (4, &[4, 6]), (5, &[6]), (7, &[])] {
        assert!(slots.from(first).map(|(index, _)| index).eq(found.iter().copied()));
    }
    assert!(slots.indexes().eq([1, 4, 6]) && slots.machines().map(|it| it.sum).eq([0, 2, 0]));
}

#[test]
fn a_call_gets_what_the_others_hold_and_the_sum_follows_it() {
    let mut slots = slots();
    assert_eq!(
        [(1, 10), (4, 200), (6, 3_000)].map(|(at, by)| add(&mut slots, at, by)),
        [0, 10, 210]
    );
    assert_eq!(add(&mut slots, 4, -100), 3_010);
    let mut others = |index| slots.on_led(index, |_, others| others);
    assert_eq!([4, 5, 9].map(&mut others), [Some(3_010), None, None]);
    assert_eq!(slots.held(), 3_110);
    slots.each(|sum| sum.sum = 1);
    assert_eq!(slots.held(), 3);
}

/// As at a follower, whose machine is made again when another node leads.
#[test]
fn a_machine_fires_timers_only_where_it_may_and_begins_again_with_nothing() {
    let mut slots = slots();
    add(&mut slots, 4, 9);
    add(&mut slots, 6, 7);
    assert_eq!(slots.next_deadline(), Some((7, 6)));
    slots.set_timers(6, false);
    assert_eq!(slots.next_deadline(), Some((9, 4)));
    add(&mut slots, 6, -2);
    assert_eq!(slots.next_deadline(), Some((9, 4)), "a call does not start them");
    Topic::reset(&mut slots, 4);
    assert_eq!((slots.next_deadline(), slots.held(), slots.of(4).sum), (None, 5, 0));
    slots.set_timers(6, true);
    assert_eq!(slots.next_deadline(), Some((5, 6)));
}

#[test]
fn the_first_of_all_deadlines_is_known_after_each_call() {
    let mut slots = slots();
    assert_eq!(slots.next_deadline(), None);
    let steps = [(6, 9, Some((9, 6))), (4, 9, Some((9, 4))), (1, 7, Some((7, 1)))];
    for (index, amount, first) in steps {
        add(&mut slots, index, amount);
        assert_eq!(slots.next_deadline(), first);
    }
    for (index, first) in [(1, Some((9, 4))), (4, Some((9, 6))), (6, None)] {
        add(&mut slots, index, 1);
        assert_eq!(slots.next_deadline(), first);
    }
}

#[test]
fn the_partition_that_follows_is_the_next_one_that_holds_enough() {
    let mut slots = slots();
    assert_eq!(
        [None, Some(1), Some(4), Some(6)].map(|at| slots.next(at)),
        [Some(1), Some(4), Some(6), None]
    );
    add(&mut slots, 6, 2);
    let holding = |at| slots.next_with(at, |held| held > 0);
    assert_eq!([None, Some(4), Some(6)].map(holding), [Some(6), Some(6), None]);
}

#[test]
fn a_batch_is_replayed_unless_the_snapshot_or_another_shard_has_it() {
    let (mut slots, mut builder) = (slots(), BatchBuilder::default());
    [record(3), record(5)].iter().for_each(|record| builder.append(0, record));
    slots.each(|sum| sum.begin_after(1));
    *slots.shared_mut() = 0;
    let batch = Batch::read(builder.seal(0, 0)).unwrap();
    let mut replay = |index, position| slots.replay(index, &batch, position).transpose().unwrap();
    assert_eq!(
        [(4, 1), (4, 2), (5, 2)].map(|(at, position)| replay(at, position)),
        [Some(false), Some(true), None]
    );
    assert_eq!((slots.of(4).sum, slots.held(), *slots.shared()), (8, 8, 2));
    *slots.shared_mut() = 0;
    slots.each(|_| {});
    assert_eq!(*slots.shared(), 3);
}

#[test]
fn the_first_damage_that_a_call_finds_is_known() {
    let mut slots = slots();
    add(&mut slots, 1, 999);
    assert_eq!(slots.damage(), None);
    add(&mut slots, 4, 2_000);
    add(&mut slots, 1, 1);
    assert_eq!(slots.damage(), Some(Damage("a sum of 2000".to_owned())));
}

#[test]
fn a_topic_of_which_the_shard_leads_nothing_is_empty() {
    let slots = Slots::new([], 0, Sum::default);
    assert_eq!((slots.next(None), slots.has(0), slots.held()), (None, false, 0));
}

#[test]
#[should_panic(expected = "the indexes ascend")]
fn indexes_that_do_not_ascend_are_refused() {
    Slots::new([2, 1], 0, Sum::default);
}
