//! Compares muster's coordinator with Apache Kafka's own. See `README.md`.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod argued;
mod counts;
mod descriptions;
mod differential;
mod empties;
mod forms;
mod ids;
mod muster;
mod outcome;
mod persister;
mod placement;
mod replay;
mod rivals;
mod scope;
mod tasks;
mod transactional;
mod transcript;
mod votes;
mod world;

use argued::Argued;
use counts::Counts;
use differential::{Plan, minimise};
use forms::Result;
use muster::Muster;
use outcome::Outcome;
use replay::{Ours, Report, Subject, replay};
use scope::Asked;
use serde_json::Value;
use std::path::Path;
use transcript::{Line, Transcript};

fn transcripts() -> impl Iterator<Item = Transcript> {
    transcripts_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts"))
}

/// The transcripts in a folder, in the order of their names.
fn transcripts_in(folder: &Path) -> impl Iterator<Item = Transcript> + use<> {
    let mut paths: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "the folder has no transcripts");
    paths.into_iter().map(|path| Transcript::read(&path))
}

#[test]
fn muster_does_what_kafka_does() {
    let (mut counts, mut argued) = (Counts::default(), Argued::default());
    let mut differing = Vec::new();
    for transcript in transcripts() {
        let report = replay(&transcript, &mut Ours::default());
        print(&transcript, &report);
        counts.add(&report.counts);
        argued.add(&report.argued);
        if report.difference.is_some() {
            differing.push(transcript.name);
        }
    }
    println!("{counts}; argued differences:\n{argued}");
    assert!(differing.is_empty(), "they differ: {differing:?}");
    assert!(argued.unmet().is_empty(), "no longer differences: {:?}", argued.unmet());
}

fn print(transcript: &Transcript, report: &Report) {
    println!("{}: {}", transcript.name, report.counts);
    if let Some(difference) = &report.difference {
        let op = &transcript.lines[difference.line - 1].input;
        println!("  line {} {op}\n  {}", difference.line, difference.what);
    }
}

/// A long random run. `MUSTER_ORACLE` is the folder of the oracle.
#[test]
#[ignore = "needs the oracle and a JDK; set MUSTER_ORACLE and run with --ignored"]
fn random_runs() {
    let plan = Plan::from_environment();
    println!("MUSTER_ORACLE_SEED={}", plan.seed);
    let (mut counts, mut argued, mut runs) = (Counts::default(), Argued::default(), 0);
    let mut found = None;
    plan.run(|transcript, report| {
        runs += 1;
        counts.add(&report.counts);
        argued.add(&report.argued);
        if let Some(difference) = &report.difference {
            print(transcript, report);
            found = Some(minimise(&plan.oracle, transcript, difference));
        }
        found.is_none() && counts.operations < plan.operations
    });
    println!("{runs} runs from seed {}: {counts}; argued differences:\n{argued}", plan.seed);
    if let Some(minimal) = found {
        print(&minimal, &replay(&minimal, &mut Ours::default()));
        for line in &minimal.lines {
            println!("{}\n    {}", line.input, line.output);
        }
        panic!("{} differs", minimal.name);
    }
}

/// Replays the transcripts in the folder `MUSTER_ORACLE_TRANSCRIPTS`.
#[test]
#[ignore = "needs transcripts; set MUSTER_ORACLE_TRANSCRIPTS and run with --ignored"]
fn transcripts_of_a_folder() {
    const FOLDER: &str = "MUSTER_ORACLE_TRANSCRIPTS";
    let folder = std::env::var_os(FOLDER).expect("set MUSTER_ORACLE_TRANSCRIPTS");
    let (mut counts, mut argued) = (Counts::default(), Argued::default());
    let (mut runs, mut differing) = (0, Vec::new());
    for transcript in transcripts_in(Path::new(&folder)) {
        let report = replay(&transcript, &mut Ours::default());
        runs += 1;
        counts.add(&report.counts);
        argued.add(&report.argued);
        if report.difference.is_some() {
            print(&transcript, &report);
            differing.push(transcript.name);
        }
    }
    println!("{runs} runs: {counts}; argued differences:\n{argued}");
    assert!(differing.is_empty(), "they differ: {differing:?}");
}

/// A subject that returns Kafka's outcomes as its own. One outcome may be altered.
struct Echo {
    line: usize,
    altered: Option<(usize, Alter)>,
}

/// Alters an outcome. Returns false if the outcome has nothing to alter.
type Alter = fn(&mut Outcome) -> bool;

impl Subject for Echo {
    fn begin(&mut self, _: &Value) {}

    fn apply(&mut self, _: &Line, _: Option<&Asked>, kafka: &Outcome) -> Result<Outcome> {
        let mut outcome = kafka.clone();
        self.line += 1;
        if let Some((from, alter)) = self.altered.filter(|(from, _)| *from <= self.line) {
            self.altered = (!alter(&mut outcome)).then_some((from, alter));
        }
        Ok(outcome)
    }

    fn muster(&mut self) -> Option<&mut Muster> {
        None
    }
}

#[test]
fn the_harness_reads_each_transcript_of_kafka() {
    for transcript in transcripts() {
        let report = replay(&transcript, &mut Echo { line: 0, altered: None });
        print(&transcript, &report);
        assert!(report.difference.is_none());
        assert!(report.counts.answers > 25 && report.counts.records > 15);
    }
}

#[test]
fn the_harness_finds_each_alteration() {
    let alterations: [Alter; 6] = [
        |outcome| outcome.answers.pop_first().is_some(),
        |outcome| outcome.answers.values_mut().next().is_some_and(alter_number),
        |outcome| outcome.records.pop_first().is_some(),
        |outcome| outcome.records.values_mut().next().is_some_and(|all| alter_number(&mut all[0])),
        |outcome| outcome.dump.pop_first().is_some(),
        |outcome| outcome.dump.values_mut().next().is_some_and(alter_number),
    ];
    let first_of_each_area = |it: &Transcript| it.name.ends_with("-1");
    for transcript in transcripts().filter(first_of_each_area) {
        for from in [1, 40] {
            for alter in alterations {
                let mut echo = Echo { line: 0, altered: Some((from, alter)) };
                let report = replay(&transcript, &mut echo);
                assert!(echo.altered.is_none(), "nothing to alter in {}", transcript.name);
                assert!(report.difference.is_some(), "not found in {}", transcript.name);
            }
        }
    }
}

/// Adds one to the first number in a value.
fn alter_number(value: &mut Value) -> bool {
    match value {
        Value::Number(number) => {
            *value = Value::from(number.as_i64().unwrap() + 1);
            true
        }
        Value::Array(items) => items.iter_mut().any(alter_number),
        Value::Object(fields) => fields.values_mut().any(alter_number),
        _ => false,
    }
}
