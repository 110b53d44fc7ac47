//! A hello on a socket, and what the threads of a formation share.

use super::forming::Forming;
use super::warnings::Warnings;
use muster_peers::{Hello, HelloBytes, Refusal};
use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::warn;

/// The time in which a hello and its answer have to be exchanged.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The state that the threads of a formation share.
pub(super) struct Shared {
    forming: Mutex<Forming>,
    /// Another node has said something.
    said: Condvar,
    warnings: Mutex<Warnings>,
}

impl Shared {
    pub(super) fn new(forming: Forming) -> Self {
        let warnings = Mutex::default();
        Self { forming: Mutex::new(forming), said: Condvar::new(), warnings }
    }

    pub(super) fn forming(&self) -> MutexGuard<'_, Forming> {
        self.forming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another node has said something, or for this time.
    pub(super) fn wait(&self, time: Duration) {
        let forming = self.forming();
        // An answer that comes before this waits for the next look.
        drop(self.said.wait_timeout(forming, time));
    }

    /// Wakes the thread that waits.
    pub(super) fn said(&self) {
        self.said.notify_all();
    }

    /// Writes a line to the log, unless it was written lately.
    pub(super) fn warn(&self, address: impl Display, what: impl Display) {
        let line = what.to_string();
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.is_due(&line, Instant::now()) {
            warn!("{address}: {line}");
        }
    }
}

/// Sets the options of a connection.
///
/// # Errors
/// The connection has ended.
pub(super) fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))
}

/// Writes a hello. It fits into the buffers of a socket.
///
/// # Errors
/// The connection has ended.
pub(super) fn write(stream: &mut TcpStream, hello: &Hello) -> io::Result<()> {
    stream.write_all(&hello.write())
}

/// Reads a hello. What follows it is dropped.
///
/// # Errors
/// The connection has ended, or the deadline has passed.
pub(super) fn read(
    stream: &mut TcpStream,
    deadline: Instant,
) -> io::Result<Result<Hello, Refusal>> {
    let (mut hello, mut buffer) = (HelloBytes::default(), [0; 512]);
    loop {
        let count = read_some(stream, &mut buffer, deadline)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match hello.take(&mut &buffer[..count]) {
            Ok(None) => {}
            Ok(Some(hello)) => return Ok(Ok(hello)),
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
}

/// Waits until the other end has closed the connection, or the deadline has passed. If it were
/// closed with unread bytes, the kernel might drop the answer.
pub(super) fn drain(stream: &mut TcpStream, deadline: Instant) {
    let mut buffer = [0; 4 << 10];
    while read_some(stream, &mut buffer, deadline).is_ok_and(|count| count > 0) {}
}

fn read_some(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    stream.read(buffer)
}

/// The address at the other end, for the log.
pub(super) fn address_of(stream: &TcpStream) -> String {
    stream.peer_addr().as_ref().map_or_else(|_| "unknown".to_owned(), SocketAddr::to_string)
}
