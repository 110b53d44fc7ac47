//! The formation of a cluster from three empty directories, before any shard starts.
//!
//! Each node has a directory id, and says hello to the others at the ports of their shard 0. When
//! the node with the lowest id has heard that all are empty, it chooses the cluster id, and records
//! it with the directories of all nodes. Another node that hears of the cluster records the same. A
//! node that has heard that all others have recorded it makes its logs, and is formed.
//!
//! So a node is formed only after all have recorded the formation. If a disk is emptied meanwhile,
//! the node has another directory, and the others refuse it. In the end all nodes are formed with
//! the same directories, or some wait for an operator, and have no logs.
//!
//! - `forming`: the knowledge and the decisions of a node. Start here.
//! - `node`: this node, as others see it.
//! - `greetings`: the connections that other nodes have dialled.
//! - `dialling`: the connections that this node dials.
//! - `exchange`: a hello on a socket.
//! - `warnings`: lines for the log that are not repeated.

mod dialling;
mod exchange;
mod forming;
mod greetings;
mod node;
mod warnings;

pub(crate) use forming::ClusterIds;
pub(crate) use node::OwnNode;

use crate::Failure;
use crate::config::ClusterConfig;
use crate::data_dir::{DataDir, DataDirError, State};
use crate::shard::LogSizes;
use crate::supervisor::{STARTS_LATER, STATUS, notify};
use dialling::Dialling;
use exchange::Shared;
use forming::{Action, Forming};
use greetings::Greetings;
use muster_runtime::replicas::NodeId;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// How often the wait looks whether it has to end.
const LOOK: Duration = Duration::from_millis(100);

/// How often a line says for which nodes this one waits.
const SAY: Duration = Duration::from_secs(10);

/// Forms the cluster, if this has not been done. Returns this node as a part of it, or None if
/// `is_stopped` was set before. The listener is closed when this returns: then it is the shards
/// that answer other nodes.
///
/// # Errors
/// No thread can be started, or the file system refuses.
pub(crate) fn form(
    directory: &mut DataDir,
    own: &OwnNode,
    cluster: &ClusterConfig,
    ids: ClusterIds,
    listen: impl FnOnce() -> Result<TcpListener, Failure>,
    sizes: LogSizes,
    is_stopped: &AtomicBool,
) -> Result<Option<OwnNode>, Failure> {
    let formed = |directory: &DataDir| Ok(Some(own.clone().of_directory(directory)));
    if directory.meta.state == State::Made {
        return formed(directory);
    }
    let forming = Forming::new(own.clone().of_directory(directory), cluster.ids(), ids);
    let shared = Arc::new(Shared::new(forming));
    let connections = Connections {
        greetings: Greetings::start(listen()?, shared.clone())?,
        dialling: Dialling::start(cluster, &shared)?,
    };
    let is_due = wait(directory, &shared, cluster, is_stopped)?;
    connections.end()?;
    if !is_due {
        return Ok(None);
    }
    directory.complete_formation(own.placement, sizes)?;
    info!("the cluster {} is formed", directory.meta.cluster_id);
    formed(directory)
}

struct Connections {
    greetings: Greetings,
    dialling: Dialling,
}

impl Connections {
    fn end(self) -> io::Result<()> {
        self.dialling.end();
        self.greetings.end()
    }
}

/// Waits until all nodes have recorded the formation. Returns false if it was stopped before.
fn wait(
    directory: &mut DataDir,
    shared: &Shared,
    cluster: &ClusterConfig,
    is_stopped: &AtomicBool,
) -> Result<bool, DataDirError> {
    let NodeId(own) = cluster.own;
    info!("node {own} waits for the other nodes of its cluster");
    let mut said = Instant::now();
    while !is_stopped.load(Ordering::Relaxed) {
        let due = shared.forming().due();
        match due {
            Some(Action::Complete) => {
                // The manager shows a status until there is another one.
                notify(STATUS);
                return Ok(true);
            }
            Some(Action::Record { cluster_id, nodes }) => {
                directory.record_formation(&cluster_id, &nodes)?;
                info!("records that the cluster {cluster_id} is being formed");
                shared.forming().recorded(cluster_id, nodes);
            }
            None => {
                if said.elapsed() >= SAY {
                    said = Instant::now();
                    let line = waiting_line(&shared.forming(), cluster);
                    warn!("{line}");
                    notify(&format!("{STATUS}{line}\n{STARTS_LATER}"));
                }
                shared.wait(LOOK);
            }
        }
    }
    Ok(false)
}

/// The line that says what this node waits for.
fn waiting_line(forming: &Forming, cluster: &ClusterConfig) -> String {
    let of = |(node, why): (NodeId, String)| {
        let voter = cluster.voters.iter().find(|it| it.id == node);
        let address = voter.map(|it| it.address.to_string()).unwrap_or_default();
        format!("node {} ({address}): {why}", node.0)
    };
    let nodes: Vec<String> = forming.waits_for().into_iter().map(of).collect();
    format!("node {} waits for its cluster to be formed; {}", cluster.own.0, nodes.join("; "))
}

#[cfg(test)]
mod tests;
