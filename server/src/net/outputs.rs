//! The connections with output: some have bytes to send, others a slice of a stream, for which they
//! take turns.

use super::account::{Account, Kind};
use super::connection::Connection;
use super::limits::{SLICE_BYTES, SLICES_MAX};
use super::outgoing::Streaming;
use super::stream::Piece;
use super::table::Table;
use crate::net::ConnectionId;
use muster_storage::FileKey;
use std::collections::VecDeque;

/// The connections with output.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    /// Connections that may have output, or whose paused input may continue.
    marked: Vec<ConnectionId>,
    /// Connections whose streams wait for their turn. Some are closed.
    streams: VecDeque<ConnectionId>,
    /// The number of slices under way.
    slices: usize,
}

impl Outputs {
    /// Notes that a connection may have output, or that its paused input may continue.
    #[inline]
    pub(super) fn mark(&mut self, connection: &mut Connection) {
        if connection.output.mark() {
            self.marked.push(connection.id);
        }
    }

    /// Takes the connections that were marked since the last call.
    pub(super) fn take_marked(&mut self, table: &mut Table, into: &mut Vec<ConnectionId>) {
        into.clear();
        std::mem::swap(&mut self.marked, into);
        for id in into.iter() {
            if let Some(connection) = table.get_mut(*id) {
                connection.output.unmark();
            }
        }
    }

    /// Queues the next slice of a connection's stream, if it can leave next.
    #[inline]
    pub(super) fn queue(&mut self, connection: &mut Connection) {
        if connection.output.queue_slice() {
            self.streams.push_back(connection.id);
        }
    }

    /// Takes the next slice of a long answer, with at most `files` parts of files, and its
    /// connection. None if no connection has one to send, or if too many slices are under way.
    pub(super) fn next_slice<'t>(
        &mut self,
        table: &'t mut Table,
        account: &mut Account,
        files: usize,
    ) -> Option<(ConnectionId, Vec<Piece<'t>>)> {
        while self.streams.front().is_some_and(|id| table.get(*id).is_none()) {
            self.streams.pop_front();
        }
        if self.slices >= SLICES_MAX {
            return None;
        }
        let id = self.streams.pop_front()?;
        self.slices += 1;
        account.take(Kind::Slices, SLICE_BYTES);
        Some((id, table.get_mut(id)?.output.next_slice(files)))
    }

    /// Ends the slice of a connection that is under way: see
    /// [`Outgoing::end_slice`](super::outgoing::Outgoing::end_slice).
    pub(super) fn end_slice(
        &mut self,
        connection: &mut Connection,
        account: &mut Account,
        sent: usize,
        unsent: usize,
        done: &mut Vec<FileKey>,
    ) -> Option<bool> {
        let is_full = connection.output.end_slice(sent, unsent, done)?;
        self.release_slice(account);
        Some(is_full)
    }

    /// Ends the slice of a closed connection, if one is under way.
    pub(super) fn closed(&mut self, connection: &Connection, account: &mut Account) {
        if let Streaming::UnderWay(_) = connection.output.streaming() {
            self.release_slice(account);
        }
    }

    fn release_slice(&mut self, account: &mut Account) {
        self.slices -= 1;
        account.release(Kind::Slices, SLICE_BYTES);
    }

    /// The number of slices under way.
    pub(super) fn slices(&self) -> usize {
        self.slices
    }
}
