//! Produce: appends the batches of a request to their partitions, and answers when all are written.

use super::batch::{self, Refusal, ZSTD_SINCE};
use super::happened::Waiter;
use super::locate::{Missing, add_endpoint};
use super::partition::{Appended, NewBatch};
use super::partition_id::PartitionId;
use super::produce_answers::{failed, knows_log_start, place_of, unanswered};
use super::producers::Origin;
use super::questions::AskedBatch;
use super::{Call, Effects, Outcome, Partitions, Reply};
use crate::cluster::Topic;
use muster_codec::messages::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData, PartitionProduceResponse, ProduceRequest,
    ProduceResponse, TopicProduceData, TopicProduceResponse,
};
use muster_codec::record_batch::BatchHeader;
use muster_codec::{ApiKey, ErrorCode, Response, Str, Uuid};
use muster_coordinator::RequestId;
use muster_transactions::errors::{produce_error, produce_question};
use muster_transactions::message::Stamp;
use muster_transactions::partition::Append;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A produce, or a request with markers, that still waits for writes.
#[derive(Debug)]
pub(super) struct PendingProduce {
    request: RequestId,
    pub(super) response: Response<'static>,
    /// The number of partitions that must be written, or that wait for their coordinator.
    writes: usize,
    acks: i16,
    pub(super) error: Option<ErrorCode>,
}

/// A produce while its partitions are handled.
struct ProduceUnderWay<'r> {
    call: Call<'r>,
    produce: u64,
    acks: i16,
    transactional_id: Option<&'r str>,
    /// The batches about which the coordinator has to be asked.
    asked: Vec<AskedBatch>,
    node_endpoints: Vec<NodeEndpoint<'static>>,
    /// The number of partitions that must be written before the answer.
    writes: usize,
    error: Option<ErrorCode>,
    invalid: Invalid,
}

