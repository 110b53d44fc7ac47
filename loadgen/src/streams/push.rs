//! Pushes the state of a run to an OpenTelemetry endpoint, on its own thread. A slow endpoint does
//! not delay the run.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use loadgen::http::{Answer, agent};
use loadgen::report::live::LiveState;
use loadgen::report::otlp::{Resource, metrics};

const EVERY: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Push {
    resource: Resource,
    /// The queue of states to push. At most one state waits: if the endpoint is slow, states are
    /// skipped.
    bodies: Option<Sender<String>>,
    failures: Receiver<String>,
    thread: Option<JoinHandle<()>>,
    pushed: Option<Instant>,
    /// The last state. It is pushed at the end.
    last: LiveState,
}

impl Push {
    /// # Errors
    /// No thread can be started. The error is a sentence for the user.
    pub(crate) fn start(url: &str, resource: Resource) -> Result<Self, String> {
        let (bodies, received) = bounded(1);
        let (failed, failures) = bounded(1);
        let url = url.to_owned();
        let thread = std::thread::Builder::new().name("otlp".into());
        let thread = thread.spawn(move || push_all(&url, &received, &failed));
        let thread = thread.map_err(|error| format!("no thread can be started: {error}"))?;
        let last = LiveState::default();
        let (bodies, thread) = (Some(bodies), Some(thread));
        Ok(Self { resource, bodies, failures, thread, pushed: None, last })
    }

    /// # Errors
    /// The endpoint did not accept a state. The error is a sentence for the user that says why, and
    /// is returned once.
    pub(crate) fn show(&mut self, state: &LiveState) -> Result<(), String> {
        self.last.clone_from(state);
        if self.pushed.is_none_or(|pushed| pushed.elapsed() >= EVERY) {
            self.pushed = Some(Instant::now());
            let body = metrics(state, &self.resource);
            // If another state still waits in the queue, this one is skipped.
            let _ = self.bodies.as_ref().map(|bodies| bodies.try_send(body));
        }
        match self.failures.try_recv() {
            Ok(why) => Err(format!("metrics cannot be pushed (--otlp): {why}")),
            Err(_) => Ok(()),
        }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        let Some(bodies) = self.bodies.take() else { return };
        // Queues the last state. This waits if an earlier state is still in the queue.
        let _ = bodies.send_timeout(metrics(&self.last, &self.resource), PATIENCE);
        drop(bodies);
        if let Some(thread) = self.thread.take() {
            // The thread ends once it has pushed the last state. It cannot panic.
            let _ = thread.join();
        }
    }
}

fn push_all(url: &str, bodies: &Receiver<String>, failed: &Sender<String>) {
    let agent = agent(PATIENCE, Vec::new());
    let mut reported = false;
    for body in bodies {
        let sent = agent.post(url).header("Content-Type", "application/json").send(body);
        let why = match Answer::of(sent) {
            Ok(answer) if answer.is_success() => continue,
            Ok(answer) => {
                format!("{url} answers with status {}: {}", answer.status, answer.shown())
            }
            Err(why) => format!("{url}: {why}"),
        };
        if !std::mem::replace(&mut reported, true) {
            // Fails if the run is over.
            let _ = failed.try_send(why);
        }
    }
}
