//! The connections of this node's shards with those of the other nodes.

use super::Options;
use super::ports::listen_to_nodes;
use crate::Failure;
use crate::cluster::{Endpoint, ListenerAddress, write_addresses};
use crate::config::{Address, ClusterConfig};
use crate::dialer::{Dialer, ShardDialer};
use crate::formation::OwnNode;
use crate::mailbox::Peer;
use crate::reactor::FIRST_TICK;
use bytes::Bytes;
use muster_peers::hello::CLIENTS_BYTES_MAX;
use muster_peers::{Identity, Peers};
use muster_uring::ListenerId;
use std::io;

/// The input of a shard's connections with the shards of other nodes.
#[derive(Debug, Clone)]
pub(super) struct Connecting {
    node: OwnNode,
    /// The addresses of this node for clients.
    clients: Bytes,
    /// The address of shard 0 for the other nodes.
    listen: Address,
    dialer: Dialer,
}

impl Connecting {
    /// Starts the threads that dial. None on one machine.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(options: &Options, node: Option<OwnNode>) -> io::Result<Option<Self>> {
        let of_cluster = options.cluster.as_ref().zip(node);
        of_cluster.map(|(cluster, node)| Self::of(options, cluster, node)).transpose()
    }

    fn of(options: &Options, cluster: &ClusterConfig, node: OwnNode) -> io::Result<Self> {
        let others = cluster.others().map(|it| (it.id, it.address.clone()));
        Ok(Self {
            node,
            clients: write_addresses(&addresses(options), CLIENTS_BYTES_MAX).into(),
            listen: cluster.listen.clone(),
            dialer: Dialer::start(others)?,
        })
    }

    /// Sets the mailboxes of this node's shards, to which the dialer threads report.
    pub(super) fn set_shards(&self, shards: Vec<Peer>) {
        self.dialer.set_shards(shards);
    }

    /// Listens for the other nodes.
    ///
    /// # Errors
    /// The port is not free.
    pub(super) fn listen(
        &self,
        driver: &mut impl muster_uring::Driver,
        shard: u32,
    ) -> Result<ListenerId, Failure> {
        listen_to_nodes(driver, &self.listen.of_shard(shard)?)
    }

    pub(super) fn dialer(&self, shard: u32) -> ShardDialer {
        self.dialer.of_shard(shard)
    }

    /// The connections of a shard, before any of them is open.
    pub(super) fn peers(&self, shard: u32, now: i64) -> Peers {
        let own = Identity { clients: self.clients.clone(), ..self.node.identity(shard) };
        let known = self.node.directories.iter().map(|(id, directory)| (*id, Some(*directory)));
        Peers::new(own, known, now, FIRST_TICK)
    }
}

/// The advertised addresses of shard 0.
fn addresses(options: &Options) -> Vec<ListenerAddress> {
    let listeners = options.served.listeners.iter();
    let address = |Address { host, port }: &Address| Endpoint { host: host.clone(), port: *port };
    listeners
        .map(|it| ListenerAddress { name: it.name.clone(), first: address(&it.advertised) })
        .collect()
}
