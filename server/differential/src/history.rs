//! Runs the requests of one seed. Each request goes to Kafka, or its answer comes from a recording.
//! Then it goes to muster with muster's own ids.

use crate::acls::Acls;
use crate::climb::climb;
use crate::compare::{self, Difference};
use crate::ends::{await_end, is_concurrent, runs_out};
use crate::generate::{self, Choice};
use crate::ids::Ids;
use crate::known::Known;
use crate::recording::{Recorded, Turn};
use crate::report::{Example, Report};
use crate::settle::{await_creation, creates_topics, settle};
use crate::settle_groups::settle_groups;
use crate::wire::{Answer, Ask, Completion, Flaw, Side};
use crate::world::World;
use muster_codec::messages::DeleteTopicsRequest;
use muster_codec::{ApiKey, Reader, Request, Response};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// The number of connections of a history to each server, and so of requests that can wait at once.
const LINES: usize = 5;
/// The longest wait for an answer. After it, none is expected any more.
const PATIENCE: Duration = Duration::from_secs(15);
/// After this time, a request that may wait for other members is considered parked.
const PARKED_AFTER: Duration = Duration::from_millis(150);
/// The time within which muster must end a transaction.
const SETTLED_WITHIN: Duration = Duration::from_secs(3);
/// The answer to one request may allow the server to answer others that wait, too. These answers
/// arrive within this time.
const FOLLOWING: Duration = Duration::from_millis(25);

/// The parameters of a run.
pub struct Plan<'a> {
    pub kafka: &'a str,
    pub muster: &'a str,
    /// Distinguishes the names of different runs on the same servers.
    pub run: u64,
    pub requests: usize,
    /// The addresses of Kafka and muster at which a user logs in. The user's ACLs change. None for
    /// clients that may do everything.
    pub secured: Option<[&'a str; 2]>,
    /// Whether the producer of each history is near its last epoch.
    pub last_epochs: bool,
    pub choice: Choice<'a>,
    pub known: &'a Known,
    /// Whether to print each request and both answers.
    pub trace: bool,
}

/// Runs one seed on both servers.
///
/// # Errors
/// A server cannot be reached, refuses a request that prepares the history, or does not show a
/// change or the end of a transaction in time.
pub fn run(plan: &Plan<'_>, seed: u64, report: &mut Report) -> io::Result<Recorded> {
    let mut world = World::new(plan.run, seed);
    let mut kafka = Side::new(plan.kafka, LINES);
    let mut muster = Muster::new(plan.muster, plan.known, &world.prefix, plan.trace);
    let mut recorded = Recorded { prefix: world.prefix.clone(), turns: Vec::new() };
    if plan.last_epochs {
        near_the_last_epoch(plan, &mut world)?;
    }
    let mut acls = match plan.secured {
        Some([of_kafka, of_muster]) => {
            let acls = Acls::begin(seed, &mut world, [&kafka, &muster.side])?;
            kafka.log_in(of_kafka, acls.user());
            muster.side.log_in(of_muster, acls.user());
            Some(acls)
        }
        None => None,
    };
    generate::begin(&mut world, &plan.choice);
    for step in 0..plan.requests {
        if let Some(acls) = &mut acls {
            acls.change(&mut world, [&kafka, &muster.side])?;
        }
        let ask = generate::ask(&mut world, &plan.choice);
        let Some(line) = (0..LINES).find(|line| !kafka.waits(*line)) else { break };
        let at = |error: io::Error| io::Error::other(format!("step {step} {ask:?}: {error}"));
        let done = on_kafka(&mut kafka, line, step, &ask).map_err(at)?;
        muster.send(line, &ask, &done).map_err(at)?;
        let done = muster.level(&mut kafka, done).map_err(at)?;
        for one in &done {
            learn(&mut world, muster.ask(one.step), one);
        }
        let turn = Turn { line, ask, done };
        let are_alike = muster.compare(&turn, report);
        recorded.turns.push(turn);
        if !are_alike {
            break;
        }
    }
    if let Some(acls) = acls {
        acls.end([&kafka, &muster.side])?;
    }
    tidy(&world, [&kafka, &muster.side])?;
    Ok(recorded)
}

