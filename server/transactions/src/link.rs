//! A slot's side of the messages with one coordinator: which to take, and when to report.

use crate::context::Slot;
use crate::message::{OpenIn, Report, Reported, ToSlot, ToSlotBody};
use alloc::sync::Arc;

/// A slot's knowledge of one coordinator; a new one whenever the slot is loaded.
#[derive(Debug)]
pub struct Link {
    /// The highest that was seen: -1 before the first.
    coordinator_epoch: i32,
    /// The number of the newest report.
    number: u64,
    /// The transactions in it, until it is answered.
    reported: Option<Arc<[OpenIn]>>,
}

/// How a message is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    Take,
    /// The coordinator does not know the slot as it is: it gets a report.
    Report,
    /// It is of a coordinator before the present one.
    Drop,
}

impl Default for Link {
    fn default() -> Self {
        Self { coordinator_epoch: -1, number: 0, reported: None }
    }
}

impl Link {
    /// How a message is treated in this session of the slot.
    pub fn receive(&mut self, session: u64, message: &ToSlot) -> Received {
        let epoch = message.body.coordinator_epoch();
        if epoch < self.coordinator_epoch {
            return Received::Drop;
        }
        self.coordinator_epoch = epoch;
        match message.body {
            ToSlotBody::ReportWanted { .. } => Received::Report,
            _ if message.session != session => Received::Report,
            ToSlotBody::Reported(_)
            | ToSlotBody::Verdict(_)
            | ToSlotBody::Sync(_)
            | ToSlotBody::Marker(_) => Received::Take,
        }
    }

    /// The next report, of all that is open now. It is repeated while [`Self::is_unanswered`].
    pub fn report(
        &mut self,
        (slot, session): (Slot, u64),
        (may_have_lost_writes, is_whole): (bool, bool),
        open: Arc<[OpenIn]>,
    ) -> Report {
        self.number += 1;
        self.reported = Some(Arc::clone(&open));
        let (coordinator_epoch, number) = (self.coordinator_epoch, self.number);
        Report { slot, session, coordinator_epoch, number, may_have_lost_writes, is_whole, open }
    }

    /// Whether the newest report is not answered yet.
    pub fn is_unanswered(&self) -> bool {
        self.reported.is_some()
    }

    /// The transactions that an answer is about: those that it does not name are unknown to the
    /// coordinator. None if it is the answer to an earlier report.
    pub fn answered(&mut self, reported: &Reported) -> Option<Arc<[OpenIn]>> {
        if reported.number != self.number {
            return None;
        }
        self.reported.take()
    }
}
