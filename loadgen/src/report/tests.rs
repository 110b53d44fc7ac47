//! Compares reports with files of expected text. `UPDATE_EXPECT=1` updates the files.

use std::path::Path;

use super::disruptions::disruptions;
use super::model::{Latency, Rebalance, Report};
use super::text::Paint;
use super::{compare, csv, html, junit, markdown, sample, summary, thresholds};

/// A report with thresholds, one of which is broken.
fn judged() -> Report {
    let mut report = sample::report();
    let rules =
        ["commit.p99 < 5ms", "rebalance.max < 2s", "leave.p99 < 1s", "members.crashed == 500"];
    let rules: Vec<_> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    report.thresholds = thresholds::judge(&rules, &report);
    report
}

/// 3,000 groups of the scenario `many-groups`.
fn many_groups() -> Report {
    let mut report = sample::report();
    report.run.scenario = "many-groups".into();
    report.run.groups = 3_000;
    report.violations.clear();
    report.violations_omitted = 0;
    let rebalance = |group: u32, trigger: &str, began: f64, took: f64| Rebalance {
        group: format!("group-{group}"),
        trigger: trigger.into(),
        began,
        took: (group != 17).then_some(took),
        took_since_detected: None,
        superseded: false,
        members: 3,
        partitions: 6,
        moved: 2,
        revoked: 2,
    };
    report.rebalances = (0..3_000)
        .flat_map(|group| {
            let slow = f64::from(group % 100);
            let crash = format!("{} crashed", 1 + group % 2);
            [
                rebalance(group, "formation", f64::from(group) / 300.0, 40.0 + slow),
                rebalance(group, &crash, 30.0 + f64::from(group) / 500.0, 10_000.0 + slow * 10.0),
            ]
        })
        .collect();
    report.disruptions = disruptions(&report.rebalances, true);
    report
}

fn expect(name: &str, shown: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, shown).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == shown,
        "{} differs; UPDATE_EXPECT=1 accepts this:\n{shown}",
        path.display()
    );
}

#[test]
fn the_summary_fits_the_terminal_and_escapes_foreign_text() {
    for (name, report) in [("summary", judged()), ("summary-many-groups", many_groups())] {
        for width in [60, 80, 100, 200] {
            let shown = summary::render(&report, Paint::PLAIN, width);
            for line in shown.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
                assert!(!line.contains(char::is_control), "{line}");
            }
            if let 60 | 100 = width {
                let columns = if width == 60 { "-60" } else { "" };
                expect(&format!("{name}{columns}.txt"), &shown);
            }
        }
    }
}

/// A CI server shows the JUnit file and the Markdown summary, but not the other formats. So each of
/// the two has to contain every check that decides the exit status, and to escape text from
/// elsewhere.
#[test]
fn a_ci_server_gets_all_checks() {
    let xml = junit::render(&judged());
    expect("junit.xml", &xml);
    assert!(!xml.contains("<script>") && !xml.contains('\u{1b}'), "{xml}");
    expect("summary.md", &markdown::render(&judged()));
}

/// If the group did not become stable again, the rebalance must not count as one that took 0 ms,
/// which would be the best time.
#[test]
fn rebalances_that_never_settled_have_no_time() {
    let mut report = many_groups();
    for rebalance in &mut report.rebalances {
        rebalance.took = rebalance.took.filter(|_| rebalance.trigger == "formation");
    }
    report.disruptions = disruptions(&report.rebalances, true);
    let shown = summary::render(&report, Paint::PLAIN, 100);
    let crashed = shown.lines().find(|line| line.starts_with(" crashed")).unwrap();
    let words: Vec<&str> = crashed.split_whitespace().collect();
    assert_eq!(words, ["crashed", "3,000", "3,000", "–", "–", "–", "–", "3,000", "6,000"]);
}

/// If a table is too wide, whole columns are left out. No cell is wrapped.
#[test]
fn times_of_minutes_stay_in_one_line() {
    let mut slow = sample::report_slower(1.0, "slow");
    slow.undelayed = slow.latencies.clone();
    let round_trips = slow.latencies.values_mut().chain(slow.undelayed.values_mut());
    for latency in round_trips.chain([&mut slow.pauses]) {
        for time in [&mut latency.mean, &mut latency.p50, &mut latency.p90, &mut latency.p99] {
            *time = 122_000.0;
        }
        (latency.p999, latency.max) = (122_000.0, 122_000.0);
    }
    for width in [60, 80, 100] {
        let shown = summary::render(&slow, Paint::PLAIN, width);
        let row = |line: &&str| line.starts_with(" pause of a member ");
        let pause = shown.lines().find(row).unwrap_or_else(|| panic!("{shown}"));
        assert!(pause.ends_with("2 min 02 s"), "{shown}");
    }
}

