//! The requests of a producer to coordinators, and how it continues after errors.

use std::time::Duration;

use muster_codec::{ApiKey, ErrorCode};

use super::batch::ProducerId;
use super::messages::{self, Writer};
use super::round::{BatchState, Stage};
use super::verdict::{Verdict, verdict};
use super::{Identity, Producer};
use crate::event::{EventKind, Written};
use crate::member::core::{Core, Turn};
use crate::member::error::{Fatal, Step, fatal_of, refusal};
use crate::member::io::{Answer, Destination, Request, Response};
use crate::plan::TransactionVersion;
use crate::time::Time;

/// A request under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Identify,
    /// The only request of a stage.
    Step,
    /// Batches of a round that go to one leader.
    Produce,
}

/// The highest versions of Produce, EndTxn and TxnOffsetCommit for clients that use transaction
/// version 1. A higher version in a request means that the client uses transaction version 2.
const PRODUCE_OF_ONE: i16 = 11;
const END_OF_ONE: i16 = 4;
const OFFSETS_OF_ONE: i16 = 4;
/// The last version for clients: versions from 4 on are for brokers.
const ADD_PARTITIONS: i16 = 3;
/// How long a producer waits before it repeats AddPartitionsToTxn, if its previous transaction has
/// not ended at the coordinator yet.
const ADD_PARTITIONS_BACKOFF: Duration = Duration::from_millis(20);

impl Producer {
    pub(super) fn is_calling(&self, call: Call) -> bool {
        self.calls.iter().any(|(_, called)| *called == call)
    }

    /// Removes and returns the request that was answered.
    pub(super) fn take(&mut self, token: u32) -> Option<Call> {
        let at = self.calls.iter().position(|(called, _)| *called == token)?;
        Some(self.calls.swap_remove(at).1)
    }

    pub(super) fn identify(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let Identity::Needed(former) = self.identity else { return Ok(()) };
        let version = core.version(turn, ApiKey::InitProducerId, 0, "")?;
        let transactions = self.transactions().copied();
        let to = match (transactions, core.lookup.node()) {
            (None, _) => Destination::Any,
            (Some(_), Some(node)) => Destination::Node(node),
            (Some(_), None) => return Ok(()),
        };
        let transactions = transactions.map(|plan| (core.plan.client_id.clone(), plan));
        let request = messages::init_producer_id(transactions, former, version);
        let (request, due) = (Request::InitProducerId(request), turn.now());
        let token = core.send_due(turn, to, version, request, due);
        self.calls.push((token, Call::Identify));
        Ok(())
    }

    pub(super) fn identified(
        &mut self,
        answer: Answer<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let Ok(Response::InitProducerId(response)) = answer.outcome else {
            self.lost(Stage::End, core, turn);
            return Ok(());
        };
        match self.judge(ApiKey::InitProducerId, response.error_code, core, turn)? {
            Verdict::Done => {
                self.retry.succeeded();
                let (id, epoch) = (response.producer_id, response.producer_epoch);
                self.renew(Identity::Known(ProducerId { id, epoch }));
            }
            verdict => self.repeat(verdict, Stage::End, core, turn),
        }
        Ok(())
    }

    /// Sends the request of a stage that consists of one request.
    pub(super) fn send_step(
        &mut self,
        stage: Stage,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let node = match stage {
            Stage::CommitOffsets => self.group.node(),
            _ => core.lookup.node(),
        };
        let (Some(node), Some((version, request))) = (node, self.step(stage, core, turn)?) else {
            return Ok(());
        };
        if stage == Stage::End {
            self.ending(core, turn);
        }
        let Some(round) = &mut self.round else { return Ok(()) };
        let due = round.due_at(turn.now());
        round.asked();
        round.started |= stage == Stage::CommitOffsets;
        let token = core.send_due(turn, Destination::Node(node), version, request, due);
        self.calls.push((token, Call::Step));
        Ok(())
    }

