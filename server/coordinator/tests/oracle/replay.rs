//! Replays a transcript with a coordinator, and compares the outcomes with Kafka's.

mod losses;

use crate::argued::Argued;
use crate::counts::Counts;
use crate::descriptions::Descriptions;
use crate::empties::Empties;
use crate::forms::{self, Result, error_codes};
use crate::ids::{SeededIds, drawn};
use crate::muster::Muster;
use crate::outcome::{Outcome, Pending, kafka_written, unanswered, without_missing};
use crate::rivals::Rivals;
use crate::scope::{Asked, Scope, group_of};
use crate::tasks;
use crate::transactional;
use crate::transcript::{Line, Transcript};
use crate::votes::Votes;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// NOT_COORDINATOR
const MOVED: i64 = 16;

/// UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS
const REFUSED: [i64; 2] = [25, 27];

/// A coordinator whose outcomes are compared with Kafka's.
pub trait Subject {
    /// Starts again with the settings of a `new` operation.
    fn begin(&mut self, op: &Value);
    /// Performs an operation. `asked` is the compared part of a request.
    fn apply(&mut self, line: &Line, asked: Option<&Asked>, kafka: &Outcome) -> Result<Outcome>;
    /// muster itself, for calls that are not operations. None for other subjects.
    fn muster(&mut self) -> Option<&mut Muster>;
}

/// The first difference between a coordinator and Kafka.
#[derive(Debug)]
pub struct Difference {
    /// The line of the transcript, counted from 1.
    pub line: usize,
    pub what: String,
}

#[derive(Debug, Default)]
pub struct Report {
    pub counts: Counts,
    pub argued: Argued,
    pub difference: Option<Difference>,
}

/// Replays until the end or the first difference.
pub fn replay(transcript: &Transcript, subject: &mut impl Subject) -> Report {
    let seed = transcript.lines.first().and_then(|line| line.input["uuid_seed"].as_u64());
    let drawn = drawn(&transcript.lines, &SeededIds::new(seed));
    let mut replay = Replay { unanswered: unanswered(&transcript.lines), ..Default::default() };
    for (i, (line, drawn)) in transcript.lines.iter().zip(drawn).enumerate() {
        if let (Some(muster), Some(number)) = (subject.muster(), drawn) {
            muster.seek_id(number);
        }
        let step = catch_unwind(AssertUnwindSafe(|| replay.step(line, subject)));
        replay.votes.observe(line);
        replay.rivals.observe(line);
        replay.descriptions.observe(line, &replay.scope);
        if let Err(what) = step.unwrap_or_else(|_| Err("panic".to_owned())) {
            replay.report.difference = Some(Difference { line: i + 1, what });
            break;
        }
    }
    replay.report
}

#[derive(Debug, Default)]
struct Replay {
    scope: Scope,
    pending: Pending,
    /// For each request that only one server has answered so far: Kafka's answer, and muster's.
    half: BTreeMap<String, [Option<Value>; 2]>,
    /// Requests that Kafka never answers.
    unanswered: HashSet<String>,
    held: bool,
    /// Groups with an uncommitted record of the type GroupMetadata, or an uncommitted record of any
    /// type that a JoinGroup wrote.
    in_flight: BTreeSet<String>,
    append_fails: bool,
    /// Groups that became classic since the last load.
    downgraded: BTreeSet<String>,
    votes: Votes,
    rivals: Rivals,
    descriptions: Descriptions,
    empties: Empties,
    report: Report,
}

