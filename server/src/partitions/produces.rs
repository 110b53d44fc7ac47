//! The requests of producers, and requests with markers, until they are answered. A request waits
//! for writes, and for the verdicts of coordinators.

use super::effects::{Call, Effects, Outcome, Reply};
use super::lost_writes::put_error;
use super::partition_id::PartitionId;
use super::produce_answers::{Answer, place_of};
use super::producers::Sequenced;
use hashbrown::HashMap;
use muster_codec::messages::PartitionProduceResponse;
use muster_codec::{ErrorCode, Response};
use muster_coordinator::RequestId;
use muster_fairness::Address;
use muster_transactions::message::Producer;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The produces that are not answered yet.
#[derive(Debug)]
pub(super) struct Produces {
    /// The number of the last produce.
    last: u64,
    pending: HashMap<u64, PendingProduce>,
    /// Open questions to coordinators, by the number of their produce.
    questions: BTreeMap<u64, OpenQuestion>,
}

/// A produce, or a request with markers, that still waits for writes.
#[derive(Debug)]
pub(super) struct PendingProduce {
    pub(super) request: RequestId,
    pub(super) response: Response<'static>,
    /// The number of partitions whose batch is not written yet, or waits for the coordinator's
    /// verdict.
    pub(super) writes: usize,
    pub(super) acks: i16,
    pub(super) error: Option<ErrorCode>,
}

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

/// An open question. It has the number of its produce. The number of questions is limited, because
/// each connection has at most one. The budget of writes limits the size of their batches.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    pub producer: Producer,
    /// The version of Produce.
    pub version: i16,
    pub batches: Vec<AskedBatch>,
}

/// A question that is about to be asked.
pub(super) struct Asking<'r> {
    pub call: Call<'r>,
    pub produce: u64,
    pub transactional_id: Option<&'r str>,
    pub batches: Vec<AskedBatch>,
}

impl OpenQuestion {
    /// The size of the question's batches.
    pub(super) fn bytes(&self) -> usize {
        self.batches.iter().map(|asked| asked.bytes.len()).sum()
    }
}

impl Produces {
    /// Creates an empty list of produces, which will get numbers greater than `first`.
    pub(super) fn new(first: u64) -> Self {
        Self { last: first, pending: HashMap::new(), questions: BTreeMap::new() }
    }

    /// The number of the next produce.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Answers at once if nothing has to be written; otherwise the request waits.
    pub(super) fn end_or_await(&mut self, number: u64, pending: PendingProduce, out: &mut Effects) {
        if pending.writes == 0 {
            pending.end(out);
        } else {
            self.pending.insert(number, pending);
        }
    }

    /// Notes that a write of a produce has ended. After the last write, the produce is answered.
    pub(super) fn part_ended(&mut self, produce: u64, out: &mut Effects) {
        let Some(pending) = self.pending.get_mut(&produce) else { return };
        pending.writes -= 1;
        if pending.writes == 0
            && let Some(done) = self.pending.remove(&produce)
        {
            done.end(out);
        }
    }

    /// Notes that a produce has lost its batches for a partition, and need not wait for them.
    pub(super) fn lost(&mut self, produce: u64, id: PartitionId, topic: &str, out: &mut Effects) {
        self.pending.get_mut(&produce).into_iter().for_each(|pending| pending.lost(id, topic));
        self.part_ended(produce, out);
    }

    /// The acks of a produce that is not answered yet.
    pub(super) fn acks(&self, produce: u64) -> Option<i16> {
        self.pending.get(&produce).map(|pending| pending.acks)
    }

    /// Puts the answer for a batch in its place. After the last write, the produce is answered.
    pub(super) fn fill(
        &mut self,
        produce: u64,
        asked: &AskedBatch,
        answer: Answer,
        out: &mut Effects,
    ) {
        let Some(pending) = self.pending.get_mut(&produce) else { return };
        pending.fill(asked, answer.response);
        if !answer.waits {
            self.part_ended(produce, out);
        }
    }

    pub(super) fn add_question(&mut self, produce: u64, question: OpenQuestion) {
        self.questions.insert(produce, question);
    }

    pub(super) fn take_question(&mut self, produce: u64) -> Option<OpenQuestion> {
        self.questions.remove(&produce)
    }

    /// The size of the batches that wait for verdicts.
    pub(super) fn asked_bytes(&self) -> usize {
        self.questions.values().map(OpenQuestion::bytes).sum()
    }
}

impl PendingProduce {
    /// A request that is answered when this number of writes are done.
    pub(super) fn of(
        request: RequestId,
        response: impl Into<Response<'static>>,
        writes: usize,
    ) -> Self {
        Self { request, response: response.into(), writes, acks: -1, error: None }
    }

    /// Answers the request.
    fn end(self, out: &mut Effects) {
        let Self { request, response, acks, error, .. } = self;
        match (acks, error) {
            (0, None) => out.replies.push(Reply { request, outcome: Outcome::Nothing }),
            (0, Some(error)) => {
                let reason = format!("a produce with acks=0 failed with {error:?}");
                out.replies.push(Reply { request, outcome: Outcome::Close(reason) });
            }
            _ => out.send(request, response),
        }
    }

    /// Answers that the batches for a partition are lost.
    fn lost(&mut self, id: PartitionId, topic: &str) {
        let error = ErrorCode::KafkaStorageError;
        self.error = self.error.or(Some(error));
        put_error(&mut self.response, id, topic, error);
    }

    /// Puts the answer for a partition in its place, if there is no error in this place.
    fn fill(&mut self, asked: &AskedBatch, answer: PartitionProduceResponse<'static>) {
        let AskedBatch { id, topic: name, .. } = asked;
        let error = ErrorCode::from_code(answer.error_code).filter(|it| *it != ErrorCode::None);
        self.error = self.error.or(error);
        let Response::Produce(response) = &mut self.response else { return };
        if let Some(place) = place_of(response, *id, name) {
            *place = answer;
        }
    }
}
