//! Tests of the built-in scenarios, and of mistakes in files.

mod runs;
mod world;

use std::time::Duration;

use super::*;

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
            let others = ["commit", "fetch-offsets", "transactions", "streams"];
            assert_eq!(
                loaded.is_err(),
                others.contains(&built_in.name),
                "{}: {loaded:?}",
                built_in.name
            );
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

/// Lines of a topic, of a group and of a phase, and the beginning of the expected sentence.
const INVALID: &[(&str, &str, &str, &str)] = &[
    ("count = 0", "", "start = {}", "topic a: its count is 0: leave it out"),
    ("count = 20000", "", "start = {}", "20000 topics in total are more than 10000"),
    ("", "static = 6", "start = {}", "group g: 6 static members are more than its 5 members"),
    ("", "topics = 'b'", "start = {}", "group g: there is no topic b, only a"),
    ("", "assignor = 'best'", "start = {}", "group g: classic members have no assignor best: "),
    ("", "session-timeout = '1s'", "start = {}", "group g: heartbeat-interval = 3s is not"),
    ("", "backoff = '2s'", "start = {}", "group g: backoff = 2s is above backoff-max = 1s"),
    ("", "commit = { rate = 0 }", "start = {}", "group g: commit must have more than 0"),
    ("", "commit = { rate = 1, every = '1s' }", "start = {}", "group g: commit has both a"),
    (
        "",
        "offset-fetch = { in-flight = 0 }",
        "start = {}",
        "group g: offset-fetch must have 1 to 10000",
    ),
    ("", "fetch = { rate = 1 }", "start = {}", "group g: fetch consumes records, and needs the"),
    ("", "fetch = { bytes = 0 }", "start = {}", "group g: fetch.bytes = 0 is not from 1 to"),
    ("", "fetch = { bytes = 99999999 }", "start = {}", "group g: fetch.bytes = 99999999 is not"),
    ("", "fetch = { bytes = 1, rate = -1 }", "start = {}", "group g: fetch must have more than 0"),
    (
        "",
        "fetch = { bytes = 1 }\nfetch-on-assignment = false",
        "start = {}",
        "group g: members that",
    ),
    ("", "", "start = {}\nwork = { fetch = {} }", "phase p: fetch consumes records, and needs"),
    (
        "",
        "[[group]]\nname = 'm'\nprotocol = 'manual'\nfetch = { bytes = 1 }",
        "start = {}",
        "group m: fetch is for members of classic and consumer groups, and m is manual",
    ),
    ("", "", "", "phase p: it has no action and takes no time"),
    ("", "", "start = { members = 6 }", "phase p: start is for 6 members, and group g has 5"),
    ("", "", "start = { groups = 'h' }", "phase p: there is no group h, only g"),
    ("", "", "close = {}", "phase p: close is for static members, and group g has none"),
    ("", "", "roll = { at-once = 0 }", "phase p: roll with at-once = 0 restarts none"),
    ("", "", "change = {}", "phase p: change needs topics, an assignor or a protocol"),
    ("", "", "change = { topics = 'b' }", "phase p: there is no topic b, only a"),
    ("", "", "change = { protocol = 'share' }", "phase p: change.protocol is classic or"),
    ("", "", "change = { assignor = 'uniform' }", "phase p: classic members have no assignor"),
    (
        "",
        "",
        "change = { protocol = 'consumer', assignor = 'sticky' }",
        "phase p: assignor sticky is one of the classic protocol",
    ),
    (
        "",
        "",
        "change = { protocol = 'consumer', assignor = ['range', 'uniform'] }",
        "phase p: a consumer group has one assignor",
    ),
    ("", "", "change = { topics = 'a', at-once = 0 }", "phase p: change with at-once = 0"),
    ("", "", "change = { topics = 'a', members = 6 }", "phase p: change is for 6 members"),
    ("", "", "change = { topics = 'a', members = 0 }", "phase p: change is for no members"),
    ("", "", "change = { topics = 'a', every = '9999d' }", "phase p: change.every = "),
    ("", "", "change = { topics = 'a', down = '9999d' }", "phase p: change.down = "),
    (
        "",
        "[[group]]\nname = 's'\nprotocol = 'share'",
        "start = {}\nchange = { topics = 'a' }",
        "phase p: change is for classic and consumer groups, and s is share: name groups",
    ),
    ("", "", "churn = { rate = 1 }", "phase p: churn needs a duration: lasts"),
    ("", "", "churn = { rate = -1 }", "phase p: churn must have a rate above 0"),
    ("", "", "add-partitions = { by = 0 }", "phase p: add-partitions by 0 adds none"),
    ("", "", "lasts = '1s'\nuntil = 'stable'", "phase p: it has both lasts and until"),
    ("", "", "start = { members = 0 }", "phase p: start is for no members: leave it out"),
    ("", "", "start = {}\nlasts = '99999999h'", "phase p: lasts = "),
    ("", "", "work = { over = '1s', offset-fetch = {} }", "phase p: work over a time is a ramp"),
    ("", "", "start = { over = '367d' }", "phase p: start.over = "),
    ("", "revocation-takes = '9999d'", "start = {}", "group g: revocation-takes = "),
    ("", "commit = { every = '9999d' }", "start = {}", "group g: commit.every = "),
    ("", "", "start = {}\n[repeat]\nfrom = 'q'", "repeat: there is no phase q, only p"),
    ("", "", "start = {}\n[[phase]]\nname = 'p'", "two phases are called p"),
    ("", "", "start = {}\n[[group]]\nname = 'a b'\nprotocol = 'manual'", "group \"a b\": a name"),
];

