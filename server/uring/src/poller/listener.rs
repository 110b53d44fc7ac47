//! A listening socket of a poller.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};

use crate::accept::{REST, configure, is_scarce};

pub(super) struct Listener {
    /// None once closed.
    pub(super) socket: Option<TcpListener>,
    /// Whether clients may be waiting.
    pub(super) is_ready: bool,
    /// The number of queued accepts.
    pub(super) queued: usize,
    /// The time when descriptors ran out. The listener accepts no clients until a descriptor may be
    /// free.
    resting: Option<Instant>,
}

impl Listener {
    /// # Errors
    /// The errors of bind(2) and listen(2).
    pub(super) fn bind(addr: SocketAddr, backlog: u32) -> io::Result<Self> {
        let socket = std::net::TcpListener::bind(addr)?;
        configure(&socket, backlog)?;
        socket.set_nonblocking(true)?;
        let socket = Some(TcpListener::from_std(socket));
        Ok(Self { socket, is_ready: false, queued: 0, resting: None })
    }

    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether to try to accept: a client may be waiting, and no lack of descriptors is known.
    pub(super) fn is_due(&self) -> bool {
        self.is_open() && self.is_ready && self.resting.is_none()
    }

    /// Accepts a client. None if none is waiting.
    ///
    /// # Errors
    /// The errors of accept(2). If descriptors ran out, the listener pauses, too.
    pub(super) fn accept(&mut self) -> io::Result<Option<TcpStream>> {
        let Some(socket) = &self.socket else { return Ok(None) };
        match socket.accept() {
            Ok((stream, _)) => {
                self.resting = None;
                Ok(Some(stream))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_ready = false;
                Ok(None)
            }
            Err(error) => {
                if error.raw_os_error().is_some_and(is_scarce) {
                    self.resting = Some(Instant::now());
                }
                Err(error)
            }
        }
    }

    /// Ends the pause that began when descriptors ran out. Called when a descriptor was closed.
    pub(super) fn rest_no_longer(&mut self) {
        self.resting = None;
    }

    /// Returns how long the listener still pauses; None if it does not. Ends the pause if its time
    /// is over.
    pub(super) fn rests_for(&mut self) -> Option<Duration> {
        let left = REST.checked_sub(self.resting?.elapsed());
        if left.is_none_or(|left| left.is_zero()) {
            self.resting = None;
        }
        left
    }
}
