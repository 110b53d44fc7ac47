//! The measures of scripted events. Times are in milliseconds.

mod disruptions;

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use proptest::prelude::*;

use super::merge::Merge;
use super::*;
use crate::check::Checker;
use crate::driver::command::CoreReport;
use crate::event::{EventKind, OBSERVER, Stop};
use crate::history::Kind;
use crate::member::State;
use crate::plan::{MemberIndex, Partition, TopicIndex};

const GROUP: GroupIndex = GroupIndex(0);

fn ms(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

fn event(at: u64, member: u32, kind: EventKind) -> Event {
    Event { at: ms(at), group: GROUP, member: MemberIndex(member), kind }
}

fn some(numbers: &[u32]) -> Arc<[Partition]> {
    numbers.iter().map(|number| Partition { topic: TopicIndex(0), number: *number }).collect()
}

fn assigned(epoch: i32, numbers: &[u32]) -> EventKind {
    EventKind::Assigned { epoch, partitions: some(numbers) }
}

fn joined(epoch: i32) -> EventKind {
    EventKind::Joined { member_id: "id".into(), epoch }
}

fn measure(partitions: u32) -> Measure {
    let mut measure = Measure::default();
    measure.expect_group(group(partitions));
    measure
}

fn group(partitions: u32) -> Group {
    Group {
        index: GROUP,
        id: "g".into(),
        protocol: Kind::Consumer,
        session_timeout: Duration::from_secs(45),
        rebalance_timeout: Duration::from_secs(300),
        partitions,
        clock_error: Duration::ZERO,
        delivery_limit: 0,
    }
}

fn observe(measure: &mut Measure, events: impl IntoIterator<Item = (u64, u32, EventKind)>) {
    for (at, member, kind) in events {
        measure.observe(&event(at, member, kind));
    }
}

/// Two members with a partition each. The group has been stable since 120 ms.
fn formed() -> Measure {
    let mut measure = measure(2);
    measure.trigger(GROUP, "formation", ms(0));
    observe(
        &mut measure,
        [
            (10, 0, EventKind::Started),
            (10, 1, EventKind::Started),
            (50, 0, joined(1)),
            (50, 0, assigned(1, &[0, 1])),
            (50, 0, EventKind::Settled { epoch: 1 }),
            (60, 1, joined(2)),
            (60, 1, EventKind::Settled { epoch: 2 }),
            (80, 0, EventKind::MustRebalance { sent: ms(70) }),
            (90, 0, EventKind::Revoked { partitions: some(&[1]) }),
            (100, 0, EventKind::Epoch { epoch: 2 }),
            (100, 0, EventKind::Settled { epoch: 2 }),
            (120, 1, assigned(2, &[1])),
        ],
    );
    measure
}

fn stable_since(measure: &Measure) -> Option<Time> {
    measure.status(GROUP).unwrap().stable_since
}

#[test]
fn a_group_is_stable_since_the_event_that_made_it_so() {
    let mut measure = formed();
    let status = measure.status(GROUP).unwrap();
    assert_eq!((status.live, status.settled, status.owned, status.epoch), (2, 2, 2, 2));
    assert_eq!(status.stable_since, Some(ms(120)));
    assert!(status.rebalancing);
    measure.observe(&event(150, 0, EventKind::Alive { sent: ms(140), epoch: 2 }));
    assert_eq!(stable_since(&measure), Some(ms(120)));
    measure.observe(&event(160, 1, EventKind::Alive { sent: ms(140), epoch: 3 }));
    assert_eq!(stable_since(&measure), None, "there is a newer epoch than they settled at");
}

#[test]
fn a_rebalance_lasts_from_its_trigger_until_the_group_is_stable() {
    let mut measure = formed();
    measure.close_rebalance(GROUP);
    assert!(!measure.status(GROUP).unwrap().rebalancing);
    let measured = measure.finish(ms(1000));
    let [formation] = &measured.rebalances[..] else { panic!("{:?}", measured.rebalances) };
    assert_eq!(formation.trigger, "formation");
    assert_eq!((formation.began, formation.took), (0.0, Some(120.0)));
    assert_eq!((formation.moved, formation.revoked, formation.members), (1, 1, 2));
    assert_eq!(formation.took_since_detected, None);
}

#[test]
fn a_rebalance_in_which_all_members_leave_is_not_reported() {
    let leave = |measure: &mut Measure| {
        measure.close_rebalance(GROUP);
        measure.trigger(GROUP, "2 left", ms(1000));
        let left = |member| (1010, member, EventKind::Stopped { how: Stop::Leave });
        observe(measure, [left(0), left(1)]);
    };
    let mut measure = formed();
    leave(&mut measure);
    measure.trigger(GROUP, "formation", ms(2000));
    measure.advance(ms(3000));
    let took = |measured: Measured| -> Vec<_> {
        measured.rebalances.into_iter().map(|r| (r.trigger, r.took)).collect()
    };
    let formation = |took| ("formation".to_owned(), took);
    assert_eq!(took(measure.finish(ms(3000))), [formation(Some(120.0)), formation(None)]);

    let mut measure = formed();
    leave(&mut measure);
    measure.close_rebalance(GROUP);
    assert_eq!(took(measure.finish(ms(3000))), [formation(Some(120.0))]);
}

#[test]
fn a_crash_is_detected_when_other_members_learn_of_it() {
    let mut measure = formed();
    measure.close_rebalance(GROUP);
    measure.trigger(GROUP, "1 crashed", ms(1000));
    assert_eq!(stable_since(&measure), None, "stability from before the trigger does not count");
    observe(
        &mut measure,
        [
            (1000, 1, EventKind::Lost { partitions: some(&[1]) }),
            (1000, 1, EventKind::Stopped { how: Stop::Crash }),
            (9000, 0, EventKind::Alive { sent: ms(8999), epoch: 2 }),
            (11000, 0, EventKind::Epoch { epoch: 3 }),
            (11000, 0, EventKind::Settled { epoch: 3 }),
            (11500, 0, assigned(3, &[1])),
        ],
    );
    assert_eq!(stable_since(&measure), Some(ms(11500)));
    measure.close_rebalance(GROUP);
    let measured = measure.finish(ms(12000));
    let crash = &measured.rebalances[1];
    assert_eq!((crash.took, crash.took_since_detected), (Some(10500.0), Some(500.0)));
    assert_eq!((crash.moved, crash.revoked, crash.members), (1, 1, 1));
    assert_eq!(measured.members.crashed, 1);
    // While the group forms, 2 partitions have no owner from 10 to 50 ms, and 1 from 90 to 120 ms.
    // After the crash, 1 has none from 1000 to 11500 ms.
    let seconds = 2.0 * 0.04 + 0.03 + 10.5;
    assert!((measured.unowned_partition_seconds - seconds).abs() < 1e-9);
}

#[test]
fn a_trigger_that_does_not_unsettle_the_group_takes_no_time() {
    let mut measure = formed();
    measure.close_rebalance(GROUP);
    measure.trigger(GROUP, "nothing", ms(500));
    assert_eq!(stable_since(&measure), None);
    measure.advance(ms(600));
    assert_eq!(stable_since(&measure), Some(ms(120)));
    measure.close_rebalance(GROUP);
    assert_eq!(measure.finish(ms(700)).rebalances[1].took, Some(0.0));
}

#[test]
fn rebalances_without_a_trigger_are_reported_too() {
    let mut measure = formed();
    measure.close_rebalance(GROUP);
    let unrest = |at: u64, epoch| {
        [
            (at, 0, EventKind::Fenced { error: 25 }),
            (at, 0, EventKind::Lost { partitions: some(&[0]) }),
            (at + 20, 0, joined(epoch)),
            (at + 20, 0, assigned(epoch, &[0])),
            (at + 20, 0, EventKind::Settled { epoch }),
            (at + 30, 1, EventKind::Epoch { epoch }),
            (at + 30, 1, EventKind::Settled { epoch }),
        ]
    };
    observe(&mut measure, unrest(1000, 3));
    observe(&mut measure, unrest(1500, 4));
    observe(&mut measure, unrest(9000, 5));
    let measured = measure.finish(ms(20000));
    let took: Vec<_> = measured.rebalances.iter().map(|r| (r.trigger.as_str(), r.took)).collect();
    let fenced = "members fenced";
    assert_eq!(took, [("formation", Some(120.0)), (fenced, Some(530.0)), (fenced, Some(30.0))]);
    assert_eq!((measured.members.fenced, measured.members.rejoined), (3, 3));
}

#[test]
fn more_members_than_partitions_are_stable_and_wait_for_none() {
    let mut measure = measure(1);
    observe(
        &mut measure,
        [
            (0, 0, EventKind::Started),
            (0, 1, EventKind::Started),
            (20, 0, joined(1)),
            (20, 0, assigned(1, &[0])),
            (20, 0, EventKind::Settled { epoch: 1 }),
            (30, 1, joined(1)),
            (30, 1, EventKind::Settled { epoch: 1 }),
        ],
    );
    assert_eq!(stable_since(&measure), Some(ms(30)));
    let measured = measure.finish(ms(100));
    assert_eq!((measured.pauses.count, measured.pauses.max.round()), (1, 20.0));
}

#[test]
fn a_pause_lasts_from_the_last_revoked_partition_to_the_next_assigned_one() {
    let mut measure = formed();
    observe(
        &mut measure,
        [
            (200, 0, EventKind::Revoked { partitions: some(&[0]) }),
            (450, 0, assigned(3, &[0])),
            (500, 1, EventKind::Revoked { partitions: some(&[1]) }),
            (600, 1, EventKind::Stopped { how: Stop::Leave }),
        ],
    );
    let measured = measure.finish(ms(1000));
    // After their starts, the members paused for 40 and 110 ms. The third pause took 250 ms. The
    // member that left did not pause again.
    assert_eq!(measured.pauses.count, 3);
    assert_eq!(measured.pauses.max.round(), 250.0);
    assert_eq!(measured.pauses.min.round(), 40.0);
    assert_eq!(measured.members.revocations, 3);
    assert_eq!(measured.members.revocations_per_member_max, 2);
}

#[test]
fn partitions_that_are_added_have_to_be_owned_too() {
    let mut measure = formed();
    let grew =
        Event { member: OBSERVER, ..event(200, 0, EventKind::PartitionsGrew { partitions: 3 }) };
    measure.observe(&grew);
    assert_eq!(stable_since(&measure), None);
    observe(&mut measure, [(300, 1, assigned(2, &[2]))]);
    assert_eq!(stable_since(&measure), Some(ms(300)));
}

#[test]
fn a_lost_connection_unsettles_until_the_member_is_answered_again() {
    let mut measure = formed();
    measure.close_rebalance(GROUP);
    let alive = EventKind::Alive { sent: ms(1050), epoch: 2 };
    observe(&mut measure, [(1000, 0, EventKind::Disconnected), (1001, 1, EventKind::Disconnected)]);
    assert_eq!(stable_since(&measure), None);
    measure.trigger(GROUP, "coordinator restarted", ms(1000));
    observe(&mut measure, [(1060, 1, alive)]);
    assert_eq!(stable_since(&measure), None, "the other one is still cut off");
    observe(&mut measure, [(1400, 0, EventKind::Disconnected), (1500, 0, EventKind::Reached)]);
    assert_eq!(stable_since(&measure), Some(ms(1500)));
    measure.close_rebalance(GROUP);
    let found = measure.finish(ms(2000)).rebalances;
    assert_eq!((found[1].trigger.as_str(), found[1].took), ("coordinator restarted", Some(500.0)));
    assert_eq!(found.len(), 2);
}

#[test]
fn a_crashed_member_frees_its_partitions() {
    let mut measure = formed();
    observe(&mut measure, [(200, 1, EventKind::Stopped { how: Stop::Crash })]);
    assert_eq!(measure.status(GROUP).unwrap().owned, 1);
    assert_eq!(measure.totals(ms(300)).unowned_partitions, 1);
}

fn sample(of: RoundTrip, micros: &[u64]) -> Sample {
    let mut histogram = Histogram::new(3).unwrap();
    micros.iter().for_each(|value| histogram.record(*value).unwrap());
    let states = vec![(GROUP, State::Stable, 2), (GROUP, State::Joining, 1)];
    let (round_trips, uncorrected) = (vec![(of, histogram.clone())], vec![(of, histogram)]);
    Sample { round_trips, uncorrected, bytes_sent: 10, states, ..Sample::default() }
}

#[test]
fn latencies_and_rates_come_from_the_samples() {
    let mut measure = formed();
    measure.sample(0, &sample(RoundTrip::Commit, &[1000, 2000, 3000]));
    measure.sample(1, &sample(RoundTrip::Commit, &[4000]));
    let totals = measure.totals(ms(2000));
    assert_eq!(totals.loads.len(), 1);
    assert_eq!(totals.loads[0].per_second, 2.0);
    assert_eq!(totals.members, [0, 0, 2, 0, 4, 0, 0]);
    assert!(measure.totals(ms(3000)).loads.is_empty());
    let measured = measure.finish(ms(3000));
    let commit = &measured.latencies["commit"];
    assert_eq!((commit.count, commit.max.round(), commit.p50.round()), (4, 4.0, 2.0));
    assert_eq!(commit.percentiles.first().unwrap().0, 0.0);
    assert_eq!(commit.percentiles.last().unwrap().0, 100.0);
    assert!(commit.percentiles.is_sorted());
    assert_eq!(measured.bytes_sent, 20);
}

/// If a server does not answer, the requests that wait for it count as its latency.
#[test]
fn what_was_not_answered_counts_beside_what_was() {
    let mut measure = formed();
    let mut lost = sample(RoundTrip::Commit, &[1_000]);
    lost.round_trips = sample(RoundTrip::Commit, &[1_000, 12_000_000]).round_trips;
    lost.unanswered = vec![(RoundTrip::Commit, 3)];
    lost.waiting = Some(sample(RoundTrip::Commit, &[5_000_000, 7_000_000]).round_trips);
    measure.sample(0, &lost);
    let waiting = measure.waiting();
    assert_eq!((waiting.requests, waiting.longest.as_secs()), (2, 7));
    let joins = sample(RoundTrip::JoinGroup, &[9_000_000]).round_trips;
    measure.sample(0, &Sample { waiting: Some(joins), ..Sample::default() });
    assert_eq!(measure.waiting(), Waiting::default(), "joins wait for other members");

    assert_eq!(measure.totals(ms(1000)).loads[0].per_second, 1.0, "only answers have a rate");
    assert_eq!(measure.so_far().latencies["commit"].count, 2);
    measure.begin_phase(ms(1000));
    measure.sample(0, &sample(RoundTrip::Commit, &[2_000]));
    measure.begin_phase(ms(1000));
    measure.sample(0, &Sample { waiting: lost.waiting.clone(), ..Sample::default() });
    measure.end_phases(ms(1000));
    measure.sample(0, &sample(RoundTrip::Heartbeat, &[2_000]));
    assert!(measure.so_far().latencies["commit"].count == 5, "with those that wait");

    let measured = measure.finish(ms(1000));
    let phases = measured.phases.iter().map(|it| &it.latencies);
    let phases = phases.map(|phase| (phase.len(), phase["commit"].max.round()));
    assert_eq!(Vec::from_iter(phases), [(2, 2.0), (1, 7_000.0)]);
    assert!(measured.latencies["commit"].max > 11_900.0);
    assert_eq!((measured.uncorrected["commit"].count, measured.unanswered["commit"]), (2, 3));
    let rates = measured.series.points.iter().filter_map(|point| point.rates.get("commit"));
    assert_eq!(rates.sum::<f64>(), 8.0, "two answers in a step of 250 ms");
}

#[test]
fn a_long_run_has_no_more_points_than_a_page_draws() {
    let mut measure = formed();
    for second in 0..3000 {
        measure.sample(0, &sample(RoundTrip::Heartbeat, &[500, 700]));
        measure.advance(ms(second * 1000));
    }
    let measured = measure.finish(ms(3_000_000));
    let series = &measured.series;
    assert!((240..=480).contains(&series.points.len()), "{}", series.points.len());
    let total: f64 =
        series.points.iter().zip(steps(series)).map(|(p, s)| p.rates["heartbeat"] * s).sum();
    assert_eq!(total.round(), 6000.0);
    assert!((series.points[9].p99["heartbeat"] - 0.7).abs() < 0.01);
    assert_eq!(series.points[9].members["stable"], 2);
}

fn steps(series: &model::Series) -> impl Iterator<Item = f64> {
    let began = std::iter::once(0.0).chain(series.points.iter().map(|point| point.at));
    series.points.iter().zip(began).map(|(point, began)| point.at - began)
}

#[test]
fn the_usage_of_processes_counts_from_the_first_reading() {
    let mut measure = formed();
    let usage =
        |seconds, memory_bytes| process::Usage { cpu: Duration::from_secs(seconds), memory_bytes };
    measure.usage(usage(1, 1000), Some(usage(10, 500)));
    measure.advance(ms(250));
    measure.usage(usage(2, 800), Some(usage(11, 700)));
    let measured = measure.finish(ms(500));
    assert_eq!(measured.load_generator.cpu_seconds, 1.0);
    assert_eq!(measured.load_generator.memory_bytes_max, 1000);
    assert_eq!(measured.members.memory_bytes_each, 500);
    let server = measured.server.unwrap();
    assert_eq!((server.cpu_seconds, server.memory_bytes), (1.0, 700));
    assert_eq!(measured.series.points[1].server_cpu, Some(4.0));
}

fn report(core: usize, until: u64, at: &[u64]) -> CoreReport {
    let events = at.iter().map(|at| event(*at, core as u32, EventKind::Started)).collect();
    let (sample, done, ended) = (Sample::default(), Vec::new(), None);
    CoreReport { core, until: ms(until), events, sample, done, ended }
}

#[test]
fn events_of_cores_come_in_one_order() {
    let mut merge = Merge::new(2);
    merge.push(&mut report(0, 10, &[1, 5, 9]));
    assert!(merge.ready().is_empty(), "the other core may report earlier events");
    merge.push(&mut report(1, 6, &[2, 5]));
    merge.insert(event(4, 9, EventKind::Disconnected));
    let order = |events: Vec<Event>| -> Vec<_> {
        events.iter().map(|event| (event.at, event.member.0)).collect()
    };
    let first = order(merge.ready());
    assert_eq!(first, [(ms(1), 0), (ms(2), 1), (ms(4), 9), (ms(5), 0), (ms(5), 1)]);
    let mut last = report(1, 7, &[]);
    last.ended = Some(Ok(()));
    merge.push(&mut last);
    assert_eq!(order(merge.ready()), [(ms(9), 0)]);
}

/// Events of a few members, partitions and epochs, even in orders that no real member produces.
fn any_event() -> impl Strategy<Value = (u64, u32, EventKind)> {
    let some_of = prop::collection::vec(0..4_u32, 0..4).prop_map(|numbers| some(&numbers));
    let epoch = 1..5_i32;
    let kind = prop_oneof![
        Just(EventKind::Started),
        Just(EventKind::Joining),
        epoch.clone().prop_map(joined),
        epoch.clone().prop_map(|epoch| EventKind::Epoch { epoch }),
        epoch.clone().prop_map(|epoch| EventKind::Settled { epoch }),
        (0..100_u64, epoch.clone())
            .prop_map(|(at, epoch)| EventKind::Alive { sent: ms(at), epoch }),
        (epoch.clone(), some_of.clone())
            .prop_map(|(epoch, partitions)| EventKind::Assigned { epoch, partitions }),
        (0..100_u64).prop_map(|at| EventKind::MustRebalance { sent: ms(at) }),
        some_of.clone().prop_map(|partitions| EventKind::Revoked { partitions }),
        some_of.prop_map(|partitions| EventKind::Lost { partitions }),
        Just(EventKind::Fenced { error: 25 }),
        Just(EventKind::Stopped { how: Stop::Crash }),
        Just(EventKind::Failed { reason: "r".into() }),
        (0..3_u32, epoch).prop_map(|(id, epoch)| {
            let offsets = Arc::from([(Partition::from((0, id)), i64::from(id))]);
            EventKind::CommitSent { id, epoch, offsets }
        }),
        (0..3_u32).prop_map(|id| EventKind::CommitAnswered { id, refused: Arc::from([]) }),
        (0..3_u32).prop_map(|id| EventKind::CommitUnknown { id }),
        Just(EventKind::Disconnected),
        Just(EventKind::Reached),
        (0..100_u64).prop_map(|at| EventKind::GroupDeleted { sent: ms(at) }),
        (0..6_u32).prop_map(|partitions| EventKind::PartitionsGrew { partitions }),
    ];
    (0..100_u64, 0..3_u32, kind)
}

proptest! {
    #[test]
    fn no_stream_of_events_breaks_the_counts(
        events in prop::collection::vec(any_event(), 0..60),
        classic in any::<bool>(),
        triggers in prop::collection::vec(0..100_u64, 0..3),
    ) {
        let protocol = if classic { Kind::Classic } else { Kind::Consumer };
        let group = Group { protocol, ..group(4) };
        let (mut measure, mut checker) = (Measure::default(), Checker::default());
        measure.expect_group(group.clone());
        checker.expect_group(group);
        triggers.iter().for_each(|at| measure.trigger(GROUP, "trigger", ms(*at)));
        for (at, member, kind) in events {
            let event = event(at, member, kind);
            measure.observe(&event);
            checker.observe(&event);
            let status = measure.status(GROUP).unwrap();
            prop_assert!(status.settled <= status.live && status.live <= 3);
            prop_assert!(status.owned <= 4);
            let totals = measure.totals(ms(at));
            prop_assert_eq!((totals.live, totals.groups_stable <= 1), (status.live, true));
            measure.close_rebalance(GROUP);
        }
        prop_assert!(measure.finish(ms(100)).unowned_partition_seconds < 10.0);
        checker.finish();
    }
}

#[test]
fn a_group_is_not_stable_while_a_member_may_not_process() {
    let mut measure = formed();
    let statuses = |codes: &[i8]| EventKind::Statuses { codes: codes.into() };
    observe(&mut measure, [(200, 1, statuses(&[0]))]);
    assert_eq!(stable_since(&measure), Some(ms(120)), "a stale topology holds nothing up");
    observe(&mut measure, [(300, 1, statuses(&[0, 5]))]);
    assert_eq!(stable_since(&measure), None);
    observe(&mut measure, [(400, 1, statuses(&[])), (400, 1, EventKind::Settled { epoch: 2 })]);
    assert_eq!(stable_since(&measure), Some(ms(400)));
}
