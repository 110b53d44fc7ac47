//! The shares of a shard's time, by which a short request of a client whose requests have been
//! short waits for hardly more than a turn of all others, however many they are and whatever they
//! send:
//!
//! - Completions of connections that come first are handled before all others, and their answers
//!   leave at the end of that turn.
//! - All others have turns of their own, with a bounded time for each kind of work: new connections
//!   and bytes, handshakes, and requests that wait. They have one as soon as none of the first is
//!   there, or the first have had their share since the last.
//!
//! The time is the caller's: [`Io::begin`] and [`Io::is_over`].

use super::{Io, Reactor};
use crate::files::FileError;
use crate::shard::Shard;

/// Events between two readings of the clock.
const EVENTS_PER_LOOK: usize = 16;

/// The shares of a shard's time: the share of connections that come first, and the share of the
/// others, which they have in turns of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    #[default]
    First,
    /// New connections, and bytes of connections that do not come first.
    Others,
    Handshakes,
    /// Requests that wait.
    Requests,
}

impl<I: Io> Reactor<I> {
    /// Handles new completions and waiting work, in the shares of a turn.
    pub(super) fn share_turn(&mut self, io: &mut I, shard: &mut Shard) -> Result<(), FileError> {
        let has_first = self.serve_first(io, shard)?;
        let others_wait =
            io.has_others() || self.sessions.handshakes.has_waiting() || shard.has_work();
        // Answers leave at the end of the turn: the others have the next one, unless they have
        // waited for their share already.
        if others_wait && (!has_first || io.is_over()) {
            self.serve_others(io, shard)?;
        }
        Ok(())
    }

    /// Handles the completions that come before all others; false if there was none.
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

    /// Handles waiting requests of connections that come first, where these ask for more than a
    /// turn has time for: for as long as a turn takes them, as long turns cost least.
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

    /// Gives all others their shares: new connections and those that send much, handshakes, and
    /// requests that wait. Each does something, and ends when its time is over.
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

    /// Handles waiting input, a slice for each connection in turn.
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
