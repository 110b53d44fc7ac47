//! The shards' ports, and the addresses that clients get.

use super::options::Options;
use crate::Failure;
use crate::addresses::resolve;
use crate::cluster::{Endpoint, Endpoints};
use crate::config::{Address, ClusterConfig, ServedListener};
use muster_uring::ListenerId;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};
use tracing::warn;

/// How many connections the kernel queues on a listener until they are accepted.
const BACKLOG: u32 = 4096;

/// How long to wait for an address in use, and the time between attempts.
const LISTEN_PATIENCE: Duration = Duration::from_secs(3);
const LISTEN_RETRY: Duration = Duration::from_millis(20);

/// Returns the advertised addresses of each shard. Before the server changes anything on the disk,
/// this also checks that no two listeners need the same port, and waits until all ports are free.
pub(super) fn endpoints(options: &Options) -> Result<Endpoints, Failure> {
    let listeners = &options.served.listeners;
    for (place, listener) in listeners.iter().enumerate() {
        let others = &listeners[..place];
        let check = |other: &ServedListener| {
            let (one, other) = ((&*other.name, &other.listen), (&*listener.name, &listener.listen));
            check_apart(one, other, options.shards)
        };
        others.iter().try_for_each(check)?;
    }
    check_cluster(options)?;
    let of_listener = |listener: &ServedListener| {
        let endpoint = |number| {
            listener.listen.of_shard(number)?;
            let Address { host, port } = listener.advertised.of_shard(number)?;
            Ok(Endpoint { host, port })
        };
        (0..options.shards).map(endpoint).collect::<Result<Box<[_]>, Failure>>()
    };
    let endpoints =
        Endpoints::new(listeners.iter().map(of_listener).collect::<Result<Vec<_>, _>>()?);
    wait_for_ports(options)?;
    Ok(endpoints)
}

/// Waits until all ports of the shards are free, before anything is changed.
///
/// # Errors
/// A port stays in use, or the server cannot listen on an address.
fn wait_for_ports(options: &Options) -> Result<(), Failure> {
    let deadline = Instant::now() + LISTEN_PATIENCE;
    for number in 0..options.shards {
        let is_free = |address| listen_until(deadline, address, TcpListener::bind).map(drop);
        on_all(options, number, is_free)?;
    }
    Ok(())
}

/// Opens the listeners of a shard, in order.
pub(super) fn listen_on_all(
    driver: &mut impl muster_uring::Driver,
    options: &Options,
    number: u32,
) -> Result<Vec<ListenerId>, Failure> {
    let deadline = Instant::now() + LISTEN_PATIENCE;
    let mut listen =
        |address| listen_until(deadline, address, |address| driver.listen(address, BACKLOG));
    on_all(options, number, &mut listen)
}

/// Opens the listener of a shard for the other nodes.
pub(super) fn listen_to_nodes(
    driver: &mut impl muster_uring::Driver,
    address: &Address,
) -> Result<ListenerId, Failure> {
    let address = resolve(address)?;
    let deadline = Instant::now() + LISTEN_PATIENCE;
    let listened = listen_until(deadline, address, |address| driver.listen(address, BACKLOG));
    Ok(listened.map_err(|error| not_listened_to_nodes(address, &error))?)
}

/// Calls `listen` with each address of a shard.
fn on_all<L>(
    options: &Options,
    number: u32,
    mut listen: impl FnMut(SocketAddr) -> io::Result<L>,
) -> Result<Vec<L>, Failure> {
    let addresses = options.listen.iter().zip(&options.served.listeners);
    let listen = |(first, listener): (&SocketAddr, &ServedListener)| {
        let mut address = *first;
        address.set_port(listener.listen.of_shard(number)?.port);
        let listened = listen(address);
        Ok(listened.map_err(|error| not_listened(options, *first, address, number, &error))?)
    };
    addresses.map(listen).collect()
}

/// Listens on an address, and retries for a while if the address is in use: after a server was
/// killed, the kernel keeps its listener until its ring is released.
fn listen_until<L>(
    deadline: Instant,
    address: SocketAddr,
    mut listen: impl FnMut(SocketAddr) -> io::Result<L>,
) -> io::Result<L> {
    let mut has_waited = false;
    loop {
        match listen(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                if !std::mem::replace(&mut has_waited, true) {
                    let seconds = LISTEN_PATIENCE.as_secs();
                    warn!("{address} is in use: waits up to {seconds} s for it");
                }
                thread::sleep(LISTEN_RETRY);
            }
            result => return result,
        }
    }
}

fn not_listened(
    options: &Options,
    first: SocketAddr,
    address: SocketAddr,
    number: u32,
    error: &io::Error,
) -> String {
    let what = format!("could not listen on {address}, the port of shard {number}: {error}");
    if options.shards == 1 {
        return format!("{what}. Free the port, or choose another one with --listen");
    }
    let (first, last) = (first.port(), first.port() + options.shards as u16 - 1);
    format!(
        "{what}. Each shard has a port, {first} to {last}: free it, or choose others with --listen \
         or fewer with --shards"
    )
}

/// Listens for the other nodes before the cluster is formed, at the address of shard 0.
///
/// # Errors
/// The port stays in use, or the server cannot listen on the address.
pub(super) fn listen_for_nodes(cluster: &ClusterConfig) -> Result<TcpListener, Failure> {
    let address = resolve(&cluster.listen)?;
    let listened = listen_until(Instant::now() + LISTEN_PATIENCE, address, TcpListener::bind);
    Ok(listened.map_err(|error| not_listened_to_nodes(address, &error))?)
}

fn not_listened_to_nodes(address: SocketAddr, error: &io::Error) -> String {
    format!(
        "could not listen on {address}, the port for the other nodes: {error}. Free the port, or \
         choose another one in controller.quorum.voters or listeners"
    )
}

/// Checks that the listener for other nodes has ports of its own.
fn check_cluster(options: &Options) -> Result<(), Failure> {
    let Some(cluster) = &options.cluster else { return Ok(()) };
    let shards = options.shards;
    cluster.listen.of_shard(shards - 1)?;
    for listener in &options.served.listeners {
        let of_nodes = ("for the other nodes", &cluster.listen);
        check_apart(of_nodes, (&listener.name, &listener.listen), shards)?;
    }
    for other in cluster.others() {
        let names = [cluster.own, other.id].map(|it| format!("of node {}", it.0));
        check_apart((&names[0], &cluster.listen), (&names[1], &other.address), shards)?;
    }
    Ok(())
}

/// Checks that two listeners, given by their names and addresses, do not need the same port.
fn check_apart(
    (one, a): (&str, &Address),
    (other, b): (&str, &Address),
    shards: u32,
) -> Result<(), Failure> {
    let share_hosts = a.host == b.host || a.is_wildcard() || b.is_wildcard();
    if share_hosts && u32::from(a.port.abs_diff(b.port)) < shards {
        let words = format!(
            "listeners {one} ({a}) and {other} ({b}) need the same ports: each of the {shards} \
             shards has one from the first on, so leave {shards} between them"
        );
        return Err(words.into());
    }
    Ok(())
}
