//! The queue of commands to a core. It is bounded, and wakes the core's runtime.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded};

use super::command::Command;

/// The maximum number of commands that wait for a core.
pub(super) const COMMANDS_MAX: usize = 4096;

type Slot = Arc<Mutex<Option<Waker>>>;

/// A queue, and its two ends.
pub(super) fn inbox() -> (Outside, Inside) {
    let (sender, receiver) = bounded(COMMANDS_MAX);
    let slot = Slot::default();
    (Outside { sender: Some(sender), slot: Arc::clone(&slot) }, Inside { receiver, slot })
}

/// The sender's end of the queue. The core ends when this is dropped.
pub(super) struct Outside {
    sender: Option<Sender<Command>>,
    slot: Slot,
}

/// The receiver's end, in the core.
pub(super) struct Inside {
    receiver: Receiver<Command>,
    slot: Slot,
}

impl Outside {
    /// Queues the command, or returns it if the queue is full. If the core has ended, the command
    /// is dropped.
    pub(super) fn offer(&self, command: Command) -> Option<Command> {
        match self.sender.as_ref()?.try_send(command) {
            Ok(()) => wake(&self.slot),
            Err(TrySendError::Full(command)) => return Some(command),
            Err(TrySendError::Disconnected(_)) => {}
        }
        None
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.sender = None;
        wake(&self.slot);
    }
}

impl Inside {
    pub(super) fn take(&self) -> Result<Command, TryRecvError> {
        self.receiver.try_recv()
    }

    /// Registers `waker`, which is woken when a command arrives. Returns false if a command is in
    /// the queue already.
    pub(super) fn wait(&self, waker: &Waker) -> bool {
        *lock(&self.slot) = Some(waker.clone());
        self.receiver.is_empty()
    }
}

fn wake(slot: &Slot) {
    if let Some(waker) = lock(slot).take() {
        waker.wake();
    }
}

fn lock(slot: &Slot) -> std::sync::MutexGuard<'_, Option<Waker>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
