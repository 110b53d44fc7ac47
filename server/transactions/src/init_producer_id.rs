//! InitProducerId: a producer starts to use a transactional id, which ends the open transaction of
//! the previous producer (`TransactionCoordinator.handleInitProducerId`).
//!
//! - Before v4, a fenced producer gets INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED.
//! - If a transaction is open, Kafka aborts it and answers CONCURRENT_TRANSACTIONS, so the client
//!   retries. Here the answer waits for the end of the abort.
//! - If a request increased the epoch to the last possible value, and the client retries it, the
//!   retry gets the same answer. Kafka fails with UNKNOWN_SERVER_ERROR.

use crate::context::Context;
use crate::coordinator::{Caller, Coordinator};
use crate::entry::{Decision, Entry};
use crate::limits::IDS_MAX;
use crate::message::Producer;
use crate::operation::{Action, Done, Init, Operation, Refusal, Reply, To};
use crate::output::Output;
use crate::state::{
    Durable, EPOCH_PER_TRANSACTION, LAST_EPOCH, NO_EPOCH, NO_PRODUCER_ID, NO_TIMEOUT, State,
};
use crate::text::Text;
use muster_codec::ErrorCode;
use muster_codec::messages::InitProducerIdRequest;
use muster_codec::record_batch::TransactionOutcome;

impl Coordinator {
    pub(crate) fn init_producer_id(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'_>,
        body: &InitProducerIdRequest<'_>,
        out: &mut Output,
    ) {
        let Caller { request, api_version, client_host } = caller;
        let id = Text::from(body.transactional_id.as_deref().unwrap_or_default());
        let timeout_ms = match body.enable2_pc {
            false => body.transaction_timeout_ms,
            _ => NO_TIMEOUT,
        };
        let has_producer = body.producer_id != NO_PRODUCER_ID;
        let given = Producer { id: body.producer_id, epoch: body.producer_epoch };
        let init = Init { timeout_ms, given: has_producer.then_some(given) };
        let reply = Reply::InitProducerId(To { request, api_version });
        let operation = Operation { id, action: Action::Init(init), reply, waited: None };
        let checked = self.check_init(body).and_then(|()| match &body.transactional_id {
            Some(id) => self.admit(context, id, client_host).map(|()| None),
            None => new_producer_id(context).map(Some),
        });
        match checked {
            Ok(None) => self.attempt(context, operation, out),
            Ok(Some(id)) => {
                let done = Done::Identity(Producer { id, epoch: 0 });
                self.reply(&operation, Ok(done), 0, out);
            }
            Err(error) => self.reply(&operation, Err(error), 0, out),
        }
    }

    fn check_init(&self, body: &InitProducerIdRequest<'_>) -> Result<(), ErrorCode> {
        if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_EPOCH) {
            return Err(ErrorCode::InvalidRequest);
        }
        let Some(id) = &body.transactional_id else { return Ok(()) };
        let may_take = 1..=self.config.transaction_max_timeout_ms;
        if id.is_empty() {
            Err(ErrorCode::InvalidRequest)
        } else if body.enable2_pc && !self.config.two_phase_commit_enable {
            Err(ErrorCode::TransactionalIdAuthorizationFailed)
        } else if body.keep_prepared_txn {
            Err(ErrorCode::UnsupportedVersion)
        } else if !body.enable2_pc && !may_take.contains(&body.transaction_timeout_ms) {
            Err(ErrorCode::InvalidTransactionTimeout)
        } else {
            Ok(())
        }
    }

    /// Checks whether a client may use the id, or create it.
    fn admit(&self, context: &mut Context<'_>, id: &str, host: &str) -> Result<(), ErrorCode> {
        let is_admitted = self.ids.contains(id)
            || (self.held.ids < IDS_MAX && context.admission.admits(self.held, host));
        is_admitted.then_some(()).ok_or(ErrorCode::CoordinatorNotAvailable)
    }

    pub(crate) fn init(
        &mut self,
        context: &mut Context<'_>,
        id: &Text,
        init: &Init,
        out: &mut Output,
    ) -> Result<Done, Refusal> {
        let Some(entry) = self.ids.get(id) else {
            let producer_id = context.producer_ids.next().ok_or(Refusal::LOADING)?;
            let durable = Durable::new(producer_id, init.timeout_ms, context.wall);
            self.write(id, Some(&durable), out);
            return Ok(Done::Identity(Producer { id: producer_id, epoch: 0 }));
        };
        if entry.is_pending() {
            return Err(Refusal::CONCURRENT);
        }
        check_given(entry, init.given)?;
        match entry.durable.state {
            State::Ongoing => Err(self.fence(context, id, out)),
            State::PrepareCommit | State::PrepareAbort => Err(Refusal::CONCURRENT),
            State::Empty | State::CompleteCommit | State::CompleteAbort => {
                self.begin(context, id, init, out)
            }
        }
    }

    /// Aborts an open transaction. Returns how an operation must wait for that.
    pub(crate) fn fence(
        &mut self,
        context: &mut Context<'_>,
        id: &Text,
        out: &mut Output,
    ) -> Refusal {
        let outcome = TransactionOutcome::Abort;
        let client_version = EPOCH_PER_TRANSACTION;
        let decision = Decision { outcome, client_version, next_producer_id: None };
        match self.decide(context, id, decision, out) {
            Ok(_) | Err(Refusal::Begun) => Refusal::CONCURRENT,
            Err(refusal) => refusal,
        }
    }

    /// Writes the state for a new producer.
    fn begin(
        &mut self,
        context: &mut Context<'_>,
        id: &Text,
        init: &Init,
        out: &mut Output,
    ) -> Result<Done, Refusal> {
        if self.ids.get(id).is_some_and(|entry| self.keeps_outcome(entry)) {
            return Err(self.wait_until_settled(context, id, out));
        }
        let Some(entry) = self.ids.get_mut(id) else { return Err(Refusal::CONCURRENT) };
        let (epoch, given) = (entry.durable.epoch, init.given.map(|it| it.epoch));
        let is_current = given.is_none_or(|it| it == epoch);
        let next = if entry.durable.is_exhausted() && is_current {
            Producer { id: context.producer_ids.next().ok_or(Refusal::LOADING)?, epoch: 0 }
        } else if is_current {
            Producer { id: entry.durable.producer_id, epoch: epoch + 1 }
        } else if given == Some(entry.last_epoch) {
            Producer { id: entry.durable.producer_id, epoch }
        } else {
            return Err(ErrorCode::ProducerFenced.into());
        };
        if is_current {
            entry.last_epoch = if given.is_some() { epoch } else { NO_EPOCH };
        }
        let durable = entry.durable.initialized(next, init.timeout_ms, context.wall);
        self.write(id, Some(&durable), out);
        Ok(Done::Identity(next))
    }
}

/// Checks the producer id that a client sends. It must be the current producer id of the
/// transactional id, or the previous one with its last epoch.
fn check_given(entry: &Entry, given: Option<Producer>) -> Result<(), ErrorCode> {
    let Some(given) = given else { return Ok(()) };
    let durable = &entry.durable;
    let is_rotated = given.id == durable.previous_producer_id && given.epoch >= LAST_EPOCH;
    let is_known = given.id == durable.producer_id || is_rotated;
    is_known.then_some(()).ok_or(ErrorCode::ProducerFenced)
}

fn new_producer_id(context: &mut Context<'_>) -> Result<i64, ErrorCode> {
    context.producer_ids.next().ok_or(ErrorCode::CoordinatorLoadInProgress)
}
