//! The batches of a round: sends them to the leaders of their partitions.

use muster_codec::ApiKey;

use super::batch::{self, Stamp};
use super::calls::Call;
use super::messages::{self, Produced};
use super::round::{BatchState, Stage};
use super::verdict::Verdict;
use super::{Identity, Producer};
use crate::member::core::{Core, Turn};
use crate::member::error::Step;
use crate::member::io::{Answer, Destination, NodeIndex, Request, Response};
use crate::member::numbered::Numbered;
use crate::plan::{Delivery, MemberIndex, Partition};
use crate::time::Time;

/// `request.timeout.ms`: how long a leader waits for the other replicas.
const REPLICAS_TIMEOUT: i32 = 30_000;

impl Producer {
    /// Sends the batches that are due, in one request per leader.
    pub(super) fn send_batches(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let version = self.version(Stage::Produce, core, turn)?;
        for (node, places) in self.due_batches() {
            self.send_to_leader(node, &places, version, core, turn)?;
        }
        if let Some(round) = &mut self.round {
            round.asked();
            // With transaction version 2, Produce also adds the partitions to the transaction, so
            // the coordinator may know of it now.
            round.started = true;
        }
        Ok(())
    }

    /// The indexes of the batches that are due, by leader.
    fn due_batches(&self) -> Vec<(NodeIndex, Vec<usize>)> {
        let mut by_leader: Vec<(NodeIndex, Vec<usize>)> = Vec::new();
        let batches = self.round.iter().flat_map(|round| &round.batches);
        for batch in batches.filter(|batch| batch.state == BatchState::Due) {
            let Some(node) = self.leaders.node(batch.place) else { continue };
            match by_leader.iter_mut().find(|(known, _)| *known == node) {
                Some((_, places)) => places.push(batch.place),
                None => by_leader.push((node, vec![batch.place])),
            }
        }
        by_leader
    }

    fn send_to_leader(
        &mut self,
        node: NodeIndex,
        places: &[usize],
        version: i16,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let (topics, now) = (turn.context.topics, turn.now());
        let mut batches = Vec::with_capacity(places.len());
        for place in places {
            let stamp = self.stamp(*place, core.plan.index, now);
            let records = batch::encode(stamp, self.plan.records, &self.value);
            batches.push((self.partitions[*place], records));
        }
        let partitions: Vec<Partition> = batches.iter().map(|(one, _)| *one).collect();
        let version = messages::produce_version(version, topics.have_ids(&partitions));
        let id = self.transactions().map(|_| &*core.plan.client_id);
        let request = messages::produce(id, batches, REPLICAS_TIMEOUT, version, topics);
        let Some(round) = &mut self.round else { return Ok(()) };
        let due = round.due_at(now);
        let to = Destination::Node(node);
        let token = core.send_due(turn, to, version, Request::Produce(request), due);
        let sent = round.batches.iter_mut().filter(|batch| places.contains(&batch.place));
        sent.for_each(|batch| batch.state = BatchState::Sent(token));
        self.calls.push((token, Call::Produce));
        Ok(())
    }

    fn stamp(&self, place: usize, producer: MemberIndex, now: Time) -> Stamp {
        let by = match self.identity {
            Identity::Known(by) => Some(by),
            Identity::Needed(_) | Identity::Unused => None,
        };
        let number = self.round.as_ref().map_or(0, |round| round.number);
        let since_1970 = self.plan.began + now.since(Time::ZERO);
        Stamp {
            by,
            transactional: self.transactions().is_some(),
            sequence: self.sequences[place],
            timestamp: since_1970.as_millis() as i64,
            numbered: self.plan.is_read.then_some(Numbered { producer, number, place: 0 }),
        }
    }

    pub(super) fn produced(
        &mut self,
        answer: Answer<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let (token, arrived) = (answer.token, answer.arrived);
        if let Some(round) = &mut self.round {
            round.timed(&answer);
        }
        match answer.outcome {
            Ok(Response::Produce(response)) => {
                let results = messages::produced(&response, turn.context.topics);
                self.take_results(token, &results, core, turn)?;
            }
            Ok(_) | Err(_) => {
                self.sent_with(token).into_iter().for_each(|place| self.settle(place, None, -1));
                self.lost(Stage::Produce, core, turn);
            }
        }
        self.next_if_written(arrived, core, turn);
        Ok(())
    }

    fn take_results(
        &mut self,
        token: u32,
        results: &[Produced],
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let mut worst = Verdict::Done;
        for place in self.sent_with(token) {
            let partition = self.partitions[place];
            let result = results.iter().find(|result| result.partition == partition);
            // If the answer does not contain a partition, its batch is sent again.
            let (verdict, offset) = match result {
                Some(result) => {
                    (self.judge(ApiKey::Produce, result.error, core, turn)?, result.offset)
                }
                None => (Verdict::Leaders, -1),
            };
            self.settle(place, Some(verdict), offset);
            worst = worst.max(verdict);
        }
        match worst {
            Verdict::Done => self.retry.succeeded(),
            Verdict::Abort => {}
            worst => self.repeat(worst, Stage::Produce, core, turn),
        }
        Ok(())
    }

    /// The indexes of the batches in this request.
    fn sent_with(&self, token: u32) -> Vec<usize> {
        let batches = self.round.iter().flat_map(|round| &round.batches);
        let sent = batches.filter(|batch| batch.state == BatchState::Sent(token));
        sent.map(|batch| batch.place).collect()
    }

    /// Records the result of a batch. `verdict` is `None` if its request was not answered. If the
    /// verdict is not `Done`, the batch has to be sent again.
    fn settle(&mut self, place: usize, verdict: Option<Verdict>, offset: i64) {
        let Some(round) = &mut self.round else { return };
        let Some(batch) = round.batches.iter_mut().find(|batch| batch.place == place) else {
            return;
        };
        match verdict {
            Some(Verdict::Done) => {
                (batch.state, batch.offset) = (BatchState::Done, offset);
                let sequence = &mut self.sequences[place];
                *sequence = batch::sequence_after(*sequence, self.plan.records);
            }
            _ => batch.state = BatchState::Due,
        }
        if verdict == Some(Verdict::Abort) {
            round.fail();
        }
    }

    /// Ends the Produce stage when no batch is in flight, if all batches are written or the round
    /// has failed.
    fn next_if_written(&mut self, arrived: Time, core: &Core, turn: &mut Turn<'_, '_>) {
        let Some(round) = &mut self.round else { return };
        if round.is_sending() || !(round.failed || round.is_written()) {
            return;
        }
        match self.plan.delivery {
            Delivery::Transactions(plan) => round.next(&plan, arrived, turn.now()),
            Delivery::Plain | Delivery::Idempotent => {
                if round.failed {
                    core.failed(&mut self.retry, turn);
                    self.forget_identity();
                }
                self.end(arrived, core, turn);
            }
        }
    }
}
