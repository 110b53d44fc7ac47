//! All connections of a shard. [`Connections`] passes each call to the parts that it concerns, and
//! the result of one part on to others. The parts do not call one another.
//!
//! - [`Doors`]: how many connections there may be, and when a new one is admitted.
//! - [`Inputs`]: which connections wait for the budget of input.
//! - [`Answers`]: in which order answers leave, and that they are durable.
//! - [`Amendments`]: how many bytes changes of answers may hold.
//! - [`Outputs`]: which connections have output, and which of them sends the next slice.
//! - [`Unread`]: which client is closed because it does not read its answers.
//! - [`Throttle`]: how long a connection is not served because of quotas.
//! - [`Meter`]: which requests are measured.
//!
//! A part gets what else it needs as arguments: the [`Table`] or a [`Connection`] of it, the
//! [`Account`] of all bytes, and its limit. A connection has a state for each part: its admission,
//! input, requests, output, and whether it is throttled.

mod answering;
mod inspection;

use super::account::{Account, Kind};
use super::amendments::Amendments;
use super::answers::Answers;
use super::charge::{Charge, Used};
use super::connection::{Connection, Throttled};
use super::counters::ClientCounters;
use super::doors::{Doors, TooMany};
use super::inputs::Inputs;
use super::limits::Limits;
use super::outputs::Outputs;
use super::table::Table;
use super::throttle::{Throttle, WaitEnded};
use super::timings::Meter;
use super::unread::{self, Unread};
use crate::clock::{Stopwatch, earliest};
use crate::config::ListenerIndex;
use crate::net::ConnectionId;
use crate::quotas::{Allowance, Limit, Window};
use muster_coordinator::RequestId;
use muster_faults::Fault;
use muster_storage::FileKey;
use std::sync::Arc;

/// The connections of a shard.
#[derive(Debug)]
pub struct Connections {
    limits: Limits,
    table: Table,
    doors: Doors,
    inputs: Inputs,
    answers: Answers,
    amendments: Amendments,
    outputs: Outputs,
    unread: Unread,
    throttle: Throttle,
    meter: Meter,
    account: Account,
    counters: ClientCounters,
}