#[test]
fn an_invalid_scenario_is_refused_in_one_sentence() {
    for (topic, group, phase, expected) in INVALID.iter().copied() {
        let error = valid(&with(topic, group, phase)).expect_err(expected);
        assert!(error.starts_with(expected), "expected {expected:?}, got {error:?}");
        assert!(!error.contains('\n'), "{error}");
    }
    valid(&with("", "", "start = {}")).unwrap();
}

/// A small valid scenario with a producer that has these lines.
fn with_producer(producer: &str, phase: &str) -> String {
    format!(
        "description = 'x'\n[[topic]]\nname = 'a'\npartitions = 4\n\
         [[producer]]\nname = 'w'\n{producer}\n[[phase]]\nname = 'p'\nstart = {{}}\n{phase}\n"
    )
}

#[test]
fn an_invalid_producer_is_refused_in_one_sentence() {
    let cases = [
        ("count = 0", "", "producer w: its count is 0: leave it out"),
        ("topics = 'b'", "", "producer w: there is no topic b, only a"),
        ("records = 0", "", "producer w: a transaction has at least one record"),
        ("record-size = 0", "", "producer w: record-size is at least one byte"),
        ("records = 10000", "", "producer w: 10000 records of 100 bytes are more than the 1000000"),
        ("idempotent = false", "", "producer w: a transactional producer is idempotent, too"),
        ("transactional = false\noffsets = 1", "", "producer w: abort, offsets and"),
        ("transaction-version = 3", "", "producer w: transaction-version is 1 or 2"),
        ("abort = 5", "", "producer w: abort is a share of the transactions"),
        ("offsets = 5", "", "producer w: offsets of 5 partitions are committed, and there are 4"),
        ("transaction-timeout = '0s'", "", "producer w: transaction-timeout = 0s is 0 or too long"),
        ("backoff = '2s'", "", "producer w: backoff = 2s is 0 or above backoff-max = 1s"),
        ("produce = { rate = 0 }", "", "producer w: produce must have more than 0"),
        ("produce = { in-flight = 2 }", "", "producer w: produce has one transaction in flight"),
        ("", "work = { produce = { in-flight = 2 } }", "phase p: produce has one transaction"),
        ("", "until = 'stable'", "phase p: until = \"stable\" is for groups with members"),
        ("", "work = { heartbeat = {} }", "phase p: manual groups have no membership"),
    ];
    for (producer, phase, expected) in cases {
        let error = valid(&with_producer(producer, phase)).expect_err(expected);
        assert!(error.starts_with(expected), "expected {expected:?}, got {error:?}");
        assert!(!error.contains('\n'), "{error}");
    }
    let only_groups = valid(&with("", "", "start = {}\nwork = { produce = {} }")).unwrap_err();
    assert_eq!(only_groups, "phase p: produce is for producers, and there are none");
}

#[test]
fn a_producer_is_transactional_and_as_fast_as_it_is_answered() {
    let scenario = valid(&with_producer("count = 3", "")).unwrap();
    let [group] = &scenario.groups[..] else { panic!("{:?}", scenario.groups) };
    let table = group.producer.as_ref().unwrap();
    assert!(table.transactional && scenario.has_transactions() && group.members == 3);
    assert_eq!((table.produce.per_second(), table.produce.in_flight), (None, 1));
}

