//! Whole scenarios in virtual time.

use super::world::World;
use super::*;
use crate::event::{Event, EventKind};
use crate::plan::{GroupIndex, MemberIndex};
use crate::time::Time;

fn story(text: &str) -> String {
    World::new(text, false).play().log
}

/// Half of the members are in ten groups of five, half in one group of fifty: the large group has
/// about half of the stops. A client without membership that stops announces no rebalance.
#[test]
fn churn_stops_all_members_with_equal_probability() {
    let text = with(
        "",
        "count = 10\n[[group]]\nname = 'large'\nprotocol = 'classic'\nmembers = 50\n\
         [[group]]\nname = 'manual'\nprotocol = 'manual'",
        "start = {}\n[[phase]]\nname = 'q'\nlasts = '60s'\nchurn = { rate = 10, down = '1s' }",
    );
    let log = story(&text);
    let (small, large): (Vec<_>, Vec<_>) = log
        .match_indices(" left>")
        .map(|(at, _)| &log[at - 5..at])
        .partition(|it| !it.contains("10:"));
    let share = large.len() as f64 / (small.len() + large.len()) as f64;
    assert!((0.4..0.6).contains(&share), "{share} of {}", small.len() + large.len());
    assert!(!log.contains("<11: "), "{log}");
}

/// Some actions turn out to have no members only during the run. This may be intended.
#[test]
fn an_action_that_finds_no_members_in_the_run_is_a_warning() {
    let text = with("", "", "start = {}\n[[phase]]\nname = 'q'\nstart = {}");
    let world = World::new(&text, false).play();
    let warning = "start has no effect: no member of its groups is down";
    assert!(world.log.contains(&format!("(phase q: {warning})")), "{}", world.log);
    let phases = world.conductor.phases();
    assert_eq!(
        (&phases[0].warnings[..], &phases[1].warnings[..]),
        (&[][..], &[warning.into()][..])
    );

    // The group was left out, because the cluster lacks its protocol.
    let text = with(
        "",
        "[[group]]\nname = 'c'\nprotocol = 'consumer'\nmembers = 2",
        "start = {}\n[[phase]]\nname = 'q'\ncrash = { groups = 'c', members = 1 }\n\
         churn = { groups = 'c', rate = 1 }\nlasts = '2s'",
    );
    let mut scenario = valid(&text).unwrap();
    scenario.groups.pop();
    let world = World::of(scenario, false).play();
    let warnings = &world.conductor.phases()[1].warnings;
    assert_eq!(
        warnings[..],
        [
            "crash has no effect: no member of its groups is up",
            "churn has no effect: no member of its groups is up"
        ]
    );
}

#[test]
fn a_group_forms_loses_a_member_and_is_deleted() {
    let text = with(
        "",
        "",
        "start = { members = 2 }\nuntil = 'stable'\n\
         [[phase]]\nname = 'crash'\ncrash = { members = 1, return-after = '1s' }\nuntil = 'stable'",
    );
    assert_eq!(
        story(&text),
        "0.0 ensure muster-load-r-a:4, coordinator of muster-load-r\n\
         0.1 <0: formation>, topics 1, start 0, start 1\n\
         1.6 <0: 1 crashed>, crash 0\n\
         2.5 <0: 1 returned>, start 0\n\
         4.1 <0: wind-down>, leave 0, leave 1\n\
         4.2 read 4 of 0\n\
         4.3 delete muster-load-r-g\n\
         4.4 read 4 of 0\n\
         4.5 delete 1 topics\n"
    );
}

#[test]
fn with_keep_nothing_is_deleted() {
    let world = World::new(&with("", "", "start = {}\nlasts = '1s'"), true).play();
    assert!(world.log.contains("read 4 of 0"), "{}", world.log);
    assert!(!world.log.contains("delete"), "{}", world.log);
    assert_eq!(world.phases(), [("p".into(), 0.1, 1.1, None)]);
    assert!(!world.conductor.interrupted());
}

