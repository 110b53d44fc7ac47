//! The connections of a shard over time: which input is handled next, when a connection has to
//! wait, and when a connection is closed.
//!
//! A client that has closed its sending side (`Event::InputEnded`) may be gone, or may still read.
//! Its connection is closed as soon as all its requests are answered and the answers are read, or
//! after half a minute. A connection may also fail (`Event::Ended`), for example because TCP
//! keepalive found that its client is dead (`server/uring/src/accept.rs`). The requests of such a
//! connection are dropped at once.

mod access;
mod input;
mod quotas;
mod time;

pub(crate) use input::{Input, mistaken};
#[cfg(test)]
pub(crate) use time::{IDLE_SWEEP_MS, INPUT_ENDED_PATIENCE_MS};

use super::account::{Kind, UNREAD};
use super::connections::Connections;
use super::counters::ClientGauges;
use super::limits::{AMENDMENTS_BYTES_MAX, Limits, SLICES_MAX, SOFTWARE_BYTES_MAX};
use super::looks::{LookedAt, Looks};
use super::run_queue::{Place, RunQueue};
use super::unauthenticated::{NOT_AUTHENTICATED, Unauthenticated};
use super::unserved::Unserved;
use crate::clock::Stopwatch;
use crate::config::{Config, ListenerIndex, ListenerSecurity};
use crate::limit_gauges::{Limit, LimitGauges};
use crate::net::{ClientCommand, ConnectionId};
use crate::quotas::ClientQuotas;
use crate::security::TokenKeys;
use muster_codec::ApiKey;
use muster_coordinator::RequestId;
use muster_counters::Copies;
use muster_fairness::Address;
use muster_storage::{FileKey, LogSlot};
use std::sync::Arc;
use tracing::info;

/// The clients of a shard.
#[derive(Debug)]
pub(crate) struct Clients {
    shard: u32,
    /// The config of file and command line.
    config: Arc<Config>,
    connections: Connections,
    looks: Looks,
    queue: RunQueue,
    /// Connections with output to send.
    sendable: Vec<ConnectionId>,
    /// Connections that have to wait until clients have read some of their answers.
    waiting_for_readers: Vec<ConnectionId>,
    /// Connections that have to wait until this node serves a slot.
    unserved: Unserved,
    next_idle_sweep: i64,
    /// The security of the listeners, in order.
    security: Vec<ListenerSecurity>,
    token_keys: TokenKeys,
    unauthenticated: Unauthenticated,
    now: i64,
    /// All input that arrived before this time has been handled.
    handled_until: i64,
    /// The progress of waiting input when it was last looked at, and since when it has not changed.
    /// The progress is the time before which all input was handled, and the number of handled
    /// requests.
    input_stands: (Option<(i64, u64)>, i64),
    is_stopping: bool,
    gone: Gone,
}

/// Connections that were closed since the last call of [`Clients::take_gone`], and the files of
/// parts that were sent or dropped since then. A file occurs once for each of its parts.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub(crate) connections: Vec<ConnectionId>,
    pub(crate) files: Vec<FileKey>,
}

impl Gone {
    fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.files.is_empty()
    }
}

impl Clients {
    /// `config` is the config of file and command line; `altered` has altered configs applied.
    pub(crate) fn new(
        shard: u32,
        config: Arc<Config>,
        token_keys: &TokenKeys,
        altered: &Config,
        now: i64,
        stopwatch: Stopwatch,
    ) -> Self {
        let mut clients = Self {
            shard,
            security: ListenerSecurity::of_all(&config),
            unauthenticated: Unauthenticated::default(),
            connections: Connections::new(Limits::of(altered), config.quota_window(), stopwatch),
            config,
            looks: Looks::default(),
            queue: RunQueue::default(),
            sendable: Vec::new(),
            waiting_for_readers: Vec::new(),
            unserved: Unserved::default(),
            next_idle_sweep: now,
            now,
            handled_until: now,
            input_stands: (None, now),
            is_stopping: false,
            gone: Gone::default(),
            token_keys: TokenKeys::default(),
        };
        clients.set_token_keys(token_keys);
        clients
    }

    /// Sets the time of the current event.
    pub(crate) fn advance(&mut self, now: i64) {
        self.now = now;
        self.connections.set_time(now);
    }

    /// Applies altered configs. If there are now more connections than permitted, some are closed.
    pub(crate) fn set_config(&mut self, altered: &Config) {
        self.connections.set_limits(Limits::of(altered));
    }

    /// Accepts no further connections and requests.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// The connections, in which requests begin and to which answers go.
    pub(crate) fn answers(&mut self) -> &mut Connections {
        &mut self.connections
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// The listener of a connection; the first one if it is closed.
    pub(crate) fn listener(&self, id: ConnectionId) -> ListenerIndex {
        self.connections.get(id).map_or(ListenerIndex::FIRST, |connection| connection.listener)
    }

    /// The address of the client that sent a request; None if the client is gone.
    pub(crate) fn host(&self, request: RequestId) -> Option<Arc<str>> {
        let connection = self.connections.get(ConnectionId(request.connection));
        connection.map(|connection| connection.host.clone())
    }

    /// The address of a request's client, to which its use of limits is charged.
    pub(crate) fn address(&self, request: RequestId) -> Address {
        let connection = self.connections.get(ConnectionId(request.connection));
        connection.map_or_else(Address::default, |connection| connection.address)
    }
}

/// Addresses and software of clients.
impl Clients {
    /// The address and port of a client; None if the client is gone.
    pub(crate) fn peer(&self, id: ConnectionId) -> Option<(Arc<str>, u16)> {
        self.connections.get(id).map(|connection| (connection.host.clone(), connection.port))
    }

