//! The watchdog of the service manager: notified as long as all shards answer.

use super::gather::Gather;
use super::health::ShardStates;
use crate::Failure;
use crate::mailbox::Peer;
use crate::supervisor::{ALIVE, notify, watchdog};
use std::thread;
use std::time::Instant;
use tracing::error;

/// Starts it, if the manager has one: a thread that ends with the process.
pub(crate) fn watch(states: ShardStates, peers: Vec<Peer>) -> Result<(), Failure> {
    let Some(interval) = watchdog() else { return Ok(()) };
    let mut gather = Gather::new("", Vec::new(), states, Instant::now());
    gather.set_peers(peers);
    let watch = move || {
        loop {
            let verdict = gather.alive();
            if verdict.is_well {
                notify(ALIVE);
            } else {
                error!(
                    "the service manager's watchdog is not notified: {}",
                    verdict.text.trim_end()
                );
            }
            thread::sleep(interval);
        }
    };
    thread::Builder::new().name("watchdog".to_owned()).spawn(watch)?;
    Ok(())
}
