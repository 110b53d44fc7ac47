//! Built-in scenarios, mistakes in files, and whole scenarios in virtual time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::driver::command::{Command, Task, TaskError, TaskOutcome};
use crate::event::{Event, EventKind};
use crate::plan::{GroupIndex, MemberIndex};
use crate::time::Time;
use crate::topics::{Topic, Topics};

const LIMITS: Limits = Limits { members_per_connection: 1 };

fn valid(text: &str) -> Result<Scenario, String> {
    let scenario = parse("test", text, &Overrides::default()).map_err(|p| p.to_string())?;
    validate::validate(&scenario, &LIMITS)?;
    Ok(scenario)
}

#[test]
fn every_built_in_scenario_is_valid_and_has_one_line() {
    for built_in in BUILT_IN {
        let loaded = load(built_in.name, &Overrides::default(), &LIMITS);
        let scenario = loaded.unwrap_or_else(|problem| panic!("{problem}")).scenario;
        let line = built_in.description();
        assert_eq!(line, scenario.description);
        assert!((10..=90).contains(&line.len()) && !line.contains('\n'), "{}", built_in.name);
        assert!(scenario.phases.iter().any(|phase| phase.start.is_some()), "{}", built_in.name);
    }
}

#[test]
fn built_in_scenarios_are_valid_with_either_protocol() {
    for protocol in ["classic", "consumer"] {
        for built_in in BUILT_IN {
            let overrides = Overrides { protocol: Some(protocol.into()), ..Overrides::default() };
            let loaded = load(built_in.name, &overrides, &LIMITS);
            let only_manual = ["commit", "fetch-offsets"].contains(&built_in.name);
            assert_eq!(loaded.is_err(), only_manual, "{}: {loaded:?}", built_in.name);
        }
    }
}

#[test]
fn an_unknown_scenario_is_an_error() {
    let problem = load("quik", &Overrides::default(), &LIMITS).unwrap_err().to_string();
    assert_eq!(
        problem,
        "no scenario is called quik, and there is no such file; --list shows what there is"
    );
    let problem = load("./none.toml", &Overrides::default(), &LIMITS).unwrap_err().to_string();
    assert!(problem.starts_with("./none.toml can't be read: "), "{problem}");
}

#[test]
fn mistakes_are_reported_with_their_line_and_column() {
    let error = valid("description = 'x'\n[[topic]]\nname = 'a'\npartitons = 3\n").unwrap_err();
    assert!(
        error.starts_with("test, line 4, column 1: unknown field `partitons`, expected one of"),
        "{error}"
    );
    let error = valid("description = 'x'\nduration = 'soon'\n").unwrap_err();
    assert!(
        error.starts_with("test, line 2, column 12: invalid value: string \"soon\""),
        "{error}"
    );
    let error = valid("description = \n").unwrap_err();
    assert!(error.starts_with("test, line 1, column 1"), "{error}");
}

#[test]
fn a_mistake_of_the_command_line_is_reported_as_such() {
    let overrides = Overrides { set: vec!["group.*.sise=3".into()], ..Overrides::default() };
    let error = load("quick", &overrides, &LIMITS).unwrap_err().to_string();
    assert!(
        error.starts_with("quick, changed by the command line: unknown field `sise`"),
        "{error}"
    );
}

/// A small valid scenario, with these lines inserted.
fn with(topic: &str, group: &str, phase: &str) -> String {
    format!(
        "description = 'x'\n[[topic]]\nname = 'a'\npartitions = 4\n{topic}\n\
         [[group]]\nname = 'g'\nprotocol = 'classic'\nmembers = 5\n{group}\n\
         [[phase]]\nname = 'p'\n{phase}\n"
    )
}