#[test]
fn members_are_spread_over_the_time() {
    let log = story(&with("", "", "start = { members = 4, over = '2s' }"));
    let starts: Vec<&str> = log.lines().filter(|line| line.contains("start")).collect();
    assert_eq!(
        starts,
        ["0.1 <0: formation>, topics 1, start 0", "0.5 start 1", "1.0 start 2", "1.5 start 3"]
    );
}

#[test]
fn a_roll_waits_for_each_batch_to_be_stable() {
    let text = with(
        "",
        "static = 4",
        "start = {}\nuntil = 'stable'\n\
         [[phase]]\nname = 'roll'\nroll = { how = 'close', at-once = 2, down = '500ms' }",
    );
    let log = story(&text);
    let roll: Vec<&str> = log.lines().skip(2).take(4).collect();
    assert_eq!(
        roll,
        [
            "1.7 <0: 2 closed>, close 0, close 1",
            "2.1 <0: 2 returned>, start 0, start 1",
            "3.7 <0: 2 closed>, close 2, close 3",
            "4.1 <0: 2 returned>, start 2, start 3",
        ],
        "{log}"
    );
}

#[test]
fn members_change_their_subscription_while_they_run() {
    let text = with(
        "[[topic]]\nname = 'b'\npartitions = 3",
        "topics = 'a'",
        "start = { members = 2 }\nuntil = 'stable'\n[[phase]]\nname = 'q'\n\
         change = { topics = ['a', 'b'], every = '1s' }\nuntil = 'stable'",
    );
    let log = story(&text);
    let change: Vec<&str> = log.lines().skip(2).take(3).collect();
    assert_eq!(
        change,
        [
            "1.6 <0: 1 changed subscription>, subscribe 0 to 0 and 1",
            "1.7 PartitionsGrew { partitions: 7 }",
            "2.5 <0: 1 changed subscription>, subscribe 1 to 0 and 1",
        ],
        "{log}"
    );
    assert!(log.contains("read 7 of 0"), "all that was ever subscribed to: {log}");
}

#[test]
fn members_are_migrated_one_after_the_other_and_back() {
    let text = with(
        "",
        "",
        "start = { members = 3 }\nuntil = 'stable'\n[[phase]]\nname = 'there'\n\
         change = { protocol = 'consumer', members = 2, at-once = 2, down = '500ms' }\n\
         until = 'stable'\n[[phase]]\nname = 'back'\nchange = { protocol = 'classic' }\n\
         until = 'stable'\n[[phase]]\nname = 'again'\nchange = { protocol = 'classic' }",
    );
    let world = World::new(&text, false).play();
    let log = &world.log;
    let lines = Vec::from_iter(log.lines().filter(|line| !line.contains("coordinator of")));
    let moves = lines.iter().map(|line| line.split_once(' ').unwrap().1);
    assert_eq!(
        Vec::from_iter(moves.skip(1).take(6)),
        [
            "<0: 2 changed protocol>, leave 0, leave 1",
            "<0: 2 returned>, start 0 (other protocol), start 1 (other protocol)",
            "<0: 1 changed protocol>, leave 0",
            "<0: 1 returned>, start 0",
            "<0: 1 changed protocol>, leave 1",
            "<0: 1 returned>, start 1",
        ],
        "{log}"
    );
    let none = "change has no effect: no member of its groups that is up has to change";
    assert_eq!(world.warnings(3), [none]);
}

#[test]
fn partitions_are_added_and_announced() {
    let text = with(
        "",
        "",
        "start = { members = 1 }\n[[phase]]\nname = 'q'\nadd-partitions = { by = '50%' }",
    );
    let log = story(&text);
    assert!(log.contains("<0: partitions added>, ensure muster-load-r-a:6"), "{log}");
    assert!(log.contains("PartitionsGrew { partitions: 6 }, topics 1"), "{log}");
    assert!(log.contains("read 6 of 0"), "{log}");
}

