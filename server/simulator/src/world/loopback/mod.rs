//! A real server in a world of real time: a process of `muster serve`, with its files in a
//! temporary directory and its sockets on 127.0.0.1. It replaces the simulated node. The clients,
//! the network with its delays and broken connections, and the judge of answers are those of the
//! simulator. Bytes that pass through the simulated network are passed on to sockets.

mod ports;
mod process;
mod run;
mod sockets;

use crate::coverage::Coverage;
use crate::node::Effect;
use crate::profile::Profile;
use crate::random::{Random, Salt};
use loadgen::topics::Topic;
use muster_server::config::Config;
use muster_server::placement::Placement;
use process::Process;
pub use process::Target;
use sockets::Sockets;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::time::{Duration, Instant};

/// The machine of a loopback run: the machine on which the simulator runs.
pub(crate) struct Loopback {
    began: Instant,
    /// The time, in microseconds since the run began.
    now: u64,
    process: Process,
    placement: Placement,
    sockets: Sockets,
    /// The time since which the process serves; None while it does not serve.
    serves_since: Option<u64>,
    /// Whether any process has served. From then on there is a data directory.
    has_served: bool,
    is_paused: bool,
    /// The end of the last pause. The process was paused, or the simulator itself did not run in
    /// time. A pause that is under way ends in the future.
    paused_until: u64,
    /// Whether a clean stop was requested.
    is_stopping: bool,
    /// The topics that the server had when it was last asked.
    topics: Vec<Topic>,
    faults: Random,
    effects: VecDeque<Effect<Infallible>>,
    coverage: Coverage,
}

impl Loopback {
    /// # Errors
    /// There is no directory or no free port, or the kernel does not report when sockets are ready.
    fn new(seed: u64, target: &Target, profile: &Profile, config: &Config) -> io::Result<Self> {
        Ok(Self {
            began: Instant::now(),
            now: 0,
            process: Process::new(target, profile.shards as u16, &profile.configs)?,
            placement: config.placement(profile.shards),
            sockets: Sockets::new()?,
            serves_since: None,
            has_served: false,
            is_paused: false,
            paused_until: 0,
            is_stopping: false,
            topics: Vec::new(),
            faults: Random::new(seed, Salt::Faults),
            effects: VecDeque::new(),
            coverage: Coverage::default(),
        })
    }

    /// Reads the clock.
    fn tick(&mut self) -> u64 {
        self.now = self.began.elapsed().as_micros() as u64;
        self.now
    }

    /// Waits for sockets until this time at most, and notes what arrived.
    fn wait_until(&mut self, time: u64) -> io::Result<()> {
        let timeout = Duration::from_micros(time.saturating_sub(self.now));
        self.sockets.wait(timeout, &mut self.effects)
    }
}
