//! A client that sends one request at a time, and measures the time until each answer.

use crate::wire::{Answer, Ask};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The longest time to wait for an answer: longer than any throttle time of a case.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    client_id: String,
    /// The time when the last answer arrived, or when the connection was made.
    answered: Instant,
}

/// An answer with its times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) what: String,
    /// The errors, and other values that must be equal.
    pub(crate) errors: String,
    pub(crate) throttle_ms: i64,
    /// The time from the last answer to this one, in milliseconds.
    pub(crate) after_ms: i64,
}

impl Client {
    pub(crate) fn connect(address: &str, client_id: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, client_id: client_id.to_owned(), answered: Instant::now() })
    }

    /// Sends a request and returns the body of its answer.
    pub(crate) fn call(&mut self, ask: &Ask) -> io::Result<Value> {
        self.send(ask)?;
        self.receive(ask)?.ok_or_else(|| io::Error::other("the connection was closed"))
    }

    pub(crate) fn send(&mut self, ask: &Ask) -> io::Result<()> {
        self.stream.write_all(&ask.frame_of(&self.client_id)?)
    }

    /// Receives an answer. None if the connection was closed.
    pub(crate) fn receive(&mut self, ask: &Ask) -> io::Result<Option<Value>> {
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            read => read?,
        }
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame)?;
        match ask.read(Some(&frame)) {
            Answer::Body(body) => Ok(Some(body[ask.api().name()].clone())),
            answer => Err(io::Error::other(format!("{answer:?}"))),
        }
    }

    /// Sends a request, and measures its answer. `errors` extracts the errors from the body.
    pub(crate) fn ask(
        &mut self,
        what: &str,
        ask: &Ask,
        errors: impl Fn(&Value) -> String,
    ) -> io::Result<Seen> {
        let body = self.call(ask)?;
        let after_ms = self.answered.elapsed().as_millis() as i64;
        self.answered = Instant::now();
        let throttle_ms = body["throttleTimeMs"].as_i64().unwrap_or_default();
        Ok(Seen { what: what.to_owned(), errors: errors(&body), throttle_ms, after_ms })
    }
}
