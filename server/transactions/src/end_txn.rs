//! EndTxn (`TransactionCoordinator.endTransaction`, `endTransactionWithTV1`).
//!
//! - Before v2, the error is INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED.
//! - From v5 on, the client's epoch increases with each transaction. The answer has the producer id
//!   and epoch of the next transaction, and a repeated request is recognized by its epoch.

use crate::beginning::Beginning;
use crate::context::Context;
use crate::coordinator::{Caller, Coordinator};
use crate::entry::{Decision, Entry};
use crate::message::Producer;
use crate::operation::{Action, Done, End, Operation, Refusal, Reply, To};
use crate::output::Output;
use crate::state::{EPOCH_PER_TRANSACTION, LAST_EPOCH, State};
use crate::text::Text;
use muster_codec::ErrorCode;
use muster_codec::messages::EndTxnRequest;
use muster_codec::record_batch::TransactionOutcome;

/// From this version on, the client's epoch increases with each transaction.
const EPOCH_PER_TRANSACTION_FROM: i16 = 5;

/// The work that a valid EndTxn requires.
enum Valid {
    Decide,
    /// No work: the request repeats an earlier one, by which the transaction was decided.
    Decided,
}

impl Coordinator {
    pub(crate) fn end_txn(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'_>,
        body: &EndTxnRequest<'_>,
        out: &mut Output,
    ) {
        let Caller { request, api_version, .. } = caller;
        let outcome = match body.committed {
            false => TransactionOutcome::Abort,
            _ => TransactionOutcome::Commit,
        };
        let has_epochs = api_version >= EPOCH_PER_TRANSACTION_FROM;
        let client_version = if has_epochs { EPOCH_PER_TRANSACTION } else { 0 };
        let producer = Producer { id: body.producer_id, epoch: body.producer_epoch };
        let action = Action::End(End { producer, outcome, client_version });
        let id = Text::from(&*body.transactional_id);
        let reply = Reply::EndTxn(To { request, api_version });
        self.attempt(context, Operation { id, action, reply, waited: None }, out);
    }

    pub(crate) fn end(
        &mut self,
        context: &mut Context<'_>,
        id: &Text,
        end: &End,
        out: &mut Output,
    ) -> Result<Done, Refusal> {
        let entry = self.find(id)?;
        let valid = match end.names_transaction() {
            false => validate_without_epochs(entry, end)?,
            _ if self.may_lack_record(entry, end) => return Err(Refusal::LOADING),
            _ => validate(entry, end)?,
        };
        let End { outcome, client_version, .. } = *end;
        let is_lost = self.beginning(id, entry) == Beginning::Lost;
        let decision = Decision { outcome, client_version, next_producer_id: None };
        match valid {
            Valid::Decided => Ok(Done::Identity(entry.producer())),
            // A part of the transaction may be lost. So the commit is refused, and the transaction
            // is aborted.
            Valid::Decide if outcome == TransactionOutcome::Commit && is_lost => {
                Err(self.fence(context, id, out))
            }
            Valid::Decide => self.decide(context, id, decision, out).map(Done::Identity),
        }
    }

    /// Whether a crash may have lost the transaction's record. If so, the commit waits for the
    /// reports of the slots, which restore it. (In transaction version 2, clients are answered
    /// before the record is durable.)
    fn may_lack_record(&self, entry: &Entry, end: &End) -> bool {
        let has_none = !entry.is_pending()
            && entry.durable.state != State::Ongoing
            && entry.durable.state.prepared().is_none();
        let is_commit = end.outcome == TransactionOutcome::Commit;
        !self.has_all_reports && has_none && is_commit && end.producer == entry.producer()
    }
}

/// The checks are in the order of `endTransaction`.
fn validate(entry: &Entry, end: &End) -> Result<Valid, Refusal> {
    if entry.is_pending() {
        return Err(Refusal::CONCURRENT);
    }
    let (durable, producer) = (&entry.durable, end.producer);
    let is_rotated = producer == Producer { id: durable.previous_producer_id, epoch: LAST_EPOCH }
        && durable.epoch == 0;
    if producer.id != durable.producer_id && !is_rotated {
        return Err(ErrorCode::InvalidProducerIdMapping.into());
    }
    if producer == entry.producer() {
        return validate_present(durable.state, end.outcome);
    }
    let is_previous = producer.epoch.checked_add(1) == Some(durable.epoch) || is_rotated;
    match durable.state.completed() {
        Some(outcome) if is_previous && outcome == end.outcome => Ok(Valid::Decided),
        Some(_) if is_previous => Err(ErrorCode::InvalidTxnState.into()),
        Some(_) | None => Err(ErrorCode::ProducerFenced.into()),
    }
}

/// Checks an EndTxn of the current transaction. A transaction without partitions may be aborted:
/// its client may not know that it has none.
fn validate_present(state: State, outcome: TransactionOutcome) -> Result<Valid, Refusal> {
    match (state, outcome) {
        (State::Ongoing, _) | (_, TransactionOutcome::Abort) => Ok(Valid::Decide),
        (_, TransactionOutcome::Commit) => Err(ErrorCode::InvalidTxnState.into()),
    }
}

/// The checks are in the order of `endTransactionWithTV1`.
fn validate_without_epochs(entry: &Entry, end: &End) -> Result<Valid, Refusal> {
    if end.producer.id != entry.durable.producer_id {
        return Err(ErrorCode::InvalidProducerIdMapping.into());
    }
    if end.producer.epoch != entry.durable.epoch {
        return Err(ErrorCode::ProducerFenced.into());
    }
    if entry.is_pending() {
        return Err(Refusal::CONCURRENT);
    }
    match (entry.durable.state, entry.durable.state.completed()) {
        (State::Ongoing, _) => Ok(Valid::Decide),
        (_, Some(outcome)) if outcome == end.outcome => Ok(Valid::Decided),
        (_, Some(_) | None) => Err(ErrorCode::InvalidTxnState.into()),
    }
}