/// The answers for partitions whose records are not one batch; the last answer of each partition.
/// If a partition is named twice, Kafka gives this answer, whether the other entry was appended or
/// not.
type Invalid = HashMap<(Str<'static>, Uuid, i32), PartitionProduceResponse<'static>>;

impl Partitions {
    /// Produce v3 to v13. Answered when the writes are done. With acks 0 the reply is
    /// [`Outcome::Nothing`] (or `Close`), so that the caller counts the request as done.
    pub fn produce(&mut self, call: Call<'_>, body: &ProduceRequest<'_>, out: &mut Effects) {
        self.last_request += 1;
        self.disk.begin_request();
        let produce = self.last_request;
        let mut round = ProduceUnderWay {
            call,
            produce,
            acks: body.acks,
            transactional_id: body.transactional_id.as_deref(),
            asked: Vec::new(),
            node_endpoints: Vec::new(),
            writes: 0,
            error: None,
            invalid: Invalid::new(),
        };
        let checked = batch::check_request(body)
            .and_then(|()| check_codecs(&round.call, body))
            .and_then(|()| check_producers(&round.call, body));
        let responses = match checked {
            Err(refusal) => refuse_all(&mut round, body, &refusal),
            Ok(()) => self.produce_topics(&mut round, body, out),
        };
        let responses = named_once(responses, &round.invalid);
        let node_endpoints = std::mem::take(&mut round.node_endpoints);
        let response = ProduceResponse { responses, throttle_time_ms: 0, node_endpoints };
        let ProduceUnderWay { call, produce, acks, writes, error, .. } = round;
        if !round.asked.is_empty() {
            self.ask(&call, produce, round.transactional_id, round.asked, out);
        }
        let response = response.into();
        let pending = PendingProduce { request: call.request, response, writes, acks, error };
        self.end_or_await(produce, pending, out);
    }

    /// Answers at once if nothing has to be written; otherwise the request waits.
    pub(super) fn end_or_await(&mut self, number: u64, pending: PendingProduce, out: &mut Effects) {
        if pending.writes == 0 {
            pending.end(out);
        } else {
            self.produces.insert(number, pending);
        }
    }

    /// Handles the topics in reverse order, because Kafka uses the last entry of a partition that
    /// is named twice.
    fn produce_topics(
        &mut self,
        round: &mut ProduceUnderWay<'_>,
        body: &ProduceRequest<'_>,
        out: &mut Effects,
    ) -> Vec<TopicProduceResponse<'static>> {
        let topics = body.topic_data.iter().rev();
        let mut responses: Vec<_> =
            topics.map(|topic| self.produce_topic(round, topic, out)).collect();
        responses.reverse();
        responses
    }

    fn produce_topic(
        &mut self,
        round: &mut ProduceUnderWay<'_>,
        data: &TopicProduceData<'_>,
        out: &mut Effects,
    ) -> TopicProduceResponse<'static> {
        let topic = named_topic(&round.call, data);
        let mut partition_responses = Vec::with_capacity(data.partition_data.len());
        for partition in data.partition_data.iter().rev() {
            let answer = match topic {
                Ok(topic) => self.produce_partition(round, topic, partition, out),
                Err(error) => Ok(Some(failed(partition.index, Refusal::of(error)))),
            };
            let answer = answer.unwrap_or_else(|refusal| {
                let answer = failed(partition.index, refusal);
                let place = (data.name.clone().into_owned().into(), data.topic_id, answer.index);
                round.invalid.entry(place).or_insert_with(|| answer.clone());
                Some(answer)
            });
            let Some(answer) = answer else { continue };
            if let (None, Some(error)) = (round.error, ErrorCode::from_code(answer.error_code)) {
                round.error = (error != ErrorCode::None).then_some(error);
            }
            partition_responses.push(answer);
        }
        partition_responses.reverse();
        topic_answer(data, partition_responses)
    }

    /// Appends the batch of a partition. None if a later entry of the request names the partition,
    /// too.
    ///
    /// # Errors
    /// The records are not one batch.
    fn produce_partition(
        &mut self,
        round: &mut ProduceUnderWay<'_>,
        topic: &Topic,
        data: &PartitionProduceData<'_>,
        out: &mut Effects,
    ) -> Result<Option<PartitionProduceResponse<'static>>, Refusal> {
        let index = data.index;
        let refuse = |error| Ok(Some(failed(index, Refusal::of(error))));
        if !(0..topic.partitions).contains(&index) {
            return refuse(ErrorCode::UnknownTopicOrPartition);
        }
        let bytes = batch::only_batch(data.records.as_ref(), round.call.version)?;
        if !matches!(round.acks, -1..=1) {
            return refuse(ErrorCode::InvalidRequiredAcks);
        }
        if topic.is_internal() {
            return refuse(ErrorCode::InvalidTopicException);
        }
        Ok(match self.table.locate(topic, index) {
            // The rest of the disk is reserved for groups, and for deletions, which free space.
            Ok(_) if self.table.identity().space.is_short() => {
                self.disk.counters.refused_batches += 1;
                return refuse(ErrorCode::KafkaStorageError);
            }
            Ok(id) => self.append(round, (id, &topic.name), bytes, out),
            Err(missing) => Some(self.not_here(round, index, missing)),
        })
    }

    fn append(
        &mut self,
        round: &mut ProduceUnderWay<'_>,
        (id, topic): (PartitionId, &Arc<str>),
        bytes: &[u8],
        out: &mut Effects,
    ) -> Option<PartitionProduceResponse<'static>> {
        if !self.table.first_in_request(id, round.produce) {
            return None;
        }
        let verifies = self.table.config().transaction_partition_verification_enable;
        let is_asked = produce_question(round.call.version).is_asked(verifies);
        let header = BatchHeader::read(bytes).ok();
        let batch = header.as_ref().and_then(batch::transactional);
        let origin = Origin { wall: round.call.wall, address: round.call.address };
        let fits = self.disk.fits_write_budget(origin.address, bytes.len());
        let partition = self.table.get(id)?;
        let may_append = batch.map(|batch| (partition.may_append(batch.producer()), batch));
        let new = NewBatch { origin, bytes, admitted: None };
        let appended = match may_append {
            _ if fits.is_err() => {
                out.refused.extend(fits.err());
                Err(Refusal::of(ErrorCode::RequestTimedOut))
            }
            Some((Append::Ask, _)) if !is_asked => {
                let new = NewBatch { admitted: Some(Stamp::default()), ..new };
                self.table.append(id, &new, &mut self.disk, out)
            }
            None | Some((Append::Now, _)) => self.table.append(id, &new, &mut self.disk, out),
            // As in Kafka, the coordinator is asked before the records are checked.
            Some((Append::Ask, batch)) if round.transactional_id.is_some() => {
                round.writes += 1;
                let (topic, bytes) = (Arc::clone(topic), bytes.into());
                let address = origin.address;
                round.asked.push(AskedBatch { id, topic, batch, bytes, address });
                return Some(PartitionProduceResponse { index: id.index, ..unanswered() });
            }
            Some((Append::Ask, _)) => Err(batch::NOT_TRANSACTIONAL),
            Some((Append::Refuse(error), _)) => {
                Err(Refusal::unverified(produce_error(error, round.call.version)))
            }
        };
        let (answer, waits) = self.appended(id, appended, (round.produce, round.acks));
        round.writes += usize::from(waits);
        Some(answer)
    }

    /// The answer for a partition, and whether it waits for a write.
    fn appended(
        &mut self,
        id: PartitionId,
        appended: Result<Appended, Refusal>,
        (produce, acks): (u64, i16),
    ) -> (PartitionProduceResponse<'static>, bool) {
        let Some(partition) = self.table.get(id) else {
            return (failed(id.index, Refusal::of(ErrorCode::UnknownTopicOrPartition)), false);
        };
        let log_start_offset = partition.log.log_start_offset();
        match appended {
            Ok(appended) => {
                let waits =
                    acks != 0 && self.table.await_write(id, &appended, Waiter::Produce(produce));
                (done(id.index, &appended, log_start_offset), waits)
            }
            Err(refusal) => {
                let known = knows_log_start(&refusal);
                let log_start_offset = if known { log_start_offset } else { -1 };
                let answer = failed(id.index, refusal);
                (PartitionProduceResponse { log_start_offset, ..answer }, false)
            }
        }
    }

    /// Completes the answer for a batch after its coordinator's verdict.
    pub(super) fn asked_answered(
        &mut self,
        produce: u64,
        asked: &AskedBatch,
        appended: Result<Appended, Refusal>,
        out: &mut Effects,
    ) {
        let Some(pending) = self.produces.get(&produce) else { return };
        let (answer, waits) = self.appended(asked.id, appended, (produce, pending.acks));
        let Some(pending) = self.produces.get_mut(&produce) else { return };
        pending.fill(asked, answer);
        if !waits {
            self.part_ended(produce, out);
        }
    }

    /// The answer for a partition that this shard does not serve. It names the leader, so that the
    /// client need not ask for it (KIP-951).
    fn not_here(
        &self,
        round: &mut ProduceUnderWay<'_>,
        index: i32,
        missing: Missing,
    ) -> PartitionProduceResponse<'static> {
        let mut answer = failed(index, Refusal::of(missing.error));
        if let Some(endpoint) =
            missing.leader.and_then(|shard| self.table.endpoint(round.call, shard))
        {
            let leader_id = endpoint.node_id;
            answer.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch: 0 };
            add_endpoint(&mut round.node_endpoints, endpoint);
        }
        answer
    }

    /// Notes that a write of a produce has ended. After the last write, the produce is answered.
    pub(super) fn part_ended(&mut self, produce: u64, out: &mut Effects) {
        let Some(pending) = self.produces.get_mut(&produce) else { return };
        pending.writes -= 1;
        if pending.writes == 0
            && let Some(done) = self.produces.remove(&produce)
        {
            done.end(out);
        }
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

    /// Puts the answer for a partition in its place, unless another entry of the partition was
    /// invalid.
    fn fill(&mut self, asked: &AskedBatch, answer: PartitionProduceResponse<'static>) {
        let AskedBatch { id, topic: name, .. } = asked;
        let error = ErrorCode::from_code(answer.error_code).filter(|it| *it != ErrorCode::None);
        self.error = self.error.or(error);
        let Response::Produce(response) = &mut self.response else { return };
        if let Some(place) = place_of(response, (id.topic, id.index), name) {
            *place = answer;
        }
    }
}

