//! The result as JUnit XML, which CI servers show as tests. Violations, thresholds and phases are
//! its test cases.

use std::fmt::Write;
use std::path::Path;

use super::files::{self, FileError};
use super::html::escape;
use super::model::{Phase, Report, Threshold, Violation};
use super::pace::could_not_keep_up;

/// Writes the file of `--junit`.
///
/// # Errors
///
/// [`FileError::Write`].
pub fn save(report: &Report, path: &Path) -> Result<(), FileError> {
    files::write(path, &render(report))
}

/// A test case, with its failure if it failed.
struct Case {
    class: &'static str,
    name: String,
    seconds: f64,
    failure: Option<String>,
}

pub(super) fn render(report: &Report) -> String {
    let cases = cases(report);
    let failures = cases.iter().filter(|case| case.failure.is_some()).count();
    let run = &report.run;
    let name = run.label.as_ref().unwrap_or(&run.scenario);
    let counts = format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\"", cases.len());
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a String does not fail.
    let _ = writeln!(xml, "<testsuites name=\"muster-load\" {counts}>");
    let _ = writeln!(
        xml,
        "  <testsuite name=\"{}\" {counts} time=\"{}\" timestamp=\"{}\" hostname=\"{}\">",
        escape(name),
        run.duration_seconds,
        escape(run.started_at.trim_end_matches('Z')),
        escape(&run.host),
    );
    xml += &properties(report);
    cases.iter().for_each(|case| xml += &case.xml());
    xml + "  </testsuite>\n</testsuites>\n"
}

fn properties(report: &Report) -> String {
    let run = &report.run;
    let properties = [
        ("scenario", run.scenario.clone()),
        ("bootstrap", run.bootstrap.clone()),
        ("seed", run.seed.to_string()),
        ("members", run.members.to_string()),
        ("command", run.command.join(" ")),
    ];
    let line = |(name, value): &(&str, String)| {
        format!("      <property name=\"{name}\" value=\"{}\"/>\n", escape(value))
    };
    let lines: String = properties.iter().map(line).collect();
    format!("    <properties>\n{lines}    </properties>\n")
}

fn cases(report: &Report) -> Vec<Case> {
    let late = (!report.kept_up()).then(|| could_not_keep_up(report));
    let mut cases = vec![
        case("machine", "this machine kept up".into(), late),
        case("coordinator", "no violation of the protocol".into(), violations(report)),
    ];
    cases.extend(report.thresholds.iter().map(threshold));
    cases.extend(report.phases.iter().map(phase));
    cases
}

fn case(class: &'static str, name: String, failure: Option<String>) -> Case {
    Case { class, name, seconds: 0.0, failure }
}

fn violations(report: &Report) -> Option<String> {
    let line = |violation: &Violation| {
        let Violation { rule, at, group, what, .. } = violation;
        format!("{rule}: {group} ({at:.3} s): {what}")
    };
    let lines: Vec<_> = report.violations.iter().map(line).collect();
    let count = report.violation_count();
    (count > 0).then(|| format!("{count} violations\n{}", lines.join("\n")))
}

fn threshold(threshold: &Threshold) -> Case {
    let measured = threshold.measured.as_deref().unwrap_or("nothing to measure");
    let failure = (!threshold.held).then(|| format!("measured: {measured}"));
    case("threshold", threshold.rule.clone(), failure)
}

fn phase(phase: &Phase) -> Case {
    let seconds = phase.ended - phase.began;
    Case { seconds, ..case("phase", phase.name.clone(), phase.problem.clone()) }
}

impl Case {
    fn xml(&self) -> String {
        let Self { class, name, seconds, failure } = self;
        let name = escape(name);
        let head = format!(
            "    <testcase classname=\"muster-load.{class}\" name=\"{name}\" time=\"{seconds}\""
        );
        let Some(failure) = failure else { return head + "/>\n" };
        let first = escape(failure.lines().next().unwrap_or_default());
        let all = failure.lines().map(|line| escape(line) + "\n").collect::<String>();
        format!("{head}>\n      <failure message=\"{first}\">{all}</failure>\n    </testcase>\n")
    }
}
