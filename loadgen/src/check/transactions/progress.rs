//! One transaction, the readers' progress through it, and the rules `transaction-torn`,
//! `aborted-read` and `read-before-commit`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::reader::{Reader, in_words, proof};
use super::{Id, Visible};
use crate::check::found::Found;
use crate::event::{Event, EventKind, Returned, Written};
use crate::plan::{MemberIndex, Partition};
use crate::time::Time;

#[derive(Default)]
pub(super) struct Transaction {
    pub(super) outcome: Outcome,
    pub(super) batches: Arc<[Written]>,
    /// Until EndTxn is called: the progress of each reader that got records of the transaction.
    /// Then: the progress of each reader for which the transaction is judged.
    pub(super) progress: BTreeMap<MemberIndex, Progress>,
    /// The events that ended the transaction.
    proof: Vec<Event>,
    /// Set once a violation was reported: one for each transaction is enough.
    was_reported: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Outcome {
    /// EndTxn was not called yet.
    #[default]
    Open,
    /// EndTxn was called at this time to commit, and was not answered yet.
    Called(Time),
    /// EndTxn was called at this time to commit, and will not be answered.
    Unknown(Time),
    /// EndTxn was called at this time, and the commit was acknowledged.
    Committed(Time),
    Aborted,
}

/// The records of a transaction that a reader got.
#[derive(Default)]
pub(super) struct Progress {
    /// The number of records of each partition.
    records: Vec<(Partition, u32)>,
    /// The first event in which the reader got records of the transaction.
    first: Option<Event>,
    /// The time when the last of these records arrived.
    arrived: Time,
    /// Whether the transaction was counted as visible to the reader.
    is_counted: bool,
}

/// The state of a batch that a reader's events prove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Batch {
    Ahead,
    Whole,
    /// The reader has passed the batch without reading all of its records.
    Missed,
}

impl Transaction {
    pub(super) fn ending(&mut self, event: &Event, commits: bool, batches: &Arc<[Written]>) {
        self.proof.push(event.clone());
        self.batches = Arc::clone(batches);
        if self.outcome == Outcome::Open {
            self.outcome = if commits { Outcome::Called(event.at) } else { Outcome::Aborted };
        }
        // If the outcome is not `Open`, EndTxn was called before, and its commit was refused. The
        // outcome of this second call, which aborts, is set by its answer.
    }

    pub(super) fn ended(&mut self, event: &Event, committed: bool) {
        self.proof.push(event.clone());
        self.outcome = match self.outcome {
            Outcome::Called(at) | Outcome::Unknown(at) if committed => Outcome::Committed(at),
            Outcome::Open
            | Outcome::Called(_)
            | Outcome::Unknown(_)
            | Outcome::Committed(_)
            | Outcome::Aborted => Outcome::Aborted,
        };
    }

    pub(super) fn unanswered(&mut self) {
        if let Outcome::Called(at) = self.outcome {
            self.outcome = Outcome::Unknown(at);
        }
    }

    /// Called when EndTxn was called at `at`: from now on this reader is expected to read the whole
    /// transaction. Reports a violation if the reader got records of it before `at`.
    pub(super) fn expect(
        &mut self,
        member: MemberIndex,
        reader: &Reader,
        at: Time,
        clock_error: Duration,
        found: &mut Found,
    ) {
        let progress = self.progress.entry(member).or_default();
        let early = progress.first.as_ref().filter(|first| first.at + clock_error < at);
        let (Some(first), true) = (early, reader.is_of_committed()) else { return };
        if self.outcome == Outcome::Aborted || std::mem::replace(&mut self.was_reported, true) {
            return;
        }
        let (first, ending) = (first.clone(), self.proof.last().cloned());
        found.add("read-before-commit", first.at, &reader.group, || {
            let what = format!(
                "reader {} was returned {}, {} µs before the producer asked to commit it",
                member.0,
                in_words_of(&first),
                at.since(first.at).as_micros()
            );
            (what, [Some(first), ending].into_iter().flatten().collect())
        });
    }

    pub(super) fn returned(&mut self, event: &Event, record: &Returned) {
        let progress = self.progress.entry(event.member).or_default();
        if progress.first.is_none() {
            progress.first = Some(proof(event, Some(record), record.partition));
        }
        if let EventKind::Read { arrived, .. } = event.kind {
            progress.arrived = progress.arrived.max(arrived);
        }
        let mut known = progress.records.iter_mut();
        match known.find(|(partition, _)| *partition == record.partition) {
            Some((_, count)) => *count = count.saturating_add(record.count),
            None => progress.records.push((record.partition, record.count)),
        }
    }

