//! How many connections the rings of a process may have together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::ring::Ring;

/// Room for so many connections, of which rings take some as clients come, and give it back. A count
/// and no lock: it is touched when a connection comes or goes, never by what is sent on it.
#[derive(Debug, Clone)]
pub struct Room(Arc<AtomicUsize>);

impl Room {
    pub fn new(connections: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(connections)))
    }

    /// Takes up to `most`.
    fn take(&self, most: usize) -> usize {
        let left = self.0.fetch_update(Relaxed, Relaxed, |left| Some(left - most.min(left)));
        left.map_or(0, |left| most.min(left))
    }

    fn give(&self, count: usize) {
        self.0.fetch_add(count, Relaxed);
    }

    fn is_left(&self) -> bool {
        self.0.load(Relaxed) > 0
    }
}

impl Ring {
    /// From now on connections are accepted only as far as there is room.
    pub fn share_room(&mut self, room: Room) {
        self.room = Some(room);
    }

    /// Whether further clients wait in the backlog: as many connections are open as may be.
    pub fn is_full(&self) -> bool {
        self.listeners.iter().any(|listener| listener.is_short() && listener.armed == 0)
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

    /// Another ring may have given some back.
    pub(crate) fn look_for_room(&mut self) {
        let is_short = self.listeners.iter().any(|listener| listener.is_short());
        if is_short && self.room.as_ref().is_some_and(Room::is_left) {
            self.arm_all();
        }
    }

    /// Connections, and accepts under way, each of which may become one.
    fn held(&self) -> usize {
        let armed: usize = self.listeners.iter().map(|listener| listener.armed).sum();
        self.connections.len() + armed
    }
}
