//! The connections that this node dials: a thread for each other node says hello again and again.

use super::exchange::{PATIENCE, Shared, read, set_options, write};
use crate::config::{Address, ClusterConfig, Voter};
use muster_peers::{Hello, Refusal};
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The time between two hellos to a node.
const PAUSE: Duration = Duration::from_millis(150);

/// The threads that dial.
pub(super) struct Dialling {
    is_ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Dialling {
    /// Says hello to all other nodes, until it is ended.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(cluster: &ClusterConfig, shared: &Arc<Shared>) -> io::Result<Self> {
        let is_ended = Arc::<AtomicBool>::default();
        let start = |voter: &Voter| {
            let (voter, shared, is_ended) = (voter.clone(), shared.clone(), is_ended.clone());
            let name = format!("formation-{}", voter.id.0);
            thread::Builder::new().name(name).spawn(move || dial_on(&voter, &shared, &is_ended))
        };
        let threads = cluster.others().map(start).collect::<io::Result<_>>();
        if threads.is_err() {
            is_ended.store(true, Ordering::Relaxed);
        }
        Ok(Self { threads: threads?, is_ended })
    }

    /// Ends the threads. They may still wait for a name to be resolved, so this does not wait for
    /// them.
    pub(super) fn end(self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|it| it.thread().unpark());
    }
}

fn dial_on(voter: &Voter, shared: &Shared, is_ended: &AtomicBool) {
    while !is_ended.load(Ordering::Relaxed) {
        match exchange(voter, shared) {
            Ok(Ok(answer)) => {
                let checked = shared.forming().answered(voter.id, answer);
                if let Err(mismatch) = checked {
                    shared.warn(&voter.address, mismatch);
                }
            }
            Ok(Err(refusal)) => {
                shared.forming().unheard(voter.id, &refusal);
                shared.warn(&voter.address, refusal);
            }
            Err(error) => shared.forming().unheard(voter.id, error),
        }
        shared.said();
        thread::park_timeout(PAUSE);
    }
}

/// Says hello to a node, and reads its answer.
fn exchange(voter: &Voter, shared: &Shared) -> io::Result<Result<Hello, Refusal>> {
    let mut stream = connect(&voter.address)?;
    set_options(&stream)?;
    let hello = shared.forming().hello_to(voter.id);
    write(&mut stream, &hello)?;
    read(&mut stream, Instant::now() + PATIENCE)
}

/// Connects to the first address of a name that accepts. The name is resolved each time.
fn connect(address: &Address) -> io::Result<TcpStream> {
    let mut failed = ErrorKind::NotFound.into();
    for address in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