impl Replay {
    fn step(&mut self, line: &Line, subject: &mut impl Subject) -> Result<()> {
        self.observe_unrecorded(line);
        self.observe_empties(line);
        let op = line.input["op"].as_str().unwrap_or_default();
        match op {
            "new" => {
                subject.begin(&line.input);
                return Ok(());
            }
            "fail" => {
                self.append_fails |= line.input.get("append").is_some();
                self.scope.verification_fails |= line.input.get("verification").is_some();
                return Ok(());
            }
            "end_txn" if transactional::is_refused(line) => {
                self.append_fails = false;
                self.report.argued.meet("failed-append");
                return Ok(());
            }
            "request" if !self.ask(line, subject) => return self.adopt(line, subject),
            "reload" => self.scope.reloaded(),
            _ => {}
        }
        let was_held = self.held;
        self.held = line.input["commit"].as_bool().filter(|_| op == "hold").unwrap_or(self.held);
        let mut kafka = Outcome::of_kafka(line, &self.scope, &self.pending, &self.empties)?;
        self.descriptions.narrow(&mut kafka, &self.pending);
        let asked = line.input["id"].as_str().and_then(|id| self.pending.get(id));
        let mut muster = subject.apply(line, asked, &kafka)?;
        muster.narrow(&self.scope, &self.pending);
        self.lose_undescribed(&mut kafka, &mut muster, subject);
        self.lose_failed_append(line, &mut kafka, &mut muster, subject);
        self.lose_unserved(line, &mut kafka, &mut muster, subject);
        self.lose_tied(line, &mut kafka, &mut muster, subject);
        self.lose_misplaced(line, &mut kafka, &mut muster, subject);
        self.lose_fenced_late(line, &mut kafka, &mut muster, subject);
        if op == "reload" || op == "replay" {
            self.end_at_load(&mut kafka, &mut muster)?;
        }
        self.drop_forgotten(&mut muster);
        self.compare(op, kafka, muster, was_held || self.held, subject)?;
        self.observe_flight(line, subject);
        self.adopt(line, subject)
    }

    fn observe_unrecorded(&mut self, line: &Line) {
        if self.scope.observe_unrecorded(line) {
            self.report.argued.meet("unrecorded-group");
        }
    }

    fn observe_empties(&mut self, line: &Line) {
        self.empties.observe(line);
        for _ in 0..self.empties.count() {
            self.report.argued.meet("empty-topics");
        }
    }

    fn drop_pending(&mut self) {
        let scope = &self.scope;
        self.pending.retain(|_, asked| {
            asked.groups.is_empty() || asked.groups.iter().any(|group| scope.has(group))
        });
        self.half.retain(|id, _| self.pending.contains_key(id));
    }

    /// Handles a request. Returns false if no part of it is compared.
    fn ask(&mut self, line: &Line, subject: &mut impl Subject) -> bool {
        self.lose_in_flight(line, subject);
        self.lose_vanished(line, subject);
        self.lose_to_plugin(line, subject);
        let Some(mut asked) = self.scope.ask(line) else {
            let difference = self.scope.why_not(line);
            self.report.argued.meet(difference.unwrap_or("a request that muster does not serve"));
            self.scope.skipped(&line.input);
            return false;
        };
        asked.answer_only = self.held && asked.reads() && uncommitted(subject);
        self.report.counts.requests += 1;
        self.pending.insert(asked.id.clone(), asked);
        true
    }

    /// Adds Kafka's records to muster's log, if their groups have left the comparison.
    fn adopt(&mut self, line: &Line, subject: &mut impl Subject) -> Result<()> {
        for written in kafka_written(line) {
            let group = group_of(written.record);
            if let (Some(_), Some(muster)) = (self.scope.lost(group), subject.muster()) {
                muster.adopt(group, written.producer, written.record)?;
            }
        }
        Ok(())
    }

    /// At a load, only the ids of the answered requests are compared. Replaces all responses by
    /// null.
    fn end_at_load(&mut self, kafka: &mut Outcome, muster: &mut Outcome) -> Result<()> {
        for response in kafka.answers.values_mut() {
            if !error_codes(response).contains(&MOVED) {
                return Err(format!("not an answer at a load: {response}"));
            }
            self.report.argued.meet("end-at-load");
            *response = Value::Null;
        }
        for response in muster.answers.values_mut() {
            *response = Value::Null;
        }
        Ok(())
    }

    /// Kafka never answers some parked requests. Removes muster's refusals of them.
    fn drop_forgotten(&mut self, muster: &mut Outcome) {
        let forgotten = muster.answers.extract_if(.., |id, response| {
            self.unanswered.contains(id)
                && REFUSED.iter().any(|code| response["errorCode"] == *code)
        });
        for (id, _) in forgotten {
            self.pending.remove(&id);
            self.report.argued.meet("forgotten-request");
        }
    }

