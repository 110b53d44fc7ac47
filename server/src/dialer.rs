//! The threads that open connections to other nodes: the drivers of shards cannot connect, and the
//! lookup of a name blocks. There is a thread for each other node, so that a node that does not
//! answer holds up no connection to another one.

use crate::config::Address;
use crate::mailbox::{Dialled, Peer, ToReactor};
use crossbeam_channel::{Receiver, Sender, unbounded};
use muster_peers::limits::{DIALLING_MS, UNACKNOWLEDGED_MS};
use muster_peers::{Dial, DialError};
use muster_runtime::replicas::NodeId;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The handle of the threads. They run until the process ends.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    of_nodes: BTreeMap<NodeId, Sender<Order>>,
    /// The mailboxes of this node's shards.
    shards: Arc<OnceLock<Vec<Peer>>>,
}

/// The handle of a shard.
#[derive(Debug, Clone)]
pub(crate) struct ShardDialer {
    pub(crate) dialer: Dialer,
    pub(crate) shard: u32,
}

impl ShardDialer {
    /// Opens a connection for the shard, which gets a [`Dialled`].
    pub(crate) fn dial(&self, dial: Dial) {
        let until = Instant::now() + Duration::from_millis(DIALLING_MS.unsigned_abs());
        if let Some(orders) = self.dialer.of_nodes.get(&dial.node) {
            // A thread ends only with the process.
            let _ = orders.send(Order { by: self.shard, dial, until });
        }
    }
}

#[derive(Debug)]
struct Order {
    /// The shard of this node that has asked.
    by: u32,
    dial: Dial,
    /// When the shard does not wait for the connection any more.
    until: Instant,
}

impl Dialer {
    /// Starts a thread for each of these nodes. An address is that of the node's shard 0: the other
    /// shards have the next ports.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(nodes: impl Iterator<Item = (NodeId, Address)>) -> io::Result<Self> {
        let shards: Arc<OnceLock<Vec<Peer>>> = Arc::default();
        let mut of_nodes = BTreeMap::new();
        for (node, address) in nodes {
            let (sender, orders) = unbounded();
            let shards = Arc::clone(&shards);
            let run = move || run(&orders, &address, &shards);
            thread::Builder::new().name(format!("dialer-{}", node.0)).spawn(run)?;
            of_nodes.insert(node, sender);
        }
        Ok(Self { of_nodes, shards })
    }

    pub(crate) fn set_shards(&self, shards: Vec<Peer>) {
        let _ = self.shards.set(shards);
    }

    pub(crate) fn of_shard(&self, shard: u32) -> ShardDialer {
        ShardDialer { dialer: self.clone(), shard }
    }
}

fn run(orders: &Receiver<Order>, address: &Address, shards: &OnceLock<Vec<Peer>>) {
    for Order { by, dial, until } in orders {
        // The shard has given up, and dials again.
        if Instant::now() >= until {
            continue;
        }
        let result = address
            .of_shard(dial.shard.into())
            .map_err(|error| DialError::Other(error.to_string()))
            .and_then(|address| connect(&address, until));
        if let Some(shard) = shards.get().and_then(|all| all.get(by as usize)) {
            shard.send(ToReactor::Dialled(Dialled { connection: dial.connection, result }));
        }
    }
}

/// Connects to the first address of a name that accepts the connection.
fn connect(address: &Address, until: Instant) -> Result<OwnedFd, DialError> {
    let found = (address.host.as_str(), address.port).to_socket_addrs();
    let addresses = found.map_err(|error| DialError::Other(error.to_string()))?;
    let mut why = DialError::Other(format!("{} has no address", address.host));
    for address in addresses {
        match connect_to(address, until) {
            Ok(stream) => return Ok(stream.into()),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn connect_to(address: SocketAddr, until: Instant) -> Result<TcpStream, DialError> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(DialError::TimedOut);
    }
    let stream = TcpStream::connect_timeout(&address, left).map_err(|it| not_connected(&it))?;
    let timeout = u32::try_from(UNACKNOWLEDGED_MS).unwrap_or(u32::MAX);
    let set = stream.set_nodelay(true);
    set.and_then(|()| Ok(sockopt::set_tcp_user_timeout(&stream, timeout)?))
        .map_err(|error| DialError::Other(error.to_string()))?;
    Ok(stream)
}

fn not_connected(error: &io::Error) -> DialError {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        DialError::Refused
    } else if error.kind() == io::ErrorKind::TimedOut {
        DialError::TimedOut
    } else {
        DialError::Other(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    fn address(port: u16) -> Address {
        Address { host: "localhost".to_owned(), port }
    }

    #[test]
    fn a_port_that_listens_is_connected_and_another_one_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::from(connect(&address(port), soon()).unwrap());
        assert!(stream.nodelay().unwrap());
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 5_000);
        let (_accepted, from) = listener.accept().unwrap();
        assert_eq!(from, stream.local_addr().unwrap());
        drop(listener);
        assert_eq!(connect(&address(port), soon()).unwrap_err(), DialError::Refused);
    }

    #[test]
    fn a_name_without_an_address_is_an_error() {
        let nowhere = Address { host: "no-such-host.invalid".to_owned(), port: 1 };
        assert!(matches!(connect(&nowhere, soon()), Err(DialError::Other(_))));
    }

    #[test]
    fn a_connection_that_is_too_late_is_not_opened() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(connect(&address(port), Instant::now()).unwrap_err(), DialError::TimedOut);
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
