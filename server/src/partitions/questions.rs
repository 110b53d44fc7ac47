//! The first batch of a transaction in a partition: the coordinator is asked before the append,
//! with one question for all such batches of a request (`AddPartitionsToTxnManager`).

use super::batch::Refusal;
use super::partition::{Appended, NewBatch};
use super::partition_id::PartitionId;
use super::producers::{Origin, Sequenced};
use super::{Call, Effects, Partitions};
use crate::cluster::transaction_slot;
use muster_codec::{ErrorCode, Wall};
use muster_fairness::Address;
use muster_transactions::errors::{produce_error, produce_question};
use muster_transactions::message::{Producer, Question, Verdict};
use std::sync::Arc;

/// A batch that waits for a verdict.
#[derive(Debug)]
pub(super) struct AskedBatch {
    pub id: PartitionId,
    /// The name of the batch's topic.
    pub topic: Arc<str>,
    pub batch: Sequenced,
    /// The batch, which is not checked yet.
    pub bytes: Box<[u8]>,
    /// The address of the client.
    pub address: Address,
}

/// An open question, which has the number of its produce. Each connection has at most one question,
/// which limits their number. The budget of writes limits their batches.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    producer: Producer,
    /// The version of Produce.
    version: i16,
    batches: Vec<AskedBatch>,
}

impl OpenQuestion {
    /// The size of the question's batches.
    pub(super) fn bytes(&self) -> usize {
        self.batches.iter().map(|asked| asked.bytes.len()).sum()
    }
}

impl Partitions {
    /// Asks the coordinator about batches of one producer.
    pub(super) fn ask(
        &mut self,
        call: &Call<'_>,
        produce: u64,
        transactional_id: Option<&str>,
        batches: Vec<AskedBatch>,
        out: &mut Effects,
    ) {
        let (Some(first), Some(transactional_id)) = (batches.first(), transactional_id) else {
            return;
        };
        let producer = first.batch.producer();
        let Some(topic) = call.image.topic_by_id(first.id.topic) else { return };
        let kind = produce_question(call.version);
        out.questions.push(Question {
            slot: transaction_slot(topic, first.id.index, self.table.placement()),
            number: produce,
            transactional_id: transactional_id.into(),
            producer,
            partitions: batches.iter().map(|it| (&*it.topic, it.id.index)).collect(),
            kind,
        });
        for asked in &batches {
            self.disk.reserve(asked.address, asked.bytes.len());
            self.table.ask((call.wall, asked.id), &asked.batch, (kind, produce));
        }
        let question = OpenQuestion { producer, version: call.version, batches };
        self.questions.insert(produce, question);
    }

    /// Handles the verdict on a question: its batches are appended or refused.
    pub fn verdict(&mut self, wall: Wall, verdict: &Verdict, out: &mut Effects) {
        let Some(question) = self.questions.remove(&verdict.number) else { return };
        self.disk.begin_request();
        for asked in &question.batches {
            self.disk.written(asked.address, asked.bytes.len());
            let appended = self.admit(wall, &question, asked, verdict, out);
            let refusal = |error| Refusal::unverified(produce_error(error, question.version));
            let appended = appended.unwrap_or_else(|error| Err(refusal(error)));
            self.asked_answered(verdict.number, asked, appended, out);
        }
    }

    /// Checks the verdict on a batch, and appends the batch.
    ///
    /// # Errors
    /// The error of the verdict, or the reason why the verdict no longer counts.
    fn admit(
        &mut self,
        wall: Wall,
        question: &OpenQuestion,
        asked: &AskedBatch,
        verdict: &Verdict,
        out: &mut Effects,
    ) -> Result<Result<Appended, Refusal>, ErrorCode> {
        let OpenQuestion { producer, .. } = *question;
        let (id, number) = (asked.id, verdict.number);
        self.table.get(id).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if let Err(error) = verdict.on(&asked.topic, id.index) {
            self.table.refused(id, producer, number);
            return Err(error);
        }
        self.table.admit(id, producer, number, verdict.stamp)?;
        let origin = Origin { wall, address: asked.address };
        let new = NewBatch { origin, bytes: &asked.bytes, admitted: Some(verdict.stamp) };
        let appended = self.table.append(id, &new, &mut self.disk, out);
        if appended.is_err() {
            self.table.refused(id, producer, number);
        }
        Ok(appended)
    }
}
