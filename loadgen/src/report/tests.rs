//! What the reports look like, against files that show it: `UPDATE_EXPECT=1` writes them anew.

use std::path::Path;

use super::model::{Rebalance, Report};
use super::text::Paint;
use super::{sample, summary, thresholds};

/// With thresholds that hold and one that does not.
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
    report.violations_untold = 0;
    let rebalance = |group: u32, trigger: &str, began: f64, took: f64| Rebalance {
        group: format!("group-{group}"),
        trigger: trigger.into(),
        began,
        took: (group != 17).then_some(took),
        took_since_detected: None,
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
fn the_summary_fits_100_columns_and_no_foreign_text_steers_it() {
    for (name, report) in [("summary.txt", judged()), ("summary-many-groups.txt", many_groups())] {
        let shown = summary::render(&report, Paint::PLAIN);
        for line in shown.lines() {
            assert!(line.chars().count() <= 100, "{line}");
            assert!(!line.contains(char::is_control), "{line}");
        }
        expect(name, &shown);
    }
}
