//! Forwards client metrics to an OTLP endpoint over HTTP, on its own thread. So a slow endpoint
//! delays no other work. Pushes that find the queue to this thread full are dropped.

use super::limits::{FORWARD_BYTES_MAX, FORWARDS_MAX};
use super::receiver::{Forwarded, Receiver};
use crate::http_agent;
use crossbeam_channel::{Sender, bounded, unbounded};
use std::io;
use std::thread;
use std::time::Duration;
use tracing::warn;
use ureq::Agent;

/// The time limit for sending one push.
const PATIENCE: Duration = Duration::from_secs(10);

/// The handle of the thread. It counts the bytes that are queued, and the pushes that were
/// forwarded or failed.
pub(crate) struct Exporter {
    forwards: Sender<Vec<u8>>,
    ended: crossbeam_channel::Receiver<Ended>,
    under_way: usize,
    forwarded: u64,
    failed: u64,
}

/// The outcome of sending a push.
struct Ended {
    bytes: usize,
    is_taken: bool,
}

impl Exporter {
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(url: &str) -> io::Result<Self> {
        let (forwards, received) = bounded::<Vec<u8>>(FORWARDS_MAX);
        let (done, ended) = unbounded();
        let (url, agent) = (url.to_owned(), agent(url));
        let run = move || {
            let mut was_taken = true;
            for metrics in received {
                let bytes = metrics.len();
                let sent = send(&agent, &url, &metrics);
                let is_taken = sent.is_ok();
                if let (Err(why), true) = (sent, was_taken) {
                    warn!(target: "telemetry", "what clients push is not forwarded: {url}: {why}");
                }
                was_taken = is_taken;
                if done.send(Ended { bytes, is_taken }).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("otlp".to_owned()).spawn(run)?;
        Ok(Self { forwards, ended, under_way: 0, forwarded: 0, failed: 0 })
    }

    pub(crate) fn forward(&mut self, Forwarded(metrics): Forwarded) {
        self.count();
        let bytes = metrics.len();
        if self.under_way + bytes > FORWARD_BYTES_MAX || self.forwards.try_send(metrics).is_err() {
            self.failed += 1;
            return;
        }
        self.under_way += bytes;
    }

    /// Sets in a receiver how many pushes were forwarded, and how many failed.
    pub(crate) fn report(&mut self, receiver: &mut Receiver) {
        self.count();
        receiver.exported(self.forwarded, self.failed);
    }

    /// Counts the outcomes that are known.
    fn count(&mut self) {
        for Ended { bytes, is_taken } in self.ended.try_iter() {
            self.under_way -= bytes;
            let counter = if is_taken { &mut self.forwarded } else { &mut self.failed };
            *counter += 1;
        }
    }
}

/// An HTTP client for the endpoint. Over HTTPS it needs the system's certificate authorities: if
/// there are none, every push fails.
fn agent(url: &str) -> Agent {
    let is_encrypted = url.starts_with("https:");
    let authorities = is_encrypted.then(http_agent::authorities_of_system);
    http_agent::agent(&authorities.and_then(Result::ok).unwrap_or_default(), false, PATIENCE)
}

fn send(agent: &Agent, url: &str, metrics: &[u8]) -> Result<(), String> {
    let request = agent.post(url).header("Content-Type", "application/x-protobuf");
    let response = request.send(metrics).map_err(|error| error.to_string())?;
    match response.status().as_u16() {
        200..300 => Ok(()),
        status => Err(format!("it answers with the status {status}")),
    }
}
