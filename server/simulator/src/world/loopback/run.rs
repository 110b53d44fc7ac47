//! A world with a real server: the faults of its process, and the checks that are possible from
//! outside.

use super::{Loopback, Target};
use crate::client::{Brokers, read_response};
use crate::coverage::{Coverage, Seen};
use crate::disk::{Crash, copied};
use crate::event::{MachineEvent, TimedEvent};
use crate::judge::throttling::check_limited;
use crate::net::{Asked, LinkId};
use crate::node::{Effect, Node, StartedShard};
use crate::options::Options;
use crate::profile::{MS, Profile, SECOND};
use crate::random::Random;
use crate::world::{Machine, Phase, Setup, World};
use loadgen::topics::Topic;
use muster_server::placement::Placement;
use muster_server::shard::LogSizes;
use rustix::process::Signal;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The time between two checks whether a starting process serves.
const READY_EVERY: u64 = 5 * MS;

/// The maximum times of startup and of a clean stop. Longer times are violations. The limit is
/// generous, because the machine may be busy.
const START_MAX: u64 = 60 * SECOND;
const STOP_MAX: u64 = 60 * SECOND;

/// The maximum delay of an event. A longer delay counts as a pause of the run, because then the
/// machine is too busy.
const LATE_MAX: u64 = 100 * MS;

/// A crash at startup comes within this time.
const CRASH_IN_START_MAX: u64 = 200 * MS;

/// The state of a world with a real server.
pub(crate) struct Inside {
    options: Options,
    /// When the starting process was started.
    started_at: u64,
}

impl World<Loopback> {
    /// # Errors
    /// There is no directory or no free port, or the kernel does not report when sockets are ready.
    ///
    /// # Panics
    /// If the configs of the profile contradict each other.
    pub(crate) fn of(seed: u64, target: &Target, options: Options) -> io::Result<Self> {
        let setup = Setup::new(Profile::for_loopback(seed), options);
        let loopback = Loopback::new(seed, target, &setup.profile, &setup.config)?;
        let inside = Inside { options, started_at: 0 };
        Ok(Self::with_machine(seed, setup, loopback, inside))
    }

    /// Ends the run with a violation.
    fn fail(&mut self, what: &str, error: impl ToString) {
        let error = error.to_string();
        self.sim.violate(format_args!("{what}: {error}"));
    }

    /// Checks the process, and continues it after a pause.
    fn watch_process(&mut self) {
        let now = self.node.tick();
        self.sim.advance(now);
        match self.node.process.ended() {
            Ok(None) => {}
            Ok(Some(status)) => self.process_ended(&status.to_string()),
            Err(error) => self.fail("the process is not there", error),
        }
        if self.node.is_paused && now >= self.node.paused_until {
            self.node.is_paused = false;
            self.signal(Signal::CONT);
        }
        if self.node.is_starting() && !self.node.is_paused {
            self.look_whether_it_serves(now);
        }
    }

    fn look_whether_it_serves(&mut self, now: u64) {
        if self.node.process.listens() {
            self.sim.note(format_args!("it serves"));
            (self.node.serves_since, self.node.has_served) = (Some(now), true);
            self.judge_restarted();
        } else if now > self.inside.started_at + START_MAX {
            let said = self.node.process.last_lines();
            self.fail("the server does not start", said);
        }
    }

    /// Called when the process has ended without a kill. This is a violation unless a stop was
    /// requested.
    fn process_ended(&mut self, status: &str) {
        self.note_end();
        if std::mem::take(&mut self.node.is_stopping) {
            self.sim.note(format_args!("has stopped"));
            self.sim.saw(Seen::CleanStop);
            self.start_later();
        } else {
            let said = self.node.process.last_lines();
            self.fail("the server has ended by itself", format!("{status}: {said}"));
        }
    }

    /// Called when the process has ended. Reads the bytes that it sent before, and notes that its
    /// volatile state is lost.
    fn note_end(&mut self) {
        (self.node.serves_since, self.node.is_paused) = (None, false);
        self.wait_for_sockets(self.node.now);
        self.judge_restarted();
    }

