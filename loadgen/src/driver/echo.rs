//! Measures the limit of muster-load itself, with heartbeats against a server that does next to
//! nothing: it sends every frame back unchanged (`server/uring/examples/echo.rs`). The connection
//! code is that of a run.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use hdrhistogram::Histogram;
use muster_codec::messages::HeartbeatRequest;
use tokio::time::sleep;

use super::Clock;
use super::command::Target;
use super::dial::{Dialer, host_and_port};
use super::line::{self, End, Ended, Line, Owner, ReadAt};
use super::meter::thread_cpu;
use super::runtime::{Runtime, Tasks};
use crate::member::Request;
use crate::time::Time;
use crate::wire::{self, Header, Malformed};

const HEARTBEAT_VERSION: i16 = 4;

/// The result, summed over all cores.
#[derive(Clone, Debug)]
pub struct EchoResult {
    /// The number of heartbeats whose frame came back unchanged.
    pub heartbeats: u64,
    /// The time from the first heartbeat to the end.
    pub took: Duration,
    /// CPU time of the load cores during `took`.
    pub cpu: Duration,
    /// Round trips in microseconds, from the time when a heartbeat was queued.
    pub latency: Histogram<u64>,
}

impl EchoResult {
    pub fn per_second(&self) -> f64 {
        self.heartbeats as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }
}

/// Sends heartbeats to the first bootstrap server for `seconds`. Each core opens `connections`,
/// each with `in_flight` heartbeats in flight. Checks that each heartbeat comes back unchanged.
/// # Errors
/// A connection could not be opened or broke, or a frame that came back differs from the one that
/// was sent. The error is a sentence for the user.
pub fn echo(
    target: Target,
    connections: usize,
    in_flight: usize,
    seconds: u64,
) -> Result<EchoResult, String> {
    let target = Arc::new(target);
    let (sender, results) = bounded(target.cores.len());
    for cpu in target.cores.clone() {
        let (target, sender) = (Arc::clone(&target), sender.clone());
        let core = move || {
            let result = Runtime::pinned(cpu)
                .and_then(|runtime| runtime.run(on_core(target, connections, in_flight, seconds)));
            send(&sender, result);
        };
        let thread = std::thread::Builder::new().name(format!("echo-{cpu}")).spawn(core);
        thread.map_err(|error| format!("no thread for a core: {error}"))?;
    }
    drop(sender);
    results.iter().reduce(add).unwrap_or_else(|| Err("no core is given".into()))
}

/// Sends the result of a core. An error is ignored: the receiver is gone if another core could not
/// be started.
fn send(sender: &Sender<Result<EchoResult, String>>, result: Result<EchoResult, String>) {
    drop(sender.send(result));
}

fn add(
    one: Result<EchoResult, String>,
    other: Result<EchoResult, String>,
) -> Result<EchoResult, String> {
    let (mut sum, other) = (one?, other?);
    sum.heartbeats += other.heartbeats;
    sum.took = sum.took.max(other.took);
    sum.cpu += other.cpu;
    sum.latency.add(other.latency).map_err(|error| error.to_string())?;
    Ok(sum)
}

struct Echo {
    clock: Clock,
    lines: Vec<EchoLine>,
    client_id: Arc<str>,
    request: Request,
    heartbeats: u64,
    latency: Histogram<u64>,
    broken: Option<String>,
}

#[derive(Default)]
struct EchoLine {
    line: Line,
    /// The correlation id and the time of each heartbeat in flight.
    sent: VecDeque<(i32, Time)>,
    correlation: i32,
    /// A heartbeat frame without its length, with correlation id 0.
    frame: Vec<u8>,
}