    /// Called before EndTxn is sent. If the scenario has readers for the transaction, reports its
    /// end (commit or abort), unless the same end was reported before.
    fn ending(&mut self, core: &Core, turn: &mut Turn<'_, '_>) {
        let Some(round) = self.round.as_mut().filter(|_| self.plan.is_read) else { return };
        let (number, committed) = (round.number, !round.aborts);
        if round.ending.replace(committed) == Some(committed) {
            return;
        }
        let done = round.batches.iter().filter(|batch| batch.state == BatchState::Done);
        let written = done.map(|batch| {
            let (partition, offset) = (self.partitions[batch.place], batch.offset);
            Written { partition, offset, records: self.plan.records }
        });
        let batches = written.collect();
        core.emit(turn, EventKind::TransactionEnding { number, committed, batches });
    }

    /// The request of a stage, with its version.
    fn step(
        &mut self,
        stage: Stage,
        core: &Core,
        turn: &Turn<'_, '_>,
    ) -> Step<Option<(i16, Request)>> {
        let (Identity::Known(by), Some(round)) = (self.identity, &self.round) else {
            return Ok(None);
        };
        let writer = Writer { transactional_id: core.plan.client_id.clone(), by };
        let (topics, group) = (turn.context.topics, &*core.group().id);
        let aborts = round.aborts;
        let request = match stage {
            Stage::AddPartitions => {
                let places = round.batches.iter().map(|batch| batch.place);
                let partitions: Vec<_> = places.map(|place| self.partitions[place]).collect();
                let request = messages::add_partitions(writer, &partitions, topics);
                Request::AddPartitionsToTxn(request)
            }
            Stage::AddOffsets => Request::AddOffsetsToTxn(messages::add_offsets(writer, group)),
            Stage::CommitOffsets => {
                let count = self.transactions().map_or(0, |plan| plan.offsets as usize);
                let partitions = &self.partitions[..count.min(self.partitions.len())];
                let offset = self.offset + 1;
                let request = messages::commit_offsets(writer, group, partitions, offset, topics);
                Request::TxnOffsetCommit(request)
            }
            Stage::End => Request::EndTxn(messages::end(writer, !aborts)),
            Stage::Produce => return Ok(None),
        };
        Ok(Some((self.version(stage, core, turn)?, request)))
    }

    /// The API version for a stage, no higher than the transaction protocol allows.
    pub(super) fn version(&self, stage: Stage, core: &Core, turn: &Turn<'_, '_>) -> Step<i16> {
        let version = self.transactions().map(|plan| plan.version);
        let is_one = version == Some(TransactionVersion::One);
        let highest = match stage {
            Stage::AddPartitions => ADD_PARTITIONS,
            Stage::Produce if is_one => PRODUCE_OF_ONE,
            Stage::CommitOffsets if is_one => OFFSETS_OF_ONE,
            Stage::End if is_one => END_OF_ONE,
            _ => i16::MAX,
        };
        Ok(core.version(turn, api(stage), 0, "")?.min(highest))
    }

    pub(super) fn stepped(
        &mut self,
        answer: Answer<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let Some(round) = &mut self.round else { return Ok(()) };
        round.timed(&answer);
        let (stage, arrived) = (round.stage, answer.arrived);
        let Some((code, next)) = answer.outcome.ok().and_then(|response| result(stage, &response))
        else {
            self.lost(stage, core, turn);
            return Ok(());
        };
        match self.judge(api(stage), code, core, turn)? {
            Verdict::Done => self.step_done(stage, next, arrived, core, turn),
            Verdict::Abort => self.abort(arrived, core, turn),
            verdict => self.repeat(verdict, stage, core, turn),
        }
        Ok(())
    }

    /// Ends a stage. `next` is the producer id for the next transaction, if the stage's answer
    /// contains one.
    fn step_done(
        &mut self,
        stage: Stage,
        next: Option<ProducerId>,
        arrived: Time,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) {
        self.retry.succeeded();
        let (plan, now) = (self.transactions().copied(), turn.now());
        let (Some(round), Some(plan)) = (&mut self.round, plan) else { return };
        round.started = true;
        match stage {
            Stage::End => {
                let failed = round.failed;
                self.end(arrived, core, turn);
                match next {
                    Some(next) => self.renew(Identity::Known(next)),
                    None if failed => self.forget_identity(),
                    None => {}
                }
            }
            stage => {
                self.offset += i64::from(stage == Stage::CommitOffsets);
                round.next(&plan, arrived, now);
            }
        }
    }

