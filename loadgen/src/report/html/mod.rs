//! The page of a run, and the page of several runs side by side. Each is one self-contained file.

mod capacity;
mod charts;
mod clients;
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
use super::text::clock;

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

/// The page of a run that is under way. It reloads itself.
pub fn live(report: &Report) -> String {
    let phase = report.phases.last().map_or("", |phase| phase.name.as_str());
    let since = clock(report.run.duration_seconds);
    let state = format!("Under way for {since}: {phase}. The verdict is that of this moment.");
    live_page(&report.run.scenario, &(under_way(&state) + &body(report)))
}

/// The page of a run that is under way, before there are figures.
pub fn live_without_figures() -> String {
    live_page("", &under_way("The first figures come in a moment."))
}

fn under_way(state: &str) -> String {
    format!("<p class=\"state dim\" role=\"status\">{}</p>", escape(state))
}

fn live_page(scenario: &str, body: &str) -> String {
    let script = concat!(include_str!("page.js"), include_str!("live.js"));
    page_with(&format!("{scenario} under way"), body, script)
}

pub(super) fn render(report: &Report) -> String {
    let run = &report.run;
    page(&format!("{} against {}", run.scenario, run.bootstrap), &body(report))
}

fn body(report: &Report) -> String {
    let run = &report.run;
    let mut body = sections::header(report);
    // Failed checks come first.
    let checks = sections::checks(report);
    let (first, later) =
        if report.failed() { (checks, String::new()) } else { (String::new(), checks) };
    body += &first;
    body += &charts::states(report, run.duration_seconds, f64::from(run.members), "").render();
    body += &charts::unowned(&[(String::new(), report)]).render();
    body += &clients::clients(report);
    body += &sections::rebalances(report);
    body += &sections::cost_of_phases(report);
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
    body + &sections::facts(report)
}

pub(super) fn render_comparison(runs: &Runs) -> String {
    compared::render(runs)
}

fn page(title: &str, body: &str) -> String {
    page_with(title, body, include_str!("page.js"))
}

fn page_with(title: &str, body: &str, script: &str) -> String {
    include_str!("page.html")
        .replace("{title}", &escape(&format!("{title} – muster-load")))
        .replace("{style}", include_str!("page.css"))
        .replace("{script}", script)
        // The body is inserted last, because it contains foreign text.
        .replace("{body}", body)
}
