//! The connections of a core, and the requests that wait on them for answers.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use muster_codec::ApiKey;
use slab::Slab;

use super::command::RoundTrip;
use super::core::{Core, Due, Shared};
use super::line::{self, End, Ended, Line, Owner, ReadAt};
use super::members::Requester;
use super::meter::{Moments, round_trip_of};
use super::owed::Owed;
use crate::member::{Destination, Failure, NodeIndex, Outgoing, Request};
use crate::time::Time;
use crate::wire::{self, Header, Malformed, Unwritable};

/// `reconnect.backoff.ms` and `reconnect.backoff.max.ms` of the connections for lookups.
const BACKOFF: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// The number of connections for lookups. More than one is needed because thousands of members may
/// start and look up their coordinators at once, and a broker handles the requests of a connection
/// one by one.
const LOOKUPS: u32 = 16;
/// The maximum number of connections that are being opened at the same time. By default Kafka
/// queues 50 connections of a listener (its backlog), and connections beyond these wait for a
/// second. More are allowed here, because a broker empties the queue as fast as it fills.
const CONNECTING_MAX: usize = 256;
/// Limits above which a request is not sent.
const IN_FLIGHT_MAX: usize = 1 << 16;
const BACKLOG_BYTES_MAX: usize = 64 << 20;

pub(super) struct Connections {
    all: Slab<Connection>,
    by_link: HashMap<Link, usize>,
    unsent: Slab<Waiting>,
    established: u32,
    connecting: usize,
    to_connect: VecDeque<usize>,
    lookup: Lookup,
}

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Link {
    /// Coordinator lookups of the members whose slot modulo [`LOOKUPS`] is this number. A member's
    /// slot is its place on its core: its index divided by the number of cores.
    Lookup(u32),
    /// Requests of a bundle to this node. A bundle has `members_per_connection` members. Its number
    /// is the slot of any of them, divided by `members_per_connection`.
    Members(NodeIndex, u32),
    /// The requests of a bundle to this node that wait for records (long polls). They have a
    /// connection of their own.
    Records(NodeIndex, u32),
}

struct Connection {
    link: Link,
    node: NodeIndex,
    line: Line,
    in_flight: VecDeque<Waiting>,
    correlation: i32,
    asked: Time,
    established: bool,
    /// Whether at least one request was answered.
    answered: bool,
    /// The time of the current timer. Earlier timers are ignored.
    armed: Time,
}

/// A request that waits for its answer.
pub(super) struct Waiting {
    pub(super) slot: u32,
    pub(super) life: u32,
    pub(super) token: u32,
    /// The time when the request was queued. `written` is the time when it was written to its
    /// socket.
    pub(super) sent: Time,
    written: Option<Time>,
    /// How much later than planned the load machine queued the request.
    late: Duration,
    pub(super) due: Time,
    pub(super) every: Option<Duration>,
    expires: Time,
    correlation: i32,
    api: ApiKey,
    version: i16,
    pub(super) kind: RoundTrip,
}

impl Waiting {
    /// Whether the request was written to its socket. False if the connection could not be opened.
    pub(super) fn was_sent(&self) -> bool {
        self.written.is_some()
    }

    fn moments(&self, read: ReadAt) -> Moments {
        Moments::of(self.sent, self.written.unwrap_or(self.sent), self.late, read)
    }
}

/// Decides which server is asked for a coordinator next (`next`), and not before which time
/// (`not_before`).
struct Lookup {
    servers: Vec<NodeIndex>,
    next: usize,
    backoff: Duration,
    not_before: Time,
}

impl Connections {
    pub(super) fn new(servers: Vec<NodeIndex>) -> Self {
        let lookup = Lookup { servers, next: 0, backoff: BACKOFF, not_before: Time::ZERO };
        Self {
            all: Slab::new(),
            by_link: HashMap::new(),
            unsent: Slab::new(),
            established: 0,
            connecting: 0,
            to_connect: VecDeque::new(),
            lookup,
        }
    }

    pub(super) fn servers(&self) -> &[NodeIndex] {
        &self.lookup.servers
    }

    pub(super) fn established(&self) -> u32 {
        self.established
    }

