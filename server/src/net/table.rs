//! The open connections of a shard, by id.

use super::connection::Connection;
use crate::net::ConnectionId;

/// The open connections.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The connections by their indexes ([`ConnectionId::slot`]).
    entries: Vec<Option<Connection>>,
    open: usize,
}

impl Table {
    /// The number of connections.
    pub(super) fn len(&self) -> usize {
        self.open
    }

    #[inline]
    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.entries.get(id.slot())?.as_ref().filter(|connection| connection.id == id)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.entries.get_mut(id.slot())?.as_mut().filter(|connection| connection.id == id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.entries.iter().flatten()
    }

    /// The connections in the next `count` entries of the table, used or free, and the index of the
    /// entry after them. The index is None at the end of the table.
    pub(super) fn part(
        &mut self,
        from: usize,
        count: usize,
    ) -> (impl Iterator<Item = &mut Connection>, Option<usize>) {
        let end = self.entries.len().min(from + count);
        let next = (end < self.entries.len()).then_some(end);
        (self.entries[from.min(end)..end].iter_mut().flatten(), next)
    }

    /// Adds a connection whose index is free.
    pub(super) fn add(&mut self, connection: Connection) {
        let index = connection.id.slot();
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        debug_assert!(self.entries[index].is_none());
        self.entries[index] = Some(connection);
        self.open += 1;
    }

    /// Removes a connection; None if it was removed before.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let entry = self.entries.get_mut(id.slot())?;
        let connection = entry.take_if(|connection| connection.id == id)?;
        self.open -= 1;
        Some(connection)
    }
}
