//! A barrier at which all shards meet, so that a backup has their files as of one moment.

use super::Extents;
use crossbeam_channel::Sender;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An order to a shard to take part in a backup.
#[derive(Debug, Clone)]
pub struct BackupOrder {
    pub(crate) meeting: Arc<Meeting>,
    /// The directory for hard links, relative to the data directory.
    pub(crate) into: PathBuf,
    /// Receives the extents once the files are linked.
    pub(crate) to: Sender<Result<Extents, String>>,
}

/// A barrier at which the threads of all shards wait for one another.
#[derive(Debug)]
pub(crate) struct Meeting {
    shards: usize,
    until: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The number of shards that have arrived.
    Waiting(usize),
    Complete,
    GivenUp,
}

impl Meeting {
    /// A meeting of `shards` shards, which must all arrive within `patience`.
    pub(crate) fn of(shards: usize, patience: Duration) -> Self {
        let until = Instant::now() + patience;
        let state = Mutex::new(State::Waiting(0));
        Self { shards, until, state, changed: Condvar::new() }
    }

    /// Waits until all shards have arrived. If one is late, returns false to all of them.
    pub(crate) fn attend(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Waiting(came) = *state {
            let is_last = came + 1 == self.shards;
            *state = if is_last { State::Complete } else { State::Waiting(came + 1) };
        }
        if *state == State::Complete {
            self.changed.notify_all();
            return true;
        }
        let left = self.until.saturating_duration_since(Instant::now());
        let is_waiting = |state: &mut State| matches!(state, State::Waiting(_));
        let waited = self.changed.wait_timeout_while(state, left, is_waiting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Waiting(_)) {
            *state = State::GivenUp;
            self.changed.notify_all();
        }
        *state == State::Complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn all_continue_once_the_last_has_come() {
        let meeting = Meeting::of(3, Duration::from_secs(30));
        let came = thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(|| meeting.attend()));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(came, [true; 3]);
    }

    #[test]
    fn none_takes_part_if_one_does_not_come() {
        let meeting = Meeting::of(2, Duration::ZERO);
        assert!(!meeting.attend());
        assert!(!meeting.attend(), "the other one comes late");
    }
}