impl Connections {
    pub(super) fn new(limits: Limits, window: Window, stopwatch: Stopwatch) -> Self {
        Self {
            limits,
            table: Table::default(),
            doors: Doors::new(window),
            inputs: Inputs::default(),
            answers: Answers::default(),
            amendments: Amendments::default(),
            outputs: Outputs::default(),
            unread: Unread::default(),
            throttle: Throttle::new(window, stopwatch),
            meter: Meter::new(stopwatch),
            account: Account::default(),
            counters: ClientCounters::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Changes the limits; open connections stay, even if there are more than allowed now.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Sets the time of the current event.
    pub(super) fn set_time(&mut self, now: i64) {
        self.throttle.advance(now);
    }

    /// Takes a new connection.
    ///
    /// # Errors
    /// A limit is reached; nothing is kept.
    pub(super) fn open(
        &mut self,
        id: ConnectionId,
        listener: ListenerIndex,
        host: Arc<str>,
        now: i64,
    ) -> Result<(), TooMany> {
        self.doors.open(&host, &self.limits)?;
        self.table.add(Connection::new(id, listener, host, now));
        self.counters.connections_opened += 1;
        Ok(())
    }

    /// Lets a new connection wait until its listener admits it.
    ///
    /// # Errors
    /// Too many connections wait already.
    pub(super) fn arrive(&mut self, id: ConnectionId) -> Result<(), TooMany> {
        self.doors.arrive(&mut self.table, id)
    }

    /// Admits the next connection that waits. It may have sent requests already.
    pub(super) fn let_in(&mut self) -> Option<ConnectionId> {
        let id = self.doors.let_in(&mut self.table, &self.limits, self.throttle.now())?;
        self.mark(id);
        Some(id)
    }

    /// How long a new connection of an address is held before it is closed; 0 if it may stay.
    pub(super) fn admit_address(&mut self, limit: &Limit) -> i64 {
        self.throttle.admit_address(limit)
    }

    /// Turns away an admitted connection: closes it later. Until then it does not count as
    /// admitted.
    pub(super) fn turn_away(&mut self, id: ConnectionId, delay_ms: i64) {
        let Some(connection) = self.table.get_mut(id) else { return };
        self.doors.turn_away(connection, &self.limits, self.throttle.now());
        self.throttle.hold(&mut self.table, id, delay_ms, Throttled::Closed);
    }

    /// The connections to close because there are more than `max.connections`.
    pub(super) fn excess(&self) -> Vec<ConnectionId> {
        self.doors.excess(&self.table, &self.limits)
    }

    /// Removes a connection and its requests; later answers to them are dropped. Returns the files
    /// that its answers held open. None if it was removed before.
    pub(super) fn close(&mut self, id: ConnectionId) -> Option<Vec<FileKey>> {
        let connection = self.table.remove(id)?;
        self.inputs.closed(&connection, &mut self.account);
        unread::closed(&connection, &mut self.account);
        self.amendments.closed(&connection, &mut self.account);
        self.outputs.closed(&connection, &mut self.account);
        self.doors.closed(&connection);
        self.counters.connections_closed += 1;
        Some(connection.files())
    }

    /// The time over which the use of quotas is measured.
    pub(super) fn quota_window(&self) -> Window {
        self.throttle.window()
    }

    /// Charges a request to its client when it is answered.
    pub(super) fn charge(&mut self, request: RequestId, allowance: Arc<Allowance>, used: Used) {
        let charge = self.throttle.charge(allowance, used);
        if let Some(connection) = self.table.get_mut(ConnectionId(request.connection)) {
            connection.requests.charge(request.sequence, Box::new(charge));
        }
    }

    /// Notes that the shard works on a request again.
    pub(crate) fn works_on(&mut self, request: RequestId) {
        if let Some(charge) = charge_of(&mut self.table, request) {
            self.throttle.works_on(charge);
        }
    }

    /// Notes that the shard has stopped working on a request, which now waits for something.
    pub(crate) fn rests(&mut self, request: RequestId) {
        if let Some(charge) = charge_of(&mut self.table, request) {
            self.throttle.rests(charge);
        }
    }

    /// Stops serving a connection for some time.
    pub(crate) fn throttle(&mut self, id: ConnectionId, delay_ms: i64) {
        self.counters.requests_throttled += 1;
        if !Fault::Unmuted.is_injected() {
            self.throttle.hold(&mut self.table, id, delay_ms, Throttled::Until);
        }
    }

    /// Serves connections again whose throttle time is over. Returns the connections that are to be
    /// closed.
    pub(super) fn end_throttling(&mut self) -> Vec<ConnectionId> {
        let mut to_close = Vec::new();
        while let Some(ended) = self.throttle.next_ended(&mut self.table) {
            match ended {
                WaitEnded::Served(id) => self.mark(id),
                WaitEnded::Close(id) => to_close.push(id),
            }
        }
        to_close
    }

    /// Notes that the connection's input may be handled further, if it was paused.
    fn mark(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id) {
            self.outputs.mark(connection);
        }
    }

    /// The bytes held for clients.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Sets the number of bytes of one kind that other parts of the server hold.
    pub(crate) fn count(&mut self, kind: Kind, bytes: usize) {
        self.account.set(kind, bytes);
    }

    pub(super) fn counters_mut(&mut self) -> &mut ClientCounters {
        &mut self.counters
    }

    /// When a part has something to do.
    pub(super) fn deadline(&self, now: i64) -> Option<i64> {
        earliest([
            self.inputs.deadline(&self.table, |id| self.is_stalled(id)),
            self.unread.deadline(now),
            self.throttle.deadline(),
            self.doors.deadline(now),
            (self.inputs.leaving() > 0).then_some(now),
        ])
    }

    /// Whether further requests of this connection have to wait, or will never be handled because
    /// it is closed.
    pub(super) fn is_stalled(&self, id: ConnectionId) -> bool {
        self.table.get(id).is_none_or(|connection| {
            connection.is_held()
                || connection.requests.len() >= self.limits.requests_in_flight
                || connection.unread_bytes() > self.limits.output_bytes
                || (connection.unread_bytes() > 0 && self.is_unread_full())
        })
    }

    /// Notes that input arrived on a connection that had none. The meter may choose to measure the
    /// requests in this input.
    pub(super) fn sample_input(&mut self, id: ConnectionId) {
        let arrived = self.meter.sample();
        if let Some(connection) = self.table.get_mut(id) {
            connection.input.arrived = arrived;
        }
    }

    /// Counts a connection's input; true if receiving has to stop.
    pub(super) fn count_input(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return false };
        self.inputs.count(connection, &mut self.account, self.limits.input_bytes)
    }

