//! Input of clients. Each connection in turn gets a slice of time, in which whole frames of its
//! input are handled.

use super::stages::End;
use super::{Command, Shard};
use crate::clock::Times;
use crate::net::{ConnectionId, Kind, Work, mistaken};

impl Shard {
    /// Handles a slice of the work that has waited longest. Calls `is_over` before each frame after
    /// the first, and ends the slice when it returns true. Returns whether more work waits.
    pub fn work(
        &mut self,
        times: Times,
        is_over: &mut dyn FnMut() -> bool,
        commands: &mut Vec<Command>,
    ) -> bool {
        self.advance(times);
        if self.has_work() {
            match self.clients.next_work() {
                Some(Work::Input(id)) => self.serve(id, is_over),
                Some(Work::Long) => self.continue_long(is_over),
                None => {}
            }
        }
        self.settle_transactions();
        self.release_gone();
        self.settle_shares();
        commands.append(&mut self.commands);
        self.has_work()
    }

    /// Calls [`Self::work`] until no work waits.
    pub fn work_all(&mut self, times: Times, commands: &mut Vec<Command>) {
        while self.work(times, &mut || false, commands) {}
    }

    /// Counts the bytes of input that are not decrypted yet, and the bytes of the TLS sessions.
    pub fn count_encrypted(&mut self, bytes: usize, sessions: usize) {
        self.clients.answers().count(Kind::Encrypted, bytes);
        self.clients.answers().count(Kind::Sessions, sessions);
    }

    /// Makes new input wait until the end of the turn, which has taken long enough.
    pub fn work_later(&mut self) {
        self.clients.work_later();
    }

    /// Whether work waits that may be done now.
    pub fn has_work(&self) -> bool {
        self.clients.has_work() && !self.upkeep.is_failed() && !self.runtime.is_closed()
    }

    /// Whether some of this work belongs to connections that come first.
    pub fn has_work_for_first(&self) -> bool {
        self.clients.has_first() && self.has_work()
    }

    pub(super) fn received(&mut self, id: ConnectionId, data: &[u8]) {
        let Some((earlier, is_alone)) = self.clients.received(id, data.len()) else { return };
        let handled = if is_alone { self.frames(id, data, &mut || true) } else { 0 };
        let log_is_closed = self.runtime.is_closed();
        self.clients.keep(earlier, data, handled, log_is_closed, &mut self.commands);
    }

    fn serve(&mut self, id: ConnectionId, is_over: &mut dyn FnMut() -> bool) {
        let Some(input) = self.clients.take_input(id) else { return };
        let mut is_slice_over = false;
        let mut is_over = || {
            is_slice_over = is_slice_over || is_over();
            is_slice_over
        };
        let handled = self.frames(id, input.bytes(), &mut is_over);
        let log_is_closed = self.runtime.is_closed();
        self.clients.handled(input, (handled, is_slice_over), log_is_closed, &mut self.commands);
    }

    /// Handles complete frames at the start of `bytes`, at least one, until the connection is held
    /// back or its slice is over. Returns the number of handled bytes.
    fn frames(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        is_over: &mut dyn FnMut() -> bool,
    ) -> usize {
        let mut handled = 0;
        loop {
            let rest = &bytes[handled..];
            let log_is_closed = self.runtime.is_closed();
            let (end, length) = match self.clients.next_frame(id, rest, log_is_closed) {
                Ok(Some(length)) if handled == 0 || !is_over() => {
                    (self.dispatch(id, &rest[4..length]), length)
                }
                Ok(_) => return handled,
                Err(reason) => (End::Close(reason), 0),
            };
            match end {
                End::Handled => {
                    handled += length;
                    self.counters.requests_handled += 1;
                }
                End::Later => self.clients.wait_for_long(id),
                End::Unserved => {}
                End::Close(reason) => {
                    self.clients.close(id, mistaken(rest, reason), &mut self.commands);
                    return bytes.len();
                }
            }
        }
    }
}