    /// Requests that wait for their answers.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &Waiting> {
        self.all.iter().flat_map(|(_, connection)| &connection.in_flight)
    }

    pub(super) fn end_all(&mut self) {
        for (_, connection) in &mut self.all {
            connection.line.end(End::Close);
        }
    }

    /// Ends the connection's task. The caller must answer the returned requests.
    fn end(&mut self, number: usize, how: End) -> VecDeque<Waiting> {
        let connection = &mut self.all[number];
        connection.line.end(how);
        if self.by_link.get(&connection.link) == Some(&number) {
            self.by_link.remove(&connection.link);
        }
        std::mem::take(&mut connection.in_flight)
    }
}

impl Connection {
    fn accepts_requests(&self) -> bool {
        self.in_flight.len() < IN_FLIGHT_MAX && self.line.backlog() < BACKLOG_BYTES_MAX
    }
}

impl Lookup {
    /// Called when a connection for lookups failed. The next server will be asked, after a
    /// back-off. If several connections fail during the back-off of one failure, they count as this
    /// one.
    fn failed(&mut self, now: Time) {
        if now < self.not_before {
            return;
        }
        self.next = self.next.wrapping_add(1);
        self.not_before = now + self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
    }

    fn succeeded(&mut self) {
        self.backoff = BACKOFF;
    }
}

impl Core {
    /// Queues the request. Later the member gets either its answer or its failure.
    /// # Errors
    /// The request cannot be encoded. The member then gets neither.
    pub(super) fn send(
        &mut self,
        requester: &Requester,
        outgoing: &Outgoing,
    ) -> Result<(), Unwritable> {
        let now = self.clock.now();
        let waiting = self.waiting(requester, outgoing, now);
        let number = self.connection(requester.slot, outgoing.to, now);
        let Some(number) = number.filter(|number| self.connections.all[*number].accepts_requests())
        else {
            self.answer_later(waiting, now);
            return Ok(());
        };
        let connection = &mut self.connections.all[number];
        connection.correlation = connection.correlation.wrapping_add(1) & i32::MAX;
        let (version, correlation) = (outgoing.version, connection.correlation);
        let header = Header { version, correlation, client_id: &requester.client_id };
        wire::write_request(connection.line.queue(), &header, &outgoing.request)?;
        connection.line.wake();
        let expires = waiting.expires;
        connection.in_flight.push_back(Waiting { correlation, ..waiting });
        if expires < connection.armed {
            connection.armed = expires;
            self.arm(expires, Due::Connection(number));
        }
        Ok(())
    }

    fn waiting(&self, requester: &Requester, outgoing: &Outgoing, now: Time) -> Waiting {
        let patience = match outgoing.request {
            Request::JoinGroup(_) | Request::SyncGroup(_) => requester.rebalance_timeout,
            _ => Duration::ZERO,
        };
        Waiting {
            slot: requester.slot,
            life: requester.life,
            token: outgoing.token,
            sent: now,
            written: None,
            // Only the time after the request was due counts as a delay.
            late: self.late.min(now.since(outgoing.due)),
            due: outgoing.due,
            every: outgoing.every,
            expires: now + self.target.request_timeout + patience,
            correlation: 0,
            api: outgoing.request.api_key(),
            version: outgoing.version,
            kind: round_trip_of(&outgoing.request),
        }
    }

    /// The connection to use, which is created if necessary. `None` while lookups have to wait.
    fn connection(&mut self, slot: u32, to: Destination, now: Time) -> Option<usize> {
        let bundle = slot / self.target.members_per_connection.max(1);
        let link = match to {
            Destination::Any => Link::Lookup(slot % LOOKUPS),
            Destination::Node(node) => Link::Members(node, bundle),
            Destination::Leader(node) => Link::Records(node, bundle),
        };
        if let Some(number) = self.connections.by_link.get(&link) {
            return Some(*number);
        }
        let node = match to {
            Destination::Node(node) | Destination::Leader(node) => node,
            Destination::Any => {
                let lookup = &self.connections.lookup;
                if now < lookup.not_before || lookup.servers.is_empty() {
                    return None;
                }
                lookup.servers[lookup.next % lookup.servers.len()]
            }
        };
        Some(self.make_connection(link, node, now))
    }

