//! Rebalances that overlap, and the figures of phases.

use super::*;
use crate::event::ConsumedBatch;

/// In a rolling deploy each member leaves before the group is stable again.
#[test]
fn a_rebalance_that_the_next_trigger_overtakes_is_superseded_and_no_failure() {
    let mut measure = formed();
    measure.close_rebalance(GROUP);
    let leave = |at, member| {
        [
            (at, member, EventKind::Revoked { partitions: some(&[member]) }),
            (at, member, EventKind::Stopped { how: Stop::Leave }),
            (at + 100, member, EventKind::Started),
            (at + 110, member, joined(3)),
        ]
    };
    for (at, member) in [(1000, 0), (3000, 1)] {
        measure.trigger(GROUP, "1 left", ms(at));
        observe(&mut measure, leave(at, member));
    }
    for member in [0, 1] {
        let settled = EventKind::Settled { epoch: 3 };
        observe(&mut measure, [(4000, member, assigned(3, &[member])), (4000, member, settled)]);
    }
    measure.close_rebalance(GROUP);
    let measured = measure.finish(ms(9000));
    let took = |of: &[model::Rebalance]| -> Vec<_> {
        let each = of.iter().map(|it| (it.trigger.clone(), it.took, it.superseded));
        each.skip(1).collect()
    };
    let [first, second] = [(None, true), (Some(1000.0), false)];
    let left = |(took, superseded)| ("1 left".to_owned(), took, superseded);
    assert_eq!(took(&measured.rebalances), [left(first), left(second)]);
    let deploy = ("2 × 1 left".to_owned(), Some(3000.0), false);
    assert_eq!(took(&measured.disruptions), [deploy]);
}

#[test]
fn a_phase_has_the_pauses_and_the_unowned_partitions_of_its_time() {
    let mut measure = formed();
    measure.begin_phase(ms(200));
    observe(
        &mut measure,
        [
            (300, 0, EventKind::Revoked { partitions: some(&[0]) }),
            (350, 0, assigned(2, &[0])),
            (500, 1, EventKind::Revoked { partitions: some(&[1]) }),
        ],
    );
    measure.begin_phase(ms(1000));
    observe(&mut measure, [(1200, 1, assigned(2, &[1]))]);
    measure.end_phases(ms(2000));
    let phases = measure.finish(ms(9000)).phases;
    let pauses = |of: &PhaseFigures| (of.pauses.count, of.pauses.max.round());
    assert_eq!(pauses(&phases[0]), (2, 500.0), "the second has not ended");
    assert_eq!(pauses(&phases[1]), (1, 700.0), "it counts from its beginning");
    let unowned = phases.iter().map(|phase| (phase.sums.unowned_partition_seconds * 1e3).round());
    assert_eq!(Vec::from_iter(unowned), [550.0, 200.0]);
}

/// Producers are never assigned a partition.
#[test]
fn producers_have_no_pauses() {
    let mut measure = Measure::default();
    measure.expect_group(Group { protocol: Kind::Producer, ..group(0) });
    measure.begin_phase(ms(0));
    observe(&mut measure, [(10, 0, EventKind::Started)]);
    measure.end_phases(ms(5000));
    let measured = measure.finish(ms(9000));
    assert_eq!((measured.phases[0].pauses.count, measured.pauses.count), (0, 0));
}

/// Only first deliveries have times, which count from when the producer began to write the records.
#[test]
fn records_are_delivered_to_a_group_once_or_again() {
    let consumed = |at: u64, member, first, last, due: u64| {
        let partition = Partition { topic: TopicIndex(0), number: 0 };
        let batch = ConsumedBatch { partition, first, last, due: Some(ms(due)) };
        (at, member, EventKind::Consumed { arrived: ms(at), batches: [batch].into() })
    };
    let mut measure = formed();
    measure.begin_phase(ms(200));
    observe(&mut measure, [consumed(300, 0, 0, 9, 290), consumed(310, 0, 10, 19, 290)]);
    measure.advance(ms(900));
    measure.begin_phase(ms(1000));
    // The second member begins where the first one had committed.
    observe(&mut measure, [consumed(1500, 1, 15, 24, 1000)]);
    measure.advance(ms(1900));
    measure.end_phases(ms(2000));
    let measured = measure.finish(ms(3000));
    assert_eq!((measured.consumed.delivered, measured.consumed.redelivered), (30, 5));
    let sums = measured.phases.iter().map(|phase| (phase.sums.delivered, phase.sums.redelivered));
    assert_eq!(Vec::from_iter(sums), [(20, 0), (10, 5)]);
    let times = measured.phases.iter().map(|phase| &phase.latencies["delivery"]);
    let times = times.map(|times| (times.count, times.min.round(), times.max.round()));
    assert_eq!(Vec::from_iter(times), [(20, 10.0, 20.0), (5, 500.0, 500.0)]);
}

/// With KIP-848 the first member may have all partitions for a while, and the others none.
#[test]
fn members_that_own_nothing_while_partitions_lack_an_owner_are_not_stable() {
    let mut measure = formed();
    measure.sample(0, &Sample { states: vec![(GROUP, State::Stable, 2)], ..Sample::default() });
    let revoked = EventKind::Revoked { partitions: some(&[1]) };
    observe(&mut measure, [(300, 1, revoked), (310, 1, EventKind::Settled { epoch: 2 })]);
    measure.advance(ms(1000));
    observe(&mut measure, [(1010, 0, assigned(2, &[1]))]);
    let points = measure.finish(ms(2000)).series.points;
    let states = |at: f64| {
        let point = points.iter().find(|point| (point.at - at).abs() < 1e-9).unwrap();
        (point.members["stable"], point.members.get("idle").copied())
    };
    assert_eq!(states(1.0), (1, Some(1)), "one has all that it is to have, and nothing");
    assert_eq!(states(2.0), (2, None), "now all partitions have an owner");
}
