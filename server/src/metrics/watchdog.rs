//! The watchdog of the service manager. A thread notifies it as long as all shards answer and no
//! work is stuck. If there are problems, the status of the service describes them.

use super::gather::Gather;
use super::health::ShardStates;
use crate::Failure;
use crate::mailbox::Peer;
use crate::supervisor::{ALIVE, STATUS, notify, watchdog};
use std::thread;
use std::time::Instant;
use tracing::error;

/// Starts the thread, if the service manager has a watchdog. The thread ends with the process.
pub(crate) fn watch(states: ShardStates, peers: Vec<Peer>) -> Result<(), Failure> {
    let Some(interval) = watchdog() else { return Ok(()) };
    let mut gather = Gather::new("", Vec::new(), states, Instant::now());
    gather.set_peers(peers);
    let watch = move || {
        let mut said = "alive".to_owned();
        loop {
            let verdict = gather.alive();
            let words = verdict.text.trim_end().replace('\n', "; ");
            if words != said {
                notify(&format!("{STATUS}{words}"));
                said = words;
            }
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
