//! Requests of transactions. A request for a partition of this shard goes to its coordinator. A
//! request for ids of several partitions is split here. The coordinators answer the parts at once,
//! and the answers are joined.

use super::{Inputs, Transactions};
use crate::dispatch::transaction_apis::{self, Destination};
use crate::dispatch::{LOADING, check_served};
use crate::net::{Reply, VisibleAt};
use crate::placement::TransactionsPartition;
use muster_codec::messages::{InitProducerIdRequest, InitProducerIdResponse};
use muster_codec::{ErrorCode, Response, TransactionRequest};
use muster_coordinator::RequestId;
use muster_runtime::{NotWritten, Runtime};
use muster_storage::AppendError;
use muster_transactions::{Answer, Caller, Output, Request};

/// The sender of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender<'s> {
    pub(crate) request: RequestId,
    pub(crate) version: i16,
    /// The client's address in Kafka's form.
    pub(crate) host: &'s str,
}

impl Transactions {
    /// Handles a request. [`Transactions::take_answers`] returns the answer, now or later.
    pub(crate) fn request(
        &mut self,
        mut inputs: Inputs<'_>,
        sender: Sender<'_>,
        request: TransactionRequest<'_>,
    ) {
        let placement = self.placement;
        let partition_of = |id: &str| {
            let partition = placement.transactions_partition(id);
            self.check_served(inputs.runtime, partition).map(|()| partition)
        };
        let places = transaction_apis::places(&request, &partition_of);
        let loading = inputs.runtime.is_loading().then_some(LOADING);
        match transaction_apis::route(request, sender.version, &partition_of, loading) {
            Destination::Partition(partition, request) => {
                self.handle(partition, &mut inputs, sender, request)
            }
            Destination::Partitions(parts, refused) => {
                self.join(&mut inputs, sender, parts, refused, &places)
            }
            Destination::Shard(request, empty) => {
                let all = self.coordinators.iter();
                let all: Vec<TransactionsPartition> =
                    all.filter(|it| self.serves(inputs.runtime, *it)).collect();
                let joined = all.is_empty().then_some(empty);
                // The filters of the request may take megabytes. So the iterator clones it for one
                // partition at a time.
                let parts = all.into_iter().map(|partition| (partition, request.clone()));
                self.join(&mut inputs, sender, parts, joined, &[]);
            }
            Destination::Answered(response) => self.answer_now(sender.request, response),
        }
    }

    /// Handles InitProducerId with a transactional id.
    pub(crate) fn init_producer_id(
        &mut self,
        mut inputs: Inputs<'_>,
        sender: Sender<'_>,
        body: InitProducerIdRequest<'_>,
    ) {
        let id = body.transactional_id.as_deref().unwrap_or_default();
        let partition = self.placement.transactions_partition(id);
        match self.check_served(inputs.runtime, partition) {
            Ok(()) => self.handle(partition, &mut inputs, sender, body.into()),
            Err(error) => {
                let response = InitProducerIdResponse::refused(error);
                self.answer_now(sender.request, response.into());
            }
        }
    }

    /// Whether the next request of a transactional id has to wait until this node serves its
    /// partition.
    pub(crate) fn is_loading(&self, runtime: &Runtime, id: &str) -> bool {
        let partition = self.placement.transactions_partition(id);
        self.check_served(runtime, partition) == Err(LOADING)
    }

    /// Whether the coordinator of a partition answers requests here. The error is the answer of one
    /// that does not.
    fn check_served(
        &self,
        runtime: &Runtime,
        partition: TransactionsPartition,
    ) -> Result<(), ErrorCode> {
        let slot = self.placement.slot_of_transactions(partition);
        if !self.coordinators.has(partition) {
            return Err(ErrorCode::NotCoordinator);
        }
        check_served(runtime, slot)
    }

    /// Whether the coordinator of a partition answers requests here.
    fn serves(&self, runtime: &Runtime, partition: TransactionsPartition) -> bool {
        self.check_served(runtime, partition).is_ok()
    }

    fn answer_now(&mut self, request: RequestId, response: Response<'static>) {
        self.answers.push(Reply { request, response, visible_at: VisibleAt::Now });
    }