/// Keeps only one transactional id of the history. On both servers, raises its epoch to one near
/// the last.
fn near_the_last_epoch(plan: &Plan<'_>, world: &mut World) -> io::Result<()> {
    world.transactional_ids.truncate(1);
    let id = world.transactional_ids[0].name.clone();
    let epoch = i64::from(i16::MAX) - world.random.i64(3..8);
    [plan.kafka, plan.muster].iter().try_for_each(|address| climb(address, &id, epoch))?;
    world.due.push_back(generate::initialization(&id));
    Ok(())
}

/// Sends muster the recorded requests that went to Kafka.
///
/// # Errors
/// The server cannot be reached, or does not show a change or the end of a transaction in time.
pub fn replay(
    muster: &str,
    known: &Known,
    recorded: &Recorded,
    report: &mut Report,
) -> io::Result<()> {
    let mut muster = Muster::new(muster, known, &recorded.prefix, false);
    for turn in &recorded.turns {
        muster.send(turn.line, &turn.ask, &turn.done)?;
        if !muster.compare(turn, report) {
            break;
        }
    }
    Ok(())
}

fn on_kafka(kafka: &mut Side, line: usize, step: usize, ask: &Ask) -> io::Result<Vec<Completion>> {
    let may_wait = matches!(ask.api(), ApiKey::JoinGroup | ApiKey::SyncGroup);
    let patience = if may_wait { PARKED_AFTER } else { PATIENCE };
    let deadline = Instant::now() + PATIENCE;
    kafka.send(line, step, ask)?;
    let mut done = kafka.gather(|steps| steps.contains(&step), patience)?;
    await_end(kafka, ask)?;
    while Instant::now() < deadline && meets_an_end(&done, step) {
        done.retain(|one| one.step != step);
        kafka.send(line, step, ask)?;
        done.extend(kafka.gather(|steps| steps.contains(&step), patience)?);
        await_end(kafka, ask)?;
    }
    if kafka.is_waiting() {
        done.extend(kafka.gather(|_| false, FOLLOWING)?);
    }
    if let Some(own) = done.iter().find(|one| one.step == step) {
        settle(kafka, ask, &own.answer)?;
        settle_groups(kafka, ask, &own.answer)?;
    }
    Ok(done)
}

/// Whether a request must be sent again: its answer shows that a transaction is still ending, or
/// will end by its timeout.
fn meets_an_end(done: &[Completion], step: usize) -> bool {
    let own = done.iter().find(|one| one.step == step);
    own.is_some_and(|one| is_concurrent(&one.answer) || runs_out(&one.answer))
}

fn learn(world: &mut World, ask: &Ask, done: &Completion) {
    if done.answer == Answer::Closed {
        generate::disconnected(world);
    }
    if !matches!(done.answer, Answer::Body(_)) || matches!(ask.flaw, Flaw::Version(_)) {
        return;
    }
    let skip = if ask.api().flexible_response_header(ask.version) { 5 } else { 4 };
    let body: &'static [u8] = done.bytes[skip..].to_vec().leak();
    if let Ok(response) = Response::read(ask.api(), ask.version, &mut Reader::new(body)) {
        generate::learn(world, ask, &response);
    }
}

/// Removes the topics of the history.
fn tidy(world: &World, sides: [&Side; 2]) -> io::Result<()> {
    let topic_names: Vec<_> = world.topics.iter().map(|topic| topic.name.clone().into()).collect();
    if topic_names.is_empty() {
        return Ok(());
    }
    let request = DeleteTopicsRequest { topic_names, timeout_ms: 30_000, ..Default::default() };
    let ask = Ask { version: 5, request: request.into(), flaw: Flaw::None };
    for side in sides {
        side.call(&ask)?;
    }
    Ok(())
}

