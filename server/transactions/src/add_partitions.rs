//! Adds partitions to transactions, and verifies that they were added. The requests are
//! AddPartitionsToTxn and AddOffsetsToTxn; the server's own partitions and groups ask, too
//! (`TransactionCoordinator.handleAddPartitionsToTransaction`,
//! `handleVerifyPartitionsInTransaction`).
//!
//! - Before v2 of the requests, a fenced producer gets INVALID_PRODUCER_EPOCH instead of
//!   PRODUCER_FENCED.
//! - AddPartitionsToTxn v4+ may name several transactions. Brokers send it, and it never waits.

use crate::beginning::Beginning;
use crate::context::Context;
use crate::coordinator::{Caller, Coordinator};
use crate::limits::{OPEN_BYTES_MAX, TRANSACTION_BYTES_MAX};
use crate::message::Producer;
use crate::operation::{Action, Done, Operation, Refusal, Reply, To, Wait};
use crate::output::Output;
use crate::partition_set::PartitionSet;
use crate::reply::{added, not_attempted, refused, verified};
use crate::state::{EPOCH_PER_TRANSACTION, State};
use crate::text::{Text, owned};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse, AddPartitionsToTxnResult, AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult, AddPartitionsToTxnTransaction,
};
use muster_codec::records::OFFSETS_TOPIC;

/// From this version on, AddPartitionsToTxn may name several transactions.
const TRANSACTIONS_FROM: i16 = 4;

impl Coordinator {
    pub(crate) fn add_partitions(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'_>,
        body: &AddPartitionsToTxnRequest<'_>,
        out: &mut Output,
    ) {
        let Caller { request, api_version, .. } = caller;
        if api_version >= TRANSACTIONS_FROM {
            return self.add_for_brokers(context, caller, &body.transactions, out);
        }
        let (partitions, refused) = checked(context, &body.v3_and_below_topics);
        if let Some(results_by_topic_v3_and_below) = refused {
            let response =
                AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() };
            return out.answer(request, response, 0);
        }
        let producer =
            Producer { id: body.v3_and_below_producer_id, epoch: body.v3_and_below_producer_epoch };
        let id = Text::from(&*body.v3_and_below_transactional_id);
        let action = Action::Add { producer, partitions, client_version: 0 };
        let reply = Reply::AddPartitions(To { request, api_version });
        self.attempt(context, Operation { id, action, reply, waited: None }, out);
    }

    /// Adds or verifies partitions, and answers at once. If the request names an id twice, the
    /// second entry gets CONCURRENT_TRANSACTIONS, as in Kafka, where the first entry is still being
    /// written.
    fn add_for_brokers(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'_>,
        transactions: &[AddPartitionsToTxnTransaction<'_>],
        out: &mut Output,
    ) {
        let (mut seen, mut visible_at) = (BTreeSet::new(), 0);
        let results = transactions.iter().map(|transaction| {
            let id = &transaction.transactional_id;
            let records = out.records.len();
            let topic_results = match seen.insert(id) {
                false => named_twice(&transaction.topics),
                _ => self.add_for_broker(context, transaction, out),
            };
            let wrote = out.records.len() > records;
            let position = if wrote { context.position } else { self.visible_at(id) };
            visible_at = position.max(visible_at);
            AddPartitionsToTxnResult { transactional_id: owned(id), topic_results }
        });
        let results_by_transaction: Vec<_> = results.collect();
        let response = AddPartitionsToTxnResponse { results_by_transaction, ..Default::default() };
        out.answer(caller.request, response, visible_at);
    }

    fn add_for_broker(
        &mut self,
        context: &mut Context<'_>,
        transaction: &AddPartitionsToTxnTransaction<'_>,
        out: &mut Output,
    ) -> Vec<AddPartitionsToTxnTopicResult<'static>> {
        self.ids.load(&transaction.transactional_id);
        let (partitions, refused_now) = checked(context, &transaction.topics);
        if let Some(results) = refused_now {
            return results;
        }
        let id = Text::from(&*transaction.transactional_id);
        let producer = Producer { id: transaction.producer_id, epoch: transaction.producer_epoch };
        let done = match transaction.verify_only {
            false => self.add(context, &id, producer, &partitions, EPOCH_PER_TRANSACTION, out),
            _ => self.verify(&id, producer, &partitions),
        };
        match done {
            Ok(Done::Verified(missing)) => verified(&partitions, &missing),
            Ok(Done::Added | Done::Identity(_)) => added(&partitions),
            Err(Refusal::Now(error) | Refusal::Wait(Wait { error, .. })) => {
                refused(&partitions, error)
            }
            Err(Refusal::Begun) => refused(&partitions, ErrorCode::ConcurrentTransactions),
        }
    }

    pub(crate) fn add_offsets(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'_>,
        body: &AddOffsetsToTxnRequest<'_>,
        out: &mut Output,
    ) {
        let Caller { request, api_version, .. } = caller;
        let partition = context.topics.offsets_partition(&body.group_id);
        let partitions = PartitionSet::of(OFFSETS_TOPIC, partition);
        let producer = Producer { id: body.producer_id, epoch: body.producer_epoch };
        let action = Action::Add { producer, partitions, client_version: 0 };
        let id = Text::from(&*body.transactional_id);
        let reply = Reply::AddOffsets(To { request, api_version });
        self.attempt(context, Operation { id, action, reply, waited: None }, out);
    }

    pub(crate) fn add(
        &mut self,
        context: &Context<'_>,
        id: &Text,
        producer: Producer,
        partitions: &PartitionSet,
        client_version: i16,
        out: &mut Output,
    ) -> Result<Done, Refusal> {
        let entry = self.find(id)?;
        let has_epochs = client_version == EPOCH_PER_TRANSACTION;
        if entry.is_ending() || (entry.is_pending() && !has_epochs) {
            return Err(Refusal::CONCURRENT);
        }
        if producer.id != entry.durable.producer_id {
            return Err(ErrorCode::InvalidProducerIdMapping.into());
        }
        if producer.epoch != entry.durable.epoch {
            return Err(ErrorCode::ProducerFenced.into());
        }
        let own = entry.durable.partitions().or(entry.joined());
        if own.is_some_and(|own| own.contains_all(partitions)) {
            return Ok(Done::Added);
        }
        // A partition may lack the marker of the last transaction. The next transaction would have
        // the same epoch, so a report of that partition could mean either of the two. Therefore the
        // client must first get a new epoch with InitProducerId.
        if own.is_none() && self.is_ambiguous(id, entry) {
            return Err(ErrorCode::InvalidProducerIdMapping.into());
        }
        let bytes = own.map_or(0, PartitionSet::bytes) + partitions.bytes();
        if bytes > TRANSACTION_BYTES_MAX {
            return Err(ErrorCode::UnknownServerError.into());
        }
        if self.open_bytes + partitions.bytes() > OPEN_BYTES_MAX {
            return Err(ErrorCode::CoordinatorNotAvailable.into());
        }
        // The transaction may already have begun, and its first data and its Ongoing record may be
        // lost. So the client must abort it.
        if has_epochs && own.is_none() && self.beginning(id, entry) != Beginning::Whole {
            return Err(ErrorCode::TransactionAbortable.into());
        }
        if !self.keeps_outcome(entry) {
            let durable = entry.durable.ongoing(partitions, client_version, context.wall);
            self.write(id, Some(&durable), out);
            return Ok(Done::Added);
        }
        if !has_epochs {
            return Err(self.wait_until_settled(context, id, out));
        }
        self.join_without_record(context, id, partitions);
        self.wait_until_settled(context, id, out);
        Ok(Done::Added)
    }

    /// Like Kafka, this looks only at the state, not at a pending transition.
    pub(crate) fn verify(
        &self,
        id: &str,
        producer: Producer,
        partitions: &PartitionSet,
    ) -> Result<Done, Refusal> {
        let entry = self.find(id)?;
        let durable = &entry.durable;
        if producer.id != durable.producer_id {
            return Err(ErrorCode::InvalidProducerIdMapping.into());
        }
        if producer.epoch != durable.epoch {
            return Err(ErrorCode::ProducerFenced.into());
        }
        if durable.state.prepared().is_some() {
            return Err(Refusal::CONCURRENT);
        }
        let mut missing = partitions.clone();
        if let (State::Ongoing, Some(own)) = (durable.state, durable.partitions()) {
            missing.remove_all(own);
        }
        Ok(Done::Verified(missing))
    }
}

