//! Carries commands out: one executor for each load core, which holds members and connections.
//! What the rest of muster-load exchanges with it stands in [`command`].
//!
//! On a core everything happens in turns. The pulse (`core`) takes commands, runs timers and tells;
//! each connection has a task (`line`) that writes what is queued and hands frames over. Members
//! (`seats`) are called in between, and never wait.

mod channel;
mod clock;
mod cluster;
pub mod command;
mod configs;
mod connections;
mod core;
mod descriptors;
mod dial;
mod echo;
mod inbox;
mod line;
mod meter;
mod sasl;
mod seats;
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
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement};

pub use self::clock::Clock;
pub use self::descriptors::{descriptors_needed, ensure_descriptors};
pub use self::echo::{EchoResult, echo};

use self::command::{Cluster, Command, Sample, Target, Told};
use self::core::Setup;
use self::dial::{Dialer, host_and_port};
use self::inbox::{Outside, inbox};
use self::tls::TlsClient;
use crate::plan::MemberIndex;
use crate::time::Time;
use crate::topics::Topics;

/// Messages that wait to be heard at most, for each core.
const TOLD_MAX: usize = 64;
/// Of the rings. The kernel finds the waiting polls of thousands of connections in a hash table
/// whose size follows from it; this gives the largest.
const RING_DEPTH: usize = 4096;
/// glommio registers it with the kernel for files; sockets need none.
const IO_MEMORY: usize = 64 << 10;

/// The cores of a run, and the two channels to them.
pub struct Driver {
    cluster: Cluster,
    clock: Clock,
    commands: Vec<Outside>,
    told: Receiver<Told>,
    /// Received while there was no room for a command.
    heard: VecDeque<Told>,
    threads: Vec<JoinHandle<()>>,
}

/// Asks the cluster who it is, and starts the cores. The run's time begins here.
///
/// # Errors
/// One sentence: the cluster cannot be reached, refuses, or lacks what is needed; a core cannot be
/// had.
pub fn start(target: Target) -> Result<Driver, String> {
    let target = Arc::new(target);
    let tls = target.security.tls.as_ref().map(TlsClient::new).transpose()?;
    let cluster = probe(&target, tls.clone())?;
    let clock = Clock::start();
    let learned = Arc::new(Mutex::new(Arc::new(Topics::default())));
    let cores = target.cores.len();
    let (tell, told) = bounded(TOLD_MAX * cores.max(1));
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
            told: tell.clone(),
        };
        commands.push(outside);
        threads.push(start_core(setup, tls.clone(), *cpu)?);
    }
    Ok(Driver { cluster, clock, commands, told, heard: VecDeque::new(), threads })
}

impl Driver {
    /// What the cluster said of itself.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn cores(&self) -> usize {
        self.commands.len()
    }

    /// The core whose commands are for this member: members go round.
    pub fn core_of(&self, member: MemberIndex) -> usize {
        member.0 as usize % self.cores().max(1)
    }

    /// The moment, by the clock of all cores.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Hands a command to a core. While its queue is full, what the cores tell is taken in for
    /// [`Self::hear`], so that they go on. A core that has ended takes nothing; it has told so.
    pub fn tell(&mut self, core: usize, command: Command) {
        let Some(inbox) = self.commands.get(core) else { return };
        let mut refused = inbox.offer(command);
        while let Some(command) = refused {
            if let Ok(told) = self.told.recv_timeout(Duration::from_millis(1)) {
                self.heard.push_back(told);
            }
            refused = inbox.offer(command);
        }
    }

    /// The next message of any core. `None` after `timeout`, and when all cores have ended.
    pub fn hear(&mut self, timeout: Duration) -> Option<Told> {
        self.heard.pop_front().or_else(|| self.told.recv_timeout(timeout).ok())
    }
}

impl Drop for Driver {
    /// Cores end when there is nobody to command them, and do not wait for a listener.
    fn drop(&mut self) {
        self.commands.clear();
        self.told = bounded(0).1;
        for thread in self.threads.drain(..) {
            // It catches its own panics, and has told of them.
            let _ = thread.join();
        }
    }
}

/// On an executor of its own, which goes again.
fn probe(target: &Arc<Target>, tls: Option<TlsClient>) -> Result<Cluster, String> {
    let executor = executor(Placement::Unbound)?;
    let dialer = Dialer::new(Arc::clone(target), tls, Default::default());
    executor.run(cluster::probe(dialer))
}

fn start_core(setup: Setup, tls: Option<TlsClient>, cpu: usize) -> Result<JoinHandle<()>, String> {
    let (index, clock, told) = (setup.index, setup.clock, setup.told.clone());
    let (started, is_started) = bounded(1);
    let core = move || {
        let executor = match executor(Placement::Fixed(cpu)) {
            Ok(executor) => executor,
            Err(error) => return drop(started.send(Err(error))),
        };
        drop(started.send(Ok(())));
        let dialer = Dialer::new(Arc::clone(&setup.target), tls, setup.versions.clone());
        let run = AssertUnwindSafe(|| executor.run(core::run(setup, dialer)));
        if catch_unwind(run).is_err() {
            let ended = Some(Err(format!("load core {index} panicked")));
            let (until, sample) = (clock.now(), Sample::default());
            let last = Told { core: index, until, events: vec![], sample, done: vec![], ended };
            // If nobody listens any more, the message on stderr has to do.
            drop(told.send(last));
        }
    };
    let thread = std::thread::Builder::new().name(format!("load-{index}"));
    let thread = thread.spawn(core).map_err(|error| format!("no thread for a core: {error}"))?;
    match is_started.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(format!("load core {index} did not start")),
    }
}

fn executor(placement: Placement) -> Result<LocalExecutor, String> {
    let builder = LocalExecutorBuilder::new(placement.clone());
    let made = builder.ring_depth(RING_DEPTH).io_memory(IO_MEMORY).make();
    made.map_err(|error| match placement {
        Placement::Fixed(cpu) => format!("no executor on CPU {cpu} (io_uring): {error}"),
        _ => format!("no executor (io_uring): {error}"),
    })
}

/// Who can be asked for a coordinator.
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