    fn compare(
        &mut self,
        op: &str,
        kafka: Outcome,
        muster: Outcome,
        held: bool,
        subject: &mut impl Subject,
    ) -> Result<()> {
        self.report.counts.operations += 1;
        self.compare_records(&kafka, &muster)?;
        self.compare_answers(kafka.answers, muster.answers, held)?;
        if op == "dump" {
            if held && uncommitted(subject) {
                self.report.argued.meet("held-read");
                return Ok(());
            }
            self.report.counts.groups_dumped += kafka.dump.len() as u64;
            let (kafka, muster) = (json!(kafka.dump), json!(muster.dump));
            match tasks::described(&kafka, &muster) {
                Some(difference) => self.report.argued.meet(difference),
                None => same("dump", &kafka, &muster)?,
            }
        }
        Ok(())
    }

    fn compare_records(&mut self, kafka: &Outcome, muster: &Outcome) -> Result<()> {
        for (at, group) in kafka.records.keys().chain(muster.records.keys()) {
            let key = (*at, group.clone());
            let of = |outcome: &Outcome| json!(outcome.records.get(&key));
            same(&format!("records of {group} at {at}"), &of(kafka), &of(muster))?;
        }
        self.report.counts.records +=
            kafka.records.values().map(|all| all.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Compares the answers and, unless commits are held, the times at which they were sent.
    fn compare_answers(
        &mut self,
        kafka: BTreeMap<String, Value>,
        muster: BTreeMap<String, Value>,
        held: bool,
    ) -> Result<()> {
        let before: BTreeSet<String> = self.half.keys().cloned().collect();
        for (side, answers) in [kafka, muster].into_iter().enumerate() {
            for (id, response) in answers {
                self.half.entry(id).or_default()[side] = Some(without_missing(response, held));
            }
        }
        for (id, sides) in std::mem::take(&mut self.half) {
            match sides {
                [Some(kafka), Some(muster)] => {
                    if before.contains(&id) {
                        self.report.argued.meet("held-answer");
                    }
                    self.compare_answer(&id, &kafka, &muster)?;
                }
                sides if held && self.held => {
                    self.half.insert(id, sides);
                }
                [Some(kafka), None] => {
                    return Err(format!("request {id}: muster does not answer; Kafka: {kafka}"));
                }
                [_, muster] => {
                    let muster = muster.unwrap_or_default();
                    return Err(format!("request {id}: Kafka does not answer; muster: {muster}"));
                }
            }
        }
        Ok(())
    }

    fn compare_answer(&mut self, id: &str, kafka: &Value, muster: &Value) -> Result<()> {
        self.report.counts.answers += 1;
        match self.pending.remove(id) {
            Some(asked) if asked.answer_only => self.report.argued.meet("held-read"),
            Some(asked) => match tasks::difference(asked.api, kafka, muster) {
                Some(difference) => self.report.argued.meet(difference),
                None => same(&format!("{} {id}", asked.name()), kafka, muster)?,
            },
            None => return Err(format!("request {id} is answered twice: {muster}")),
        }
        Ok(())
    }
}

fn uncommitted(subject: &mut impl Subject) -> bool {
    subject.muster().is_some_and(|muster| muster.has_uncommitted())
}

fn same(what: &str, kafka: &Value, muster: &Value) -> Result<()> {
    let Some(path) = forms::first_difference(kafka, muster) else { return Ok(()) };
    Err(format!("{what}{path}\n    Kafka  {kafka}\n    muster {muster}"))
}

/// muster's coordinator as a subject.
#[derive(Default)]
pub struct Ours(Option<Muster>);

impl Subject for Ours {
    fn begin(&mut self, op: &Value) {
        self.0 = Some(Muster::new(op));
    }

    fn apply(&mut self, line: &Line, asked: Option<&Asked>, _: &Outcome) -> Result<Outcome> {
        let muster = self.0.as_mut().ok_or("the first operation must be new")?;
        muster.apply(&line.input, asked)
    }

    fn muster(&mut self) -> Option<&mut Muster> {
        self.0.as_mut()
    }
}