/// Checks the codecs of all batches. In versions before zstd, Kafka fails the whole request,
/// without an append, if a batch has an unknown codec (`ProduceRequest.validateRecords`).
fn check_codecs(call: &Call<'_>, body: &ProduceRequest<'_>) -> Result<(), Refusal> {
    let is_unknown = |topic: &TopicProduceData<'_>| {
        let partitions = call.image.topic(&topic.name).map_or(0, |topic| topic.partitions);
        let mut known =
            topic.partition_data.iter().filter(|it| (0..partitions).contains(&it.index));
        known.any(|partition| batch::has_unknown_codec(partition.records.as_ref()))
    };
    if call.version < ZSTD_SINCE && body.topic_data.iter().any(is_unknown) {
        return Err(Refusal::of(ErrorCode::UnknownServerError));
    }
    Ok(())
}

fn check_producers(call: &Call<'_>, body: &ProduceRequest<'_>) -> Result<(), Refusal> {
    if body.transactional_id.is_none() {
        return Ok(());
    }
    let batches = body.topic_data.iter().flat_map(|data| {
        let partitions = 0..named_topic(call, data).map_or(0, |topic| topic.partitions);
        let known = data.partition_data.iter().filter(move |it| partitions.contains(&it.index));
        known.filter_map(|it| batch::only_batch(it.records.as_ref(), call.version).ok())
    });
    batch::check_producers(batches)
}