    fn wait_for_sockets(&mut self, until: u64) {
        if let Err(error) = self.on_node(|node| node.wait_until(until)) {
            self.fail("no events of sockets", error);
        }
        let now = self.node.tick();
        self.sim.advance(now);
    }

    /// If the run has handled an event much later than at `due`, counts the time since then as a
    /// pause: the clients did nothing, and on such a busy machine the server may not have run
    /// either.
    fn note_lateness(&mut self, due: u64) {
        let now = self.node.now;
        let late = now.saturating_sub(due.max(self.node.paused_until));
        if late <= LATE_MAX {
            return;
        }
        self.sim.note(format_args!("the run stood still for {} ms", late / MS));
        self.node.paused_until = now;
        self.calm_since = self.calm_since.map(|since| since.max(now));
        match &mut self.phase {
            Phase::Calm(until)
            | Phase::Changed(until)
            | Phase::Resting(until)
            | Phase::Answered(until) => *until += late,
            Phase::CreatingTopics | Phase::Chaos(_) | Phase::Last | Phase::Over => {}
        }
    }

    fn signal(&mut self, signal: Signal) {
        if let Err(error) = self.node.process.signal(signal) {
            self.fail("no signal reaches the process", error);
        }
    }

    fn plan_start_crash(&mut self) {
        let chance = self.profile.faults.crash_in_start_chance;
        if self.is_chaos() && self.node.faults.chance(chance) {
            let soon = self.node.faults.skewed(0, CRASH_IN_START_MAX);
            let life = self.node.process.life();
            self.sim.after(soon, MachineEvent::Crash { life, how: Crash::Kill });
        }
    }

    fn fault(&mut self) {
        if !self.is_chaos() {
            return;
        }
        self.plan_fault();
        let faults = self.profile.faults.clone();
        let (kills, stops) = (faults.kill + faults.power_loss, faults.clean_stop);
        let drawn = self.node.faults.below(kills + stops + faults.pause + faults.hang);
        if drawn < kills {
            self.kill();
        } else if drawn < kills + stops {
            self.stop();
        } else {
            self.pause();
        }
    }

    /// Kills the process, if it exists. It starts again a little later.
    fn kill(&mut self) {
        if !self.node.process.is_there() {
            return;
        }
        self.sim.note(format_args!("is killed"));
        self.sim.saw(if self.node.is_starting() { Seen::CrashInRecovery } else { Seen::Kill });
        if let Err(error) = self.node.process.kill() {
            return self.fail("the process cannot be killed", error);
        }
        self.node.is_stopping = false;
        self.note_end();
        self.judge_killed();
        self.start_later();
    }

    fn stop(&mut self) {
        if self.node.serves_since.is_none() || self.node.is_stopping {
            return;
        }
        self.sim.note(format_args!("is asked to stop"));
        self.node.is_stopping = true;
        let life = self.node.process.life();
        self.sim.after(STOP_MAX, MachineEvent::StopOverdue { life });
        self.signal(Signal::TERM);
    }

    /// Stops the process with SIGSTOP: bytes that are sent meanwhile wait in the sockets.
    ///
    /// A pause ends before requests time out. After a pause a real server may read connections in
    /// any order, so a request that timed out could take effect after a later one of its client.
    fn pause(&mut self) {
        if self.node.serves_since.is_none() || self.node.is_paused {
            return;
        }
        let clients = &self.profile.clients;
        let longest = (3 * clients.session_timeout).min(3 * clients.request_timeout / 4);
        let pause = self.node.faults.between(MS, longest);
        self.sim.note(format_args!("the process stands still for {} ms", pause / MS));
        self.sim.saw(Seen::Paused);
        (self.node.is_paused, self.node.paused_until) = (true, self.node.now + pause);
        self.signal(Signal::STOP);
    }

    /// Fails the run if a clean stop takes too long. Only time in which the process runs counts.
    fn stop_overdue(&mut self, life: u32) {
        let overdue = self.node.paused_until + STOP_MAX;
        if self.node.process.life() != life || !self.node.is_stopping {
            return;
        }
        if self.sim.now() < overdue {
            self.sim.at(overdue, MachineEvent::StopOverdue { life });
        } else {
            let said = self.node.process.last_lines();
            self.fail("a clean stop takes too long", said);
        }
    }