    /// The name and version of a client's software, if the client has sent them.
    pub(crate) fn software(&self, id: ConnectionId) -> Option<Arc<(Box<str>, Box<str>)>> {
        self.connections.get(id)?.software.clone()
    }

    /// Keeps the name and version of a client's software, unless they are long.
    pub(crate) fn set_software(&mut self, id: ConnectionId, (name, version): (&str, &str)) {
        let is_kept = [name, version].iter().all(|it| (1..=SOFTWARE_BYTES_MAX).contains(&it.len()));
        if let Some(connection) = self.connections.get_mut(id).filter(|_| is_kept) {
            connection.software = Some(Arc::new((name.into(), version.into())));
        }
    }
}

/// Events of connections.
impl Clients {
    pub(crate) fn opened(
        &mut self,
        id: ConnectionId,
        listener: ListenerIndex,
        (host, port): (Arc<str>, u16),
        quotas: &ClientQuotas,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        if self.is_stopping {
            self.connections.counters_mut().connections_refused += 1;
            return self.end(id, None, out);
        }
        if let Err(too_many) = self.connections.open(id, listener, host, self.now) {
            self.connections.counters_mut().connections_refused += 1;
            return self.close(id, too_many.to_string(), out);
        }
        let access = self.first_access(listener);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.access = access;
            connection.port = port;
        }
        self.limit_unauthenticated(id, out);
        if let Err(too_many) = self.connections.arrive(id) {
            self.connections.counters_mut().connections_refused += 1;
            return self.close(id, too_many.to_string(), out);
        }
        self.let_in(quotas);
    }

    /// Notes that a connection is encrypted. Its slices are then shorter, because they are copied.
    /// If the client has shown a certificate, `principal` is from it.
    pub(crate) fn secured(&mut self, id: ConnectionId, principal: Option<Arc<str>>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.output.shorten_slices();
        connection.certified = principal;
    }

    /// Notes the end of a client's input. The client may have closed only its sending side, so its
    /// requests are answered first.
    pub(crate) fn input_ended(
        &mut self,
        id: ConnectionId,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.input.end(self.now);
        self.end_if_answered(id, out);
    }

    /// Notes that the socket accepted output; `unsent` bytes are left.
    pub(crate) fn sent(
        &mut self,
        id: ConnectionId,
        unsent: usize,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        self.connections.taken(id, self.now);
        self.connections.sent(id, unsent);
        self.end_if_answered(id, out);
    }

    /// Called when `sent` bytes of a slice have left.
    pub(crate) fn streamed(
        &mut self,
        id: ConnectionId,
        sent: usize,
        unsent: usize,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        if sent > 0 {
            self.connections.counters_mut().sent_bytes += sent as u64;
            self.connections.taken(id, self.now);
        }
        if self.connections.streamed(id, sent, unsent, &mut self.gone.files) {
            out.push(ClientCommand::AwaitWritable { connection: id }.into());
        }
        self.end_if_answered(id, out);
    }

    /// The files with parts that are still to be sent on a connection, once for each part.
    pub(crate) fn streamed_files(&self, id: ConnectionId) -> Vec<FileKey> {
        self.connections.get(id).map(|it| it.output.files().collect()).unwrap_or_default()
    }

    /// Notes that the socket accepts output again.
    pub(crate) fn writable(&mut self, id: ConnectionId) {
        self.connections.writable(id);
    }

    /// Notes that the connection broke.
    pub(crate) fn ended(&mut self, id: ConnectionId) {
        let input = self.connections.get_mut(id).map(|it| it.input.take());
        if let Some(input) = input {
            let used = input.len();
            self.connections.leave_input(input, used);
        }
        if let Some(files) = self.connections.close(id) {
            self.gone.connections.push(id);
            self.gone.files.extend(files);
            self.queue.forget_long(id);
        }
        self.forget_gone();
    }

    /// Closes a connection for a reason that is logged.
    pub(crate) fn close(
        &mut self,
        id: ConnectionId,
        reason: String,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        self.end(id, Some(reason), out);
    }

    /// Closes a connection. Answers in its output are still sent, but requests in flight are
    /// dropped.
    fn end(
        &mut self,
        id: ConnectionId,
        reason: Option<String>,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        let last = self.connections.get_mut(id).map(|it| it.output.take());
        let last = last.unwrap_or_default();
        self.connections.counters_mut().sent_bytes += last.len() as u64;
        out.push(ClientCommand::Close { connection: id, reason, last }.into());
        self.ended(id);
    }

