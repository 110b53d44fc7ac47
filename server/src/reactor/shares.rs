//! Divides a shard's time. A connection *comes first* once its requests have been short
//! (`net/standing.rs`). Its next short request then waits little longer than one turn of all other
//! connections, however many these are and whatever they send:
//!
//! - Completions of connections that come first are handled first, and their answers leave at the
//!   end of the same turn.
//! - Other connections are served when there are no completions that come first, or when these
//!   have used up their share of the time since other connections were last served. Each kind of
//!   work has its own time limit: new connections and bytes, handshakes, and waiting requests.
//!
//! The caller measures the time: [`Io::begin`] and [`Io::is_over`].
//!
//! `reactor/driven.rs` has the lengths of the shares: a millisecond for connections that come
//! first, half a millisecond for new connections and bytes, 0.3 ms for handshakes, half a
//! millisecond for requests. Work in progress at the end of a share is finished. So the wait of a
//! short request does not depend on the number of other clients. The tests of the reactor count
//! pieces of work instead of time.

use super::{Io, Reactor};
use crate::files::FileError;
use crate::shard::Shard;

/// How many events are handled between two readings of the clock.
const EVENTS_PER_LOOK: usize = 16;

/// The shares of a shard's time: one for connections that come first, and three for other work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    #[default]
    First,
    /// New connections, and bytes of connections that do not come first.
    Others,
    Handshakes,
    /// Waiting requests.
    Requests,
}

impl<I: Io> Reactor<I> {
    /// Handles new completions and waiting work, each within its share.
    pub(super) fn share_turn(&mut self, io: &mut I, shard: &mut Shard) -> Result<(), FileError> {
        let has_first = self.serve_first(io, shard)?;
        let others_wait =
            io.has_others() || self.sessions.handshakes.has_waiting() || shard.has_work();
        // Answers to connections that come first leave at the end of the turn. So other work has
        // to wait for the next turn, unless the connections that come first used up their share.
        if others_wait && (!has_first || io.is_over()) {
            self.serve_others(io, shard)?;
        }
        Ok(())
    }

    /// Handles the completions that come first. Returns false if there were none.
    fn serve_first(&mut self, io: &mut I, shard: &mut Shard) -> Result<bool, FileError> {
        let mut events = 0;
        while let Some(completion) = io.next_completion() {
            self.handle(io, shard, completion)?;
            events += 1;
            if events % EVENTS_PER_LOOK == 0 && io.is_late(self.times.now) {
                shard.work_later();
            }
        }
        self.work_for_first(io, shard)?;
        Ok(events > 0)
    }

    /// Handles waiting requests of connections that come first and ask for more than fits in a
    /// turn. This may take as long as a turn, because long turns are the most efficient.
    fn work_for_first(&mut self, io: &mut I, shard: &mut Shard) -> Result<(), FileError> {
        if !shard.has_work_for_first() {
            return Ok(());
        }
        let began = io.times().now;
        while shard.has_work_for_first() {
            io.work(shard, self.times, &mut self.commands);
            self.execute(io)?;
            if io.is_late(began) {
                break;
            }
        }
        Ok(())
    }

    /// Gives other work its shares: new connections and bytes, handshakes, and waiting requests.
    /// Each share does at least one piece of work, and ends when its time is over.
    fn serve_others(&mut self, io: &mut I, shard: &mut Shard) -> Result<(), FileError> {
        io.begin(Share::Others);
        while let Some(completion) = io.next_other() {
            self.handle(io, shard, completion)?;
            if io.is_over() {
                break;
            }
        }
        self.shake_hands(io, shard)?;
        self.work(io, shard)?;
        io.begin(Share::First);
        Ok(())
    }

    /// Handles waiting input in turns: a slice for each connection.
    fn work(&mut self, io: &mut I, shard: &mut Shard) -> Result<(), FileError> {
        if !shard.has_work() {
            return Ok(());
        }
        io.begin(Share::Requests);
        while shard.has_work() {
            io.work(shard, self.times, &mut self.commands);
            self.execute(io)?;
            if io.is_over() {
                break;
            }
        }
        Ok(())
    }
}
