//! Valid and invalid rules.

use super::*;
use crate::report::disruptions::disruptions;
use crate::report::sample;

fn judged(rule: &str) -> (Option<String>, bool) {
    let rule: Rule = rule.parse().unwrap_or_else(|error| panic!("{error}"));
    let judged = rule.judge(&sample::report());
    (judged.measured, judged.held)
}

#[test]
fn rules_are_checked_against_the_report() {
    #[rustfmt::skip]
    let table = [
        ("commit.p99 < 5ms",               Some("4.11 ms"),   true),
        ("commit.p99 < 3ms",               Some("4.11 ms"),   false),
        ("commit.p99<=0.005s",             Some("0.00411 s"), true),
        ("commit.p99.9 < 20 ms",           Some("10.7 ms"),  true),
        ("commit.p999 < 20 ms",            Some("10.7 ms"),  true),
        ("commit.p95 < 1us",               Some("2,070 us"), false),
        ("rebalance.max < 2s",             Some("never"),    false),
        ("disruption.max < 2s",            Some("never"),    false),
        ("disruption.p50 < 10s",           Some("8.41 s"),   true),
        ("rebalance.min < 2min",           Some("0.0305 min"), true),
        ("rebalance.count == 4",           Some("4"),        true),
        ("pause.p99 <= 10s",               Some("5.48 s"),    true),
        ("lateness.p99 < 1ms",             Some("0.12 ms"),   true),
        ("violations == 0",                Some("3"),        false),
        ("violations != 0",                Some("3"),        true),
        ("errors == 0",                    Some("1,241"),     false),
        ("errors(MEMBER_ID_REQUIRED) == 7", Some("7"),       true),
        ("offset-fetch.p50 < 1ms",         Some("0.48 ms"),   true),
        ("fetch.p50 < 1ms",                Some("0.48 ms"),   true),
        ("errors(REBALANCE_IN_PROGRESS) >= 1_200", Some("1,203"), true),
        ("errors(NOT_COORDINATOR) == 0",   Some("0"),        true),
        ("server.memory < 128MiB",         Some("96.5 MiB"), true),
        ("rate(commit) > 10",              Some("2,291"),    true),
        ("rate(leave) > 10",               None,             false),
        ("leave.p99 < 1s",                 None,             false),
        ("leave.p99 < 0",                  None,             false),
        ("members.failed == 0",            Some("2"),        false),
        ("duration < 3min",                Some("1.5 min"),  true),
    ];
    for (rule, measured, held) in table {
        assert_eq!(judged(rule), (measured.map(String::from), held), "{rule}");
    }
}

#[test]
fn a_rule_of_a_phase_is_judged_by_its_figures() {
    let rules = [
        "commit.p99 < 3ms",
        "rebalance.count == 2",
        "disruption.min < 20s",
        "pause.count == 1200",
        "unowned_partition_seconds < 400",
    ];
    let rules = rules.map(|rule| rule.parse().unwrap());
    let judged = judge_phase("crash", &rules, &sample::report());
    let shown = judged.iter().map(|one| (one.rule.as_str(), one.measured.as_deref(), one.held));
    let expected = [
        ("crash: commit.p99 < 3ms", Some("1.99 ms"), true),
        ("crash: rebalance.count == 2", Some("2"), true),
        ("crash: disruption.min < 20s", Some("13.1 s"), true),
        ("crash: pause.count == 1200", Some("1,200"), true),
        ("crash: unowned_partition_seconds < 400", Some("425"), false),
    ];
    assert_eq!(Vec::from_iter(shown), expected);
    assert_eq!(judge_phase("cra", &rules, &sample::report()), []);
}

#[test]
fn a_rule_can_be_broken_before_the_end() {
    let early = |rule: &str| rule.parse::<Rule>().unwrap().is_broken_early(&sample::report());
    assert!(early("commit.p99 < 3ms") && early("violations == 0"));
    assert!(!early("commit.p99 < 5ms"), "it holds");
    assert!(!early("leave.p99 < 5ms"), "nothing to measure yet");
    assert!(!early("commit.count > 1_000_000"), "there can be more");
}

#[test]
fn an_invalid_rule_is_refused_in_one_sentence() {
    let table = [
        ("commit.p99", "write a metric, one of < <= > >= == !=, and a value: commit.p99 < 5ms"),
        ("commit.p99 <", "write a metric, one of"),
        ("< 5ms", "write a metric, one of"),
        ("commit.p99 = 5ms", "write a metric, one of"),
        ("commit.p99 < 5", "commit is compared with a duration: us, ms, s or min"),
        ("commit.p99 < 5MiB", "commit is compared with a duration"),
        ("commit.count < 5ms", "commit is compared with a number without a unit"),
        ("server.memory < 5ms", "server.memory is compared with a size: B, KiB, MiB or GiB"),
        ("commit.p99 < 5 parsec", "unknown unit 'parsec'; known are us, ms, s, min,"),
        ("commit.p99 < fast", "'fast' is not a number"),
        ("commit.p99 < 1.2.3ms", "is not a number"),
        ("commit.p101 < 5ms", "unknown metric 'commit.p101'; known are count, mean,"),
        ("comit.p99 < 5ms", "unknown metric 'comit.p99'; known are count, mean,"),
        ("rate(x) < 5", "unknown metric 'rate(x)'; known are"),
    ];
    for (rule, sentence) in table {
        let error = rule.parse::<Rule>().expect_err(rule).to_string();
        assert!(error.contains(sentence), "{error}");
        assert!(error.starts_with("threshold '") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_scenario_file_may_have_rules() {
    let rule: Rule = serde_json::from_str("\"violations == 0\"").unwrap();
    assert_eq!(rule, "violations == 0".parse().unwrap());
    let error = serde_json::from_str::<Rule>("\"speed > 3\"").unwrap_err().to_string();
    assert!(error.contains("unknown metric 'speed'"), "{error}");
}

#[test]
fn a_slower_run_breaks_what_a_faster_one_held() {
    let rules = ["commit.p99 < 5ms".parse().unwrap(), "heartbeat.p99 < 1s".parse().unwrap()];
    let held = |report| judge(&rules, &report).iter().map(|t| t.held).collect::<Vec<_>>();
    assert_eq!(held(sample::report()), [true, true]);
    assert_eq!(held(sample::report_slower(10.0, "slow")), [false, true]);
}

/// In a rolling deploy, each rebalance supersedes the one before it. So a rule on `disruption`
/// applies to the time of the whole deploy, and a rule on `rebalance` only to the last rebalance.
#[test]
fn superseded_rebalances_are_judged_as_a_disruption() {
    let mut report = sample::report();
    report.rebalances.truncate(2);
    report.rebalances[0] = Rebalance {
        group: report.rebalances[1].group.clone(),
        took: None,
        superseded: true,
        began: -2.0,
        ..report.rebalances[0].clone()
    };
    report.disruptions = disruptions(&report.rebalances, true);
    let judged = |rule: &str| {
        let judged = rule.parse::<Rule>().unwrap().judge(&report);
        (judged.measured, judged.held)
    };
    assert_eq!(judged("rebalance.max < 2s"), (Some("1.83 s".into()), true));
    assert_eq!(judged("rebalance.count == 2"), (Some("2".into()), true));
    assert_eq!(judged("disruption.max < 2s"), (Some("3.83 s".into()), false));
    assert_eq!(judged("disruption.count == 1"), (Some("1".into()), true));
}
