//! Random runs of any length, compared with the running oracle. See `README.md`.

use crate::replay::{Difference, Ours, Report, replay};
use crate::transcript::{Line, Transcript};
use serde_json::Value;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The number of seeds for one process of the generator.
const SEEDS_AT_ONCE: u64 = 10;

const ALL_AREAS: &str = "mixed,classic,static,offsets,consumer,regex,migration,both-static,\
    both-offsets,txn-offsets,mixed-txn,share,streams,streams-static,streams-config,mixed-streams,\
    streams-topology,descriptions";

/// The time spent on reducing the size of a transcript that has a difference.
const MINIMISING: Duration = Duration::from_secs(60);

/// The parameters of a run, from environment variables that start with `MUSTER_ORACLE`.
pub struct Plan {
    pub oracle: PathBuf,
    pub seed: u64,
    /// The run ends after this time, or after the number of operations in the next field.
    pub duration: Duration,
    pub operations: u64,
    pub areas: Vec<String>,
}

impl Plan {
    /// Reads the parameters.
    ///
    /// # Panics
    /// `MUSTER_ORACLE` is not set to the folder of the oracle.
    pub fn from_environment() -> Self {
        let number = |name| std::env::var(name).ok().map(|value| value.parse().unwrap());
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let areas = std::env::var("MUSTER_ORACLE_AREAS");
        let areas = areas.unwrap_or_else(|_| ALL_AREAS.to_owned());
        Self {
            oracle: std::env::var_os("MUSTER_ORACLE").expect("set MUSTER_ORACLE").into(),
            seed: number("MUSTER_ORACLE_SEED").unwrap_or_else(clock),
            duration: Duration::from_secs(number("MUSTER_ORACLE_SECONDS").unwrap_or(60)),
            operations: number("MUSTER_ORACLE_OPERATIONS").unwrap_or(u64::MAX),
            areas: areas.split(',').map(str::to_owned).collect(),
        }
    }

    /// Runs seed after seed, until the time is up or `each` returns false.
    pub fn run(&self, mut each: impl FnMut(&Transcript, &Report) -> bool) {
        let folder = tempfile::tempdir().unwrap();
        let start = Instant::now();
        let mut seed = self.seed;
        loop {
            for path in self.generate(folder.path(), seed..seed + SEEDS_AT_ONCE) {
                let transcript = Transcript::read(&path);
                std::fs::remove_file(path).unwrap();
                let report = replay(&transcript, &mut Ours::default());
                if !each(&transcript, &report) || start.elapsed() > self.duration {
                    return;
                }
            }
            seed += SEEDS_AT_ONCE;
        }
    }

    fn generate(&self, folder: &Path, seeds: std::ops::Range<u64>) -> Vec<PathBuf> {
        let jobs: Vec<(&String, u64)> =
            seeds.flat_map(|seed| self.areas.iter().map(move |area| (area, seed))).collect();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/generate.py");
        let status = Command::new("python3")
            .arg(script)
            .arg(folder)
            .args(jobs.iter().map(|(area, seed)| format!("{area}:{seed}")))
            .env("MUSTER_ORACLE", &self.oracle)
            .status()
            .unwrap();
        assert!(status.success(), "the generator ended with {status}");
        jobs.iter().map(|(area, seed)| folder.join(format!("{area}-{seed}.jsonl"))).collect()
    }
}

/// Returns a smaller transcript that has a difference of the same kind.
pub fn minimise(oracle: &Path, transcript: &Transcript, found: &Difference) -> Transcript {
    let mut process = Oracle::start(oracle);
    let kind = kind_of(found);
    let mut smallest = Transcript {
        name: transcript.name.clone(),
        lines: transcript.lines[..found.line].to_vec(),
    };
    let until = Instant::now() + MINIMISING;
    let mut size = smallest.lines.len() / 2;
    while size > 0 && Instant::now() < until {
        let mut removed = false;
        let mut end = smallest.lines.len() - 1;
        while end > 1 && Instant::now() < until {
            let start = end.saturating_sub(size).max(1);
            if let Some(smaller) = process.without(&smallest, start..end, &kind) {
                smallest = smaller;
                removed = true;
            }
            end = start;
        }
        size = if removed { size } else { size / 2 };
    }
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    smallest
}

/// The kind of a difference: the request or record that differs, without numbers.
fn kind_of(difference: &Difference) -> String {
    difference.what.split(' ').next().unwrap_or_default().to_owned()
}

/// A running process of the oracle.
struct Oracle {
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Oracle {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(folder.join("run.sh"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = BufWriter::new(child.stdin.take().unwrap());
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// The transcript without `lines`, if it still has the same kind of difference.
    fn without(
        &mut self,
        transcript: &Transcript,
        lines: std::ops::Range<usize>,
        kind: &str,
    ) -> Option<Transcript> {
        let kept = |(i, line): (usize, &Line)| (!lines.contains(&i)).then(|| line.input.clone());
        let ops: Vec<Value> = transcript.lines.iter().enumerate().filter_map(kept).collect();
        let mut smaller = Transcript { name: transcript.name.clone(), lines: self.run(&ops) };
        if smaller.lines.iter().any(|line| line.output["error"] == "ORACLE") {
            return None;
        }
        let difference = replay(&smaller, &mut Ours::default()).difference?;
        smaller.lines.truncate(difference.line);
        (kind_of(&difference) == kind).then_some(smaller)
    }

    fn run(&mut self, ops: &[Value]) -> Vec<Line> {
        let (input, output) = (&mut self.input, &mut self.output);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for op in ops {
                    writeln!(input, "{op}").unwrap();
                }
                input.flush().unwrap();
            });
            let outcome = |op: &Value| {
                let mut line = String::new();
                output.read_line(&mut line).unwrap();
                Line { input: op.clone(), output: serde_json::from_str(&line).unwrap() }
            };
            ops.iter().map(outcome).collect()
        })
    }
}