async fn on_core(
    target: Arc<Target>,
    connections: usize,
    in_flight: usize,
    seconds: u64,
) -> Result<EchoResult, String> {
    let server = target.bootstrap.first().ok_or("no bootstrap server is given")?;
    let (host, port) = host_and_port(server)?;
    let tls = target.security.tls.as_ref().map(super::TlsClient::new).transpose()?;
    let dialer = Dialer::new(Arc::clone(&target), tls, Default::default());
    let mut transports = Vec::new();
    for _ in 0..connections {
        transports.push(dialer.open(host, port).await?.into_transport());
    }
    let echo = Rc::new(RefCell::new(Echo::new(target.client_id.clone())?));
    let (tasks, began, cpu) = (Tasks::default(), Instant::now(), thread_cpu());
    for (at, transport) in transports.into_iter().enumerate() {
        echo.borrow_mut().add_line(in_flight)?;
        let (echo, buffers) = (Rc::clone(&echo), Rc::clone(&dialer.buffers));
        let task = async move {
            let ended = line::serve(&*echo, at, transport, &buffers).await;
            echo.borrow_mut().ended(&ended);
        };
        tasks.spawn(task);
    }
    let until = began + Duration::from_secs(seconds);
    while Instant::now() < until && echo.borrow().broken.is_none() {
        sleep(Duration::from_millis(20)).await;
        tasks.join_ended();
    }
    let echo = &mut *echo.borrow_mut();
    let (took, cpu) = (began.elapsed(), thread_cpu().saturating_sub(cpu));
    echo.lines.iter_mut().for_each(|line| line.line.end(End::Close));
    match echo.broken.take() {
        Some(reason) => Err(format!("{host}:{port}: {reason}")),
        None => {
            Ok(EchoResult { heartbeats: echo.heartbeats, took, cpu, latency: echo.latency.clone() })
        }
    }
}

impl Echo {
    fn new(client_id: Arc<str>) -> Result<Self, String> {
        let request = HeartbeatRequest {
            group_id: "echo-group".into(),
            generation_id: 1,
            member_id: format!("{client_id}-{:032x}", 0).into(),
            group_instance_id: None,
        };
        Ok(Self {
            clock: Clock::start(),
            lines: Vec::new(),
            client_id,
            request: request.into(),
            heartbeats: 0,
            latency: Histogram::new(3).map_err(|error| error.to_string())?,
            broken: None,
        })
    }

    fn add_line(&mut self, in_flight: usize) -> Result<(), String> {
        let mut frame = Vec::new();
        let header =
            Header { version: HEARTBEAT_VERSION, correlation: 0, client_id: &self.client_id };
        let written = wire::write_request(&mut frame, &header, &self.request);
        written.map_err(|error| error.to_string())?;
        frame.drain(..4);
        self.lines.push(EchoLine { frame, ..EchoLine::default() });
        (0..in_flight).try_for_each(|_| self.send(self.lines.len() - 1))
    }

    /// Sends a heartbeat. It is encoded each time, although only its correlation id changes,
    /// because a run does so, too.
    fn send(&mut self, at: usize) -> Result<(), String> {
        let line = &mut self.lines[at];
        line.correlation = line.correlation.wrapping_add(1) & i32::MAX;
        let (version, correlation) = (HEARTBEAT_VERSION, line.correlation);
        let header = Header { version, correlation, client_id: &self.client_id };
        let written = wire::write_request(line.line.queue(), &header, &self.request);
        line.sent.push_back((correlation, self.clock.now()));
        written.map_err(|error| error.to_string())
    }

    fn ended(&mut self, ended: &Ended) {
        let reason = match ended {
            Ended::ByOwner => return,
            Ended::ByPeer => "the other side closed the connection".into(),
            Ended::Broken(error) => error.to_string(),
            Ended::Malformed(error) => error.to_string(),
        };
        self.broken.get_or_insert(reason);
    }
}

impl Owner for Echo {
    fn line(&mut self, at: usize) -> &mut Line {
        &mut self.lines[at].line
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Does nothing: the round trips of the echo begin when a heartbeat is queued.
    fn written(&mut self, _at: usize, _began: Time) {}

    /// Does nothing. How long turns take need not be watched: the cores are meant to be fully busy.
    fn turn_ended(&mut self, _began: Time) {}

    fn frame(&mut self, at: usize, frame: &[u8], _read: ReadAt) -> Result<(), Malformed> {
        let line = &mut self.lines[at];
        let (correlation, sent) = line.sent.pop_front().ok_or(Malformed::Unasked)?;
        if !is_echo(frame, &line.frame, correlation) {
            return Err(Malformed::Body("a frame came back changed, or is an answer".into()));
        }
        let took = self.clock.now().since(sent);
        self.latency += (took.as_micros() as u64).max(1);
        self.heartbeats += 1;
        self.send(at).map_err(Malformed::Body)
    }
}

/// Whether `frame` equals the frame that was sent: API key and version, correlation id, and the
/// rest.
fn is_echo(frame: &[u8], sent: &[u8], correlation: i32) -> bool {
    frame.len() == sent.len()
        && frame[..4] == sent[..4]
        && frame[4..8] == correlation.to_be_bytes()
        && frame[8..] == sent[8..]
}
