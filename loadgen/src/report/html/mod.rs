//! The page of a run, and the page of several side by side: one self-contained file each.

mod capacity;
mod charts;
mod compared;
mod markup;
mod over_time;
mod plot;
mod scale;
mod sections;

use std::path::Path;

pub(super) use self::markup::escape;

use super::capacity::Capacity;
use super::compare::Runs;
use super::files::{self, FileError};
use super::model::Report;

/// Writes the page of `--html`.
///
/// # Errors
///
/// [`FileError::Write`].
pub fn save(report: &Report, path: &Path) -> Result<(), FileError> {
    files::write(path, &render(report))
}

/// Writes the page of `compare --html`.
///
/// # Errors
///
/// [`FileError::Write`].
pub fn save_comparison(runs: &Runs, path: &Path) -> Result<(), FileError> {
    files::write(path, &render_comparison(runs))
}

/// Writes the page of `capacity --html`.
///
/// # Errors
///
/// [`FileError::Write`].
pub fn save_capacity(found: &Capacity, path: &Path) -> Result<(), FileError> {
    files::write(path, &capacity::render(found))
}

pub(super) fn render(report: &Report) -> String {
    let run = &report.run;
    let mut body = sections::header(report);
    // Failed checks come first.
    let checks = sections::checks(report);
    let (first, later) =
        if report.failed() { (checks, String::new()) } else { (String::new(), checks) };
    body += &first;
    body += &charts::states(report, run.duration_seconds, f64::from(run.members), "").render();
    body += &charts::unowned(&[(String::new(), report)]).render();
    body += &sections::rebalances(report);
    body += &format!(
        "<div class=\"pair\">{}{}</div>",
        charts::pauses(report).render(),
        sections::members(report)
    );
    body += &charts::latencies(report);
    body += &charts::over_time(report);
    body += &sections::times(report);
    body += &later;
    body += &sections::errors_and_failures(report);
    body += &sections::facts(report);
    page(&format!("{} against {}", run.scenario, run.bootstrap), &body)
}

pub(super) fn render_comparison(runs: &Runs) -> String {
    compared::render(runs)
}

fn page(title: &str, body: &str) -> String {
    include_str!("page.html")
        .replace("{title}", &escape(&format!("{title} – muster-load")))
        .replace("{style}", include_str!("page.css"))
        .replace("{script}", include_str!("page.js"))
        // Last: it holds foreign text.
        .replace("{body}", body)
}
