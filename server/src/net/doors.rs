//! Limits how many connections are open: from one address, on one listener, and on all listeners.
//!
//! Each listener has a door (a queue), where new connections wait to be admitted. It admits one
//! after the other, as Kafka's acceptors do (`ConnectionQuotas`, KIP-402, KIP-612).

use super::connection::{Admission, Connection};
use super::limits::{Limits, WAITING_AT_DOOR_MAX};
use super::table::Table;
use crate::config::ListenerIndex;
use crate::net::ConnectionId;
use crate::quotas::{Bound, Rate, Window};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// The limit that refuses a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    Waiting(usize),
    PerIp(usize),
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(max) => write!(
                f,
                "{max} new connections of its listener wait already (WAITING_AT_DOOR_MAX)"
            ),
            Self::PerIp(max) => write!(f, "max.connections.per.ip={max} of its address are open"),
        }
    }
}

/// The open connections by address, and the doors of all listeners.
#[derive(Debug)]
pub(super) struct Doors {
    window: Window,
    /// Open connections by host.
    per_host: HashMap<Arc<str>, usize>,
    doors: Vec<Door>,
    /// The rate of new connections of all listeners together. Listeners to which the common limits
    /// do not apply are left out.
    rate: Rate,
}

#[derive(Debug, Default)]
struct Door {
    waiting: VecDeque<ConnectionId>,
    /// The number of open connections that were admitted.
    inside: usize,
    /// The rate of new connections of this listener.
    rate: Rate,
    /// The time when the first waiting connection may enter. None until `rate` has counted the
    /// connection.
    opens_at: Option<i64>,
}

impl Doors {
    pub(super) fn new(window: Window) -> Self {
        Self { window, per_host: HashMap::new(), doors: Vec::new(), rate: Rate::default() }
    }

    /// Counts a new connection of an address.
    ///
    /// # Errors
    /// Too many are open; nothing is counted.
    pub(super) fn open(&mut self, host: &Arc<str>, limits: &Limits) -> Result<(), TooMany> {
        let max = limits.per_ip_max(host);
        if self.per_host.get(host).copied().unwrap_or(0) >= max {
            return Err(TooMany::PerIp(max));
        }
        *self.per_host.entry(Arc::clone(host)).or_default() += 1;
        Ok(())
    }

    /// The host with the most connections, and their number.
    pub(super) fn busiest_host(&self) -> Option<(&str, usize)> {
        let of_hosts = self.per_host.iter().map(|(host, count)| (&**host, *count));
        of_hosts.max_by_key(|(host, count)| (*count, std::cmp::Reverse(*host)))
    }

    /// Notes that a connection is closed.
    pub(super) fn closed(&mut self, connection: &Connection) {
        if connection.admission == Admission::Inside {
            self.leave(connection.listener);
        }
        if let Some(count) = self.per_host.get_mut(&connection.host) {
            *count -= 1;
            if *count == 0 {
                self.per_host.remove(&connection.host);
            }
        }
    }

    /// Lets a new connection wait until its listener admits it.
    ///
    /// # Errors
    /// Too many connections wait already.
    pub(super) fn arrive(&mut self, table: &mut Table, id: ConnectionId) -> Result<(), TooMany> {
        let Some(listener) = table.get(id).map(|connection| connection.listener) else {
            return Ok(());
        };
        if !self.queue(listener, id, |id| table.get(id).is_some()) {
            return Err(TooMany::Waiting(WAITING_AT_DOOR_MAX));
        }
        table.get_mut(id).into_iter().for_each(|it| it.admission = Admission::Waits);
        Ok(())
    }

    /// Queues a new connection; false if too many open connections wait already.
    fn queue(
        &mut self,
        listener: ListenerIndex,
        id: ConnectionId,
        is_open: impl Fn(ConnectionId) -> bool,
    ) -> bool {
        let waiting = &mut self.door(listener).waiting;
        if waiting.len() >= WAITING_AT_DOOR_MAX {
            waiting.retain(|id| is_open(*id));
        }
        let has_room = waiting.len() < WAITING_AT_DOOR_MAX;
        if has_room {
            waiting.push_back(id);
        }
        has_room
    }

    /// Admits the next connection, and skips connections that were closed while they waited.
    pub(super) fn let_in(
        &mut self,
        table: &mut Table,
        limits: &Limits,
        now: i64,
    ) -> Option<ConnectionId> {
        loop {
            let (listener, id) = self.next(limits, now)?;
            match table.get_mut(id) {
                Some(connection) => {
                    connection.admission = Admission::Inside;
                    return Some(id);
                }
                None => self.leave(listener),
            }
        }
    }

