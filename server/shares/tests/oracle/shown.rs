//! A share partition in the form of the oracle: start, end, and the state of each record in flight.

use crate::json::{int, list, text};
use muster_shares::RecordState;
use muster_shares::SharePartition;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    start: i64,
    end: i64,
    runs: Vec<Run>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    first: i64,
    last: i64,
    state: String,
    count: i64,
    member: Option<String>,
    lock: Option<i64>,
}

impl Shown {
    pub fn read(state: &Value) -> Self {
        let mut runs = Vec::new();
        for batch in list(&state["in_flight"]) {
            let by_offset = list(&batch[2]);
            if by_offset.is_empty() {
                push(&mut runs, run(batch));
            }
            by_offset.iter().for_each(|it| push(&mut runs, run(it)));
        }
        Self::new(int(&state["start"]), int(&state["end"]), runs)
    }

    /// Leaves out records that are done and before the start offset. If the log's start has passed
    /// such records, Kafka forgets them with a later write than muster.
    fn new(start: i64, end: i64, mut runs: Vec<Run>) -> Self {
        runs.retain(|it| it.last >= start || !it.is_done());
        Self { start, end, runs }
    }

    /// Whether the two differ only in the start offset: this one is earlier, and all records up to
    /// the other one are done.
    pub fn is_done_before(&self, other: &Self) -> bool {
        let is_open = |it: &&Run| it.last >= other.start;
        self.starts_before(other)
            && self.end == other.end
            && self.runs.iter().filter(is_open).eq(other.runs.iter().filter(is_open))
            && self.runs.iter().filter(|it| !is_open(it)).all(Run::is_done)
    }

    pub fn starts_before(&self, other: &Self) -> bool {
        self.start < other.start
    }

    /// Whether one run of acquired records begins before the start offset, and ends after it.
    pub fn is_acquired_across_start(&self) -> bool {
        let across = |it: &Run| it.first < self.start && self.start <= it.last;
        self.runs.iter().any(|it| it.lock.is_some() && across(it))
    }
}

impl Run {
    fn is_done(&self) -> bool {
        matches!(&*self.state, "ARCHIVED" | "ACKNOWLEDGED")
    }
}

pub fn ours(partition: &SharePartition) -> Shown {
    let mut runs = Vec::new();
    for it in partition.in_flight() {
        let state = match it.state {
            RecordState::Available => "AVAILABLE",
            RecordState::Acquired => "ACQUIRED",
            RecordState::Acknowledged => "ACKNOWLEDGED",
            RecordState::Archiving => "ARCHIVING",
            RecordState::Archived => "ARCHIVED",
        };
        let run = Run {
            first: it.first,
            last: it.last,
            state: state.to_owned(),
            count: i64::from(it.delivery_count),
            member: it.member.map(str::to_owned),
            lock: it.locked_until,
        };
        push(&mut runs, run);
    }
    Shown::new(partition.start_offset(), partition.end_offset(), runs)
}

fn run(shown: &Value) -> Run {
    let state = text(&shown[2]);
    let is_acquired = state == "ACQUIRED";
    Run {
        first: int(&shown[0]),
        last: int(&shown[1]),
        state: state.to_owned(),
        count: int(&shown[3]),
        member: is_acquired.then(|| text(&shown[4]).to_owned()),
        lock: is_acquired.then(|| int(&shown[5])),
    }
}

fn push(runs: &mut Vec<Run>, run: Run) {
    let is_next = |it: &&mut Run| {
        (it.last + 1, &it.state, it.count, &it.member, it.lock)
            == (run.first, &run.state, run.count, &run.member, run.lock)
    };
    match runs.last_mut().filter(is_next) {
        Some(before) => before.last = run.last,
        None => runs.push(run),
    }
}
