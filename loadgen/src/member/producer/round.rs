//! A round of a producer: one batch for each of some partitions. For a transactional producer, a
//! round is a transaction.

use std::time::Duration;

use crate::member::io::{Answer, Span, SpanKind};
use crate::plan::{Delivery, TransactionPlan, TransactionVersion};
use crate::time::Time;

#[derive(Debug)]
pub(super) struct Round {
    /// The time at which the round began, in microseconds since the start of the run. So a producer
    /// that restarts continues with higher numbers. 0 if no reader reads the records.
    pub(super) number: u64,
    pub(super) due: Time,
    pub(super) stage: Stage,
    pub(super) batches: Vec<Batch>,
    /// Whether the transaction will be aborted, by the scenario or after an error.
    pub(super) aborts: bool,
    /// Whether an error has left abort as the only choice.
    pub(super) failed: bool,
    /// Whether the coordinator may know of the transaction.
    pub(super) started: bool,
    /// Set once EndTxn was sent: true to commit, false to abort.
    pub(super) ending: Option<bool>,
    /// When the first request of the round was sent. `None` before its answer arrives.
    began: Option<Time>,
    asked: bool,
    /// The delay by the load machine, summed over the earlier stages. `delayed_now` is the delay in
    /// the current stage.
    delayed: Duration,
    delayed_now: Duration,
}

/// The stages of a round, in this order. A stage consists of one request, except Produce, which
/// sends a request to each leader at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    AddPartitions,
    Produce,
    AddOffsets,
    CommitOffsets,
    End,
}

/// A batch. `place` is the index of its partition in the producer's plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Batch {
    pub(super) place: usize,
    pub(super) state: BatchState,
    /// The offset of the first record; -1 while it is unknown.
    pub(super) offset: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BatchState {
    Due,
    /// The batch is in flight, in the request with this token.
    Sent(u32),
    Done,
}

impl Round {
    pub(super) fn of(
        places: Vec<usize>,
        delivery: Delivery,
        due: Time,
        aborts: bool,
        number: u64,
    ) -> Self {
        let stage = match delivery {
            Delivery::Transactions(plan) if plan.version == TransactionVersion::One => {
                Stage::AddPartitions
            }
            _ => Stage::Produce,
        };
        let batch = |place| Batch { place, state: BatchState::Due, offset: -1 };
        Self {
            number,
            due,
            stage,
            batches: places.into_iter().map(batch).collect(),
            aborts,
            failed: false,
            started: false,
            ending: None,
            began: None,
            asked: false,
            delayed: Duration::ZERO,
            delayed_now: Duration::ZERO,
        }
    }

    /// The time from which the latency of a request counts if it is sent now. For the first
    /// requests of a round it is the time when the round was due, for later ones `now`.
    pub(super) fn due_at(&self, now: Time) -> Time {
        if self.asked { now } else { self.due }
    }

    pub(super) fn asked(&mut self) {
        self.asked = true;
    }

    /// Takes the times of the answer to a request of the round.
    pub(super) fn timed(&mut self, answer: &Answer<'_>) {
        self.began = Some(self.began.map_or(answer.sent, |began| began.min(answer.sent)));
        self.delayed_now = self.delayed_now.max(answer.delayed);
    }

    /// Begins the next stage. The previous stage ended with an answer that arrived at `arrived`.
    pub(super) fn next(&mut self, plan: &TransactionPlan, arrived: Time, now: Time) {
        self.delayed += std::mem::take(&mut self.delayed_now) + now.since(arrived);
        self.stage = match self.stage {
            _ if self.failed => Stage::End,
            Stage::AddPartitions => Stage::Produce,
            Stage::Produce if plan.offsets == 0 => Stage::End,
            Stage::Produce if plan.version == TransactionVersion::One => Stage::AddOffsets,
            Stage::Produce | Stage::AddOffsets => Stage::CommitOffsets,
            Stage::CommitOffsets | Stage::End => Stage::End,
        };
    }

    /// Notes that the transaction can only be aborted from now on.
    pub(super) fn fail(&mut self) {
        (self.failed, self.aborts) = (true, true);
    }

    pub(super) fn is_sending(&self) -> bool {
        self.batches.iter().any(|batch| matches!(batch.state, BatchState::Sent(_)))
    }

    pub(super) fn is_written(&self) -> bool {
        self.batches.iter().all(|batch| batch.state == BatchState::Done)
    }

    /// The span of the transaction, which ended at `ended`. If none of its requests was answered,
    /// the span also begins at `ended`.
    pub(super) fn span(&self, ended: Time, answered: bool) -> Span {
        let began = self.began.unwrap_or(ended);
        let delayed = self.delayed + self.delayed_now;
        let (of, due, count) = (SpanKind::Transaction, self.due, 1);
        Span { of, due, began, ended, delayed, answered, count }
    }
}
