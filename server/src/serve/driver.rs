//! Chooses the shards' drivers: rings, or pollers if rings are not possible.
//!
//! If `io.driver` is `auto`, shards get rings, or smaller rings if RLIMIT_MEMLOCK requires it. If
//! rings fail, shards get pollers, and a warning names the cause and the cost. If `io.driver` names
//! a driver that is not available, the server does not start.

use crate::Failure;
use crate::config::Config;
use crate::descriptors::fewer_shards;
use muster_uring::{Poller, Ring, SetupError};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::num::NonZero;
use std::thread;
use tracing::{info, warn};

/// The driver for all shards (`io.driver`).
#[derive(Debug, Clone, Copy)]
pub(super) enum Choice {
    /// Rings with these sizes.
    Rings {
        config: muster_uring::Config,
        /// Whether a shard may use a poller if no memory is left for its ring.
        may_poll: bool,
    },
    Pollers,
}

/// The driver of a shard.
#[expect(clippy::large_enum_variant, reason = "each is made once, and taken out at once")]
pub(super) enum Driver {
    Ring(Ring),
    Poller(Poller),
}

impl Choice {
    /// # Errors
    /// The configured driver is not available. The error names the missing facility and the remedy.
    pub(super) fn make(config: &Config, shards: u32) -> Result<Self, Failure> {
        let may_poll = config.io_driver == "auto";
        if config.io_driver == "poll" {
            info!("io.driver=poll: sockets are polled, and threads read and write files");
            return Ok(Self::Pollers);
        }
        match ring_sizes(shards).and_then(probed) {
            Ok(config) => Ok(Self::Rings { config, may_poll }),
            Err(missing) if may_poll => {
                log_fallback(&missing);
                Ok(Self::Pollers)
            }
            Err(missing) => Err(missing.into()),
        }
    }

    /// Makes the driver for a shard in this thread, and pins the thread to a core.
    ///
    /// # Errors
    /// The driver could not be made.
    pub(super) fn start(self, shard: u32) -> Result<Driver, Failure> {
        match self {
            Self::Rings { config, may_poll } => {
                let cores = sched_getaffinity(None)?;
                pin(shard);
                match Ring::new_or_smaller(config) {
                    Err(missing) if may_poll && missing.is_memory() => {
                        log_fallback(&missing);
                        sched_setaffinity(None, &cores)?;
                        pinned_poller(shard)
                    }
                    made => Ok(Driver::Ring(made?)),
                }
            }
            Self::Pollers => pinned_poller(shard),
        }
    }
}

/// Makes a poller, then pins this thread. The poller's threads are not pinned: they inherit the
/// allowed cores at the time when they are made.
fn pinned_poller(shard: u32) -> Result<Driver, Failure> {
    let poller = Poller::new()?;
    pin(shard);
    Ok(Driver::Poller(poller))
}

/// The sizes of the shards' rings that fit in the limit of locked memory.
fn ring_sizes(shards: u32) -> Result<muster_uring::Config, SetupError> {
    let full = muster_uring::Config::default();
    let fitting = muster_uring::fit_rings(full, shards, fewer_shards)?;
    if fitting != full {
        info!(
            "RLIMIT_MEMLOCK (ulimit -l) allows no full rings: each shard's ring has {} \
             entries instead of {}, and takes more system calls under load",
            fitting.sq_entries, full.sq_entries
        );
    }
    Ok(fitting)
}

fn probed(config: muster_uring::Config) -> Result<muster_uring::Config, SetupError> {
    muster_uring::probe(config.smallest()).map(|()| config)
}

fn log_fallback(missing: &SetupError) {
    warn!(
        "{missing} Until then muster does without io_uring: it polls its sockets, and threads read \
         and write its files, which takes more CPU time for each request (io.driver)"
    );
}

/// Pins a shard's thread to a core. If there are more shards than cores, several shards share a
/// core. If the process has a CPU quota below the number of cores, no thread is pinned: otherwise
/// all containers with a quota would use the first cores.
fn pin(number: u32) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let usable = thread::available_parallelism().map_or(cores.len(), NonZero::get);
    if usable < cores.len() {
        return;
    }
    if let Some(core) = cores.get(number as usize % cores.len().max(1)) {
        core_affinity::set_for_current(*core);
    }
}