#[test]
fn an_invalid_scenario_is_refused_in_one_sentence() {
    let cases = [
        ("count = 0", "", "start = {}", "topic a: its count is 0: leave it out"),
        ("count = 20000", "", "start = {}", "20000 topics in all are more than 10000"),
        ("", "static = 6", "start = {}", "group g: 6 static members are more than its 5 members"),
        ("", "topics = 'b'", "start = {}", "group g: there is no topic b, only a"),
        ("", "assignor = 'best'", "start = {}", "group g: classic members have no assignor best: "),
        ("", "session-timeout = '1s'", "start = {}", "group g: heartbeat-interval = 3s is not"),
        ("", "backoff = '2s'", "start = {}", "group g: backoff = 2s is above backoff-max = 1s"),
        ("", "commit = { rate = 0 }", "start = {}", "group g: commit must have more than 0"),
        ("", "commit = { rate = 1, every = '1s' }", "start = {}", "group g: commit has both a"),
        ("", "fetch = { in-flight = 0 }", "start = {}", "group g: fetch must have 1 to 10000"),
        ("", "", "", "phase p: it has no action and takes no time"),
        ("", "", "start = { members = 6 }", "phase p: start is for 6 members, and group g has 5"),
        ("", "", "start = { groups = 'h' }", "phase p: there is no group h, only g"),
        ("", "", "close = {}", "phase p: close is for static members, and group g has none"),
        ("", "", "roll = { at-once = 0 }", "phase p: roll with at-once = 0 restarts none"),
        ("", "", "churn = { rate = 1 }", "phase p: churn needs a duration: lasts"),
        ("", "", "churn = { rate = -1 }", "phase p: churn must have a rate above 0"),
        ("", "", "add-partitions = { by = 0 }", "phase p: add-partitions by 0 adds none"),
        ("", "", "lasts = '1s'\nuntil = 'stable'", "phase p: it has both lasts and until"),
        ("", "", "start = { members = 0 }", "phase p: start is for no members: leave it out"),
        ("", "", "start = {}\nlasts = '99999999h'", "phase p: lasts = "),
        ("", "", "start = { over = '367d' }", "phase p: start.over = "),
        ("", "revocation-takes = '9999d'", "start = {}", "group g: revocation-takes = "),
        ("", "commit = { every = '9999d' }", "start = {}", "group g: commit.every = "),
        ("", "", "start = {}\n[repeat]\nfrom = 'q'", "repeat: there is no phase q, only p"),
        ("", "", "start = {}\n[[phase]]\nname = 'p'", "two phases are called p"),
        (
            "",
            "",
            "start = {}\n[[group]]\nname = 'a b'\nprotocol = 'manual'",
            "group \"a b\": a name",
        ),
    ];
    for (topic, group, phase, expected) in cases {
        let error = valid(&with(topic, group, phase)).expect_err(expected);
        assert!(error.starts_with(expected), "expected {expected:?}, got {error:?}");
        assert!(!error.contains('\n'), "{error}");
    }
    valid(&with("", "", "start = {}")).unwrap();
}

#[test]
fn classic_members_do_not_share_connections() {
    let limits = Limits { members_per_connection: 10 };
    let error = load("quick", &Overrides::default(), &limits).unwrap_err().to_string();
    assert!(error.contains("group classic: classic members can't share connections"), "{error}");
    load("commit", &Overrides::default(), &limits).unwrap();
}

#[test]
fn optional_groups_are_left_out_if_the_cluster_lacks_their_protocol() {
    let quick = || load("quick", &Overrides::default(), &LIMITS).unwrap();
    let mut with = quick();
    let mut versions = Versions::default();
    versions.set(ApiKey::JoinGroup as i16, 9);
    let classic_only = versions.clone();
    versions.set(ApiKey::ConsumerGroupHeartbeat as i16, 1);
    assert_eq!(with.fit(&versions), Ok(vec![]));
    assert_eq!(with.scenario.groups.len(), 2);

    let mut without = quick();
    let notes = without.fit(&classic_only).unwrap();
    assert!(notes[0].starts_with("without consumer: the cluster does not offer"), "{notes:?}");
    assert_eq!(without.scenario.groups.len(), 1);

    without.scenario.groups[0].protocol = file::Protocol::Consumer;
    let error = without.fit(&classic_only).unwrap_err().to_string();
    assert!(error.contains("which group classic needs; --protocol classic avoids it"), "{error}");
    let error = quick().fit(&Versions::default()).unwrap_err().to_string();
    assert!(error.contains("does not offer JoinGroup, which group classic needs"), "{error}");
}

