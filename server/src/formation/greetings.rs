//! The connections that other nodes have dialled, each in a thread of its own.

use super::exchange::{PATIENCE, Shared, address_of, drain, read, set_options, write};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::debug;

/// The most connections at a time. For another one, the oldest is closed: a node says hello at
/// once, so strangers that say nothing do not keep it out.
const CONNECTIONS_MAX: usize = 64;

/// How often the thread that accepts connections looks whether it has to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The pause after a connection could not be accepted. The reason may last, as with too many open
/// files.
const PAUSE: Duration = Duration::from_millis(50);

/// The thread that accepts connections.
pub(super) struct Greetings {
    accepted: Arc<Accepted>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Accepted {
    is_ended: AtomicBool,
    /// The open connections, by their numbers.
    streams: Mutex<BTreeMap<u64, TcpStream>>,
}

impl Greetings {
    /// Answers the hellos that arrive at a listener.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(listener: TcpListener, shared: Arc<Shared>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let accepted = Arc::new(Accepted::default());
        let of_thread = accepted.clone();
        let accept = move || accept_all(&listener, &of_thread, &shared);
        let thread = thread::Builder::new().name("formation".to_owned()).spawn(accept)?;
        Ok(Self { accepted, thread })
    }

    /// Closes the listener and all connections.
    ///
    /// # Errors
    /// The thread has panicked.
    pub(super) fn end(self) -> io::Result<()> {
        self.accepted.is_ended.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("the formation has panicked"))?;
        self.accepted.streams().values().for_each(close);
        Ok(())
    }
}

impl Accepted {
    fn streams(&self) -> MutexGuard<'_, BTreeMap<u64, TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, and closes the oldest one if there are too many.
    fn add(&self, number: u64, stream: TcpStream) {
        let mut streams = self.streams();
        if streams.len() == CONNECTIONS_MAX
            && let Some((_, oldest)) = streams.pop_first()
        {
            close(&oldest);
        }
        streams.insert(number, stream);
    }
}

/// Ends the thread of a connection: its reads and writes then fail.
fn close(stream: &TcpStream) {
    // An error means that the connection has ended.
    let _ = stream.shutdown(Shutdown::Both);
}

fn accept_all(listener: &TcpListener, accepted: &Arc<Accepted>, shared: &Arc<Shared>) {
    let mut number = 0;
    while !accepted.is_ended.load(Ordering::Relaxed) {
        let mut events = [PollFd::new(listener, PollFlags::IN)];
        if poll(&mut events, Some(&LOOK)).is_ok_and(|count| count == 0) {
            continue;
        }
        number += 1;
        let greeted = listener
            .accept()
            .and_then(|(stream, _)| start_greeting(stream, number, accepted.clone(), shared));
        match greeted {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                debug!("could not accept a connection of another node: {error}");
                thread::sleep(PAUSE);
            }
            Ok(()) => {}
        }
    }
}

/// Starts the thread of a connection.
fn start_greeting(
    stream: TcpStream,
    number: u64,
    accepted: Arc<Accepted>,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    accepted.add(number, stream.try_clone()?);
    let (of_thread, shared) = (accepted.clone(), shared.clone());
    let greet = move || {
        if let Err(error) = greet(stream, &shared) {
            debug!("a connection of another node has ended: {error}");
        }
        of_thread.streams().remove(&number);
    };
    let started = thread::Builder::new().name("formation-greeting".to_owned()).spawn(greet);
    if started.is_err() {
        accepted.streams().remove(&number);
    }
    started.map(drop)
}

fn greet(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    set_options(&stream)?;
    let hello = match read(&mut stream, deadline)? {
        Ok(hello) => hello,
        Err(refusal) => {
            shared.warn(address_of(&stream), refusal);
            return Ok(());
        }
    };
    let (answer, checked) = shared.forming().answer_to(&hello);
    if let Err(mismatch) = checked {
        shared.warn(address_of(&stream), mismatch);
    }
    write(&mut stream, &answer)?;
    drain(&mut stream, deadline);
    Ok(())
}