fn named_topic<'c>(call: &Call<'c>, data: &TopicProduceData<'_>) -> Result<&'c Topic, ErrorCode> {
    if ApiKey::Produce.has_topic_ids(call.version) {
        call.image.topic_by_id(data.topic_id).ok_or(ErrorCode::UnknownTopicId)
    } else {
        call.image.topic(&data.name).ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}

/// Answers every partition with the same error.
fn refuse_all(
    round: &mut ProduceUnderWay<'_>,
    body: &ProduceRequest<'_>,
    refusal: &Refusal,
) -> Vec<TopicProduceResponse<'static>> {
    round.error = Some(refusal.error);
    let refuse = |data: &PartitionProduceData<'_>| failed(data.index, refusal.clone());
    let topics = body.topic_data.iter();
    topics
        .map(|data| topic_answer(data, data.partition_data.iter().map(refuse).collect()))
        .collect()
}

fn topic_answer(
    data: &TopicProduceData<'_>,
    partition_responses: Vec<PartitionProduceResponse<'static>>,
) -> TopicProduceResponse<'static> {
    let name = data.name.clone().into_owned().into();
    TopicProduceResponse { name, topic_id: data.topic_id, partition_responses }
}

/// Names each topic and each partition once, and leaves out topics without partitions: Kafka builds
/// the answer from a map by partition.
fn named_once(
    responses: Vec<TopicProduceResponse<'static>>,
    invalid: &Invalid,
) -> Vec<TopicProduceResponse<'static>> {
    if invalid.is_empty() && is_of_one_partition(&responses) {
        return responses;
    }
    let mut places = HashMap::with_capacity(responses.len());
    let mut once: Vec<TopicProduceResponse<'static>> = Vec::with_capacity(responses.len());
    for topic in responses.into_iter().filter(|topic| !topic.partition_responses.is_empty()) {
        let place = *places.entry((topic.name.clone(), topic.topic_id)).or_insert(once.len());
        match once.get_mut(place) {
            Some(first) => first.partition_responses.extend(topic.partition_responses),
            None => once.push(topic),
        }
    }
    for topic in &mut once {
        let mut seen = HashSet::with_capacity(topic.partition_responses.len());
        topic.partition_responses.retain(|partition| seen.insert(partition.index));
    }
    if !invalid.is_empty() {
        once.iter_mut().for_each(|topic| put_invalid(topic, invalid));
    }
    once
}

/// Whether the answer has a single partition, as usual; then nothing is named twice.
fn is_of_one_partition(responses: &[TopicProduceResponse<'_>]) -> bool {
    matches!(responses, [topic] if topic.partition_responses.len() == 1)
}

fn put_invalid(topic: &mut TopicProduceResponse<'static>, invalid: &Invalid) {
    for partition in &mut topic.partition_responses {
        let place = (topic.name.clone(), topic.topic_id, partition.index);
        if let Some(answer) = invalid.get(&place) {
            *partition = answer.clone();
        }
    }
}

fn done(
    index: i32,
    appended: &Appended,
    log_start_offset: i64,
) -> PartitionProduceResponse<'static> {
    PartitionProduceResponse {
        index,
        base_offset: appended.base_offset,
        log_append_time_ms: appended.log_append_time,
        log_start_offset,
        ..Default::default()
    }
}