/// Actions of phases in which no member of the groups can be up.
#[test]
fn an_action_that_can_never_have_members_is_refused() {
    let next = |phase: &str| format!("\n[[phase]]\nname = 'q'\n{phase}");
    let none = |what: &str| format!("{what} has no effect: no member of its groups is up by then");
    for (phases, expected) in [
        ("lasts = '1s'".into(), "group g: no phase starts its members".into()),
        ("start = {}\ncrash = {}".into(), format!("phase p: {}", none("crash"))),
        (
            format!("start = {{}}\n[[phase]]\nname = 'o'\nleave = {{}}{}", next("roll = {}")),
            format!("phase q: {}", none("roll")),
        ),
        (
            format!("read-offsets = {{}}{}", next("start = {}")),
            format!("phase p: {}", none("read-offsets")),
        ),
        (
            format!("start = {{}}{}", next("leave = {}\ncoordinator-restart = true")),
            format!("phase q: {}", none("coordinator-restart")),
        ),
        (
            format!("start = {{}}{}", next("leave = {}\nwork = { fetch = {} }")),
            format!("phase q: {}", none("work")),
        ),
    ] {
        assert_eq!(valid(&with("", "", &phases)).unwrap_err(), expected);
    }
    for good in [
        format!("work = {{ fetch = {{}} }}{}", next("start = {}")),
        format!("start = {{}}{}", next("crash = { return-after = '1s' }\nlasts = '3s'")),
        format!("lasts = '1s'{}\n[repeat]\nfrom = 'p'", next("start = {}")),
        // In the first round no member is up, in the second some are.
        format!("crash = {{}}{}\n[repeat]\nfrom = 'p'", next("start = {}")),
        format!("start = {{}}{}", next("delete-groups = {}\nread-offsets = {}")),
    ] {
        valid(&with("", "", &good)).unwrap_or_else(|error| panic!("{good}: {error}"));
    }
}

#[test]
fn the_clusters_times_of_consumer_groups_replace_the_scenarios() {
    let mut quick = load("quick", &Overrides::default(), &LIMITS).unwrap();
    let seconds = |seconds| Duration::from_secs(seconds);
    let reported = |session, heartbeat| {
        Some(ConsumerTimes {
            session_timeout: seconds(session),
            heartbeat_interval: seconds(heartbeat),
        })
    };
    let classic = quick.scenario.groups[0].clone();
    let times = |named: &Named| {
        let group = &named.scenario.groups[1];
        (group.session_timeout.0, group.heartbeat_interval.0)
    };
    let note = quick.adopt_times(None).unwrap();
    assert!(note.ends_with("the checks assume group consumer's session-timeout, 45s"), "{note}");
    assert_eq!(times(&quick), (seconds(45), seconds(5)));
    assert_eq!(quick.adopt_times(reported(45, 15)), None);
    assert_eq!(times(&quick), (seconds(45), seconds(15)));
    let note = quick.adopt_times(reported(20, 3)).unwrap();
    assert!(note.contains("a session timeout of 20s"), "{note}");
    assert_eq!(times(&quick), (seconds(20), seconds(3)));
    assert_eq!(quick.scenario.groups[0], classic);
    quick.scenario.groups.truncate(1);
    assert_eq!(quick.adopt_times(None), None, "there are no consumer groups");
}

/// Runs a scenario against a cluster that executes commands at once, and logs them: a line for each
/// tick with orders.
struct World {
    conductor: Conductor,
    now: Time,
    topics: Topics,
    events: Vec<Event>,
    done: Vec<(u64, Result<TaskOutcome, TaskError>)>,
    /// Since when each group is stable; they need half a second for it.
    stable: BTreeMap<GroupIndex, Time>,
    groups: BTreeMap<MemberIndex, GroupIndex>,
    log: String,
    starts: u32,
    refuse_topics: bool,
    refuse_reading: bool,
    refuse_deletion: bool,
}

const TICK: Duration = Duration::from_millis(100);

impl World {
    fn new(text: &str, keep: bool) -> Self {
        Self::of(valid(text).unwrap(), keep)
    }

    fn of(scenario: Scenario, keep: bool) -> Self {
        let settings =
            Settings { run: "r".into(), seed: 1, duration: Duration::from_secs(100), keep };
        Self {
            conductor: Conductor::new(scenario, settings),
            now: Time::ZERO,
            topics: Topics::default(),
            events: Vec::new(),
            done: Vec::new(),
            stable: BTreeMap::new(),
            groups: BTreeMap::new(),
            log: String::new(),
            starts: 0,
            refuse_topics: false,
            refuse_reading: false,
            refuse_deletion: false,
        }
    }

    fn play(mut self) -> Self {
        while !self.conductor.is_over() {
            self.tick();
            assert!(self.now < Time::from_micros(300_000_000), "endless:\n{}", self.log);
        }
        self
    }

