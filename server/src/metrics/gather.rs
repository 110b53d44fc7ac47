//! Asks the shards for the values of their metrics, and formats these as text.

use super::family::{Families, Form, Type};
use super::health::{self, ShardState, ShardStates, Verdict};
use super::sums::{Sums, Windows};
use super::{kafka, lag, own, process, shards};
use crate::disk_space::DiskSpace;
use crate::mailbox::{Peer, ToReactor};
use crate::operator::Survey;
use crate::report::Report;
use crate::telemetry::{ClientsText, ROWS};
use crate::volume::Volume;
use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError, bounded};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to wait for the shards. The metrics of slower shards are left out.
const PATIENCE: Duration = Duration::from_secs(1);

/// If several requests come within this time, they are answered with the same reports. So they cost
/// the shards no more than one request.
const FRESH: Duration = Duration::from_millis(100);

/// The metrics about the server as a whole: name and help.
pub(super) const SERVER_ROWS: &[(&str, &str)] = &[
    ("muster_build_info", "Always 1; the label has the version."),
    ("muster_shard_serving", "1 if the shard serves, 0 while it loads its log or does not answer."),
    (
        "muster_certificate_expiry_timestamp_seconds",
        "When the certificate of a listener expires, in seconds since 1970.",
    ),
    (
        "muster_disk_free_bytes",
        "Bytes of the data directory's file system that muster may still take.",
    ),
    ("muster_disk_total_bytes", "All bytes of the data directory's file system."),
];

/// The last known metrics of the shards.
#[derive(Debug)]
pub(super) struct Gather {
    version: &'static str,
    /// The names of the listeners.
    listeners: Vec<String>,
    /// The data directory and the space of its volume; None until the shards have started.
    disk: Option<(Arc<str>, DiskSpace)>,
    states: ShardStates,
    peers: Vec<Peer>,
    /// For each shard, the question that it has not answered yet, and the time at which it was
    /// asked.
    pending: Vec<Option<(Instant, Receiver<Report>)>>,
    reports: Vec<Report>,
    at: Option<Instant>,
    windows: Windows,
}

impl Gather {
    pub(super) fn new(
        version: &'static str,
        listeners: Vec<String>,
        states: ShardStates,
        now: Instant,
    ) -> Self {
        let pending = (0..states.len()).map(|_| None).collect();
        Self {
            version,
            listeners,
            disk: None,
            states,
            peers: Vec::new(),
            pending,
            reports: Vec::new(),
            at: None,
            windows: Windows::new(now),
        }
    }

    /// Sets the shards. Called when they have started.
    pub(super) fn set_peers(&mut self, peers: Vec<Peer>) {
        self.peers = peers;
    }

    /// Adds the space of the data directory's volume to the metrics.
    pub(super) fn set_disk(&mut self, disk: (Arc<str>, DiskSpace)) {
        self.disk = Some(disk);
    }

    /// The text of all metrics. `survey` has the lag of groups, and `clients` the metrics that
    /// clients have pushed.
    pub(super) fn metrics(
        &mut self,
        form: Form,
        survey: Option<&Survey>,
        clients: &ClientsText,
    ) -> String {
        self.refresh();
        let mut families = Families::default();
        survey.into_iter().for_each(|survey| lag::add(&mut families, survey));
        let sums = Sums::of(&self.reports);
        self.reports.iter().for_each(|report| own::add(&mut families, report));
        kafka::add(&mut families, &self.windows.recent(Instant::now(), &sums));
        process::add(&mut families);
        self.add_server(&mut families);
        add_clients(&mut families, clients);
        families.write(form, &clients.text)
    }

    /// The result of the liveness check.
    pub(super) fn alive(&mut self) -> Verdict {
        self.refresh();
        let now = Instant::now();
        let waited = |pending: &Option<(Instant, _)>| {
            pending.as_ref().map_or(Duration::ZERO, |(since, _)| now.duration_since(*since))
        };
        let waited: Vec<Duration> = self.pending.iter().map(waited).collect();
        health::alive(&self.states, &waited, &self.reports)
    }

    /// The result of the readiness check.
    pub(super) fn ready(&mut self) -> Verdict {
        self.refresh();
        let volume = self.disk.as_ref().and_then(|(_, space)| space.volume());
        health::ready(&self.states, &self.reports, volume)
    }

    /// The shards and their metrics, as JSON for the API.
    pub(super) fn shards(&mut self) -> Value {
        self.refresh();
        shards::all(self.version, &self.states, &self.reports)
    }

    fn add_server(&self, families: &mut Families) {
        let [info, serving, expiry, free, total] = SERVER_ROWS else {
            unreachable!("there are five")
        };
        let version = vec![("version", self.version.to_owned())];
        families.family(info.0, info.1, Type::Gauge).add(version, 1.0);
        for shard in 0..self.states.len() {
            let has_answered = self.reports.iter().any(|report| report.shard == shard);
            let serves = has_answered && self.states.of(shard) == ShardState::Serving;
            let family = families.family(serving.0, serving.1, Type::Gauge);
            family.add(own::of_shard(shard), f64::from(u8::from(serves)));
        }
        let disk = self.disk.as_ref().and_then(|(path, space)| Some((path, space.volume()?)));
        if let Some((path, Volume { usable, total: all })) = disk {
            for ((name, help), bytes) in [(free, usable), (total, all)] {
                let path = vec![("path", path.to_string())];
                families.family(name, help, Type::Gauge).add(path, bytes as f64);
            }
        }
        let first = self.reports.first().into_iter().flat_map(|report| &report.certificates);
        for (expires_at, listener) in first.zip(&self.listeners) {
            if let Some(at) = expires_at {
                let family = families.family(expiry.0, expiry.1, Type::Gauge);
                family.add(vec![("listener", listener.clone())], *at as f64);
            }
        }
    }

    /// Asks all shards, unless they were asked within [`FRESH`].
    fn refresh(&mut self) {
        if self.at.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        let began = Instant::now();
        for (peer, pending) in self.peers.iter().zip(&mut self.pending) {
            if pending.is_none() {
                let (sender, receiver) = bounded(1);
                peer.send(ToReactor::Report(sender));
                *pending = Some((began, receiver));
            }
        }
        self.reports.clear();
        for pending in &mut self.pending {
            self.reports.extend(answer(pending, began + PATIENCE));
        }
        self.at = Some(Instant::now());
    }
}

/// Adds the server's own metrics about the metrics that clients push.
fn add_clients(families: &mut Families, clients: &ClientsText) {
    for ((name, help, is_counter), number) in ROWS.iter().zip(&clients.numbers) {
        let of_type = if *is_counter { Type::Counter } else { Type::Gauge };
        families.family(name, help, of_type).add(Vec::new(), *number);
    }
}

/// Waits for a shard's answer. If the question is older than [`PATIENCE`], only looks whether the
/// answer has come.
fn answer(pending: &mut Option<(Instant, Receiver<Report>)>, until: Instant) -> Option<Report> {
    let (asked, receiver) = pending.as_ref()?;
    let is_late = asked.elapsed() > PATIENCE;
    let answer = if is_late {
        receiver.try_recv().map_err(|error| error == TryRecvError::Disconnected)
    } else {
        receiver.recv_deadline(until).map_err(|error| error == RecvTimeoutError::Disconnected)
    };
    match answer {
        Ok(report) => {
            *pending = None;
            // A late report has old values, so it is dropped. The shard is asked again next time.
            (!is_late).then_some(report)
        }
        Err(is_lost) => {
            if is_lost {
                *pending = None;
            }
            None
        }
    }
}
