//! Produce: appends the batches of a request to their partitions, and answers when all are written.

use super::batch::{self, Refusal, ZSTD_SINCE};
use super::disk::Disk;
use super::effects::{Call, Effects};
use super::happened::Waiter;
use super::locate::{Missing, add_endpoint};
use super::partition::{Appended, NewBatch};
use super::partition_id::PartitionId;
use super::produce_answers::{Answer, failed, knows_log_start, unanswered};
use super::producers::Origin;
use super::produces::{AskedBatch, Asking, PendingProduce, Produces};
use super::table::Table;
use crate::cluster::Topic;
use muster_codec::messages::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData, PartitionProduceResponse, ProduceRequest,
    ProduceResponse, TopicProduceData, TopicProduceResponse,
};
use muster_codec::record_batch::BatchHeader;
use muster_codec::{ApiKey, ErrorCode, Str, Uuid};
use muster_transactions::errors::{produce_error, produce_question};
use muster_transactions::message::Stamp;
use muster_transactions::partition::Append;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A produce while its partitions are handled.
struct ProduceUnderWay<'r> {
    call: Call<'r>,
    produce: u64,
    acks: i16,
    transactional_id: Option<&'r str>,
    /// The batches about which the coordinator has to be asked.
    asked: Vec<AskedBatch>,
    node_endpoints: Vec<NodeEndpoint<'static>>,
    /// The number of partitions whose writes the answer waits for.
    writes: usize,
    error: Option<ErrorCode>,
    invalid: Invalid,
}

/// The answers for partitions with an invalid entry (one whose records are not a single batch). If
/// a partition is named twice, Kafka answers for its last invalid entry, even if the other entry
/// was appended.
type Invalid = HashMap<(Str<'static>, Uuid, i32), PartitionProduceResponse<'static>>;

impl Produces {
    /// Produce v3 to v13. Answered when the writes are done. With acks 0 there is no answer, but
    /// the reply is [`Outcome::Nothing`](super::Outcome::Nothing) (or `Close`). With it the caller
    /// counts the request as done.
    pub(super) fn produce(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        call: Call<'_>,
        body: &ProduceRequest<'_>,
        out: &mut Effects,
    ) {
        disk.begin_request();
        let produce = self.next();
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
            Ok(()) => round.produce_topics(table, disk, body, out),
        };
        let responses = named_once(responses, &round.invalid);
        let node_endpoints = std::mem::take(&mut round.node_endpoints);
        let response = ProduceResponse { responses, throttle_time_ms: 0, node_endpoints };
        let ProduceUnderWay { call, produce, acks, writes, error, .. } = round;
        if !round.asked.is_empty() {
            let (transactional_id, batches) = (round.transactional_id, round.asked);
            let asking = Asking { call, produce, transactional_id, batches };
            self.ask(table, disk, asking, out);
        }
        let response = response.into();
        let pending = PendingProduce { request: call.request, response, writes, acks, error };
        self.end_or_await(produce, pending, out);
    }
}