    /// Takes the next connection that may enter out of its queue, and counts it as admitted.
    fn next(&mut self, limits: &Limits, now: i64) -> Option<(ListenerIndex, ConnectionId)> {
        let mut listeners = (0..self.doors.len()).map(ListenerIndex);
        listeners.find_map(|listener| Some((listener, self.next_at(listener, limits, now)?)))
    }

    fn next_at(
        &mut self,
        listener: ListenerIndex,
        limits: &Limits,
        now: i64,
    ) -> Option<ConnectionId> {
        self.door(listener).waiting.front()?;
        let opens_at = match self.door(listener).opens_at {
            Some(at) => at,
            None => now + self.count(listener, limits, now),
        };
        self.door(listener).opens_at = Some(opens_at);
        if opens_at > now || !self.has_place(listener, limits) {
            return None;
        }
        let door = self.door(listener);
        door.opens_at = None;
        door.inside += 1;
        door.waiting.pop_front()
    }

    /// Adds a new connection to the rates. Returns how many ms the connection has to wait. As in
    /// Kafka, it is added even if no limit is set, because a limit may be set later.
    fn count(&mut self, listener: ListenerIndex, limits: &Limits, now: i64) -> i64 {
        let (window, of_door) = (self.window, limits.of_door(listener));
        let delay = |rate: &mut Rate, bound: Option<Bound>| {
            rate.record(window, 1.0, now);
            let delay = bound.map_or(0, |bound| rate.delay_ms(window, bound.get(), now));
            delay.min(window.sample_ms)
        };
        let own = delay(&mut self.door(listener).rate, of_door.new_connections);
        if of_door.is_spared {
            return own;
        }
        own.max(delay(&mut self.rate, limits.new_connections))
    }

    fn has_place(&self, listener: ListenerIndex, limits: &Limits) -> bool {
        let of_door = limits.of_door(listener);
        let inside = self.doors.get(listener.0).map_or(0, |door| door.inside);
        inside < of_door.connections && (of_door.is_spared || self.inside() < limits.connections)
    }

    /// Subtracts an admitted connection from the number of admitted ones.
    fn leave(&mut self, listener: ListenerIndex) {
        self.door(listener).inside -= 1;
    }

    /// Turns away an admitted connection: from now on it does not count as admitted.
    pub(super) fn turn_away(&mut self, connection: &mut Connection, limits: &Limits, now: i64) {
        connection.admission = Admission::Outside;
        self.uncount(connection.listener, limits, now);
    }

    fn uncount(&mut self, listener: ListenerIndex, limits: &Limits, now: i64) {
        self.leave(listener);
        let (window, of_door) = (self.window, limits.of_door(listener));
        if !of_door.is_spared {
            self.rate.record(window, -1.0, now);
        }
        self.door(listener).rate.record(window, -1.0, now);
    }

    /// The connections to close if more than `max.connections` are open: those whose clients have
    /// sent nothing for longest. Skips listeners to which this limit does not apply.
    pub(super) fn excess(&self, table: &Table, limits: &Limits) -> Vec<ConnectionId> {
        let excess = self.inside().saturating_sub(limits.connections);
        if excess == 0 {
            return Vec::new();
        }
        let may_be_closed = |it: &&Connection| {
            it.admission == Admission::Inside && !limits.of_door(it.listener).is_spared
        };
        let admitted = table.iter().filter(may_be_closed);
        let mut quiet: Vec<_> = admitted.map(|it| (it.input.last_active, it.id)).collect();
        quiet.sort_unstable();
        quiet.into_iter().take(excess).map(|(_, id)| id).collect()
    }

    /// The number of open connections that were admitted.
    pub(super) fn inside(&self) -> usize {
        self.doors.iter().map(|door| door.inside).sum()
    }

    /// When the next connection may be admitted.
    pub(super) fn deadline(&self, now: i64) -> Option<i64> {
        self.doors.iter().filter_map(|door| door.opens_at).filter(|at| *at > now).min()
    }