    fn tick(&mut self) {
        let (events, done) = (std::mem::take(&mut self.events), std::mem::take(&mut self.done));
        let stable = self.stable.clone();
        let stable_since = |group| stable.get(&group).copied();
        let status = Status { events: &events, done: &done, stable_since: &stable_since };
        let mut orders = Orders::default();
        self.conductor.tick(self.now, &status, &mut orders);
        let mut words = Vec::new();
        words.extend(orders.triggers.iter().map(|t| format!("<{}: {}>", t.group.0, t.cause)));
        words.extend(orders.events.iter().map(|event| format!("{:?}", event.kind)));
        words.extend(orders.notes.iter().map(|note| format!("({note})")));
        words.extend(orders.commands.into_iter().map(|command| self.execute(command)));
        if !words.is_empty() {
            writeln!(self.log, "{:.1} {}", self.now.seconds(), words.join(", ")).unwrap();
        }
        self.now = self.now + TICK;
    }

    /// Executes a command; returns its entry in the log.
    fn execute(&mut self, command: Command) -> String {
        match command {
            Command::Start { member, at } => {
                self.starts += 1;
                self.groups.insert(member.index, member.group.index);
                self.stable.insert(member.group.index, at + TICK * 5);
                format!("start {}", member.index.0)
            }
            Command::Stop { at, member, how } => {
                let group = self.groups[&member];
                self.stable.insert(group, at + TICK * 5);
                let kind = EventKind::Stopped { how };
                self.events.push(Event { at, group, member, kind });
                format!("{how:?} {}", member.0).to_lowercase()
            }
            Command::Work { member, workload } => {
                let depth = workload.commit.map_or(0, |load| load.in_flight);
                format!("work {} {depth}", member.0)
            }
            Command::Topics(topics) => format!("topics {}", topics.iter().count()),
            Command::Task { id, task } => {
                let (word, outcome) = self.perform(task);
                self.done.push((id, outcome));
                word
            }
            Command::End => "end".into(),
        }
    }

    fn perform(&mut self, task: Task) -> (String, Result<TaskOutcome, TaskError>) {
        let refused = |what: &str| Err(TaskError(format!("no permission to {what}")));
        match task {
            Task::EnsureTopics { .. } if self.refuse_topics => {
                ("ensure".into(), Err(TaskError("no permission to create topics".into())))
            }
            Task::EnsureTopics { topics, .. } => {
                let word = topics.iter().map(|(name, count)| format!("{}:{count}", name.as_str()));
                let word = format!("ensure {}", word.collect::<Vec<_>>().join(" "));
                for (name, partitions) in topics {
                    self.topics.learn(Topic { name, id: uuid::Uuid::nil(), partitions });
                }
                (word, Ok(TaskOutcome::Topics(Arc::new(self.topics.clone()))))
            }
            Task::AwaitCoordinator { id } => {
                (format!("coordinator of {}", id.as_str()), Ok(TaskOutcome::Found))
            }
            Task::FindLeftovers { .. } => unreachable!("no run looks for those of others"),
            Task::DeleteTopics { .. } if self.refuse_deletion => {
                ("delete".into(), refused("delete"))
            }
            Task::DeleteTopics { topics } => {
                (format!("delete {} topics", topics.len()), Ok(TaskOutcome::Deleted))
            }
            Task::DeleteGroup { id, .. } => {
                (format!("delete {}", id.as_str()), Ok(TaskOutcome::Deleted))
            }
            Task::ReadOffsets { .. } if self.refuse_reading => ("read".into(), refused("read")),
            Task::ReadOffsets { group, partitions, .. } => {
                (format!("read {} of {}", partitions.len(), group.0), Ok(TaskOutcome::Read))
            }
        }
    }

    fn warnings(&self, phase: usize) -> Vec<String> {
        self.conductor.phases()[phase].warnings.clone()
    }

    fn phases(&self) -> Vec<(String, f64, f64, Option<String>)> {
        let phases = self.conductor.phases().iter();
        phases.map(|p| (p.name.clone(), p.began, p.ended, p.problem.clone())).collect()
    }
}

/// Ten groups of five and one of fifty have the same share of random stops, and clients without
/// membership have no rebalances.
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

/// Such actions are only known during the run, and may be intended.
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

    // A group that was left out, as the cluster has no protocol for it.
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

fn story(text: &str) -> String {
    World::new(text, false).play().log
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
    // The only event of a member without partitions.
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

/// Offsets that could not be checked are a problem, topics that could not be deleted a warning.
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