/// muster's side of a history.
struct Muster<'a> {
    side: Side,
    ids: Ids,
    known: &'a Known,
    prefix: String,
    trace: bool,
    /// All requests so far, as they were sent to Kafka.
    asks: Vec<Ask>,
    /// Answers by step, which are kept until the other server has answered, too.
    kafka: BTreeMap<usize, Answer>,
    muster: BTreeMap<usize, Answer>,
}

impl<'a> Muster<'a> {
    fn new(address: &str, known: &'a Known, prefix: &str, trace: bool) -> Self {
        Self {
            side: Side::new(address, LINES),
            ids: Ids::default(),
            known,
            prefix: prefix.to_owned(),
            trace,
            asks: Vec::new(),
            kafka: BTreeMap::new(),
            muster: BTreeMap::new(),
        }
    }

    fn ask(&self, step: usize) -> &Ask {
        &self.asks[step]
    }

    /// Sends the next request, and waits until muster has answered all that Kafka has answered. It
    /// need not wait for acknowledged changes: in muster, they are visible at once.
    fn send(&mut self, line: usize, ask: &Ask, kafka: &[Completion]) -> io::Result<()> {
        let step = self.asks.len();
        self.asks.push(ask.clone());
        let request = self.ids.to_muster(&ask.request).map_err(io::Error::other)?;
        let ours = Ask { request, ..ask.clone() };
        if self.side.waits(line) {
            return Ok(());
        }
        self.side.send(line, step, &ours)?;
        self.catch_up(kafka)?;
        await_end(&self.side, &ours)?;
        self.send_again(line, step, &ours)?;
        match self.muster.get(&step) {
            Some(own) => {
                await_creation(&self.side, &ours, own)?;
                settle_groups(&self.side, &ours, own)
            }
            None => Ok(()),
        }
    }

    /// Repeats a request as long as its answer shows a transaction that is ending or will time out.
    fn send_again(&mut self, line: usize, step: usize, ask: &Ask) -> io::Result<()> {
        let deadline = Instant::now() + SETTLED_WITHIN;
        while Instant::now() < deadline && self.is_unsettled(step) {
            self.side.send(line, step, ask)?;
            let done = self.side.gather(|steps| steps.contains(&step), PATIENCE)?;
            self.muster.extend(done.into_iter().map(|one| (one.step, one.answer)));
            await_end(&self.side, ask)?;
        }
        Ok(())
    }

    fn is_unsettled(&self, step: usize) -> bool {
        self.muster.get(&step).is_some_and(|it| is_concurrent(it) || runs_out(it))
    }

    /// Waits until both servers have answered the same requests.
    fn level(
        &mut self,
        kafka: &mut Side,
        mut done: Vec<Completion>,
    ) -> io::Result<Vec<Completion>> {
        loop {
            let late = kafka.gather(|steps| self.has(steps), self.patience_with_kafka())?;
            if late.is_empty() {
                return Ok(done);
            }
            self.catch_up(&late)?;
            done.extend(late);
        }
    }

    /// Waits for the same answers as Kafka has given.
    fn catch_up(&mut self, kafka: &[Completion]) -> io::Result<()> {
        let missing = kafka.iter().filter(|one| !self.muster.contains_key(&one.step));
        let missing: Vec<usize> = missing.map(|one| one.step).collect();
        let all = |steps: &[usize]| missing.iter().all(|one| steps.contains(one));
        let done = self.side.gather(all, PATIENCE)?;
        self.muster.extend(done.into_iter().map(|one| (one.step, one.answer)));
        self.kafka.extend(kafka.iter().map(|one| (one.step, one.answer.clone())));
        Ok(())
    }

    /// How long to wait for Kafka's answers to requests that only muster has answered so far.
    fn patience_with_kafka(&self) -> Duration {
        if self.muster.keys().all(|step| self.kafka.contains_key(step)) {
            Duration::ZERO
        } else {
            PATIENCE
        }
    }

    /// Whether Kafka has answered all requests that muster has. `more` are further answers of
    /// Kafka.
    fn has(&self, more: &[usize]) -> bool {
        self.muster.keys().all(|step| self.kafka.contains_key(step) || more.contains(step))
    }