    /// Handles an error after which the transaction can only be aborted. If the coordinator may
    /// know of the transaction, EndTxn follows. Otherwise there is nothing to abort, and the round
    /// ends at once.
    fn abort(&mut self, arrived: Time, core: &Core, turn: &mut Turn<'_, '_>) {
        let (plan, now) = (self.transactions().copied(), turn.now());
        let (Some(round), Some(plan)) = (&mut self.round, plan) else { return };
        round.fail();
        if round.started {
            round.next(&plan, arrived, now);
        } else {
            self.end(arrived, core, turn);
        }
    }

    /// Makes the producer send InitProducerId before the next round begins. A transactional
    /// producer gets its former producer id again, with a higher epoch.
    pub(super) fn forget_identity(&mut self) {
        if let Identity::Known(by) = self.identity {
            let former = self.transactions().map(|_| by);
            self.renew(Identity::Needed(former));
        }
    }

    /// Counts an error; a fatal one ends the producer.
    pub(super) fn judge(
        &self,
        api: ApiKey,
        code: i16,
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<Verdict> {
        let Some(error) = refusal(code) else { return Ok(Verdict::Done) };
        core.refused(turn, api, code);
        let ends = api == ApiKey::EndTxn;
        let aborts = ends && self.round.as_ref().is_some_and(|round| round.aborts);
        match verdict(api, error, aborts) {
            Verdict::Fatal => Err(self.fatal(api, error, core)),
            verdict => Ok(verdict),
        }
    }

    fn fatal(&self, api: ApiKey, error: ErrorCode, core: &Core) -> Fatal {
        fatal_of(api, &format!("producer {}", core.plan.client_id), error, None)
    }

    /// Repeats the request after a back-off, and at another broker if the error says so.
    pub(super) fn repeat(
        &mut self,
        verdict: Verdict,
        stage: Stage,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) {
        match (verdict, stage) {
            (Verdict::LookUp, Stage::CommitOffsets) => self.group.forget(),
            (Verdict::LookUp, _) => core.lookup.forget(),
            (Verdict::Leaders, _) => self.leaders.forget(),
            _ => {}
        }
        match stage {
            Stage::AddPartitions if verdict == Verdict::Busy => {
                self.retry.pause(turn.now() + ADD_PARTITIONS_BACKOFF);
            }
            _ => core.failed(&mut self.retry, turn),
        }
    }

    /// Called when the request of a stage will not be answered. It is sent again once its
    /// destination is known.
    pub(super) fn lost(&mut self, stage: Stage, core: &mut Core, turn: &mut Turn<'_, '_>) {
        core.failed(&mut self.retry, turn);
        match stage {
            Stage::Produce => {
                core.emit(turn, EventKind::Disconnected);
                self.leaders.forget();
            }
            Stage::CommitOffsets => {
                core.emit(turn, EventKind::Disconnected);
                self.group.forget();
            }
            Stage::AddPartitions | Stage::AddOffsets | Stage::End => core.broke(turn),
        }
    }
}

fn api(stage: Stage) -> ApiKey {
    match stage {
        Stage::AddPartitions => ApiKey::AddPartitionsToTxn,
        Stage::Produce => ApiKey::Produce,
        Stage::AddOffsets => ApiKey::AddOffsetsToTxn,
        Stage::CommitOffsets => ApiKey::TxnOffsetCommit,
        Stage::End => ApiKey::EndTxn,
    }
}

/// The error code of a stage's answer, and the producer id for the next transaction. `None` if the
/// answer is to another kind of request.
fn result(stage: Stage, response: &Response<'_>) -> Option<(i16, Option<ProducerId>)> {
    match (stage, response) {
        (Stage::AddPartitions, Response::AddPartitionsToTxn(response)) => {
            Some((messages::not_added(response), None))
        }
        (Stage::AddOffsets, Response::AddOffsetsToTxn(response)) => {
            Some((response.error_code, None))
        }
        (Stage::CommitOffsets, Response::TxnOffsetCommit(response)) => {
            Some((messages::not_committed(response), None))
        }
        (Stage::End, Response::EndTxn(response)) => {
            let next = ProducerId { id: response.producer_id, epoch: response.producer_epoch };
            Some((response.error_code, Some(next).filter(|next| next.id >= 0)))
        }
        _ => None,
    }
}