    /// The node may serve other slots than before: requests that wait for this are handled again.
    pub(crate) fn serves_others(&mut self) {
        self.unserved.change();
    }

    /// Another node leads a slot. Closes the connections with answers that wait for its positions:
    /// the answers are encoded, and the changes that they report may never be durable.
    pub(crate) fn deposed(&mut self, slot: LogSlot, out: &mut Vec<impl From<ClientCommand>>) {
        for id in self.connections.take_waiting(slot) {
            if self.connections.is_open(id) {
                self.close(id, "another node leads the slot of its request".to_owned(), out);
            }
        }
    }

    /// Closes all connections, at the end of a stop.
    pub(crate) fn end_all(&mut self, out: &mut Vec<impl From<ClientCommand>>) {
        for id in self.connections.ids() {
            self.end(id, None, out);
        }
        let (shard, peak) = (self.shard, self.connections.account().peak() >> 10);
        if peak == 0 {
            info!("shard {shard} stops");
        } else {
            info!("shard {shard} stops: its clients took at most {peak} KiB of memory");
        }
    }

    /// Closes a connection whose client has ended its input, if all its answers have left.
    fn end_if_answered(&mut self, id: ConnectionId, out: &mut Vec<impl From<ClientCommand>>) {
        let max_bytes = self.request_bytes_max();
        if self.connections.get(id).is_some_and(|connection| connection.is_over(max_bytes)) {
            let reason = self.is_refused(id).then(|| NOT_AUTHENTICATED.to_owned());
            self.end(id, reason, out);
        }
    }

    /// The connections that were closed, and the files that were sent.
    pub(crate) fn take_gone(&mut self) -> Option<Gone> {
        (!self.gone.is_empty()).then(|| std::mem::take(&mut self.gone))
    }
}

/// Requests that clients wait for.
impl Clients {
    /// Checks the next connections: see [`Looks::look`]. `handled` is the number of requests that
    /// were handled so far.
    pub(crate) fn look(
        &mut self,
        handled: u64,
        is_parked: impl Fn(RequestId, ApiKey) -> bool,
    ) -> Option<LookedAt> {
        let mark = self.has_waiting().then_some((self.handled_until, handled));
        if self.input_stands.0 != mark {
            self.input_stands = (mark, self.now);
        }
        self.looks.look(&mut self.connections, self.now, is_parked)
    }

    /// The time since which the waiting input has made no progress, as the calls of [`Self::look`]
    /// have found.
    pub(crate) fn input_stands_since(&self) -> Option<i64> {
        self.input_stands.0.map(|_| self.input_stands.1)
    }

    /// The number of requests of an API that were answered.
    pub(crate) fn answered(&self, api: ApiKey) -> u32 {
        self.connections.answered(api)
    }
}

/// Views for checks and metrics.
impl Clients {
    /// Copies of all counters, request times and gauges of the clients, for metrics.
    pub(crate) fn numbers(&self) -> Copies {
        vec![
            Box::new(self.connections.counters().clone()),
            Box::new(self.connections.timings().clone()),
            Box::new(self.gauges()),
        ]
    }

    /// Bytes and requests that are held for clients now.
    fn gauges(&self) -> ClientGauges {
        let account = self.connections.account();
        ClientGauges {
            connections: self.connections.len() as u64,
            waiting: self.waiting() as u64,
            answers_waiting: self.connections.waits_for_flush() as u64,
            input_bytes: account.held(Kind::Input) as u64,
            unread_bytes: account.held_of(&UNREAD) as u64,
            held_bytes: account.total() as u64,
            held_bytes_peak: account.peak() as u64,
            held_by_kind_bytes: account.by_kind(),
        }
    }

    /// Adds the use of the limits of clients.
    pub(crate) fn add_limits(&self, gauges: &mut LimitGauges) {
        let (limits, account) = (self.connections.limits(), self.connections.account());
        let held = |kind| account.held(kind);
        gauges.set(Limit::Connections, self.connections.inside(), limits.connections);
        gauges.set(Limit::InputBytes, held(Kind::Input), limits.input_bytes);
        gauges.set(Limit::UnreadBytes, account.held_of(&UNREAD), limits.unread_bytes);
        gauges.set(Limit::AmendmentBytes, held(Kind::Amendments), AMENDMENTS_BYTES_MAX);
        gauges.set(Limit::Slices, self.connections.slices(), SLICES_MAX);
    }

    /// The length of the queue of waiting work.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The connections whose input waits: first the queue that is served first, then the other
    /// queue. Some of the connections may be closed.
    pub(crate) fn run_queues(&self) -> [Vec<ConnectionId>; 2] {
        [Place::First, Place::Other].map(|place| self.queue.inputs(place).collect())
    }

    /// The input of each waiting connection.
    pub(crate) fn waiting_input(&self) -> impl Iterator<Item = (ConnectionId, &[u8])> {
        let ids = [Place::First, Place::Other].into_iter().flat_map(|it| self.queue.inputs(it));
        let waiting = ids.filter_map(|id| self.connections.get(id));
        waiting.map(|connection| (connection.id, connection.input.bytes()))
    }
}