    fn make_connection(&mut self, link: Link, node: NodeIndex, now: Time) -> usize {
        let connections = &mut self.connections;
        let number = connections.all.insert(Connection {
            link,
            node,
            line: Line::default(),
            in_flight: VecDeque::new(),
            correlation: 0,
            asked: now,
            established: false,
            answered: false,
            armed: Time::MAX,
        });
        connections.by_link.insert(link, number);
        connections.to_connect.push_back(number);
        self.connect_next();
        number
    }

    fn connect_next(&mut self) {
        while self.connections.connecting < CONNECTING_MAX {
            let Some(number) = self.connections.to_connect.pop_front() else { return };
            let Some(shared) = self.me.upgrade() else { return };
            self.connections.connecting += 1;
            Rc::clone(&shared).tasks.spawn(run(shared, number));
        }
    }

    /// Called when an attempt to open a connection has succeeded (`made`) or failed.
    fn connect_ended(&mut self, number: usize, made: bool) {
        self.connections.connecting -= 1;
        self.connect_next();
        let connection = &mut self.connections.all[number];
        let (link, asked) = (connection.link, connection.asked);
        connection.established = made;
        match (made, link) {
            (true, Link::Lookup(_)) => self.connections.lookup.succeeded(),
            (false, Link::Lookup(_)) => self.connections.lookup.failed(self.clock.now()),
            (_, Link::Members(..) | Link::Records(..)) => {}
        }
        if made {
            self.connections.established += 1;
            self.connected(asked);
        }
    }

    /// The reason why the requests on an ended connection failed. Also reports a problem if the
    /// user should see one.
    fn why(&mut self, number: usize, ended: Ended, host: &str, port: u16) -> Failure {
        let connection = &self.connections.all[number];
        let first = connection.in_flight.front().map(|waiting| waiting.kind.name());
        match (ended, first) {
            (Ended::Malformed(reason), first) => {
                let to = first.unwrap_or("no request");
                let problem = format!("an answer to {to} cannot be decoded: {reason}");
                self.problem(format!("{host}:{port}: {problem}"));
                Failure::Malformed
            }
            (Ended::ByPeer | Ended::Broken(_), Some(to)) if !connection.answered => {
                let problem =
                    format!("accepted a connection and closed it without an answer to {to}");
                self.problem(format!("{host}:{port} {problem}"));
                Failure::Disconnected
            }
            (Ended::ByOwner | Ended::ByPeer | Ended::Broken(_), _) => Failure::Disconnected,
        }
    }

    /// Removes a connection whose task has ended, and fails its requests. Its number may be reused.
    fn closed(&mut self, number: usize, failure: Failure) {
        let unanswered = self.connections.end(number, End::Close);
        let connection = self.connections.all.remove(number);
        if connection.established {
            self.connections.established -= 1;
        }
        self.answer_failed(unanswered, failure);
    }

    /// Fails all these requests: the first request with the given failure, the later requests as
    /// disconnected.
    fn answer_failed(&mut self, unanswered: VecDeque<Waiting>, first: Failure) {
        for (at, waiting) in unanswered.into_iter().enumerate() {
            let failure = if at == 0 { first } else { Failure::Disconnected };
            self.answer(waiting, Err(failure));
        }
    }

    /// Called when the timer that was armed for `at` fires. Closes the connection if a request has
    /// timed out.
    pub(super) fn check_patience(&mut self, number: usize, at: Time) {
        let now = self.clock.now();
        let Some(connection) = self.connections.all.get_mut(number) else { return };
        if connection.armed != at {
            return;
        }
        connection.armed = Time::MAX;
        let Some(next) = connection.in_flight.iter().map(|waiting| waiting.expires).min() else {
            return;
        };
        if next > now {
            connection.armed = next;
            return self.arm(next, Due::Connection(number));
        }
        for waiting in self.connections.end(number, End::Close) {
            let expired = waiting.expires <= now;
            let failure = if expired { Failure::TimedOut } else { Failure::Disconnected };
            self.answer(waiting, Err(failure));
        }
    }

    /// Fails the request, but not before the next turn. If it failed at once, a member that repeats
    /// it at once would loop forever.
    fn answer_later(&mut self, waiting: Waiting, now: Time) {
        let number = self.connections.unsent.insert(waiting);
        self.arm(now, Due::Unsent(number));
    }