#[test]
fn runs_side_by_side_have_ratios_to_the_first() {
    let shown = compare::render(&two_runs(), Paint::PLAIN);
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    expect("compare.txt", &shown);
}

fn two_runs() -> compare::Runs {
    let mut slow = sample::report_slower(3.0, "peer");
    slow.run.scenario = sample::HOSTILE.into();
    slow.latencies.remove("offset-fetch");
    let named = [sample::report_slower(1.0, "muster"), slow];
    compare::Runs::of(named.map(|report| ("run".into(), report)).into())
}

/// `PAGES=directory` writes the pages to this directory, for inspection.
#[test]
fn pages_are_well_formed_and_need_nothing_else() {
    let mut empty = sample::report();
    empty.rebalances.clear();
    empty.disruptions.clear();
    empty.latencies.clear();
    empty.pauses = Latency::default();
    empty.series.points.clear();
    let pages = [
        ("run.html", html::render(&judged())),
        ("many-groups.html", html::render(&many_groups())),
        ("empty.html", html::render(&empty)),
        ("compare.html", html::render_comparison(&two_runs())),
    ];
    for (name, page) in pages {
        if let Some(directory) = std::env::var_os("PAGES") {
            std::fs::write(Path::new(&directory).join(name), &page).unwrap();
        }
        assert_balanced(&page);
        for outside in ["http://", "https://", "src=", "href=", "@import", "url(", "<script>alert"]
        {
            assert!(!page.contains(outside), "{name} contains {outside}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"), "{name} has a number that is none");
    }
}

/// Any program may have written the files that `compare` reads.
#[test]
fn a_result_with_absurd_figures_is_shown_too() {
    let mut absurd = sample::report();
    absurd.run.duration_seconds = f64::MAX;
    absurd.violations_omitted = u64::MAX;
    absurd.errors.iter_mut().for_each(|error| error.count = u64::MAX);
    absurd.members.failed_count = u64::MAX;
    absurd.commits.accepted = u64::MAX;
    for rebalance in &mut absurd.rebalances {
        (rebalance.began, rebalance.took) = (-1e300, Some(f64::MAX));
    }
    absurd.disruptions = absurd.rebalances.clone();
    for latency in absurd.latencies.values_mut().chain([&mut absurd.pauses]) {
        (latency.count, latency.min, latency.max) = (u64::MAX, -1.0, f64::MAX);
        latency.percentiles.reverse();
    }
    for point in &mut absurd.series.points {
        point.members.values_mut().for_each(|members| *members = u32::MAX);
        point.rates.values_mut().for_each(|rate| *rate = f64::MAX);
        point.server_memory_bytes = Some(u64::MAX);
    }
    let page = html::render(&absurd);
    assert_balanced(&page);
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
    assert!(!summary::render(&absurd, Paint::PLAIN, 60).is_empty());
    assert!(!csv::render(&absurd).is_empty());
    let runs = compare::Runs::of(vec![("a".into(), absurd), ("b".into(), sample::report())]);
    assert!(!compare::render(&runs, Paint::PLAIN).is_empty());
    assert_balanced(&html::render_comparison(&runs));
}

/// Asserts that opened elements are closed in the right order, and that attributes are quoted.
fn assert_balanced(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("the doctype");
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>').expect("a tag that ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closes the element that was opened last");
            continue;
        }
        assert_eq!(
            tag.matches("=\"").count() * 2,
            tag.matches('"').count(),
            "attributes of <{tag}>"
        );
        if tag.ends_with('/') {
            continue;
        }
        let name = tag.split_whitespace().next().expect("a name");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "<{tag}>");
        if let Some(raw) = ["script", "style"].into_iter().find(|raw| *raw == name) {
            let close = format!("</{raw}>");
            rest = &rest[rest.find(&close).expect("its end") + close.len()..];
            continue;
        }
        open.push(name);
    }
    assert!(open.is_empty(), "{open:?} not closed");
}
