//! Real clients beside the simulated members: commands that muster-load starts and watches. Their
//! lines become events, in the same stream as those of members.
//!
//! Each client runs in its own process group. So Ctrl-C in a terminal does not reach it, and it
//! ends with all processes that it started. It is asked to end (SIGTERM). It is killed if it does
//! not end within [`PATIENCE`], or if the run ends at once. Its standard input is closed when
//! muster-load ends.

mod line;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::event::{Event, EventKind};
use crate::plan::{GroupIndex, MemberIndex, Partition};
use crate::time::Time;
use crate::topics::Topics;

use self::line::{Named, Said};
use self::process::Process;

/// How long a client has to end by itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long lines are still read after a client's process has ended. The end of its output does not
/// always come: a child of the process may keep the output open.
const LAST_LINES: Duration = Duration::from_secs(1);
/// The maximum number of lines that were read from clients but not yet handled. When it is reached,
/// no more are read, and clients have to wait when they print.
const LINES: usize = 1024;
/// The maximum number of notes about a client: a client that makes a mistake mostly makes it in all
/// its lines.
const NOTES: u32 = 3;

/// A client of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientPlan {
    /// The index of the client. The indices of clients follow those of all members.
    pub index: MemberIndex,
    pub group: GroupIndex,
    pub name: Arc<str>,
    /// The program and its arguments. `{bootstrap}` is not replaced yet.
    pub command: Vec<String>,
}

/// An order of the conductor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientOrder {
    Start(Arc<ClientPlan>),
    Stop { client: MemberIndex, kill: bool },
}

/// A line of a client, and when it was read.
struct Read {
    from: MemberIndex,
    at: Instant,
    what: What,
}

enum What {
    Said(Said),
    /// A line that is too long, or that is meant for muster-load but cannot be understood.
    Slip(String),
    /// An output of the client ended. The text is the beginning of the last line that was not meant
    /// for muster-load.
    Ended(String),
}

/// The events and notes since the last call.
#[derive(Default)]
pub struct News {
    /// The events, sorted by time.
    pub events: Vec<Event>,
    pub notes: Vec<String>,
}

/// The started clients of a run.
pub struct Clients {
    bootstrap: String,
    running: BTreeMap<MemberIndex, Running>,
    lines: (Sender<Read>, Receiver<Read>),
    /// Clients that could not be started. They count as started and ended at once.
    stillborn: Vec<(Arc<ClientPlan>, String)>,
}

struct Running {
    plan: Arc<ClientPlan>,
    process: Process,
    began: Instant,
    announced: bool,
    /// Set once the client was asked to end: the time by which it must have ended.
    until: Option<Instant>,
    /// How the client ended, and when this was noticed.
    exit: Option<(String, Instant)>,
    outputs: usize,
    last_line: String,
    /// The time of the client's last event. The event of its end is never earlier.
    last: Time,
    notes: u32,
}

impl Clients {
    pub fn new(bootstrap: String) -> Self {
        let (running, lines, stillborn) = (BTreeMap::new(), bounded(LINES), Vec::new());
        Self { bootstrap, running, lines, stillborn }
    }

    pub fn order(&mut self, order: ClientOrder) {
        match order {
            ClientOrder::Start(plan) => self.start(plan),
            ClientOrder::Stop { client, kill } => {
                if let Some(running) = self.running.get_mut(&client) {
                    running.stop(kill);
                }
            }
        }
    }

    pub fn kill_all(&mut self) {
        self.running.values_mut().for_each(|running| running.stop(true));
    }

    pub fn are_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Handles lines that clients have printed, at most [`LINES`] of them, and the ends of clients.
    /// Returns their events, ordered by time. `now` is the time of the run.
    pub fn news(&mut self, now: Time, topics: &Topics) -> News {
        let mut news = News::default();
        self.announce(now, &mut news);
        for _ in 0..LINES {
            let Ok(read) = self.lines.1.try_recv() else { break };
            if let Some(running) = self.running.get_mut(&read.from) {
                running.take(read, now, topics, &mut news);
            }
        }
        self.running.retain(|_, running| !running.has_ended(now, &mut news));
        news.events.sort_by_key(|event| event.at);
        news
    }

