//! The telemetry thread: one for all shards. Each shard limits the pushes that it has queued here.

use crate::config::Config;
use crate::mailbox::{Message, Peer};
use crate::telemetry::{ClientsText, Exporter, Push, Receiver};
use crossbeam_channel as channel;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// How long `/metrics` waits for the text of pushed metrics. After this it is written without them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The handle of the thread. If nothing receives pushed metrics, there is no thread.
#[derive(Debug, Clone)]
pub(crate) struct TelemetryThread(channel::Sender<Ask>);

enum Ask {
    /// The mailboxes of all shards.
    Peers(Vec<Peer>),
    Push(Push),
    Text {
        is_open_metrics: bool,
        reply: channel::Sender<ClientsText>,
    },
}

impl TelemetryThread {
    /// Starts the thread, which runs until the process ends.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(config: &Config) -> io::Result<Self> {
        let (sender, asked) = channel::unbounded();
        if config.receives_telemetry() {
            let url = config.client_telemetry_otlp_endpoint.trim();
            let exporter = (!url.is_empty()).then(|| Exporter::start(url)).transpose()?;
            let receiver = Receiver::new(config.shows_telemetry(), exporter.is_some());
            let run = move || run(receiver, exporter, &asked);
            thread::Builder::new().name("telemetry".to_owned()).spawn(run)?;
        }
        Ok(Self(sender))
    }

    pub(crate) fn set_peers(&self, peers: Vec<Peer>) {
        self.send(Ask::Peers(peers));
    }

    pub(crate) fn push(&self, push: Push) {
        self.send(Ask::Push(push));
    }

    /// The text of the clients' values; None if there is no thread, or it is busy.
    pub(crate) fn text(&self, is_open_metrics: bool) -> Option<ClientsText> {
        let (reply, answer) = channel::bounded(1);
        self.send(Ask::Text { is_open_metrics, reply });
        answer.recv_timeout(PATIENCE).ok()
    }

    fn send(&self, ask: Ask) {
        // A send fails only if there is no thread: then nothing needs to be done.
        let _ = self.0.send(ask);
    }
}

fn run(mut receiver: Receiver, mut exporter: Option<Exporter>, asked: &channel::Receiver<Ask>) {
    let began = Instant::now();
    let now = || i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
    let mut peers = Vec::<Peer>::new();
    for ask in asked {
        match ask {
            Ask::Peers(all) => peers = all,
            Ask::Push(push) => {
                let (outcome, forwarded) = receiver.take(now(), &push);
                exporter.iter_mut().zip(forwarded).for_each(|(to, it)| to.forward(it));
                if let Some(peer) = peers.get(push.from as usize) {
                    peer.send(Message::Pushed(outcome));
                }
            }
            Ask::Text { is_open_metrics, reply } => {
                exporter.iter_mut().for_each(|exporter| exporter.report(&mut receiver));
                // The requester may have stopped waiting.
                let _ = reply.send(receiver.text(now(), is_open_metrics));
            }
        }
    }
}
