//! How many connections the rings of a process may have together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::accept::REST;
use crate::ring::Ring;

/// Room for so many connections, of which rings take some as clients come, and give it back. A count
/// and no lock: it is touched when a connection comes or goes, never by what is sent on it.
#[derive(Debug, Clone)]
pub struct Room {
    left: Arc<AtomicUsize>,
    /// Accepts that one ring has under way.
    accepts_max: usize,
}

/// How often a ring that is full looks whether another one gave room back.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Accepts under way at the most: so many clients are taken in a turn.
const ACCEPTS_MAX: usize = 64;

/// Accepts under way take room, too: in all rings together no more than this part.
const ACCEPTS_PART: usize = 4;

impl Room {
    pub fn new(connections: usize, rings: usize) -> Self {
        let part = connections / (ACCEPTS_PART * rings.max(1));
        Self {
            left: Arc::new(AtomicUsize::new(connections)),
            accepts_max: part.clamp(1, ACCEPTS_MAX),
        }
    }

    /// Takes up to `most`.
    fn take(&self, most: usize) -> usize {
        let left = self.left.fetch_update(Relaxed, Relaxed, |left| Some(left - most.min(left)));
        left.map_or(0, |left| most.min(left))
    }

    fn give(&self, count: usize) {
        self.left.fetch_add(count, Relaxed);
    }

    fn is_left(&self) -> bool {
        self.left.load(Relaxed) > 0
    }
}

impl Ring {
    /// From now on connections are accepted only as far as there is room.
    pub fn share_room(&mut self, room: Room) {
        self.room = Some(room);
    }

    /// Whether further clients wait in the backlog: as many connections are open as may be.
    pub fn is_full(&self) -> bool {
        let max = self.accepts_max();
        self.listeners.iter().any(|listener| listener.is_short(max) && listener.armed == 0)
    }

    /// Of one listener.
    pub(crate) fn accepts_max(&self) -> usize {
        self.room.as_ref().map_or(ACCEPTS_MAX, |room| room.accepts_max)
    }

    /// Takes room for up to `most` accepts more than are under way; tells for how many there is any.
    pub(crate) fn take_room(&mut self, most: usize) -> usize {
        let held = self.held();
        let most = most.min(self.connections.max().saturating_sub(held));
        let Some(room) = &self.room else { return most };
        let missing = (held + most).saturating_sub(self.granted);
        self.granted += if missing > 0 { room.take(missing) } else { 0 };
        most.min(self.granted.saturating_sub(held))
    }

    /// Gives back the room of connections that are gone.
    pub(crate) fn give_room(&mut self) {
        let unused = self.granted.saturating_sub(self.held());
        if let Some(room) = self.room.as_ref().filter(|_| unused > 0) {
            room.give(unused);
            self.granted -= unused;
        }
    }

    /// Another ring may have given some back, and descriptors may be there again. Gives how long
    /// this turn may wait, as nobody tells.
    pub(crate) fn look_for_room(&mut self) -> Option<Duration> {
        for listener in &mut self.listeners {
            listener.resting = listener.resting.filter(|since| since.elapsed() < REST);
        }
        let max = self.accepts_max();
        let is_short = self.listeners.iter().any(|listener| listener.is_short(max));
        if is_short && self.room.as_ref().is_none_or(Room::is_left) {
            self.arm_all();
        }
        let rests = self.listeners.iter().any(|listener| listener.resting.is_some());
        if self.is_full() { Some(LOOK_EVERY) } else { rests.then_some(REST) }
    }

    /// Connections, and accepts under way, each of which may become one.
    fn held(&self) -> usize {
        let armed: usize = self.listeners.iter().map(|listener| listener.armed).sum();
        self.connections.len() + armed
    }
}
