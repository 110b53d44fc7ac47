//! Answers to group coordinators about share state, from the shard that leads the partitions.

use super::state_questions::{Answering, SLICE_PARTITIONS};
use super::{Inputs, Shares};
use crate::event::Command;
use crate::mailbox::{StateAnswer, StateQuestion, ToShares};
use crate::net::VisibleAt;
use muster_coordinator::{StateRequest, StateResult, Summary};
use muster_shares::SharePartitionKey;
use muster_shares::state::{Initialize, Refusal};
use std::collections::VecDeque;
use std::sync::Arc;

impl Shares {
    /// Handles a question from the coordinator of a group. The first partitions are handled at
    /// once, unless an earlier question about the group is still being answered. Results are sent
    /// when they are durable.
    pub(crate) fn answer_coordinator(
        &mut self,
        inputs: &mut Inputs<'_>,
        question: StateQuestion,
        out: &mut Vec<Command>,
    ) {
        let group_id = Arc::clone(&question.group_id);
        let of_group = self.state_questions.by_group.entry(Arc::clone(&group_id)).or_default();
        of_group.push_back(Answering::new(question));
        if of_group.len() == 1 {
            self.answer_slice(inputs, &group_id);
            self.send_state_answers(inputs, out);
        }
    }

    /// Answers the next slice of the open questions. To be called once in a turn.
    pub(crate) fn answer_questions(&mut self, inputs: &mut Inputs<'_>, out: &mut Vec<Command>) {
        if inputs.runtime.is_closed() {
            return;
        }
        if let Some(group_id) = self.state_questions.next_group() {
            self.answer_slice(inputs, &group_id);
            self.send_state_answers(inputs, out);
        }
    }

    /// Answers the next partitions of the oldest question about a group.
    fn answer_slice(&mut self, inputs: &mut Inputs<'_>, group_id: &Arc<str>) {
        let first = self.state_questions.by_group.get_mut(group_id).and_then(VecDeque::pop_front);
        let Some(mut answering) = first else { return };
        let mut results = Vec::new();
        while results.len() < SLICE_PARTITIONS {
            let Some((topic_id, partition, initialize)) = answering.next() else { break };
            let key = SharePartitionKey::new(Arc::clone(group_id), topic_id, partition);
            let request = &answering.question.request;
            let result = match self.answer_one(inputs, &key, request, initialize) {
                Ok((summary, at)) => {
                    answering.visible_at.join(at);
                    Ok(summary)
                }
                Err(Refusal { error, .. }) => Err(error),
            };
            results.push(StateResult { topic_id, partition, result });
        }
        let is_last = results.len() < SLICE_PARTITIONS;
        let StateQuestion { from: to, number, .. } = answering.question;
        let answer = StateAnswer { to, number, results, is_last };
        let questions = &mut self.state_questions;
        questions.unflushed.push((answering.visible_at.clone(), answer));
        let of_group = questions.by_group.entry(Arc::clone(group_id)).or_default();
        if !is_last {
            of_group.push_front(answering);
        }
        if of_group.is_empty() {
            questions.by_group.remove(group_id);
        }
        questions.last = Some(Arc::clone(group_id));
    }

    fn answer_one(
        &mut self,
        inputs: &mut Inputs<'_>,
        key: &SharePartitionKey,
        request: &StateRequest,
        initialize: Option<Initialize>,
    ) -> Result<(Summary, VisibleAt), Refusal> {
        match (request, initialize) {
            (StateRequest::Initialize { .. }, Some(initialize)) => {
                Ok((Summary::default(), self.initialize(inputs, key, initialize)?))
            }
            (StateRequest::Initialize { .. } | StateRequest::Delete(_), _) => {
                Ok((Summary::default(), self.delete(inputs, key)?))
            }
            (StateRequest::ReadSummary(_), _) => {
                let (found, visible_at) = self.summary(inputs, key)?;
                let located = super::opening::locate(inputs, key);
                let summary = Summary {
                    start_offset: found.start_offset,
                    leader_epoch: found.leader_epoch,
                    delivery_complete_count: found.delivery_complete_count,
                    end_offset: located.ok().map(|it| it.bounds.high_watermark),
                };
                Ok((summary, visible_at))
            }
        }
    }

    /// Whether there are results that may still have to become durable before they are sent.
    pub(crate) fn has_state_answers(&self) -> bool {
        !self.state_questions.unflushed.is_empty()
    }

    /// Sends the results that are durable.
    pub(crate) fn send_state_answers(&mut self, inputs: &Inputs<'_>, out: &mut Vec<Command>) {
        let log = inputs.runtime.log();
        let is_durable = |visible_at: &VisibleAt| {
            let mut positions = visible_at.positions();
            positions.all(|(slot, at)| at <= log.progress_of(slot).flushed())
        };
        let unflushed = std::mem::take(&mut self.state_questions.unflushed);
        for (visible_at, answer) in unflushed {
            if !is_durable(&visible_at) {
                self.state_questions.unflushed.push((visible_at, answer));
            } else if answer.to == self.shard {
                self.take_state_answer(inputs.times.now, answer);
            } else {
                let to = answer.to;
                out.push(Command::mail(to, ToShares::StateAnswer(answer)));
            }
        }
    }
}
