//! Hostile clients: they request much, and read their answers in every wrong way. A client
//! reconnects a limited number of times, and ends when it is stopped.

pub mod dense;
mod dense_moves;
mod dense_shares;
mod dense_streams;
mod dense_tokens;
pub mod floods;

use muster_codec::Request;
use muster_codec::header::RequestHeader;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How a client reads its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    Never,
    ByteByByte,
    /// The client reads the start of an answer, disconnects, and connects again.
    ClosesMidAnswer,
    /// The client closes its sending side of the connection, and waits.
    HalfCloses,
    Always,
}

impl Reading {
    pub const ALL: [Self; 5] =
        [Self::Never, Self::ByteByByte, Self::ClosesMidAnswer, Self::HalfCloses, Self::Always];
}

/// The maximum number of connections of a client that reconnects.
const CONNECTIONS_MAX: usize = 200;

/// How long a client pauses when it can neither send nor read.
const PAUSE: Duration = Duration::from_millis(2);

/// Sends `frames` repeatedly, as fast as the server accepts them. Ends when it is stopped, or after
/// [`CONNECTIONS_MAX`] connections. Returns the numbers of bytes sent and received.
pub fn attack(port: u16, frames: &[u8], reading: Reading, stop: &AtomicBool) -> (u64, u64) {
    let (mut sent, mut received) = (0, 0);
    for _ in 0..CONNECTIONS_MAX {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { break };
        let (out, back) = Connection::new(stream, frames, reading).run(stop);
        (sent, received) = (sent + out, received + back);
        thread::sleep(PAUSE);
    }
    (sent, received)
}

/// A complete request frame with a client id.
pub fn frame_of(client_id: &str, version: i16, request: &Request<'_>) -> Vec<u8> {
    let header = RequestHeader {
        api_key: request.api_key() as i16,
        api_version: version,
        correlation_id: 1,
        client_id: Some(client_id.to_owned().into()),
    };
    let mut frame = vec![0; 4];
    header.write(&mut frame);
    request.write(version, &mut frame).unwrap();
    let length = (frame.len() - 4) as i32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

struct Connection<'a> {
    stream: TcpStream,
    frames: &'a [u8],
    /// The offset of the next byte in `frames`.
    at: usize,
    reading: Reading,
    sent: u64,
    received: u64,
    may_send: bool,
}

impl<'a> Connection<'a> {
    fn new(stream: TcpStream, frames: &'a [u8], reading: Reading) -> Self {
        stream.set_nonblocking(true).unwrap();
        Self { stream, frames, at: 0, reading, sent: 0, received: 0, may_send: true }
    }

    /// Runs until the connection ends or the attack is stopped.
    fn run(mut self, stop: &AtomicBool) -> (u64, u64) {
        while !stop.load(Ordering::Relaxed) {
            let (Some(sent), Some(received)) = (self.send(), self.read()) else { break };
            if self.is_done() {
                break;
            }
            if sent + received == 0 || self.reading == Reading::ByteByByte {
                thread::sleep(PAUSE);
            }
        }
        (self.sent, self.received)
    }

    /// Sends bytes, and returns their number. `None` if the server closed the connection.
    fn send(&mut self) -> Option<u64> {
        if !self.may_send {
            return Some(0);
        }
        let sent = moved((&self.stream).write(&self.frames[self.at..]))?;
        self.at = (self.at + sent) % self.frames.len();
        self.sent += sent as u64;
        if self.reading == Reading::HalfCloses && self.at == 0 && sent > 0 {
            self.may_send = false;
            self.stream.shutdown(Shutdown::Write).ok()?;
        }
        Some(sent as u64)
    }

    fn read(&mut self) -> Option<u64> {
        let mut buffer = [0; 64 << 10];
        let wanted = match self.reading {
            Reading::Never | Reading::HalfCloses => return Some(0),
            Reading::ByteByByte | Reading::ClosesMidAnswer => 1,
            Reading::Always => buffer.len(),
        };
        let result = self.stream.read(&mut buffer[..wanted]);
        if matches!(result, Ok(0)) {
            return None;
        }
        let received = moved(result)? as u64;
        self.received += received;
        Some(received)
    }

    fn is_done(&self) -> bool {
        self.reading == Reading::ClosesMidAnswer && self.received > 8
    }
}

/// The number of bytes. `None` if the connection is broken.
fn moved(result: std::io::Result<usize>) -> Option<usize> {
    match result {
        Ok(count) => Some(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Some(0)
        }
        Err(_) => None,
    }
}
