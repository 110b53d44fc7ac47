//! Executes commands. Each load core has a runtime with its members and connections. [`command`] is
//! the interface to the rest of muster-load.
//!
//! On a core all work is done in turns. The main loop (`core`) takes commands, runs timers and
//! sends reports. Each connection has a task (`line`), which writes queued bytes and passes frames
//! on. Members (`members`) are called in these turns, and never wait.

mod alarm;
mod arrival;
mod channel;
mod clock;
mod cluster;
pub mod command;
mod configs;
mod connections;
mod core;
mod cpus;
mod descriptors;
mod dial;
mod echo;
mod inbox;
mod line;
mod members;
mod meter;
mod owed;
mod runtime;
mod sasl;
mod tasks;
mod timers;
mod tls;
mod transport;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

pub use self::clock::Clock;
pub use self::cpus::keep_off;
pub use self::descriptors::{descriptors_needed, ensure_descriptors};
pub use self::echo::{EchoResult, echo};

use self::command::{Cluster, Command, CoreReport, Sample, Target};
use self::core::Setup;
use self::dial::{Dialer, host_and_port};
use self::inbox::{Outside, inbox};
use self::runtime::Runtime;
use self::tls::TlsClient;
use crate::plan::MemberIndex;
use crate::time::Time;
use crate::topics::Topics;

/// The maximum number of reports of each core that wait for their receiver.
const REPORTS_MAX: usize = 64;
/// The cores of a run, and the channels to and from them.
pub struct Driver {
    cluster: Cluster,
    clock: Clock,
    commands: Vec<Outside>,
    reports: Receiver<CoreReport>,
    /// Reports that arrived while a command queue was full.
    received: VecDeque<CoreReport>,
    threads: Vec<JoinHandle<()>>,
}

/// Asks the cluster for its properties, and starts the cores. The run's time begins here.
/// # Errors
/// The cluster cannot be reached, refuses, or lacks a needed API. Or a core cannot be started. The
/// error is a sentence for the user.
pub fn start(target: Target) -> Result<Driver, String> {
    let target = Arc::new(target);
    let tls = target.security.tls.as_ref().map(TlsClient::new).transpose()?;
    let cluster = probe(&target, tls.clone())?;
    let clock = Clock::start();
    let learned = Arc::new(Mutex::new(Arc::new(Topics::default())));
    let cores = target.cores.len();
    let (reporter, reports) = bounded(REPORTS_MAX * cores.max(1));
    let (mut commands, mut threads) = (Vec::new(), Vec::new());
    for (index, cpu) in target.cores.iter().enumerate() {
        let (outside, inside) = inbox();
        let setup = Setup {
            index,
            cores: cores as u32,
            clock,
            target: Arc::clone(&target),
            versions: cluster.versions.clone(),
            servers: servers(&target, &cluster)?,
            learned: Arc::clone(&learned),
            commands: inside,
            reports: reporter.clone(),
        };
        commands.push(outside);
        threads.push(start_core(setup, tls.clone(), *cpu)?);
    }
    Ok(Driver { cluster, clock, commands, reports, received: VecDeque::new(), threads })
}

impl Driver {
    /// The properties that the cluster reported before the run began.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn cores(&self) -> usize {
        self.commands.len()
    }

    /// The core of this member: members are distributed round-robin.
    pub fn core_of(&self, member: MemberIndex) -> usize {
        member.0 as usize % self.cores().max(1)
    }

    /// The current time, on the clock that all cores share.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Sends a command to a core. If the core's queue is full, takes reports of cores until it has
    /// space: a core could otherwise wait for its report to be taken. [`Self::receive`] returns
    /// these reports later. If the core has ended and has reported this, the command is dropped.
    pub fn send(&mut self, core: usize, command: Command) {
        let Some(inbox) = self.commands.get(core) else { return };
        let mut refused = inbox.offer(command);
        while let Some(command) = refused {
            if let Ok(report) = self.reports.recv_timeout(Duration::from_millis(1)) {
                self.received.push_back(report);
            }
            refused = inbox.offer(command);
        }
    }

    /// The next report of any core. Returns `None` if none arrives within `timeout`, or if all
    /// cores have ended.
    pub fn receive(&mut self, timeout: Duration) -> Option<CoreReport> {
        self.received.pop_front().or_else(|| self.reports.recv_timeout(timeout).ok())
    }
}

impl Drop for Driver {
    /// Closes the command queues, so that the cores end. Also drops the receiver of reports, so
    /// that no core waits until its last report is received.
    fn drop(&mut self) {
        self.commands.clear();
        self.reports = bounded(0).1;
        for thread in self.threads.drain(..) {
            // The thread catches its own panics, and has reported them.
            let _ = thread.join();
        }
    }
}

/// Asks the cluster for its properties, on a temporary runtime.
fn probe(target: &Arc<Target>, tls: Option<TlsClient>) -> Result<Cluster, String> {
    let dialer = Dialer::new(Arc::clone(target), tls, Default::default());
    Runtime::new()?.run(cluster::probe(dialer))
}

fn start_core(setup: Setup, tls: Option<TlsClient>, cpu: usize) -> Result<JoinHandle<()>, String> {
    let (index, clock, reports) = (setup.index, setup.clock, setup.reports.clone());
    let (started, is_started) = bounded(1);
    let core = move || {
        let runtime = match Runtime::pinned(cpu) {
            Ok(runtime) => runtime,
            Err(error) => return drop(started.send(Err(error))),
        };
        drop(started.send(Ok(())));
        let dialer = Dialer::new(Arc::clone(&setup.target), tls, setup.versions.clone());
        let run = AssertUnwindSafe(|| runtime.run(core::run(setup, dialer)));
        let why = match catch_unwind(run) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("load core {index} cannot wait: {error}"),
            Err(_) => format!("load core {index} panicked"),
        };
        let (until, sample) = (clock.now(), Sample::default());
        let (events, done) = (Vec::new(), Vec::new());
        let ended = Some(Err(why));
        let last = CoreReport { core: index, until, events, sample, done, ended };
        // An error means that reports are no longer received. The message of the panic is then
        // shown on standard error only.
        drop(reports.send(last));
    };
    let thread = std::thread::Builder::new().name(format!("load-{index}"));
    let thread = thread.spawn(core).map_err(|error| format!("no thread for a core: {error}"))?;
    match is_started.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(format!("load core {index} did not start")),
    }
}

/// The servers that can answer coordinator lookups.
fn servers(target: &Target, cluster: &Cluster) -> Result<Vec<(String, u16)>, String> {
    let mut servers = Vec::new();
    for server in &target.bootstrap {
        let (host, port) = host_and_port(server)?;
        servers.push((host.to_owned(), port));
    }
    let brokers = cluster.brokers.iter().map(|(_, host, port)| (host.clone(), *port));
    servers.extend(brokers);
    Ok(servers)
}

#[cfg(test)]
mod tests;
