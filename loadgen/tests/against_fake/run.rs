//! Runs the program, and collects its results.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

use loadgen::report::model::Report;
use tempfile::TempDir;

use crate::fake::{Config, Fake};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_muster-load");
/// A run that takes longer counts as hung. The scenarios here take a few seconds on an idle
/// machine.
pub(crate) const TOO_LONG: &str = "90";

/// The results of a run of the program.
pub(crate) struct Outcome {
    pub(crate) status: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
    /// The report of `--json`, if one was written.
    pub(crate) report: Option<Report>,
    /// The topics and groups that it left behind.
    pub(crate) left: Vec<String>,
}

/// A scenario with six members in a group `g` and a topic `t`, followed by `phases`.
pub(crate) fn scenario(protocol: &str, group: &str, phases: &str) -> String {
    let protocol = match protocol {
        "consumer" => "protocol = \"consumer\"".to_owned(),
        assignor => format!("protocol = \"classic\"\nassignor = \"{assignor}\""),
    };
    format!(
        r#"
description = "a test"
[[topic]]
name = "t"
partitions = 12
[[group]]
name = "g"
members = 6
{protocol}
session-timeout = "1s"
heartbeat-interval = "50ms"
rebalance-timeout = "10s"
{group}
[[phase]]
name = "formation"
start = {{}}
until = "stable"
settle = "500ms"
limit = "30s"
{phases}
"#
    )
}

/// Plays a scenario against a broker of this kind.
pub(crate) fn play(config: Config, scenario: &str) -> Outcome {
    play_with(config, scenario, &[])
}

pub(crate) fn play_with(config: Config, scenario: &str, options: &[&str]) -> Outcome {
    play_by(program(), config, scenario, options)
}

/// Plays a scenario with this command as the program.
pub(crate) fn play_by(
    mut program: Command,
    config: Config,
    scenario: &str,
    options: &[&str],
) -> Outcome {
    let fake = Fake::start(config);
    let directory = TempDir::new().unwrap();
    let file = write(&directory, scenario);
    let report = directory.path().join("report.json");
    program.arg(file).arg("--bootstrap").arg(fake.bootstrap()).arg("--json").arg(&report);
    // Other tests run at the same time, so the machine may be late.
    program.args(if options.contains(&"--keep-up") { &[][..] } else { &["--keep-up", "1min"] });
    let outcome = outcome(&program.args(options).output().unwrap());
    let report = std::fs::read(report).ok().map(|bytes| serde_json::from_slice(&bytes).unwrap());
    Outcome { report, left: fake.names(), ..outcome }
}

pub(crate) fn write(directory: &TempDir, scenario: &str) -> PathBuf {
    let file = directory.path().join("scenario.toml");
    std::fs::write(&file, scenario).unwrap();
    file
}

/// Runs the cases in parallel, because they mostly wait.
pub(crate) fn side_by_side<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| check(case));
        }
    });
}

/// The program, which is killed if it hangs.
pub(crate) fn program() -> Command {
    let mut command = Command::new("timeout");
    command.arg(TOO_LONG).arg(PROGRAM);
    command
}

pub(crate) fn called_with(options: &[&str]) -> Outcome {
    outcome(&program().args(options).output().unwrap())
}

pub(crate) fn outcome(output: &Output) -> Outcome {
    Outcome {
        status: output.status.code(),
        output: String::from_utf8_lossy(&output.stdout).into(),
        errors: String::from_utf8_lossy(&output.stderr).into(),
        report: None,
        left: Vec::new(),
    }
}

impl Outcome {
    /// The names of the rules that were broken.
    pub(crate) fn rules(&self) -> BTreeSet<String> {
        let report = self.report.as_ref().unwrap_or_else(|| panic!("no report: {self}"));
        report.violations.iter().map(|violation| violation.rule.clone()).collect()
    }

    /// Asserts that the run was refused with one sentence.
    pub(crate) fn assert_refused(&self, with: &[&str]) {
        assert!(!matches!(self.status, None | Some(0 | 124)), "{self}");
        let sentence = self.errors.trim();
        assert_eq!(sentence.lines().count(), 1, "{self}");
        assert!(!sentence.contains("panicked"), "{self}");
        for word in with {
            assert!(sentence.contains(word), "no {word:?} in {sentence:?}");
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "status {:?}\n{}\n{}", self.status, self.output, self.errors)?;
        for violation in self.report.iter().flat_map(|report| &report.violations) {
            writeln!(f, "{}: {}", violation.rule, violation.what)?;
            violation.events.iter().try_for_each(|event| writeln!(f, "    {event}"))?;
        }
        Ok(())
    }
}