    /// The reason for closing a connection that has just received bytes. None if the budget of
    /// input has room for them.
    pub(super) fn exceeds_input(&self, id: ConnectionId) -> Option<String> {
        self.inputs.excess(&self.table, id, &self.account, self.limits.input_bytes)
    }

    /// The connections whose receiving may continue now: see [`Inputs::admit`].
    pub(super) fn admit_input(&mut self, now: i64) -> Vec<ConnectionId> {
        self.inputs.admit(&mut self.table, &self.account, self.limits.input_bytes, now)
    }

    /// The connection whose time to finish its frame is over, and the reason for closing it.
    pub(super) fn overdue_input(&self, now: i64) -> Option<(ConnectionId, String)> {
        let max = self.limits.input_bytes;
        self.inputs.overdue(&self.table, |id| self.is_stalled(id), max, now)
    }

    /// Restarts the time limit for finishing a frame, because nothing is received while the log is
    /// full.
    pub(super) fn excuse_input(&mut self, now: i64) {
        self.inputs.excuse(now);
    }

    /// Releases the memory of an input buffer, of which `used` bytes were filled.
    pub(super) fn leave_input(&mut self, buffer: Vec<u8>, used: usize) {
        self.inputs.leave(buffer, used, &mut self.account);
    }

    /// Releases the next part of the memory of large buffers.
    pub(super) fn release_input(&mut self) {
        self.inputs.release_part(&mut self.account);
    }

    /// Whether the budget of unread answers is exceeded.
    pub(super) fn is_unread_full(&self) -> bool {
        unread::is_full(&self.account, self.limits.unread_bytes)
    }

    /// The connection whose time to read is over, and the reason for closing it.
    pub(super) fn overdue_reader(&mut self, now: i64) -> Option<(ConnectionId, String)> {
        self.unread.overdue(&self.table, &self.account, self.limits.unread_bytes, now)
    }

    #[inline]
    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.table.get(id)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.table.get_mut(id)
    }

    /// Whether a connection is open.
    pub(crate) fn is_open(&self, id: ConnectionId) -> bool {
        self.table.get(id).is_some()
    }

    /// Whether receiving from a connection is not paused.
    #[cfg(test)]
    pub(crate) fn receives(&self, id: ConnectionId) -> bool {
        self.table.get(id).is_some_and(|connection| !connection.input.is_paused())
    }

    /// See [`Table::part`].
    pub(super) fn part(
        &mut self,
        from: usize,
        count: usize,
    ) -> (impl Iterator<Item = &mut Connection>, Option<usize>) {
        self.table.part(from, count)
    }

    /// The connections without input or output since `time`.
    pub(super) fn quiet_since(&self, time: i64) -> Vec<ConnectionId> {
        let is_quiet = |it: &&Connection| it.input.last_active.max(it.output.last_taken) < time;
        self.table.iter().filter(is_quiet).map(|connection| connection.id).collect()
    }

    /// The connections whose client ended its input before `time`.
    pub(super) fn input_ended_before(&self, time: i64) -> Vec<ConnectionId> {
        let has_ended = |it: &&Connection| it.input.ended_at().is_some_and(|at| at < time);
        self.table.iter().filter(has_ended).map(|connection| connection.id).collect()
    }

    /// All open connections.
    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.table.iter().map(|connection| connection.id).collect()
    }
}

/// The registered charge of a request.
fn charge_of(table: &mut Table, request: RequestId) -> Option<&mut Charge> {
    table.get_mut(ConnectionId(request.connection))?.requests.charge_of(request.sequence)
}

#[cfg(test)]
impl Connections {
    /// Connections of clients without quotas.
    pub(super) fn unthrottled(limits: Limits) -> Self {
        Self::new(limits, Window::default(), || 0)
    }
}

#[cfg(test)]
mod tests;
