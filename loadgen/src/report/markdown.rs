//! The result as Markdown, for the page on which a CI server shows a job.

use std::fmt::Write;
use std::path::Path;

use super::files::{self, FileError};
use super::model::Report;
use super::pace::{Marked, could_not_keep_up};
use super::rebalances::{Kind, by_kind};
use super::text::{clock, count, counted, members_in_words, plain};

/// Writes the file of `--markdown`.
///
/// # Errors
///
/// [`FileError::Write`].
pub fn save(report: &Report, path: &Path) -> Result<(), FileError> {
    files::write(path, &render(report))
}

pub(super) fn render(report: &Report) -> String {
    let run = &report.run;
    let label = run.label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
    let title = format!("{}{label} against {}", run.scenario, run.bootstrap);
    let scale = format!(
        "{}, {} partitions; {}, seed {}",
        members_in_words(run),
        count(run.partitions.into()),
        clock(run.duration_seconds),
        run.seed,
    );
    let head = format!("## muster-load: {}\n\n{scale}\n\n{}\n", cell(&title), verdict(report));
    head + &checks(report) + &rebalances(report) + &times(report)
}

fn verdict(report: &Report) -> String {
    let mut lines = Vec::new();
    if !report.kept_up() {
        lines.push(format!("⚠️ {}", could_not_keep_up(report)));
    }
    let sign = if report.failed() { "❌" } else { "✅" };
    let violations = counted(report.violation_count(), "violation");
    let broken = report.broken_thresholds();
    let thresholds = counted(report.thresholds.len() as u64, "threshold");
    let problems = counted(report.problem_count(), "phase");
    lines.push(format!(
        "{sign} **{violations}, {broken} of {thresholds} broken, {problems} with a problem**"
    ));
    lines.join("\n\n")
}

fn checks(report: &Report) -> String {
    let thresholds = report.thresholds.iter().map(|threshold| {
        let sign = if threshold.held { "✅" } else { "❌" };
        let measured = threshold.measured.as_deref().unwrap_or("nothing to measure");
        [sign.into(), code(&threshold.rule), cell(measured)]
    });
    let problems = report.phases.iter().filter_map(|phase| {
        let problem = phase.problem.as_ref()?;
        Some(["❌".into(), format!("phase {}", cell(&phase.name)), cell(problem)])
    });
    let violations = report.violations.iter().map(|violation| {
        let of = format!("{} in {}", cell(&violation.rule), cell(&violation.group));
        ["❌".into(), of, cell(&violation.what)]
    });
    table("", ["", "check", "measured"], violations.chain(thresholds).chain(problems))
}

fn rebalances(report: &Report) -> String {
    let rows = by_kind(&report.disruptions).into_iter().map(|kind| {
        let [p50, _, p99, max] = kind.times();
        let Kind { name, count: rebalances, unsettled, moved, .. } = kind;
        [cell(&name), count(rebalances), p50, p99, max, count(unsettled), count(moved)]
    });
    let head = ["trigger", "rebalances", "p50", "p99", "max", "not settled", "moved"];
    table("### Rebalances\n", head, rows)
}

fn times(report: &Report) -> String {
    let rows = report.latencies.iter().filter(|(_, latency)| latency.count > 0);
    let rows = rows.map(|(name, latency)| {
        let [_, p50, _, p99, p999, max] = Marked::new(report, name, latency).all();
        [cell(name), count(latency.count), p50, p99, p999, max]
    });
    table("### Times\n", ["", "count", "p50", "p99", "p99.9", "max"], rows)
}

/// A table whose first column is text. Empty without rows.
fn table<const N: usize>(
    title: &str,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let rows: Vec<_> = rows.map(|row| format!("| {} |\n", row.join(" | "))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}\n| {} |\n", head.join(" | "));
    // Writing to a String does not fail.
    let _ = writeln!(text, "|---|{}", "---:|".repeat(N - 1));
    text + &rows.concat()
}

/// Formats a text as code in a cell of a table. Only backquotes and vertical bars have to be
/// replaced, because they would end the code or the cell.
fn code(text: &str) -> String {
    format!("`{}`", plain(text).replace('`', "'").replace('|', "\\|"))
}

/// Foreign text in a cell, escaped.
fn cell(text: &str) -> String {
    plain(text)
        .chars()
        .flat_map(|c| {
            let escaped = matches!(c, '|' | '<' | '>' | '*' | '`' | '[' | ']' | '\\');
            escaped.then_some('\\').into_iter().chain([c])
        })
        .collect()
}