    fn door(&mut self, listener: ListenerIndex) -> &mut Door {
        if self.doors.len() <= listener.0 {
            self.doors.resize_with(listener.0 + 1, Door::default);
        }
        &mut self.doors[listener.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::net::limits::DoorLimits;

    const INSIDE: ListenerIndex = ListenerIndex(0);
    const OUTSIDE: ListenerIndex = ListenerIndex(1);

    fn limits(connections: usize, of_doors: [DoorLimits; 2]) -> Limits {
        let doors = of_doors.to_vec();
        Limits { connections, doors, ..Limits::of(&Config::default()) }
    }

    fn door(connections: usize, rate: Option<u32>, is_spared: bool) -> DoorLimits {
        DoorLimits { connections, new_connections: rate.map(Bound::from), is_spared }
    }

    /// The connections that may enter at the time `now`, in order, each by its index.
    fn let_in(doors: &mut Doors, limits: &Limits, now: i64) -> Vec<usize> {
        std::iter::from_fn(|| doors.next(limits, now)).map(|(_, id)| id.slot()).collect()
    }

    fn arrive(doors: &mut Doors, listener: ListenerIndex, slots: std::ops::Range<u32>) {
        for slot in slots {
            assert!(doors.queue(listener, ConnectionId::new(slot, 0), |_| true));
        }
    }

    #[test]
    fn a_door_has_places_of_its_own_and_a_spared_one_needs_none_of_all() {
        let limits = limits(3, [door(9, None, true), door(2, None, false)]);
        let mut doors = Doors::new(Window::default());
        arrive(&mut doors, OUTSIDE, 10..13);
        assert_eq!(let_in(&mut doors, &limits, 0), [10, 11], "the third waits");
        arrive(&mut doors, INSIDE, 0..3);
        assert_eq!(let_in(&mut doors, &limits, 0), [0, 1, 2], "beyond max.connections");
        doors.leave(OUTSIDE);
        let has_let_in = !let_in(&mut doors, &limits, 0).is_empty();
        assert!(!has_let_in, "the listener has a place, all have none");
        doors.leave(INSIDE);
        doors.leave(INSIDE);
        assert_eq!(let_in(&mut doors, &limits, 0), [12]);
        assert_eq!(doors.inside(), 3);
    }

    #[test]
    fn a_door_with_a_rate_does_not_hold_up_the_other() {
        let limits = limits(99, [door(99, None, false), door(99, Some(1), false)]);
        let mut doors = Doors::new(Window::default());
        arrive(&mut doors, OUTSIDE, 0..13);
        assert_eq!(let_in(&mut doors, &limits, 0), (0..10).collect::<Vec<_>>());
        assert_eq!(doors.deadline(0), Some(1_000));
        arrive(&mut doors, INSIDE, 50..52);
        assert_eq!(let_in(&mut doors, &limits, 500), [50, 51]);
        assert_eq!(let_in(&mut doors, &limits, 1_000), [10]);
    }

    #[test]
    fn the_rate_of_all_is_shared_and_spares_one() {
        let two = [door(99, None, true), door(99, None, false)];
        let limits = Limits { new_connections: Some(Bound::from(1)), ..limits(99, two) };
        let mut doors = Doors::new(Window::default());
        arrive(&mut doors, INSIDE, 0..20);
        assert_eq!(let_in(&mut doors, &limits, 0).len(), 20);
        arrive(&mut doors, OUTSIDE, 20..40);
        assert_eq!(let_in(&mut doors, &limits, 0).len(), 10);
    }

    #[test]
    fn connections_count_before_there_is_a_limit() {
        let without = limits(99, [door(99, None, false); 2]);
        let with = Limits { new_connections: Some(Bound::from(1)), ..without.clone() };
        let mut doors = Doors::new(Window::default());
        arrive(&mut doors, INSIDE, 0..10);
        assert_eq!(let_in(&mut doors, &without, 0).len(), 10);
        arrive(&mut doors, INSIDE, 10..11);
        assert!(let_in(&mut doors, &with, 0).is_empty());
        assert_eq!(let_in(&mut doors, &with, 1_000), [10]);
    }

    #[test]
    fn what_is_turned_away_does_not_count() {
        let limits = limits(99, [door(99, Some(1), false); 2]);
        let mut doors = Doors::new(Window::default());
        for slot in 0..100 {
            arrive(&mut doors, INSIDE, slot..slot + 1);
            assert_eq!(let_in(&mut doors, &limits, 0), [slot as usize]);
            doors.uncount(INSIDE, &limits, 0);
        }
        assert_eq!(doors.inside(), 0);
    }

    #[test]
    fn those_that_wait_are_limited_without_those_that_have_gone() {
        let limits = limits(0, [door(0, None, false); 2]);
        let mut doors = Doors::new(Window::default());
        arrive(&mut doors, INSIDE, 0..WAITING_AT_DOOR_MAX as u32);
        assert!(let_in(&mut doors, &limits, 0).is_empty());
        let next = ConnectionId::new(WAITING_AT_DOOR_MAX as u32, 0);
        assert!(!doors.queue(INSIDE, next, |_| true));
        assert!(doors.queue(INSIDE, next, |id| id.slot() > 0));
    }
}