#[test]
fn loads_change_for_members_that_are_up_and_that_start_later() {
    let text = with(
        "",
        "",
        "start = { members = 1 }\n[[phase]]\nname = 'q'\n\
         work = { commit = { in-flight = 7 } }\n[[phase]]\nname = 'r'\nstart = {}",
    );
    assert!(story(&text).contains("work 0 7"), "{}", story(&text));
}

#[test]
fn the_rates_of_a_ramp_grow_in_steps_and_the_next_one_begins_there() {
    let ramp = |name: &str, rate: u32| {
        format!(
            "[[phase]]\nname = '{name}'\nwork = {{ commit = {{ rate = {rate} }}, over = '2s' }}\n"
        )
    };
    let phases = format!("start = {{ members = 1 }}\n{}{}", ramp("up", 10), ramp("down", 2));
    let log = story(&with("", "", &phases));
    let ends = |c: char| c == ',' || c.is_whitespace();
    let rates = log.split("work 0 1 at ").skip(1).map(|rate| rate.split(ends).next().unwrap());
    let rates = Vec::from_iter(rates);
    assert_eq!(rates, ["1.25", "3.75", "6.25", "8.75", "10", "9", "7", "5", "3", "2"], "{log}");
}

#[test]
fn groups_are_deleted_once_their_members_have_left() {
    let text = with("", "", "start = {}\n[[phase]]\nname = 'q'\ndelete-groups = {}");
    let log = story(&text);
    assert_eq!(log.matches("delete muster-load-r-g").count(), 1, "{log}");
    assert!(log.contains("leave 4\n"), "{log}");
}

#[test]
fn the_gap_of_a_restart_lasts_from_the_first_break_to_the_last_answer() {
    let text = with(
        "",
        "",
        "start = { members = 2 }\n[[phase]]\nname = 'q'\ncoordinator-restart = true\nlimit = '20s'",
    );
    let mut world = World::new(&text, false);
    let observe = |world: &mut World, at: u64, member: u32, kind: EventKind| {
        let event = Event {
            at: Time::from_micros(at),
            group: GroupIndex(0),
            member: MemberIndex(member),
            kind,
        };
        world.events.push(event);
    };
    while world.now < Time::from_micros(2_000_000) {
        world.tick();
    }
    assert!(world.log.contains("(Restart the coordinator now: "), "{}", world.log);
    observe(&mut world, 1_500_000, 0, EventKind::Disconnected);
    observe(&mut world, 1_510_000, 1, EventKind::Disconnected);
    world.tick();
    let alive = EventKind::Alive { sent: Time::ZERO, epoch: 1 };
    observe(&mut world, 1_900_000, 1, alive);
    // A member without partitions reports only this event.
    observe(&mut world, 2_000_000, 0, EventKind::Reached);
    let world = world.play();
    assert!(world.log.contains("<0: coordinator restarted>"), "{}", world.log);
    assert!(world.log.contains("were answered again after 0.500 s"), "{}", world.log);
}

#[test]
fn without_a_restart_the_phase_has_a_problem() {
    let text = with("", "", "start = {}\ncoordinator-restart = true\nlimit = '5s'");
    let world = World::new(&text, false).play();
    let problem = world.phases()[0].3.clone().unwrap();
    assert_eq!(problem, "no connection broke within 5s: was the coordinator restarted?");
}

#[test]
fn a_group_that_does_not_settle_is_named() {
    let mut world = World::new(&with("", "", "start = {}\nuntil = 'stable'\nlimit = '5s'"), false);
    while !world.conductor.is_over() {
        world.stable.clear();
        world.tick();
    }
    let problem = world.phases()[0].3.clone().unwrap();
    assert_eq!(problem, "muster-load-r-g did not become stable within 5s");
}