    /// Compares all answers that have arrived. If only one server has answered a request, this is a
    /// difference. Returns false if the servers' states may differ from now on.
    fn compare(&mut self, turn: &Turn, report: &mut Report) -> bool {
        report.count(&turn.ask);
        let late = turn.done.iter().map(|one| (one.step, one.answer.clone()));
        self.kafka.extend(late);
        let mut steps: Vec<usize> = self.kafka.keys().chain(self.muster.keys()).copied().collect();
        steps.sort_unstable();
        steps.dedup();
        // The members' own answers are compared before an answer that lists members: from them, it
        // is known which id of Kafka corresponds to which of muster.
        steps.sort_by_key(|step| self.kafka.get(step).map_or(0, listed_members));
        let mut are_alike = true;
        for step in steps {
            are_alike &= self.compare_step(step, report);
        }
        are_alike
    }

    fn compare_step(&mut self, step: usize, report: &mut Report) -> bool {
        let (kafka, muster) = (self.kafka.remove(&step), self.muster.remove(&step));
        let ask = &self.asks[step];
        if self.trace {
            let request = serde_json::to_string(&ask.request).unwrap_or_default();
            let [kafka, muster] = [&kafka, &muster].map(|answer| text(answer.as_ref()));
            println!("{step} v{} {:?} {request}\n  {kafka}\n  {muster}", ask.version, ask.flaw);
        }
        let differences = match (&kafka, &muster) {
            (Some(kafka), Some(muster)) => {
                compare::answers(kafka, muster, &mut self.ids, &self.prefix)
            }
            _ => vec![silence(kafka.as_ref(), muster.as_ref())],
        };
        let verdict = self.known.judge(ask, differences);
        report.note(&Example { history: &self.prefix, step, ask }, &verdict.unargued);
        (verdict.unargued.is_empty() || only_reads(ask)) && !verdict.ends
    }
}

/// Whether a request changes no state, so that the history can continue even if the answers differ.
fn only_reads(ask: &Ask) -> bool {
    match &ask.request {
        Request::Metadata(body) => !creates_topics(ask.version, body),
        Request::Fetch(body) => body.session_epoch == -1,
        Request::ListOffsets(_)
        | Request::OffsetForLeaderEpoch(_)
        | Request::OffsetFetch(_)
        | Request::DescribeGroups(_)
        | Request::ConsumerGroupDescribe(_)
        | Request::ShareGroupDescribe(_)
        | Request::StreamsGroupDescribe(_)
        | Request::DescribeShareGroupOffsets(_)
        | Request::ReadShareGroupStateSummary(_)
        | Request::ListGroups(_)
        | Request::DescribeConfigs(_)
        | Request::DescribeCluster(_)
        | Request::DescribeTopicPartitions(_)
        | Request::ListConfigResources(_)
        | Request::FindCoordinator(_)
        | Request::DescribeTransactions(_)
        | Request::ListTransactions(_)
        | Request::DescribeProducers(_)
        | Request::ApiVersions(_) => ask.flaw == Flaw::None,
        _ => false,
    }
}

fn listed_members(answer: &Answer) -> usize {
    match answer {
        Answer::Body(body) => body["JoinGroup"]["members"].as_array().map_or(0, Vec::len),
        _ => 0,
    }
}

fn text(answer: Option<&Answer>) -> String {
    match answer {
        Some(Answer::Body(body)) => body.to_string(),
        other => format!("{other:?}"),
    }
}

/// The difference if only one server has answered.
fn silence(kafka: Option<&Answer>, muster: Option<&Answer>) -> Difference {
    let text = |answer: Option<&Answer>| match answer {
        None => "no answer".to_owned(),
        Some(Answer::Body(body)) => {
            let body = body.as_object().and_then(|api| api.values().next());
            let code = body.and_then(|body| body.get("errorCode")).and_then(Value::as_i64);
            code.map_or_else(|| "an answer".into(), |code| format!("error {code}"))
        }
        Some(other) => format!("{other:?}"),
    };
    let (field, element) = (String::new(), String::new());
    Difference { field, element, kafka: text(kafka), muster: text(muster) }
}