#[test]
fn the_cluster_decides_on_the_transaction_version() {
    let named = |producer: &str| Named {
        name: "test".into(),
        scenario: valid(&with_producer(producer, "")).unwrap(),
    };
    let version = |named: &Named| named.scenario.groups[0].producer.clone().unwrap();
    let mut versions = Versions::default();
    let error = named("").fit(&versions).unwrap_err().to_string();
    assert_eq!(error, "the cluster does not offer InitProducerId, which producer w needs");
    versions.set(ApiKey::InitProducerId, 5);
    let mut older = named("");
    older.fit(&versions).unwrap();
    assert_eq!(version(&older).transaction_version, Some(1));
    let error = named("transaction-version = 2").fit(&versions).unwrap_err().to_string();
    assert!(error.starts_with("the cluster has not finalized transaction.version 2"), "{error}");
    versions.transactions = 2;
    for (asks, expected) in [("", 2), ("transaction-version = 1", 1)] {
        let mut newest = named(asks);
        newest.fit(&versions).unwrap();
        assert_eq!(version(&newest).transaction_version, Some(expected));
    }
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
    versions.set(ApiKey::JoinGroup, 9);
    let classic_only = versions.clone();
    versions.set(ApiKey::ConsumerGroupHeartbeat, 1);
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

/// Each scenario has an action on groups none of whose members can be up at that time.
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
            format!("start = {{}}{}", next("leave = {}\nwork = { offset-fetch = {} }")),
            format!("phase q: {}", none("work")),
        ),
    ] {
        assert_eq!(valid(&with("", "", &phases)).unwrap_err(), expected);
    }
    for good in [
        format!("work = {{ offset-fetch = {{}} }}{}", next("start = {}")),
        format!("start = {{}}{}", next("crash = { return-after = '1s' }\nlasts = '3s'")),
        format!("lasts = '1s'{}\n[repeat]\nfrom = 'p'", next("start = {}")),
        // In the first round no member is up, in the second round some are.
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
        let (session_timeout, heartbeat_interval) = (seconds(session), seconds(heartbeat));
        let times = Some(GroupTimes { session_timeout, heartbeat_interval });
        Cluster { consumer_times: times, ..Cluster::default() }
    };
    let classic = quick.scenario.groups[0].clone();
    let times = |named: &Named| {
        let group = &named.scenario.groups[1];
        (group.session_timeout.0, group.heartbeat_interval.0)
    };
    let note = quick.adopt_times(&Cluster::default()).remove(0);
    assert!(note.ends_with("the checks assume group consumer's session-timeout, 45s"), "{note}");
    assert_eq!(times(&quick), (seconds(45), seconds(5)));
    assert!(quick.adopt_times(&reported(45, 15)).is_empty());
    assert_eq!(times(&quick), (seconds(45), seconds(15)));
    let note = quick.adopt_times(&reported(20, 3)).remove(0);
    assert!(note.contains("a session timeout of 20s"), "{note}");
    assert_eq!(times(&quick), (seconds(20), seconds(3)));
    assert_eq!(quick.scenario.groups[0], classic);
    quick.scenario.groups.truncate(1);
    assert!(quick.adopt_times(&Cluster::default()).is_empty(), "there are no consumer groups");
}

/// If the cluster lacks the protocol to which members are moved, this is reported before the run.
#[test]
fn a_migration_needs_both_protocols_of_the_cluster() {
    let text =
        with("", "", "start = {}\n[[phase]]\nname = 'q'\nchange = { protocol = 'consumer' }");
    let mut named = Named { name: "test".into(), scenario: valid(&text).unwrap() };
    let mut versions = Versions::default();
    versions.set(ApiKey::JoinGroup, 9);
    let error = named.fit(&versions).unwrap_err().to_string();
    assert_eq!(
        error,
        "the cluster does not offer ConsumerGroupHeartbeat (KIP-848), which the change of phase q \
         needs"
    );
    versions.set(ApiKey::ConsumerGroupHeartbeat, 1);
    assert_eq!(named.fit(&versions), Ok(vec![]));
    let error = validate::validate(&named.scenario, &Limits { members_per_connection: 2 });
    assert!(error.unwrap_err().contains("can't share connections"));
}
