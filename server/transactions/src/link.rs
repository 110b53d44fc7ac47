//! A slot's messages with one coordinator: which messages the slot accepts, and when it reports.

use crate::context::Slot;
use crate::message::{OpenIn, Report, Reported, ToSlot, ToSlotBody};
use alloc::sync::Arc;

/// A slot's knowledge of one coordinator. It is created when the slot is loaded.
#[derive(Debug)]
pub struct Link {
    /// The highest epoch of the coordinator seen so far; -1 before the first.
    coordinator_epoch: i32,
    /// The number of the newest report.
    number: u64,
    /// The transactions in the newest report; None once it is answered.
    reported: Option<Arc<[OpenIn]>>,
}

/// The slot's own part of a report.
#[derive(Debug, Clone, Copy)]
pub struct Reporting {
    pub slot: Slot,
    /// The slot's session.
    pub session: u64,
    /// Whether acknowledged writes may be missing because the machine lost its memory.
    pub may_have_lost_writes: bool,
    /// False if a partition is offline.
    pub is_whole: bool,
}

/// How the slot treats a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    Take,
    /// The coordinator does not know the current session of the slot, so the slot reports.
    Report,
    /// An earlier coordinator sent the message.
    Drop,
}

impl Default for Link {
    fn default() -> Self {
        Self { coordinator_epoch: -1, number: 0, reported: None }
    }
}

impl Link {
    /// How to treat a message in this session of the slot.
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

    /// Makes a new report of all transactions that are open now. The caller makes another one as
    /// long as the newest [`Self::is_unanswered`].
    pub fn report(&mut self, by: Reporting, open: Arc<[OpenIn]>) -> Report {
        let Reporting { slot, session, may_have_lost_writes, is_whole } = by;
        self.number += 1;
        self.reported = Some(Arc::clone(&open));
        let (coordinator_epoch, number) = (self.coordinator_epoch, self.number);
        Report { slot, session, coordinator_epoch, number, may_have_lost_writes, is_whole, open }
    }

    /// Whether the newest report is not answered yet.
    pub fn is_unanswered(&self) -> bool {
        self.reported.is_some()
    }

    /// Takes the transactions that the newest report named, if `reported` answers this report; None
    /// if it answers an earlier one. Those that the answer leaves out are unknown to the
    /// coordinator.
    pub fn answered(&mut self, reported: &Reported) -> Option<Arc<[OpenIn]>> {
        if reported.number != self.number {
            return None;
        }
        self.reported.take()
    }
}