    /// Judges the transaction. `event` is the event with the new evidence.
    pub(super) fn judge(
        &mut self,
        id: Id,
        member: MemberIndex,
        reader: &Reader,
        event: Option<&Event>,
        found: &mut Found,
    ) {
        let Some(progress) = self.progress.get(&member).filter(|_| !self.was_reported) else {
            return;
        };
        let committed_only = reader.is_of_committed();
        let missed = self.states(reader, progress).find(|(_, state)| *state == Batch::Missed);
        let was_returned = progress.first.is_some() && committed_only;
        let (rule, what) = match (self.outcome, missed) {
            (Outcome::Aborted, _) if was_returned => {
                ("aborted-read", "which was aborted, or never asked to commit".to_owned())
            }
            (Outcome::Committed(_), Some((batch, _))) => {
                ("transaction-torn", format!("but passed {batch}, and its commit was acknowledged"))
            }
            (Outcome::Called(_) | Outcome::Unknown(_), Some((batch, _))) if was_returned => {
                ("transaction-torn", format!("but passed {batch}"))
            }
            (
                Outcome::Open
                | Outcome::Called(_)
                | Outcome::Unknown(_)
                | Outcome::Committed(_)
                | Outcome::Aborted,
                _,
            ) => return,
        };
        self.was_reported = true;
        let first = progress.first.clone();
        let at = event.or(first.as_ref()).map_or(Time::ZERO, |event| event.at);
        let passing = event.filter(|event| matches!(event.kind, EventKind::Read { .. }));
        let passing =
            passing.zip(missed).map(|(event, (batch, _))| proof(event, None, batch.partition));
        found.add(rule, at, &reader.group, || {
            let returned = match &first {
                Some(first) => in_words_of(first),
                None => "no record".to_owned(),
            };
            let (producer, number) = (id.0.0, id.1);
            let what = format!(
                "reader {} was returned {returned} of transaction {number} of producer \
                 {producer}, {what}",
                member.0
            );
            (what, self.proof.iter().cloned().chain(first).chain(passing).collect())
        });
    }

    /// Returns a value if the transaction is committed, and this reader has just read its last
    /// record.
    pub(super) fn becomes_visible(
        &mut self,
        member: MemberIndex,
        reader: &Reader,
    ) -> Option<Visible> {
        let Outcome::Committed(called) = self.outcome else { return None };
        let progress = self.progress.get(&member).filter(|it| reader.counts(it))?;
        let is_whole = self.states(reader, progress).all(|(_, state)| state == Batch::Whole);
        if !is_whole || progress.first.is_none() {
            return None;
        }
        let at = progress.arrived;
        self.progress.get_mut(&member)?.is_counted = true;
        Some(Visible { called, at, was_read: true })
    }

    /// If the commit was acknowledged, returns the time when EndTxn was called, once for each
    /// reader that has not read the whole transaction. Otherwise returns nothing.
    pub(super) fn unread(
        &self,
        readers: &BTreeMap<MemberIndex, Reader>,
    ) -> impl Iterator<Item = Time> {
        self.progress.keys().filter_map(|member| self.unread_by(*member, readers))
    }

    pub(super) fn unread_by(
        &self,
        member: MemberIndex,
        readers: &BTreeMap<MemberIndex, Reader>,
    ) -> Option<Time> {
        let Outcome::Committed(called) = self.outcome else { return None };
        let reader = readers.get(&member)?;
        let progress = self.progress.get(&member).filter(|it| reader.counts(it))?;
        self.states(reader, progress).next().map(|_| called)
    }

    /// Whether the transaction is judged completely: its outcome is known, and all readers have
    /// passed its batches.
    pub(super) fn is_over(&self, readers: &BTreeMap<MemberIndex, Reader>) -> bool {
        let is_decided = !matches!(self.outcome, Outcome::Open | Outcome::Called(_));
        let has_passed = |(member, progress): (&MemberIndex, &Progress)| {
            let reader = readers.get(member);
            reader.is_none_or(|reader| {
                self.states(reader, progress).all(|(_, state)| state != Batch::Ahead)
            })
        };
        is_decided && self.progress.iter().all(has_passed)
    }

    /// The state of each batch in the partitions that a reader reads.
    fn states<'a>(
        &'a self,
        reader: &'a Reader,
        progress: &'a Progress,
    ) -> impl Iterator<Item = (Written, Batch)> + 'a {
        self.batches.iter().filter_map(move |batch| {
            let position = reader.position(batch.partition)?;
            let known = progress.records.iter().find(|(of, _)| *of == batch.partition);
            let state = match known.map_or(0, |(_, count)| *count) {
                count if count >= batch.records => Batch::Whole,
                _ if batch.offset >= 0 && position >= batch.end() => Batch::Missed,
                // If the offset is unknown, the position does not show whether the reader has
                // passed the batch. But an aborted batch will not be read.
                _ if batch.offset < 0 && self.outcome == Outcome::Aborted => Batch::Missed,
                _ => Batch::Ahead,
            };
            Some((*batch, state))
        })
    }
}

impl Reader {
    /// Whether this transaction may still become visible to the reader: it was not counted as
    /// visible yet.
    fn counts(&self, progress: &Progress) -> bool {
        self.is_of_committed() && !progress.is_counted
    }
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (records, offset) = (self.records, self.offset);
        write!(f, "{records} records at offset {offset} of {}", in_words(self.partition))
    }
}

/// Describes the records of a proof.
fn in_words_of(read: &Event) -> String {
    let EventKind::Read { records, .. } = &read.kind else { return "records".into() };
    let each = records.iter().map(|record| {
        format!(
            "{} records at offset {} of {}",
            record.count,
            record.offset,
            in_words(record.partition)
        )
    });
    each.collect::<Vec<_>>().join(", ")
}