    /// Starts shards from the files that a killed process has left, and compares them with the
    /// books of the raw clients: everything that was acknowledged must be there.
    fn judge_killed(&mut self) {
        let judged = self.left_behind().and_then(|started| {
            let mut numbered = (0..).zip(&started);
            numbered.try_for_each(|(number, it)| self.judge_books(number, it))?;
            Ok(!started.is_empty())
        });
        match judged {
            Ok(true) => self.sim.saw(Seen::StartCompared),
            Ok(false) => {}
            Err(what) => self.fail("after kill -9", what),
        }
    }

    /// The shards, started from a copy of the data directory.
    fn left_behind(&self) -> Result<Vec<StartedShard>, String> {
        let data = self.node.process.data();
        if !self.node.has_served && !is_data_directory(&data) {
            return Ok(Vec::new());
        }
        let copy = copied(&data).map_err(|error| error.to_string())?;
        let segment_bytes = Some(self.config.segment_bytes());
        let sizes = LogSizes { segment_bytes, ..LogSizes::default() };
        let profile = Profile { sizes, ..self.profile.clone() };
        let mut node = Node::new(0, &profile, self.config.clone(), self.inside.options.fault);
        node.load_all(copy.path(), self.node.placement.shards)
    }
}

/// Whether a process ran for long enough to create its data directory.
fn is_data_directory(path: &Path) -> bool {
    path.join("meta.properties").exists()
}

impl Loopback {
    /// Whether the process exists, and does not serve yet.
    fn is_starting(&self) -> bool {
        self.process.is_there() && self.serves_since.is_none()
    }

    /// The time of the next check of the process.
    fn next_look(&self) -> u64 {
        let continues = if self.is_paused { self.paused_until } else { u64::MAX };
        let ready = if self.is_starting() { self.now + READY_EVERY } else { u64::MAX };
        continues.min(ready)
    }

    /// The topics that all shards know.
    fn common_topics(&self) -> Option<Vec<Topic>> {
        let first = self.process.topics(0).ok()?;
        let is_same = |shard| self.process.topics(shard).is_ok_and(|topics| topics == first);
        (1..self.placement.shards).all(is_same).then_some(first)
    }
}

impl Brokers for Loopback {
    fn placement(&self) -> Placement {
        self.placement
    }
}

impl Machine for Loopback {
    type Inside = Inside;
    /// The judge sees only the answers of a real server.
    type Fact = Infallible;
    const HAS_STREAMS: bool = true;

    fn next_event(world: &mut World<Self>) -> Option<TimedEvent> {
        loop {
            world.watch_process();
            if world.sim.is_violated() {
                return None;
            }
            let now = world.node.now;
            let due = world.sim.next_at().unwrap_or(now);
            world.wait_for_sockets(due.min(world.node.next_look()).max(now));
            if world.sim.next_at().is_none_or(|at| at <= world.node.now) {
                world.note_lateness(due);
                return world.sim.next_event();
            }
        }
    }

    fn handle(world: &mut World<Self>, _: u32, event: MachineEvent) {
        match event {
            MachineEvent::Fault => world.fault(),
            MachineEvent::Crash { life, .. } if life == world.node.process.life() => world.kill(),
            MachineEvent::StopOverdue { life } => world.stop_overdue(life),
            MachineEvent::Crash { .. }
            | MachineEvent::Turn { .. }
            | MachineEvent::Start
            | MachineEvent::Link(_)
            | MachineEvent::FileDone { .. }
            | MachineEvent::CallDone { .. }
            | MachineEvent::Rot
            | MachineEvent::Reload { .. }
            | MachineEvent::RoomAgain => {}
        }
    }

    fn handled(_: &mut World<Self>) {}

    fn acted(_: &mut World<Self>) {}

    fn start(world: &mut World<Self>) {
        if world.node.process.is_there() || world.phase == Phase::Last {
            return;
        }
        world.sim.note(format_args!("starts"));
        world.inside.started_at = world.node.tick();
        match world.node.process.start() {
            Ok(()) => world.plan_start_crash(),
            Err(error) => world.fail("the server cannot be started", error),
        }
    }

