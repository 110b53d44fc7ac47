//! A batch in flight: records that were acquired together. It is stored as runs of records with the
//! same status.

use super::status::Status;
use alloc::vec::Vec;

/// A batch in flight. Adjacent batches are never joined: a batch that is available is acquired as a
/// whole, so joining would change what a client gets.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) first: i64,
    pub(super) last: i64,
    records: Records,
}

#[derive(Debug, Clone)]
enum Records {
    Whole(Status),
    /// Runs in order; the last one ends where the batch ends. Once some records of a batch were
    /// changed by offset, the batch keeps this form, and its records are acquired by offset.
    ByOffset(Vec<Part>),
}

#[derive(Debug, Clone, Copy)]
struct Part {
    last: i64,
    status: Status,
}

/// Successive records of equal status.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) status: Status,
}

impl Batch {
    pub(super) fn whole(first: i64, last: i64, status: Status) -> Self {
        Self { first, last, records: Records::Whole(status) }
    }

    /// The status of all records, unless the batch is kept by offset.
    pub(super) fn as_whole(&self) -> Option<Status> {
        match self.records {
            Records::Whole(status) => Some(status),
            Records::ByOffset(_) => None,
        }
    }

    pub(super) fn len(&self) -> i64 {
        self.last - self.first + 1
    }

    pub(super) fn is_within(&self, first: i64, last: i64) -> bool {
        first <= self.first && self.last <= last
    }

    /// Whether an offset is inside the batch, but is not its first.
    pub(super) fn straddles(&self, offset: i64) -> bool {
        self.first < offset && offset <= self.last
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        let (whole, parts) = match &self.records {
            Records::Whole(status) => (Some(Part { last: self.last, status: *status }), &[][..]),
            Records::ByOffset(parts) => (None, &parts[..]),
        };
        let mut first = self.first;
        whole.into_iter().chain(parts.iter().copied()).map(move |Part { last, status }| {
            let run = Run { first, last, status };
            first = last + 1;
            run
        })
    }

    pub(super) fn status_at(&self, offset: i64) -> Option<Status> {
        self.runs().find(|run| run.first <= offset && offset <= run.last).map(|run| run.status)
    }

    pub(super) fn set_whole(&mut self, status: Status) {
        self.records = Records::Whole(status);
    }

    /// Changes the records from `first` to `last`. Afterwards the batch is kept by offset. `change`
    /// gets a run of records. It returns a new status, and the last offset of the run that gets it.
    /// For the rest of the run, it is called again.
    pub(super) fn change(
        &mut self,
        first: i64,
        last: i64,
        mut change: impl FnMut(Run) -> (i64, Status),
    ) {
        let mut parts = Vec::with_capacity(self.runs().count() + 2);
        for Run { first: mut at, last: run_last, status } in self.runs() {
            while at <= run_last {
                let (upto, status) = if at < first {
                    (run_last.min(first - 1), status)
                } else if at > last {
                    (run_last, status)
                } else {
                    let run = Run { first: at, last: run_last.min(last), status };
                    let (upto, status) = change(run);
                    (upto.clamp(at, run.last), status)
                };
                push(&mut parts, upto, status);
                at = upto + 1;
            }
        }
        self.records = Records::ByOffset(parts);
    }

    /// Changes the status of all runs. The form of the batch stays.
    pub(super) fn update(&mut self, mut update: impl FnMut(Run) -> Status) {
        if let Records::Whole(status) = self.records {
            let run = Run { first: self.first, last: self.last, status };
            self.records = Records::Whole(update(run));
        } else {
            self.change(self.first, self.last, |run| (run.last, update(run)));
        }
    }
}

fn push(parts: &mut Vec<Part>, last: i64, status: Status) {
    match parts.last_mut().filter(|it| it.status == status) {
        Some(part) => part.last = last,
        None => parts.push(Part { last, status }),
    }
}
