//! The connections of a history to one server. While a request waits on one connection, such as a
//! JoinGroup that waits for other members, later requests are sent on other connections.

use muster_codec::header::RequestHeader;
use muster_codec::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use muster_codec::{ApiKey, Reader, Request, Response};
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time between two checks of the connections for bytes.
const PAUSE: Duration = Duration::from_micros(300);

/// How a server reacts to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Body(Value),
    /// The bytes are not a response of this version.
    Unreadable(String),
    Closed,
}

/// A request as it is sent to a server. Its bytes may have a flaw.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    pub version: i16,
    pub request: Request<'static>,
    pub flaw: Flaw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Flaw {
    None,
    /// There are bytes after the body.
    Trailing,
    /// The body lacks its last byte.
    Cut,
    /// The header has another version.
    Version(i16),
}

/// The reaction to the request of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    pub step: usize,
    pub answer: Answer,
    /// The bytes of the frame without its length; empty for a closed connection.
    pub bytes: Vec<u8>,
}

impl Completion {
    /// Alters the first error code, to test the comparison. Returns false if there is none.
    pub fn alter(&mut self) -> bool {
        match &mut self.answer {
            Answer::Body(body) => alter(body),
            _ => false,
        }
    }
}

fn alter(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter_mut().any(|(name, value)| {
            if name == "errorCode" {
                *value = (value.as_i64().unwrap_or_default() + 1000).into();
                return true;
            }
            alter(value)
        }),
        Value::Array(elements) => elements.iter_mut().any(alter),
        _ => false,
    }
}

impl Ask {
    /// A request without a flaw.
    pub fn new(version: i16, request: impl Into<Request<'static>>) -> Self {
        Self { version, request: request.into(), flaw: Flaw::None }
    }

    pub fn api(&self) -> ApiKey {
        self.request.api_key()
    }

    /// The whole frame.
    pub fn frame(&self) -> io::Result<Vec<u8>> {
        self.frame_of("differential")
    }

    /// The frame of a client with this id.
    pub fn frame_of(&self, client_id: &str) -> io::Result<Vec<u8>> {
        let mut out = vec![0; 4];
        let header = RequestHeader {
            api_key: self.api() as i16,
            api_version: self.version,
            correlation_id: 7,
            client_id: Some(client_id.into()),
        };
        header.write(&mut out);
        self.request.write(self.version, &mut out).map_err(io::Error::other)?;
        match self.flaw {
            Flaw::None => {}
            Flaw::Trailing => out.extend([1, 2, 3]),
            Flaw::Cut => drop(out.pop()),
            Flaw::Version(version) => out[6..8].copy_from_slice(&version.to_be_bytes()),
        }
        let length = (out.len() - 4) as i32;
        out[..4].copy_from_slice(&length.to_be_bytes());
        Ok(out)
    }

    /// The version of the response.
    fn answered_in(&self) -> i16 {
        match self.flaw {
            Flaw::Version(_) => 0,
            _ => self.version,
        }
    }

    /// Reads the answer from a frame without its length. `frame` is None if the connection ended.
    pub fn read(&self, frame: Option<&[u8]>) -> Answer {
        let Some(frame) = frame else { return Answer::Closed };
        match self.read_body(frame) {
            Ok(body) => Answer::Body(body),
            Err(error) => Answer::Unreadable(error),
        }
    }

    fn read_body(&self, frame: &[u8]) -> Result<Value, String> {
        let version = self.answered_in();
        let mut reader = Reader::new(frame);
        reader.i32().map_err(|error| error.to_string())?;
        if self.api().flexible_response_header(version) {
            reader.i8().map_err(|error| error.to_string())?;
        }
        let response = Response::read(self.api(), version, &mut reader);
        let response = response.map_err(|error| error.to_string())?;
        if reader.remaining() > 0 {
            return Err(format!("{} bytes behind the response", reader.remaining()));
        }
        serde_json::to_value(&response).map_err(|error| error.to_string())
    }
}

/// One server, with the connections of a history to it.
pub struct Side {
    address: String,
    /// The address at which the connections log in, and the user.
    login: Option<(String, String)>,
    lines: Vec<Line>,
}

#[derive(Default)]
struct Line {
    stream: Option<TcpStream>,
    received: Vec<u8>,
    waiting: Option<(usize, Ask)>,
}

impl Side {
    pub fn new(address: &str, lines: usize) -> Self {
        let lines = (0..lines).map(|_| Line::default()).collect();
        Self { address: address.to_owned(), login: None, lines }
    }

