//! The closed loop: one thread, one ring, one request in flight on each connection.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use muster_uring::{Config, ConnId, Event, Ring};

use crate::exchange::Exchange;
use crate::wire::Result;

/// Without any answer for this long the server is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long one turn waits, so that a window ends even if no answer comes.
const TURN_MAX: Duration = Duration::from_millis(100);
/// The highest latency that the histogram holds, in nanoseconds.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// What the loop has seen since the last tally was taken.
pub(crate) struct Tally {
    /// Nanoseconds from the request being ready to its answer being seen; of right answers alone.
    pub(crate) latency: Histogram<u64>,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
}

/// Connections, each with its request, and what came of them.
pub(crate) struct Driver {
    ring: Ring,
    /// By the ring's slot.
    connections: Vec<Connection>,
    tally: Tally,
    last_answer: Instant,
}

impl Driver {
    pub(crate) fn new(exchanges: Vec<(Exchange, TcpStream)>) -> Result<Self> {
        let mut ring = Ring::new(Config::default())?;
        let mut connections = Vec::with_capacity(exchanges.len());
        for (exchange, stream) in exchanges {
            stream.set_nodelay(true)?;
            let peer = stream.peer_addr()?;
            let id = ring.adopt(stream)?;
            if id.index() != connections.len() {
                return Err("a new ring did not give its slots in order".into());
            }
            connections.push(Connection::new(id, peer, exchange));
        }
        Ok(Self { ring, connections, tally: Tally::new()?, last_answer: Instant::now() })
    }

    /// Queues the first request on every connection.
    pub(crate) fn start(&mut self) -> Result<()> {
        let ring = &mut self.ring;
        self.connections.iter_mut().try_for_each(|connection| connection.send(ring, Instant::now()))
    }

    /// Each answer is followed by the next request until `end`.
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

    /// Who was asked, and what was exchanged with it.
    pub(crate) fn exchanges(&self) -> impl Iterator<Item = (SocketAddr, &Exchange)> {
        self.connections.iter().map(|connection| (connection.peer, &connection.exchange))
    }

    fn turn(&mut self, send_next: bool) -> Result<()> {
        self.ring.turn(Some(TURN_MAX))?;
        while let Some(event) = self.ring.next_event() {
            match event {
                Event::Received { conn, data } => self.received(conn, &data, send_next)?,
                Event::SendFailed { error, .. } | Event::Ended { error: Some(error), .. } => {
                    return Err(error.into());
                }
                Event::Ended { .. } => return Err("the server closed a connection".into()),
                _ => {}
            }
        }
        if self.last_answer.elapsed() > SILENCE_MAX {
            return Err(format!("no answer for {SILENCE_MAX:?}").into());
        }
        Ok(())
    }

    fn received(&mut self, conn: ConnId, data: &[u8], send_next: bool) -> Result<()> {
        let connection = &mut self.connections[conn.index()];
        let now = Instant::now();
        if !connection.receive(data, now, &mut self.tally)? {
            return Ok(());
        }
        self.last_answer = now;
        if send_next { connection.send(&mut self.ring, now) } else { Ok(()) }
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

    fn count(&mut self, exchange: &Exchange, frame: &[u8], latency: Duration) {
        if exchange.is_answer(frame) {
            self.latency.saturating_record(latency.as_nanos() as u64);
        } else {
            self.errors += 1;
            self.first_error.get_or_insert_with(|| exchange.explain(frame));
        }
    }
}

struct Connection {
    id: ConnId,
    peer: SocketAddr,
    exchange: Exchange,
    ready_at: Instant,
    in_flight: bool,
    /// The first part of an answer whose rest has not come yet.
    partial: Vec<u8>,
}

impl Connection {
    fn new(id: ConnId, peer: SocketAddr, exchange: Exchange) -> Self {
        let ready_at = Instant::now();
        Self { id, peer, exchange, ready_at, in_flight: false, partial: Vec::new() }
    }

    fn send(&mut self, ring: &mut Ring, now: Instant) -> Result<()> {
        let output = ring.output(self.id).ok_or("the ring does not know the connection")?;
        output.extend_from_slice(self.exchange.next_request());
        self.ready_at = now;
        self.in_flight = true;
        Ok(())
    }

    /// Whether the answer is complete, and then counted.
    fn receive(&mut self, data: &[u8], now: Instant, tally: &mut Tally) -> Result<bool> {
        if !self.in_flight {
            return Err("an answer that was not asked for".into());
        }
        self.partial.extend_from_slice(data);
        let frame = self.partial.as_slice();
        let announced = announced_bytes(frame);
        if announced > self.exchange.response_bytes() * 64 {
            return Err(format!("an answer of {announced} bytes").into());
        }
        if frame.len() < announced {
            return Ok(false);
        }
        tally.count(&self.exchange, frame, now - self.ready_at);
        self.partial.clear();
        self.in_flight = false;
        Ok(true)
    }
}

/// The length of a frame with its prefix, as far as its first bytes tell.
fn announced_bytes(frame: &[u8]) -> usize {
    match frame.first_chunk::<4>() {
        Some(&prefix) => 4 + u32::from_be_bytes(prefix) as usize,
        None => 4,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::setup::Member;

    /// Against a server that answers `count` frames with what `answer` makes of them, in pieces.
    fn driver_against(answer: fn(&mut Vec<u8>), count: usize) -> Driver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let exchange = Exchange::echo_heartbeat(&Member::made_up(0)).unwrap();
        let mut frame = vec![0; exchange.response_bytes()];
        std::thread::spawn(move || {
            let (mut server, _) = listener.accept().unwrap();
            for _ in 0..count {
                server.read_exact(&mut frame).unwrap();
                let mut reply = frame.clone();
                answer(&mut reply);
                for piece in reply.chunks(3) {
                    server.write_all(piece).unwrap();
                }
            }
            // Stays until the client goes, if it answers at all.
            let _ = if count > 0 { server.read(&mut [0; 1024]) } else { Ok(0) };
        });
        Driver::new(vec![(exchange, client)]).unwrap()
    }

    #[test]
    fn an_answer_in_pieces_counts_once() {
        let mut driver = driver_against(|_| {}, 1);
        driver.start().unwrap();
        driver.drain().unwrap();
        assert_eq!((driver.tally.latency.len(), driver.tally.errors), (1, 0));
    }

    #[test]
    fn a_wrong_answer_is_an_error_and_no_latency() {
        let mut driver = driver_against(|frame| frame[11] ^= 1, 1);
        driver.start().unwrap();
        driver.drain().unwrap();
        assert_eq!((driver.tally.latency.len(), driver.tally.errors), (0, 1));
        assert!(driver.tally.first_error.unwrap().contains("correlation id"));
    }

    #[test]
    fn more_than_was_asked_for_is_an_error() {
        let mut driver = driver_against(|frame| frame.extend([0xff; 8]), 1);
        driver.start().unwrap();
        let outcome = driver.drain().and_then(|()| driver.turn(false));
        // Together with the answer it makes a wrong one, after it it was not asked for.
        assert!(outcome.is_err() || driver.tally.errors == 1);
    }

    #[test]
    fn a_server_that_goes_away_ends_the_run() {
        let mut driver = driver_against(|_| {}, 0);
        driver.start().unwrap();
        assert!(driver.drain().is_err());
    }
}