impl ProduceUnderWay<'_> {
    /// Handles the topics in reverse order. If a partition is named twice, Kafka uses the last
    /// entry.
    fn produce_topics(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        body: &ProduceRequest<'_>,
        out: &mut Effects,
    ) -> Vec<TopicProduceResponse<'static>> {
        let topics = body.topic_data.iter().rev();
        let mut responses: Vec<_> =
            topics.map(|topic| self.produce_topic(table, disk, topic, out)).collect();
        responses.reverse();
        responses
    }

    fn produce_topic(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        data: &TopicProduceData<'_>,
        out: &mut Effects,
    ) -> TopicProduceResponse<'static> {
        let topic = named_topic(&self.call, data);
        let mut partition_responses = Vec::with_capacity(data.partition_data.len());
        for partition in data.partition_data.iter().rev() {
            let answer = match topic {
                Ok(topic) => self.produce_partition(table, disk, topic, partition, out),
                Err(error) => Ok(Some(failed(partition.index, Refusal::of(error)))),
            };
            let answer = answer.unwrap_or_else(|refusal| {
                let answer = failed(partition.index, refusal);
                let place = (data.name.clone().into_owned().into(), data.topic_id, answer.index);
                self.invalid.entry(place).or_insert_with(|| answer.clone());
                Some(answer)
            });
            let Some(answer) = answer else { continue };
            if let (None, Some(error)) = (self.error, ErrorCode::from_code(answer.error_code)) {
                self.error = (error != ErrorCode::None).then_some(error);
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
        table: &mut Table,
        disk: &mut Disk,
        topic: &Topic,
        data: &PartitionProduceData<'_>,
        out: &mut Effects,
    ) -> Result<Option<PartitionProduceResponse<'static>>, Refusal> {
        let index = data.index;
        let refuse = |error| Ok(Some(failed(index, Refusal::of(error))));
        if !(0..topic.partitions).contains(&index) {
            return refuse(ErrorCode::UnknownTopicOrPartition);
        }
        let bytes = batch::only_batch(data.records.as_ref(), self.call.version)?;
        if !matches!(self.acks, -1..=1) {
            return refuse(ErrorCode::InvalidRequiredAcks);
        }
        if topic.is_internal() {
            return refuse(ErrorCode::InvalidTopicException);
        }
        Ok(match table.locate(topic, index) {
            // The remaining space of the disk is reserved for groups, and for deletions, which free
            // space.
            Ok(_) if !disk.has_room(bytes.len()) => {
                disk.counters.refused_batches += 1;
                return refuse(ErrorCode::KafkaStorageError);
            }
            Ok(id) => self.append(table, disk, id, &topic.name, bytes, out),
            Err(missing) => Some(self.not_here(table, index, missing)),
        })
    }

    fn append(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        id: PartitionId,
        topic: &Arc<str>,
        bytes: &[u8],
        out: &mut Effects,
    ) -> Option<PartitionProduceResponse<'static>> {
        if !table.first_in_request(id, self.produce) {
            return None;
        }
        let verifies = table.config().transaction_partition_verification_enable;
        let is_asked = produce_question(self.call.version).is_asked(verifies);
        let header = BatchHeader::read(bytes).ok();
        let batch = header.as_ref().and_then(batch::transactional);
        let origin = Origin { wall: self.call.wall, address: self.call.address };
        let fits = disk.fits_write_budget(origin.address, bytes.len());
        let partition = table.get(id)?;
        let may_append = batch.map(|batch| (partition.may_append(batch.producer()), batch));
        let new = NewBatch { origin, bytes, admitted: None };
        let appended = match may_append {
            _ if fits.is_err() => {
                out.refused.extend(fits.err());
                Err(Refusal::of(ErrorCode::RequestTimedOut))
            }
            Some((Append::Ask, _)) if !is_asked => {
                let new = NewBatch { admitted: Some(Stamp::default()), ..new };
                table.append(id, &new, disk, out)
            }
            None | Some((Append::Now, _)) => table.append(id, &new, disk, out),
            // As in Kafka, the coordinator is asked before the records are checked.
            Some((Append::Ask, batch)) if self.transactional_id.is_some() => {
                self.writes += 1;
                let (topic, bytes) = (Arc::clone(topic), bytes.into());
                let address = origin.address;
                self.asked.push(AskedBatch { id, topic, batch, bytes, address });
                return Some(PartitionProduceResponse { index: id.index, ..unanswered() });
            }
            Some((Append::Ask, _)) => Err(batch::NOT_TRANSACTIONAL),
            Some((Append::Refuse(error), _)) => {
                Err(Refusal::unverified(produce_error(error, self.call.version)))
            }
        };
        let waiter = (self.acks != 0).then_some(Waiter::Produce(self.produce));
        let Answer { response, waits } = answer(table, id, appended, waiter);
        self.writes += usize::from(waits);
        Some(response)
    }

    /// The answer for a partition that this shard does not serve. It names the leader, which saves
    /// the client a request for it (KIP-951).
    fn not_here(
        &mut self,
        table: &Table,
        index: i32,
        missing: Missing,
    ) -> PartitionProduceResponse<'static> {
        let mut answer = failed(index, Refusal::of(missing.error));
        if let Some(endpoint) = missing.leader.and_then(|shard| table.endpoint(self.call, shard)) {
            let leader_id = endpoint.node_id;
            answer.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch: 0 };
            add_endpoint(&mut self.node_endpoints, endpoint);
        }
        answer
    }
}

/// The answer for a partition. Without a waiter it does not wait for the write.
pub(super) fn answer(
    table: &mut Table,
    id: PartitionId,
    appended: Result<Appended, Refusal>,
    waiter: Option<Waiter>,
) -> Answer {
    let Some(partition) = table.get(id) else {
        let refusal = Refusal::of(ErrorCode::UnknownTopicOrPartition);
        return Answer { response: failed(id.index, refusal), waits: false };
    };
    let log_start_offset = partition.log.log_start_offset();
    match appended {
        Ok(appended) => {
            let waits = waiter.is_some_and(|waiter| table.await_write(id, &appended, waiter));
            Answer { response: done(id.index, &appended, log_start_offset), waits }
        }
        Err(refusal) => {
            let known = knows_log_start(&refusal);
            let log_start_offset = if known { log_start_offset } else { -1 };
            let response = failed(id.index, refusal);
            let response = PartitionProduceResponse { log_start_offset, ..response };
            Answer { response, waits: false }
        }
    }
}

/// Checks the codecs of batches, for versions of Produce before zstd. If a batch for an existing
/// partition has an unknown codec, Kafka appends nothing and the whole request fails
/// (`ProduceRequest.validateRecords`).
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

/// Merges topics and partitions that occur several times, and leaves out topics without partitions.
/// Kafka does so because it builds the answer from a map by partition.
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

/// Whether the answer has a single partition, as it usually has. Then nothing can occur twice.
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