    fn start(&mut self, plan: Arc<ClientPlan>) {
        let command = plan.command.iter().map(|word| word.replace("{bootstrap}", &self.bootstrap));
        let began = Instant::now();
        match Process::start(&Vec::from_iter(command), plan.index, &self.lines.0) {
            Ok(process) => {
                self.running.insert(plan.index, Running::new(plan, process, began));
            }
            Err(error) => self.stillborn.push((plan, format!("it could not be started: {error}"))),
        }
    }

    fn announce(&mut self, now: Time, news: &mut News) {
        for running in self.running.values_mut().filter(|running| !running.announced) {
            running.announced = true;
            running.last = now - running.began.elapsed();
            news.events.push(started(&running.plan, running.last));
        }
        for (plan, why) in self.stillborn.drain(..) {
            news.events.push(started(&plan, now));
            let how = why.as_str().into();
            news.events.push(event(&plan, now, EventKind::ClientEnded { how }));
        }
    }
}

impl Running {
    fn new(plan: Arc<ClientPlan>, process: Process, began: Instant) -> Self {
        Self {
            plan,
            process,
            began,
            announced: false,
            until: None,
            exit: None,
            outputs: process::OUTPUTS,
            last_line: String::new(),
            last: Time::ZERO,
            notes: 0,
        }
    }

    fn stop(&mut self, kill: bool) {
        let now = Instant::now();
        self.until = Some(if kill { now } else { now + PATIENCE });
        self.process.signal(kill);
    }

    fn take(&mut self, read: Read, now: Time, topics: &Topics, news: &mut News) {
        let at = (now - read.at.elapsed()).max(self.last);
        match read.what {
            What::Said(said) => {
                let kind = self.kind(said, topics, news);
                self.last = at;
                news.events.push(event(&self.plan, at, kind));
            }
            What::Slip(why) => self.note(&why, news),
            What::Ended(last_line) => {
                self.outputs -= 1;
                if !last_line.is_empty() {
                    self.last_line = last_line;
                }
            }
        }
    }

    fn kind(&mut self, said: Said, topics: &Topics, news: &mut News) -> EventKind {
        match said {
            Said::Alive => EventKind::ClientAlive,
            Said::Assigned(named) => {
                EventKind::ClientAssigned { partitions: self.known(named, topics, news) }
            }
            Said::Revoked(named) => {
                EventKind::ClientRevoked { partitions: self.known(named, topics, news) }
            }
            Said::Lost(named) => {
                EventKind::ClientLost { partitions: self.known(named, topics, news) }
            }
        }
    }

    fn known(&mut self, named: Vec<Named>, topics: &Topics, news: &mut News) -> Arc<[Partition]> {
        let mut known = Vec::new();
        for (name, number) in named {
            match topics.named(&Arc::from(name.clone())) {
                Some(topic) => known.push(Partition { topic, number }),
                None => self.note(&format!("the run has no topic {name:?}"), news),
            }
        }
        known.into()
    }

    fn note(&mut self, what: &str, news: &mut News) {
        self.notes += 1;
        if self.notes <= NOTES {
            news.notes.push(format!("client {}: {what}", self.plan.name));
        }
    }

    /// Whether the client has ended. If so, adds its end to `news`.
    fn has_ended(&mut self, now: Time, news: &mut News) -> bool {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            self.process.signal(true);
        }
        if self.exit.is_none() {
            self.exit = self.process.exit().map(|how| (how, Instant::now()));
        }
        let Some((how, seen)) = &self.exit else { return false };
        if self.outputs > 0 && seen.elapsed() < LAST_LINES {
            return false;
        }
        let asked = self.until.is_some();
        let why = if asked || self.last_line.is_empty() || how == process::SUCCESS {
            how.clone()
        } else {
            format!("{how}: {}", self.last_line)
        };
        let at = (now - seen.elapsed()).max(self.last);
        news.events.push(event(&self.plan, at, EventKind::ClientEnded { how: why.into() }));
        true
    }
}

fn started(plan: &ClientPlan, at: Time) -> Event {
    event(plan, at, EventKind::ClientStarted { name: plan.name.clone() })
}

fn event(plan: &ClientPlan, at: Time, kind: EventKind) -> Event {
    Event { at, group: plan.group, member: plan.index, kind }
}
