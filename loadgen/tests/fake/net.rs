//! Connections: frames in and out, SASL PLAIN, and the nonsense that a hostile broker sends.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use kafka_protocol::messages::{
    ApiKey, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::broker::{Broker, Question};
use super::reply::{Call, Reply};
use super::{Config, Nonsense};

const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const SASL_AUTHENTICATION_FAILED: i16 = 58;

/// A broker, which runs until this value is dropped.
pub(crate) struct Fake {
    address: SocketAddr,
    asked: Sender<Question>,
    ends: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    listener: Option<JoinHandle<()>>,
}

impl Fake {
    pub(crate) fn start(config: Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let connections = Arc::default();
        let (asked, questions) = channel();
        let members = Arc::<AtomicUsize>::default();
        let broker = Broker::new(config.clone(), address.port(), Arc::clone(&members));
        spawn(move || broker.run(&questions));
        let accept = {
            let (ends, connections) = (Arc::clone(&ends), Arc::clone(&connections));
            let asked = asked.clone();
            move || accept(&listener, &config, &asked, &members, &ends, &connections)
        };
        Self { address, asked, ends, connections, listener: Some(spawn(accept)) }
    }

    /// `host:port`.
    pub(crate) fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    /// The broker answers nothing for this time.
    pub(crate) fn stall(&self, time: Duration) {
        self.asked.send(Question::Stall(time)).unwrap();
    }

    /// The names of all topics and groups.
    pub(crate) fn names(&self) -> Vec<String> {
        let (to, names) = channel();
        self.asked.send(Question::Names(to)).unwrap();
        names.recv().unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes the listener, so that it notices `ends`.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        for connection in self.connections.lock().unwrap().iter() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn accept(
    listener: &TcpListener,
    config: &Config,
    asked: &Sender<Question>,
    members: &Arc<AtomicUsize>,
    ends: &AtomicBool,
    connections: &Mutex<Vec<TcpStream>>,
) {
    while let Ok((stream, _)) = listener.accept() {
        if ends.load(Ordering::SeqCst) {
            return;
        }
        stream.set_nodelay(true).unwrap();
        connections.lock().unwrap().push(stream.try_clone().unwrap());
        let connection = Connection {
            stream,
            config: config.clone(),
            asked: asked.clone(),
            trusted: config.password.is_none(),
            members: Arc::clone(members),
        };
        spawn(move || connection.serve());
    }
}

struct Connection {
    stream: TcpStream,
    config: Config,
    asked: Sender<Question>,
    trusted: bool,
    members: Arc<AtomicUsize>,
}

impl Connection {
    /// Answers requests until the first error, which ends the connection.
    fn serve(mut self) {
        while let Ok(()) = self.answer_one() {}
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn answer_one(&mut self) -> io::Result<()> {
        let call = Call::read(read_frame(&mut self.stream)?).ok_or(io::ErrorKind::InvalidData)?;
        let hostile = self.config.hostile.filter(|hostile| hostile.api == call.api);
        if let Some(hostile) = hostile
            && matches!(hostile.how, Nonsense::NeverAnswers | Nonsense::ClosesAtOnce)
        {
            return self.fall_silent(hostile.how);
        }
        let api = call.api;
        let mut answer = self.answer_of(call)?;
        self.hold_back(api);
        let length = answer.len();
        match hostile.map(|hostile| hostile.how) {
            Some(Nonsense::Garbage) => answer[4..].fill(0xff),
            Some(Nonsense::WrongCorrelation) => answer[..4].fill(0x7e),
            Some(Nonsense::HugeLength) => return self.stream.write_all(&[0x7f, 0xff, 0xff, 0xff]),
            Some(Nonsense::Truncated) => answer.truncate(length / 2),
            Some(Nonsense::NeverAnswers | Nonsense::ClosesAtOnce) | None => {}
        }
        self.stream.write_all(&(length as i32).to_be_bytes())?;
        self.stream.write_all(&answer)?;
        if answer.len() == length { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn hold_back(&self, api: ApiKey) {
        let members = self.members.load(Ordering::Relaxed);
        let slow = self.config.slow.filter(|slow| slow.api == api && members >= slow.from_members);
        slow.into_iter().for_each(|slow| std::thread::sleep(slow.by));
    }

    fn fall_silent(&mut self, how: Nonsense) -> io::Result<()> {
        if how == Nonsense::NeverAnswers {
            io::copy(&mut self.stream, &mut io::sink())?;
        }
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// An answer without its length. An error if the request must not be answered.
    fn answer_of(&mut self, call: Call) -> io::Result<Vec<u8>> {
        let (to, answer) = channel();
        match call.api {
            ApiKey::SaslHandshake => shake_hands(call.parse(to)?),
            ApiKey::SaslAuthenticate => self.authenticate(call.parse(to)?),
            ApiKey::ApiVersions => self.ask(Question::Request { call, to })?,
            _ if self.trusted => self.ask(Question::Request { call, to })?,
            _ => return Err(io::ErrorKind::PermissionDenied.into()),
        }
        answer.recv().map_err(|_| io::ErrorKind::ConnectionAborted.into())
    }

    fn ask(&self, question: Question) -> io::Result<()> {
        self.asked.send(question).map_err(|_| io::ErrorKind::ConnectionAborted.into())
    }

    fn authenticate(
        &mut self,
        (request, reply): (SaslAuthenticateRequest, Reply<SaslAuthenticateRequest>),
    ) {
        let (user, password) = self.config.password.unwrap_or_default();
        let response = SaslAuthenticateResponse::default();
        self.trusted = request.auth_bytes == format!("\0{user}\0{password}");
        reply.send(if self.trusted {
            response
        } else {
            response.with_error_code(SASL_AUTHENTICATION_FAILED).with_error_message(Some(
                StrBytes::from_static_str("Authentication failed: Invalid username or password"),
            ))
        });
    }
}

fn shake_hands((request, reply): (SaslHandshakeRequest, Reply<SaslHandshakeRequest>)) {
    let plain = StrBytes::from_static_str("PLAIN");
    let error = if request.mechanism == plain { 0 } else { UNSUPPORTED_SASL_MECHANISM };
    let response = SaslHandshakeResponse::default().with_mechanisms(vec![plain]);
    reply.send(response.with_error_code(error));
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}
