//! Questions to coordinators. Before the first batch of a transaction in a partition is appended,
//! its coordinator is asked. One question serves all such batches of a request
//! (`AddPartitionsToTxnManager`).

use super::batch::Refusal;
use super::disk::Disk;
use super::effects::Effects;
use super::happened::Waiter;
use super::partition::{Appended, NewBatch};
use super::produce::answer;
use super::producers::Origin;
use super::produces::{AskedBatch, Asking, OpenQuestion, Produces};
use super::table::Table;
use crate::cluster::transaction_slot;
use muster_codec::{ErrorCode, Wall};
use muster_transactions::errors::{produce_error, produce_question};
use muster_transactions::message::{Producer, Question, Verdict};

impl Produces {
    /// Asks the coordinator about batches of one producer.
    pub(super) fn ask(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        asking: Asking<'_>,
        out: &mut Effects,
    ) {
        let Asking { call, produce, transactional_id, batches } = asking;
        let (Some(first), Some(transactional_id)) = (batches.first(), transactional_id) else {
            return;
        };
        let producer = first.batch.producer();
        let Some(topic) = call.image.topic_by_id(first.id.topic) else { return };
        let kind = produce_question(call.version);
        out.questions.push(Question {
            slot: transaction_slot(topic, first.id.index, table.placement()),
            number: produce,
            transactional_id: transactional_id.into(),
            producer,
            partitions: batches.iter().map(|it| (&*it.topic, it.id.index)).collect(),
            kind,
        });
        for asked in &batches {
            disk.reserve(asked.address, asked.bytes.len());
            table.ask(call.wall, asked.id, &asked.batch, kind, produce);
        }
        self.add_question(produce, OpenQuestion { producer, version: call.version, batches });
    }

    /// Handles the verdict on a question: appends or refuses the batches that the question was
    /// about.
    pub(super) fn verdict(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        wall: Wall,
        verdict: &Verdict,
        out: &mut Effects,
    ) {
        let number = verdict.number;
        let Some(question) = self.take_question(number) else { return };
        disk.begin_request();
        let OpenQuestion { producer, version, batches } = question;
        for asked in &batches {
            disk.written(asked.address, asked.bytes.len());
            let admitted = admit(table, producer, asked, verdict);
            let appended = match admitted {
                Ok(()) => append(table, disk, wall, producer, asked, verdict, out),
                Err(error) => Err(Refusal::unverified(produce_error(error, version))),
            };
            let Some(acks) = self.acks(number) else { continue };
            let waiter = (acks != 0).then_some(Waiter::Produce(number));
            self.fill(number, asked, answer(table, asked.id, appended, waiter), out);
        }
    }
}

/// Checks what the verdict says about a batch.
///
/// # Errors
/// The error of the verdict, or the reason why the verdict no longer counts.
fn admit(
    table: &mut Table,
    producer: Producer,
    asked: &AskedBatch,
    verdict: &Verdict,
) -> Result<(), ErrorCode> {
    table.get(asked.id).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if let Err(error) = verdict.on(&asked.topic, asked.id.index) {
        table.refused(asked.id, producer, verdict.number);
        return Err(error);
    }
    table.admit(asked.id, producer, verdict.number, verdict.stamp)
}

/// Appends an admitted batch.
fn append(
    table: &mut Table,
    disk: &mut Disk,
    wall: Wall,
    producer: Producer,
    asked: &AskedBatch,
    verdict: &Verdict,
    out: &mut Effects,
) -> Result<Appended, Refusal> {
    let origin = Origin { wall, address: asked.address };
    let new = NewBatch { origin, bytes: &asked.bytes, admitted: Some(verdict.stamp) };
    let appended = table.append(asked.id, &new, disk, out);
    if appended.is_err() {
        table.refused(asked.id, producer, verdict.number);
    }
    appended
}