    fn crash(world: &mut World<Self>) {
        world.kill();
    }

    fn plan_faults(world: &mut World<Self>) {
        world.plan_fault();
    }

    /// Does nothing. A pause of the process that is under way continues until its planned end.
    fn calm(_: &mut World<Self>, _: u64) {}

    fn rests(_: &mut World<Self>) {}

    fn judge_fact(_: &mut World<Self>, _: u32, fact: Infallible) {
        match fact {}
    }

    /// Checks that no answer has a throttle time, because no client has a quota. Only a kill shows
    /// whether the changes that answers report are durable.
    fn judge_answer(world: &mut World<Self>, _: u32, _: LinkId, asked: &Asked, frame: &[u8]) {
        let Ok(mut response) = read_response(asked.api, asked.version, frame) else { return };
        let is_throttled = response.throttle_time_ms().is_some_and(|ms| *ms > 0);
        if let Err(what) = check_limited(&[], is_throttled) {
            world.fail("an answer", what);
        }
    }

    fn judge_now(_: &mut World<Self>) {}

    /// Reads the present topics, for the following checks.
    fn judge_calm(world: &mut World<Self>) {
        if !world.node.is_up() || world.node.is_paused {
            return;
        }
        if let Some(topics) = world.node.common_topics() {
            world.node.topics = topics;
        }
    }

    fn judge_last_start(world: &mut World<Self>) -> bool {
        match world.left_behind() {
            Ok(started) => {
                let image = |it: &StartedShard| it.shard.inspect().image().clone();
                let images: Vec<_> = started.iter().map(image).collect();
                let records: Vec<_> = started.into_iter().flat_map(|it| it.records).collect();
                world.judge_rest(&records, &images);
            }
            Err(what) => world.fail("the last start", what),
        }
        true
    }

    fn has_recovered(_: &World<Self>) -> bool {
        true
    }

    fn share_states(_: &World<Self>) -> String {
        "only the server knows their states".to_owned()
    }

    fn is_up(&self) -> bool {
        self.serves_since.is_some()
    }

    fn starts(&self) -> u32 {
        self.process.life()
    }

    fn life(&self, _: u32) -> u32 {
        self.process.life()
    }

    fn listens(&self, _: u32) -> bool {
        self.process.is_there()
    }

    fn first_port(&self) -> u16 {
        self.process.first_port()
    }

    fn runs_since(&self) -> Option<u64> {
        let since = self.serves_since?.max(self.paused_until);
        (since <= self.now).then_some(since)
    }

    fn stands_until(&self) -> u64 {
        self.paused_until
    }

    fn loaded_at(&self, _: u32) -> u64 {
        self.serves_since.unwrap_or(self.now)
    }

    fn topics(&self) -> Option<Vec<Topic>> {
        self.common_topics()
    }

    fn partitions(&self) -> Option<impl Fn(&str) -> Option<i32>> {
        let of = |name: &str| self.topics.iter().find(|topic| &*topic.name == name);
        self.is_up().then_some(move |name: &str| of(name).map(|it| it.partitions.cast_signed()))
    }

    fn faults(&mut self) -> &mut Random {
        &mut self.faults
    }

    fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }

    fn accept(&mut self, link: LinkId, shard: u32, _: Option<Arc<str>>) {
        let address = self.process.address(shard);
        self.sockets.open(link, shard, address, &mut self.effects);
    }

    fn receive(&mut self, link: LinkId, bytes: Vec<u8>) {
        self.sockets.send(link, &bytes, &mut self.effects);
    }

    fn taken(&mut self, link: LinkId, bytes: usize) {
        self.sockets.taken(link, bytes, &mut self.effects);
    }

    fn input_ended(&mut self, link: LinkId) {
        self.sockets.finish(link, &mut self.effects);
    }

    fn ended(&mut self, link: LinkId) {
        self.sockets.close(link);
    }

    fn next_effect(&mut self) -> Option<Effect<Infallible>> {
        self.effects.pop_front()
    }
}