    fn handle(
        &mut self,
        partition: TransactionsPartition,
        inputs: &mut Inputs<'_>,
        sender: Sender<'_>,
        request: Request<'_>,
    ) {
        let RequestId { connection, sequence } = sender.request;
        let caller = Caller {
            request: muster_transactions::RequestId { connection, sequence },
            api_version: sender.version,
            client_host: sender.host,
        };
        let handle = |it: &mut muster_transactions::Coordinator,
                      context: &mut muster_transactions::Context<'_>| {
            it.handle(context, caller, request)
        };
        let output = self.coordinators.call(partition, inputs, handle);
        self.write(partition, inputs, output);
    }

    /// Passes the parts of a request to the coordinators of several partitions, and joins their
    /// answers. If the answer must be in the order of the request, `places` says for each entry of
    /// the parts, in their order, which index the entry had in the request.
    fn join<'r>(
        &mut self,
        inputs: &mut Inputs<'_>,
        sender: Sender<'_>,
        parts: impl IntoIterator<Item = (TransactionsPartition, Request<'r>)>,
        mut joined: Option<Response<'static>>,
        places: &[usize],
    ) {
        let mut visible_at = VisibleAt::Now;
        for (partition, part) in parts {
            let before = self.answers.len();
            self.handle(partition, inputs, sender, part);
            let is_own = |reply: &Reply<'_>| reply.request == sender.request;
            let at = self.answers[before..].iter().position(is_own);
            let Some(reply) = at.map(|at| self.answers.remove(before + at)) else { continue };
            visible_at.join(reply.visible_at);
            match &mut joined {
                Some(joined) => transaction_apis::merge(joined, reply.response),
                None => joined = Some(reply.response),
            }
        }
        if let Some(mut response) = joined {
            transaction_apis::put_in_order(&mut response, places);
            self.answers.push(Reply { request: sender.request, response, visible_at });
        }
    }

    /// Appends the records of a coordinator's output and replays them. The output's answers and
    /// messages are sent when the positions that they wait for are durable.
    pub(super) fn write(
        &mut self,
        partition: TransactionsPartition,
        inputs: &mut Inputs<'_>,
        output: Output,
    ) {
        let slot = self.coordinators.slot_of(partition).log_slot();
        let position = inputs.runtime.next_position(slot);
        let refused = self.append(partition, inputs, &output);
        // Coordinators of slots that other nodes lead are idle, but not aware of it.
        if let Some(error) = refused.as_ref().filter(|it| **it != AppendError::NotLeader) {
            let words = format_args!("records were not written: {error}");
            inputs.errors.log(inputs.times.now, "write", words);
        }
        let log = inputs.runtime.log();
        let last = log.position_of(partition.log_partition());
        let flushed = log.progress_of(slot).flushed();
        // Each record of an output is an operation. But an answer or message knows only the
        // position of the first one, and has to wait for the last one.
        let raised = |visible_at| if visible_at == position { last } else { visible_at };
        for answer in output.answers {
            let Answer { request, response, visible_at } = answer;
            let response = match refused {
                Some(_) => transaction_apis::failed(response, ErrorCode::UnknownServerError),
                None => transaction_apis::response(response),
            };
            let request = RequestId { connection: request.connection, sequence: request.sequence };
            let visible_at = VisibleAt::position(slot, raised(visible_at));
            self.answers.push(Reply { request, response, visible_at });
        }
        for mut message in output.messages {
            if refused.is_none() {
                message.visible_at = raised(message.visible_at);
                self.post.add_to_slot(partition, flushed, message);
            }
        }
    }

    /// Appends records one by one, because each is the whole state of an id. If the log refuses a
    /// record, its id and the following ids return to their durable state.
    fn append(
        &mut self,
        partition: TransactionsPartition,
        inputs: &mut Inputs<'_>,
        output: &Output,
    ) -> Option<AppendError> {
        let now = inputs.times.now;
        let appended = self.coordinators.append(inputs.runtime, partition, now, &output.records);
        let NotWritten { error, written } = appended.err()?;
        let rest = &output.records[written..];
        self.coordinators.call(partition, inputs, |it, _| it.not_written(rest));
        Some(error)
    }
}
