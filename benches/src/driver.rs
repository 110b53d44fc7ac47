//! The closed loop: one thread, one epoll, one request in flight on each connection.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token};

use crate::exchange::Exchange;
use crate::wire::Result;

/// Without any answer for this long the server is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The highest latency that the histogram holds, in nanoseconds.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// What the loop has seen since the last tally was taken.
pub(crate) struct Tally {
    /// Nanoseconds from before the send to after the receive, of right answers alone.
    pub(crate) latency: Histogram<u64>,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
}

/// Connections, each with its request, and what came of them.
pub(crate) struct Driver {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    tally: Tally,
}

impl Driver {
    pub(crate) fn new(exchanges: Vec<(Exchange, TcpStream)>) -> Result<Self> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(exchanges.len());
        for (index, (exchange, stream)) in exchanges.into_iter().enumerate() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let mut stream = mio::net::TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            connections.push(Connection::new(exchange, stream));
        }
        let tally = Tally::new()?;
        Ok(Self { poll, events: Events::with_capacity(1024), connections, tally })
    }

    /// Sends the first request on every connection.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.connections.iter_mut().try_for_each(|connection| connection.send(Instant::now()))
    }

    /// Answers are followed by the next request until `end`.
    pub(crate) fn run_until(&mut self, end: Instant) -> Result<()> {
        while Instant::now() < end {
            self.turn(true)?;
        }
        Ok(())
    }

    /// Waits for what is in flight, without sending more.
    pub(crate) fn drain(&mut self) -> Result<()> {
        while self.connections.iter().any(|connection| connection.in_flight) {
            self.turn(false)?;
        }
        Ok(())
    }

    /// Hands out the tally so far and begins a new one.
    pub(crate) fn take_tally(&mut self) -> Result<Tally> {
        Ok(std::mem::replace(&mut self.tally, Tally::new()?))
    }

    /// The connections, on which nothing is in flight after `drain`.
    pub(crate) fn into_connections(self) -> impl Iterator<Item = (Exchange, TcpStream)> {
        let connections = self.connections.into_iter();
        connections.map(|connection| (connection.exchange, connection.stream.into()))
    }

    fn turn(&mut self, send_next: bool) -> Result<()> {
        match self.poll.poll(&mut self.events, Some(SILENCE_MAX)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            outcome => outcome?,
        }
        if self.events.is_empty() {
            return Err(format!("no answer for {SILENCE_MAX:?}").into());
        }
        for event in &self.events {
            let connection = &mut self.connections[event.token().0];
            if !connection.receive()? {
                continue;
            }
            let now = Instant::now();
            self.tally.count(connection, now);
            connection.received = 0;
            connection.in_flight = false;
            if send_next {
                connection.send(now)?;
            }
        }
        Ok(())
    }
}

impl Tally {
    fn new() -> Result<Self> {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)?;
        Ok(Self { latency, errors: 0, first_error: None })
    }

    /// Answers outside the window are not measured, but they must be right.
    pub(crate) fn add_errors(&mut self, other: Self) {
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    fn count(&mut self, connection: &Connection, now: Instant) {
        let frame = &connection.buffer[..connection.received];
        if connection.exchange.is_answer(frame) {
            self.latency.saturating_record((now - connection.sent_at).as_nanos() as u64);
        } else {
            self.errors += 1;
            self.first_error.get_or_insert_with(|| connection.exchange.explain(frame));
        }
    }
}

struct Connection {
    exchange: Exchange,
    stream: mio::net::TcpStream,
    sent_at: Instant,
    in_flight: bool,
    /// The answer so far; one byte longer than the right one, so that more than it is seen.
    buffer: Box<[u8]>,
    received: usize,
}

impl Connection {
    fn new(exchange: Exchange, stream: mio::net::TcpStream) -> Self {
        let buffer = vec![0; exchange.response_bytes() + 1].into();
        Self { exchange, stream, sent_at: Instant::now(), in_flight: false, buffer, received: 0 }
    }

    fn send(&mut self, now: Instant) -> Result<()> {
        let frame = self.exchange.next_request();
        // Nothing else is in flight, so the socket's buffer is empty and takes a whole frame.
        let written = self.stream.write(frame)?;
        if written != frame.len() {
            return Err(format!("the socket took {written} of {} bytes", frame.len()).into());
        }
        self.sent_at = now;
        self.in_flight = true;
        Ok(())
    }

    /// Whether an answer is complete, or longer than it may be.
    ///
    /// One read is enough for each event: what comes after a short read is a new edge, and a full
    /// buffer ends the wait.
    fn receive(&mut self) -> Result<bool> {
        match self.stream.read(&mut self.buffer[self.received..]) {
            Ok(0) => return Err("the server closed a connection".into()),
            Ok(count) => self.received += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if !self.in_flight {
            return Err("an answer that was not asked for".into());
        }
        let frame = &self.buffer[..self.received];
        Ok(frame.len() == self.buffer.len() || frame.len() >= announced_bytes(frame))
    }
}

/// The length of a frame with its prefix, as far as its first bytes tell.
fn announced_bytes(frame: &[u8]) -> usize {
    match frame.first_chunk::<4>() {
        Some(&prefix) => 4 + u32::from_be_bytes(prefix) as usize,
        None => 4 + 1,
    }
}