    /// Makes the connections log in as a user. The user's password equals its name.
    pub fn log_in(&mut self, address: &str, user: &str) {
        self.login = Some((address.to_owned(), user.to_owned()));
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends the request of a step. No answer may be outstanding on this connection (line).
    pub fn send(&mut self, line: usize, step: usize, ask: &Ask) -> io::Result<()> {
        let stream = match self.lines[line].stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        let line = &mut self.lines[line];
        write_all(&stream, &ask.frame()?)?;
        line.stream = Some(stream);
        line.waiting = Some((step, ask.clone()));
        Ok(())
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let Some((address, user)) = &self.login else { return connect(&self.address) };
        let stream = connect(address)?;
        stream.set_nonblocking(false)?;
        let mechanism = "PLAIN".into();
        greet(&stream, 1, SaslHandshakeRequest { mechanism }.into())?;
        let auth_bytes = format!("\0{user}\0{user}").into_bytes().into();
        greet(&stream, 2, SaslAuthenticateRequest { auth_bytes }.into())?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// Sends a request on a connection of its own, and returns its answer. It does not affect the
    /// lines, whose answers [`Side::gather`] receives.
    pub fn call(&self, ask: &Ask) -> io::Result<Answer> {
        let mut own = Self::new(&self.address, 1);
        own.send(0, 0, ask)?;
        let mut done = own.gather(|steps| !steps.is_empty(), Duration::from_secs(30))?;
        let answer = done.pop().ok_or_else(|| io::Error::other("no answer in 30 s"))?;
        Ok(answer.answer)
    }

    /// Whether a line waits for an answer.
    pub fn waits(&self, line: usize) -> bool {
        self.lines[line].waiting.is_some()
    }

    pub fn is_waiting(&self) -> bool {
        self.lines.iter().any(|line| line.waiting.is_some())
    }

    /// Receives answers until `enough` returns true for the steps that they answer, or `patience`
    /// has passed.
    pub fn gather(
        &mut self,
        enough: impl Fn(&[usize]) -> bool,
        patience: Duration,
    ) -> io::Result<Vec<Completion>> {
        let deadline = Instant::now() + patience;
        let (mut done, mut steps) = (Vec::new(), Vec::new());
        loop {
            for line in &mut self.lines {
                if let Some(completion) = line.poll()? {
                    steps.push(completion.step);
                    done.push(completion);
                }
            }
            if enough(&steps) || !self.is_waiting() || Instant::now() >= deadline {
                return Ok(done);
            }
            sleep(PAUSE);
        }
    }
}

impl Line {
    /// The answer, if it has arrived.
    fn poll(&mut self) -> io::Result<Option<Completion>> {
        if self.waiting.is_none() {
            return Ok(None);
        }
        let ended = self.receive()?;
        let frame = self.take_frame();
        if frame.is_none() && !ended {
            return Ok(None);
        }
        if ended {
            self.stream = None;
            self.received.clear();
        }
        let waiting = self.waiting.take();
        Ok(waiting.map(|(step, ask)| {
            let answer = ask.read(frame.as_deref());
            Completion { step, answer, bytes: frame.unwrap_or_default() }
        }))
    }

    /// Receives the available bytes. Returns whether the connection has ended.
    fn receive(&mut self) -> io::Result<bool> {
        let Some(stream) = &mut self.stream else { return Ok(true) };
        let mut bytes = [0; 16 << 10];
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => return Ok(true),
                Ok(length) => self.received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    fn take_frame(&mut self) -> Option<Vec<u8>> {
        let length = self.received.first_chunk::<4>().copied().map(i32::from_be_bytes)?;
        let end = 4 + length as usize;
        if self.received.len() < end {
            return None;
        }
        let frame = self.received[4..end].to_vec();
        self.received.drain(..end);
        Some(frame)
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Sends a request that is part of the authentication. It must succeed.
fn greet(mut stream: &TcpStream, version: i16, request: Request<'static>) -> io::Result<()> {
    let ask = Ask { version, request, flaw: Flaw::None };
    stream.write_all(&ask.frame()?)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    let api = ask.api().name();
    match ask.read(Some(&frame)) {
        Answer::Body(body) if body[api]["errorCode"] == 0 => Ok(()),
        answer => Err(io::Error::other(format!("{api}: {answer:?}"))),
    }
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
