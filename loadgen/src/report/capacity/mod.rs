//! The result of a search for the capacity, which `--json` writes. Durations are in milliseconds
//! unless a name says otherwise.

mod text;

use serde::{Deserialize, Serialize};

pub use self::text::{print, step_in_words};

/// The value of [`Capacity::format`].
pub const FORMAT: u32 = 1;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Capacity {
    pub format: u32,
    /// The program and its version, such as `muster-load 0.1.0`.
    pub tool: String,
    pub command: Vec<String>,
    /// The time of the start in UTC, in the format of RFC 3339.
    pub started_at: String,
    pub bootstrap: String,
    pub host: String,
    pub label: Option<String>,
    pub protocol: String,
    pub by: By,
    /// The steps in the order in which they were tried.
    pub steps: Vec<Step>,
    /// The largest size that held.
    pub holds: Option<u64>,
    /// The smallest size that broke.
    pub breaks: Option<u64>,
    pub end: End,
}

/// The size that grows from step to step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    Members,
    Groups,
    /// Commits per second.
    Commits,
    Partitions,
}

/// Why the search ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "why", content = "sentence")]
pub enum End {
    Found,
    /// Even the largest allowed size (`--to`) held.
    AllHeld,
    /// The load machine is the limit.
    Machine(String),
    Interrupted,
}

/// A step of the search: one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    pub size: u64,
    pub members: u64,
    pub groups: u64,
    pub partitions: u64,
    pub seconds: f64,
    pub held: bool,
    /// Whether the load machine kept up.
    pub kept_up: bool,
    pub rules: Vec<Figure>,
    /// Other reasons why the size did not hold, for example a group that did not become stable.
    pub problems: Vec<String>,
    /// Set with `--server-pid`.
    pub server: Option<Used>,
    pub load: Used,
    /// The 99th percentile of the delay with which timers of the load machine fired, in
    /// milliseconds.
    pub lateness: f64,
}

/// A rule, and its value in a step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    pub rule: String,
    pub is_duration: bool,
    /// The measured value. `None` if nothing was measured.
    pub value: Option<f64>,
    pub shown: Option<String>,
    pub held: bool,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Used {
    /// CPU-seconds per second.
    pub cores: f64,
    pub memory_bytes: u64,
}

impl By {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Members => "members",
            Self::Groups => "groups",
            Self::Commits => "commits a second",
            Self::Partitions => "partitions",
        }
    }
}

impl Step {
    /// Why the size did not hold.
    pub fn reasons(&self) -> Vec<String> {
        let broken = self.rules.iter().filter(|figure| !figure.held).map(|figure| {
            let shown = figure.shown.as_deref().unwrap_or("nothing to measure");
            format!("{} ({shown})", figure.rule)
        });
        broken.chain(self.problems.iter().cloned()).collect()
    }
}

impl Capacity {
    /// The result of the search, as a sentence.
    pub fn sentence(&self) -> String {
        let by = self.by.name();
        let holds = match self.holds {
            Some(holds) => format!("holds {} {by}", grouped(holds)),
            None => format!("no number of {by} held"),
        };
        let breaks = self.breaks.map(|size| {
            let reasons = self.steps.iter().rev().find(|step| step.size == size && !step.held);
            let reasons = reasons.map(Step::reasons).unwrap_or_default();
            format!(", breaks at {}: {}", grouped(size), reasons.join(", "))
        });
        let breaks = breaks.unwrap_or_default();
        match &self.end {
            End::Found => holds + &breaks,
            End::AllHeld => format!("{holds}, the most that was tried (--to)"),
            End::Machine(why) => format!("{holds}{breaks}; not tried further: {why}"),
            End::Interrupted => format!("{holds}{breaks}; interrupted"),
        }
    }
}

fn grouped(number: u64) -> String {
    super::text::count(number)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::report) fn step(size: u64, p99: f64) -> Step {
        let figure = Figure {
            rule: "heartbeat.p99 < 50ms".into(),
            is_duration: true,
            value: Some(p99),
            shown: Some(format!("{p99} ms")),
            held: p99 < 50.0,
        };
        Step {
            size,
            members: size,
            groups: 1,
            partitions: size,
            seconds: 21.0,
            held: p99 < 50.0,
            kept_up: true,
            rules: vec![figure],
            problems: Vec::new(),
            server: Some(Used { cores: p99 / 100.0, memory_bytes: 50_000_000 }),
            load: Used { cores: 0.1, memory_bytes: 60_000_000 },
            lateness: 0.2,
        }
    }

    pub(super) fn capacity() -> Capacity {
        Capacity {
            format: FORMAT,
            tool: "muster-load 0.1.0".into(),
            command: vec!["muster-load".into(), "capacity".into()],
            started_at: "2026-11-21T18:00:00Z".into(),
            bootstrap: "127.0.0.1:9092".into(),
            host: "bench-1".into(),
            label: None,
            protocol: "classic".into(),
            by: By::Members,
            steps: [(3_200, 9.0), (6_400, 31.0), (12_800, 420.0), (7_200, 81.0)]
                .map(|(size, p99)| step(size, p99))
                .into(),
            holds: Some(6_400),
            breaks: Some(7_200),
            end: End::Found,
        }
    }

    #[test]
    fn the_answer_is_a_sentence() {
        let found = capacity();
        let sentence = "holds 6,400 members, breaks at 7,200: heartbeat.p99 < 50ms (81 ms)";
        assert_eq!(found.sentence(), sentence);
        let all = Capacity { breaks: None, end: End::AllHeld, ..capacity() };
        assert_eq!(all.sentence(), "holds 6,400 members, the most that was tried (--to)");
        let end = End::Machine("it has too little memory for 12,800 members".into());
        let machine = Capacity { breaks: None, end, ..capacity() };
        let sentence = "holds 6,400 members; not tried further: it has too little memory for \
                        12,800 members";
        assert_eq!(machine.sentence(), sentence);
        let none = Capacity { holds: None, by: By::Commits, ..capacity() };
        assert!(none.sentence().starts_with("no number of commits a second held, breaks at 7,200"));
    }
}
