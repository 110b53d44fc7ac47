//! A broker that answers nonsense. Before the start of a run, nonsense ends the run with a
//! sentence. Later it breaks only connections of members.

use kafka_protocol::messages::ApiKey;

use crate::fake::{Config, Nonsense};
use crate::run::{Outcome, play_with, scenario, side_by_side};

const ALL: [Nonsense; 6] = [
    Nonsense::Garbage,
    Nonsense::HugeLength,
    Nonsense::Truncated,
    Nonsense::NeverAnswers,
    Nonsense::ClosesAtOnce,
    Nonsense::WrongCorrelation,
];

/// The request timeout is one second, so that missing answers do not take long.
fn play(api: ApiKey, how: Nonsense) -> Outcome {
    let phases = "[[phase]]\nname = \"steady\"\nlasts = \"500ms\"\n";
    let scenario = scenario("range", "commit = { every = \"50ms\" }", phases);
    let scenario = scenario.replace("limit = \"30s\"", "limit = \"1s\"");
    play_with(Config::hostile(api, how), &scenario, &["--request-timeout", "1s"])
}

#[test]
fn nonsense_at_the_start_is_refused_in_a_sentence() {
    for api in [ApiKey::ApiVersions, ApiKey::Metadata] {
        side_by_side(ALL, |how| play(api, how).assert_refused(&["127.0.0.1:"]));
    }
}

/// The run continues to its end, reports that the group did not form, and finds no violation.
#[test]
fn nonsense_to_joining_members_does_not_stop_the_run() {
    let apis = [ApiKey::JoinGroup, ApiKey::SyncGroup, ApiKey::FindCoordinator];
    side_by_side(ALL.into_iter().zip(apis.into_iter().cycle()), |(how, api)| {
        let outcome = play(api, how);
        assert_eq!(outcome.status, Some(1), "{api:?} {how:?}: {outcome}");
        assert!(outcome.rules().is_empty(), "{api:?} {how:?}: {outcome}");
        let phases = &outcome.report.as_ref().unwrap().phases;
        assert!(phases[0].problem.is_some(), "{api:?} {how:?}: {outcome}");
    });
}

/// The answers to heartbeats and commits can't be decoded. Settled members continue.
#[test]
fn nonsense_to_settled_members_is_no_violation() {
    let apis = [ApiKey::Heartbeat, ApiKey::OffsetCommit, ApiKey::OffsetFetch];
    side_by_side(ALL.into_iter().zip(apis.into_iter().cycle()), |(how, api)| {
        let outcome = play(api, how);
        assert!(matches!(outcome.status, Some(0 | 1)), "{api:?} {how:?}: {outcome}");
        assert!(outcome.rules().is_empty(), "{api:?} {how:?}: {outcome}");
    });
}