#[test]
fn an_interrupted_run_winds_down_too() {
    let mut world = World::new(&with("", "", "start = { over = '50s' }"), false);
    for _ in 0..150 {
        world.tick();
    }
    world.conductor.stop();
    let world = world.play();
    assert!(world.conductor.interrupted());
    assert_eq!(world.starts, 2, "{}", world.log);
    assert_eq!(world.warnings(0), ["cut short: the run was stopped"]);
    assert!(world.log.contains("leave 0, leave 1\n"), "{}", world.log);
    assert!(world.log.ends_with("delete 1 topics\n"), "{}", world.log);
}

#[test]
fn the_duration_interrupts_a_run_but_not_a_repeating_one() {
    let world = World::new(&with("", "", "start = {}\nlasts = '1000s'"), false).play();
    assert!(world.conductor.interrupted());
    assert_eq!(world.warnings(0), ["cut short: the duration of 1m 40s is over"]);
    assert!(world.now.seconds() < 110.0);

    let text =
        with("", "", "start = {}\n[[phase]]\nname = 'q'\nlasts = '9s'\n[repeat]\nfrom = 'q'");
    let world = World::new(&text, false).play();
    assert!(!world.conductor.interrupted());
    let phases = world.phases();
    assert_eq!(phases.len(), 13, "{phases:?}");
    assert_eq!(phases[2].0, "q (2)");

    let text = text.replace("[repeat]", "[repeat]\ntimes = 3");
    let world = World::new(&text, false).play();
    assert_eq!(world.phases().len(), 4);
    assert!(!world.conductor.interrupted());
}

#[test]
fn a_cluster_that_refuses_topics_ends_the_run() {
    let mut world = World::new(&with("", "", "start = {}"), false);
    world.refuse_topics = true;
    let world = world.play();
    assert_eq!(world.conductor.failed(), Some("no permission to create topics"));
}

/// Offsets that could not be checked are a problem. Topics that could not be deleted are a warning.
#[test]
fn a_wind_down_that_goes_wrong_is_reported() {
    let world = || World::new(&with("", "", "start = {}"), false);
    let good = world().play();
    assert_eq!(good.conductor.phases().len(), 1);
    let bad = World { refuse_reading: true, refuse_deletion: true, ..world() }.play();
    let last = &bad.conductor.phases()[1];
    assert_eq!(last.name, "wind-down");
    assert_eq!(last.problem.as_deref(), Some("no permission to read"));
    assert_eq!(last.warnings, ["no permission to delete"]);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let text = with(
        "",
        "static = 2",
        "start = {}\n[[phase]]\nname = 'q'\nlasts = '20s'\n\
         churn = { rate = 3, how = ['leave', 'crash', 'close'], down = '1s' }",
    );
    let log = story(&text);
    assert_eq!(log, story(&text));
    assert!(log.matches("returned").count() > 20, "{log}");
    assert!(log.contains("crash") && log.contains("close"), "{log}");
}

#[test]
fn threads_of_a_process_crash_together_and_one_ends_the_application() {
    let text = "description = 'x'
        [[topic]]
        name = 'a'
        partitions = 4
        [[group]]
        name = 'app'
        protocol = 'streams'
        members = 9
        streams = { threads = 3, standbys = 1, initial-delay = '0s' }
        [[phase]]
        name = 'p'
        start = {}
        [[phase]]
        name = 'q'
        crash = { members = 3 }
        [[phase]]
        name = 'r'
        shut-down = {}";
    let log = story(text);
    let crashed = log.lines().find(|line| line.contains("crash ")).unwrap();
    let of_one = ["0, crash 1, crash 2", "3, crash 4, crash 5", "6, crash 7, crash 8"];
    let words: Vec<&str> = crashed.split("crash ").skip(1).collect();
    let mut members: Vec<&str> = words.iter().map(|word| word.trim_end_matches(", ")).collect();
    members.sort_unstable();
    let members = members.join(", crash ");
    assert!(of_one.contains(&members.as_str()), "{crashed}");
    assert_eq!(log.matches("shutdown ").count(), 1, "{log}");
    assert!(!log.contains("leave "), "all had ended: {log}");
    assert!(log.ends_with("delete 2 topics\n"), "its changelog is one of them: {log}");
}