    pub(super) fn answer_unsent(&mut self, number: usize) {
        let waiting = self.connections.unsent.remove(number);
        self.answer(waiting, Err(Failure::Disconnected));
    }

    /// Breaks the connections of a member that vanishes. Connections that it shares with other
    /// members stay.
    pub(super) fn break_connections(&mut self, slot: u32) {
        if self.target.members_per_connection <= 1 {
            self.end_connections(slot, End::Abort);
        }
    }

    /// Called when a member has ended. Closes connections that no member uses any longer.
    pub(super) fn close_idle(&mut self, slot: u32) {
        let share = self.target.members_per_connection.max(1);
        let first = slot - slot % share;
        if self.members.are_done(first..first.saturating_add(share)) {
            self.end_connections(slot / share, End::Close);
        }
    }

    fn end_connections(&mut self, bundle: u32, how: End) {
        let nodes = &self.nodes;
        let nodes = (0..).map(NodeIndex).take_while(|node| nodes.address(*node).is_some());
        let links =
            nodes.flat_map(|node| [Link::Members(node, bundle), Link::Records(node, bundle)]);
        let numbers: Vec<usize> =
            links.filter_map(|link| self.connections.by_link.get(&link).copied()).collect();
        for number in numbers {
            // All members that use the connection have ended or are crashing, so none needs an
            // answer.
            let ended = self.connections.end(number, how);
            ended.iter().for_each(|waiting| self.never_answered(Owed::by(waiting)));
        }
    }
}

impl Owner for Core {
    fn line(&mut self, number: usize) -> &mut Line {
        &mut self.connections.all[number].line
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Marks those requests as written that were queued since the last write. They are at the end
    /// of the queue.
    fn written(&mut self, number: usize, began: Time) {
        let in_flight = self.connections.all[number].in_flight.iter_mut().rev();
        for waiting in in_flight.take_while(|waiting| waiting.written.is_none()) {
            // `began` is the beginning of the task's turn. The request may have been queued after
            // that.
            waiting.written = Some(began.max(waiting.sent));
        }
    }

    fn turn_ended(&mut self, began: Time) {
        self.count_turn(began);
    }

    fn frame(&mut self, number: usize, frame: &[u8], read: ReadAt) -> Result<(), Malformed> {
        let connection = &mut self.connections.all[number];
        let waiting = connection.in_flight.front().ok_or(Malformed::Unasked)?;
        let (expected, got) = (waiting.correlation, wire::correlation(frame)?);
        if expected != got {
            return Err(Malformed::Correlation { expected, got });
        }
        let response = wire::read_response(waiting.api, waiting.version, frame)?;
        connection.answered = true;
        let Some(waiting) = connection.in_flight.pop_front() else { return Ok(()) };
        let moments = waiting.moments(read);
        self.meter.answered(Owed::by(&waiting), &moments);
        // The member now sends requests that depend on this answer. They are as late as the answer.
        self.late = moments.delayed + read.now.since(moments.arrived);
        self.answer_at(moments.arrived, moments.delayed, waiting, Ok(response));
        self.late = Duration::ZERO;
        Ok(())
    }
}

/// Opens the connection and runs it to its end.
async fn run(shared: Rc<Shared>, number: usize) {
    let address = {
        let core = shared.core.borrow();
        let node = core.connections.all[number].node;
        core.nodes.address(node).map(|(host, port)| (host.to_owned(), port))
    };
    let Some((host, port)) = address else { return };
    // Boxed, so that the memory for connecting is freed once the connection is open.
    let made = Box::pin(shared.dialer.connect(&host, port)).await;
    shared.core.borrow_mut().connect_ended(number, made.is_ok());
    let failure = match made {
        Ok(transport) => {
            let buffers = &shared.dialer.buffers;
            let ended = line::serve(&shared.core, number, transport, buffers).await;
            shared.core.borrow_mut().why(number, ended, &host, port)
        }
        Err(problem) => {
            shared.core.borrow_mut().problem(problem);
            Failure::Disconnected
        }
    };
    shared.core.borrow_mut().closed(number, failure);
}