fn set(topics: &[AddPartitionsToTxnTopic<'_>]) -> PartitionSet {
    let partitions = topics.iter().flat_map(|it| it.partitions.iter().map(|at| (&*it.name, *at)));
    partitions.collect()
}

/// Returns the partitions of a request. If one of them does not exist, or if there are too many,
/// also returns the results with which the whole request is refused. A client may name millions of
/// partitions, so they are counted before they are sorted.
fn checked(
    context: &Context<'_>,
    topics: &[AddPartitionsToTxnTopic<'_>],
) -> (PartitionSet, Option<Vec<AddPartitionsToTxnTopicResult<'static>>>) {
    if bytes(topics) > TRANSACTION_BYTES_MAX {
        return (PartitionSet::default(), Some(too_many(topics)));
    }
    let partitions = set(topics);
    let mut unknown = partitions.clone();
    unknown.retain(|topic, partition| context.topics.slot(topic, partition).is_none());
    let refused = (!unknown.is_empty()).then(|| not_attempted(&partitions, &unknown));
    (partitions, refused)
}

/// How many bytes these partitions need in a record, or more: a repeated partition counts twice.
fn bytes(topics: &[AddPartitionsToTxnTopic<'_>]) -> usize {
    topics.iter().map(|it| PartitionSet::bytes_of_topic(&it.name, it.partitions.len())).sum()
}

fn named_twice(
    topics: &[AddPartitionsToTxnTopic<'_>],
) -> Vec<AddPartitionsToTxnTopicResult<'static>> {
    if bytes(topics) > TRANSACTION_BYTES_MAX {
        return too_many(topics);
    }
    refused(&set(topics), ErrorCode::ConcurrentTransactions)
}

/// The results for a request whose partitions alone exceed the limit of [`Coordinator::add`].
fn too_many(topics: &[AddPartitionsToTxnTopic<'_>]) -> Vec<AddPartitionsToTxnTopicResult<'static>> {
    let partition_error_code = ErrorCode::UnknownServerError.code();
    let result = |partition_index: &i32| AddPartitionsToTxnPartitionResult {
        partition_index: *partition_index,
        partition_error_code,
    };
    let topics = topics.iter().map(|topic| AddPartitionsToTxnTopicResult {
        name: owned(&topic.name),
        results_by_partition: topic.partitions.iter().map(result).collect(),
    });
    topics.collect()
}
