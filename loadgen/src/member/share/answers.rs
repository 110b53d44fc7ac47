//! The answers in a share session.

use muster_codec::ApiKey;
use muster_codec::messages::{
    ShareAcknowledgeResponse, ShareFetchPartitionResponse as PartitionData, ShareFetchResponse,
};

use super::session::{Call, OPEN, Purpose};
use super::{Share, records};
use crate::event::{AcquiredBatch, EventKind};
use crate::member::core::{Core, Turn};
use crate::member::error::{Fatal, Step, fatal, is_retriable, refusal};
use crate::member::io::{Answer, Response};
use crate::plan::{Partition, TopicIndex};
use crate::time::Time;

/// Kafka's error code for a fetch that failed as a whole. Clients then open a new session.
const UNKNOWN_SERVER_ERROR: i16 = -1;

/// The fields of a fetch answer that its partitions share.
struct Fetched {
    at: usize,
    sent: Time,
    arrived: Time,
}

impl Share {
    pub(super) fn session_answered(
        &mut self,
        answer: Answer<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let Some(at) = self.sessions.iter().position(|it| it.awaits(answer.token)) else {
            return Ok(());
        };
        let Some(call) = self.sessions[at].call.take() else { return Ok(()) };
        match answer.outcome {
            Ok(Response::ShareFetch(response)) => {
                let fetched = Fetched { at, sent: answer.sent, arrived: answer.arrived };
                self.fetched(fetched, call, &response, core, turn)
            }
            Ok(Response::ShareAcknowledge(response)) => {
                self.acknowledged(at, call, &response, core, turn)
            }
            Ok(_) | Err(_) => {
                if !call.acknowledges.is_empty() {
                    core.emit(turn, EventKind::AcknowledgeUnknown { id: call.token });
                }
                core.emit(turn, EventKind::Disconnected);
                self.leaders.forget();
                self.lost(at, core, turn);
                Ok(())
            }
        }
    }

    fn fetched(
        &mut self,
        fetched: Fetched,
        call: Call,
        response: &ShareFetchResponse<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let at = fetched.at;
        let api = ApiKey::ShareFetch;
        let (code, said) = (response.error_code, &response.error_message);
        if !self.judge(api, &call, at, code, said.as_deref(), core, turn)? {
            return Ok(());
        }
        self.sessions[at].succeeded();
        if let Purpose::Fetch(partitions) = call.of {
            self.sessions[at].partitions = partitions;
        }
        let all = response.responses.iter().flat_map(|topic| {
            let index = turn.context.topics.with_id(topic.topic_id);
            topic.partitions.iter().filter_map(move |data| Some((index?, data)))
        });
        let all: Vec<(TopicIndex, &PartitionData<'_>)> = all.collect();
        let partition = |(topic, data): &(TopicIndex, &PartitionData<'_>)| Partition {
            topic: *topic,
            number: data.partition_index as u32,
        };
        if !call.acknowledges.is_empty() {
            let errors = all.iter().map(|it| (partition(it), it.1.acknowledge_error_code));
            self.report(call.token, errors.collect(), core, turn);
        }
        let errors = all.iter().map(|it| (partition(it), it.1.error_code)).collect();
        self.partitions_refused(api, errors, at, core, turn);
        let mut batches = Vec::new();
        for it in &all {
            self.acquire(&fetched, partition(it), it.1, &mut batches, turn)?;
        }
        self.holds(&fetched, response.acquisition_lock_timeout_ms, batches, core, turn);
        Ok(())
    }

    /// Takes the acquired records of a partition.
    fn acquire(
        &mut self,
        fetched: &Fetched,
        partition: Partition,
        data: &PartitionData<'_>,
        batches: &mut Vec<AcquiredBatch>,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        if data.acquired_records.is_empty() {
            return Ok(());
        }
        let read = records::read(data.records.as_deref().unwrap_or_default());
        let read = read.map_err(|what| {
            let (topic, number) = (partition.topic.0, partition.number);
            Fatal(format!(
                "ShareFetch of partition {number} of topic {topic} returned batches: {what}"
            ))
        })?;
        for acquired in &data.acquired_records {
            let (first, last) = (acquired.first_offset, acquired.last_offset);
            let deliveries = acquired.delivery_count;
            let batch = AcquiredBatch { partition, first, last, deliveries };
            let held = records::judge(batches.len(), &batch, &read, self.plan.poison);
            self.sessions[fetched.at].held.extend(held);
            turn.output.spans.extend(records::deliveries(&batch, &read, fetched.arrived));
            batches.push(batch);
        }
        Ok(())
    }

    fn holds(
        &mut self,
        fetched: &Fetched,
        lock_ms: i32,
        batches: Vec<AcquiredBatch>,
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) {
        let Fetched { at, sent, arrived } = *fetched;
        let session = self.sessions[at].number;
        if batches.is_empty() {
            return core.emit(turn, EventKind::SessionAnswered { session, sent });
        }
        self.sessions[at].ready_at = turn.now() + self.takes(core);
        let (lock_ms, batches) = (u32::try_from(lock_ms).unwrap_or(0), batches.into());
        core.emit(turn, EventKind::Acquired { session, sent, arrived, lock_ms, batches });
    }

    fn acknowledged(
        &mut self,
        at: usize,
        call: Call,
        response: &ShareAcknowledgeResponse<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let api = ApiKey::ShareAcknowledge;
        let (code, said) = (response.error_code, &response.error_message);
        if !self.judge(api, &call, at, code, said.as_deref(), core, turn)? {
            return Ok(());
        }
        let errors = response.responses.iter().flat_map(|topic| {
            let index = turn.context.topics.with_id(topic.topic_id);
            topic.partitions.iter().filter_map(move |data| {
                let partition = Partition { topic: index?, number: data.partition_index as u32 };
                Some((partition, data.error_code))
            })
        });
        let errors: Vec<_> = errors.collect();
        if !call.acknowledges.is_empty() {
            self.report(call.token, errors.clone(), core, turn);
        }
        match call.of {
            Purpose::Close => self.ended(at, true, core, turn),
            Purpose::Fetch(_) | Purpose::Acknowledge => self.sessions[at].succeeded(),
        }
        self.partitions_refused(api, errors, at, core, turn);
        Ok(())
    }

    /// Whether the request as a whole was accepted. If not, its session is over.
    #[allow(clippy::too_many_arguments)] // they are the parts of the answer
    fn judge(
        &mut self,
        api: ApiKey,
        call: &Call,
        at: usize,
        code: i16,
        said: Option<&str>,
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<bool> {
        let Some(error) = refusal(code) else { return Ok(true) };
        core.refused(turn, api, code);
        if !call.acknowledges.is_empty() {
            let refused = call.acknowledges.iter().map(|partition| (*partition, code)).collect();
            core.emit(turn, EventKind::Acknowledged { id: call.token, refused });
        }
        if !is_retriable(error) && code != UNKNOWN_SERVER_ERROR {
            return Err(fatal(api, &core.group().id, error, said));
        }
        self.lost(at, core, turn);
        Ok(false)
    }

    /// Reports which acknowledgements were refused.
    fn report(
        &self,
        id: u32,
        mut errors: Vec<(Partition, i16)>,
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) {
        errors.retain(|(_, code)| *code != 0);
        core.emit(turn, EventKind::Acknowledged { id, refused: errors.into() });
    }

    /// Handles the error codes of an answer's partitions. Those of a ShareFetch are counted. If a
    /// leader may have moved, the leaders are looked up again.
    fn partitions_refused(
        &mut self,
        api: ApiKey,
        mut errors: Vec<(Partition, i16)>,
        at: usize,
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) {
        errors.retain(|(_, code)| *code != 0);
        let fetches = api == ApiKey::ShareFetch;
        errors.iter().filter(|_| fetches).for_each(|(_, code)| core.refused(turn, api, *code));
        let moved = |code: i16| refusal(code).is_some_and(|it| is_retriable(it) || fetches);
        let moved: Vec<Partition> = errors
            .iter()
            .filter(|(_, code)| moved(*code))
            .map(|(partition, _)| *partition)
            .collect();
        if !moved.is_empty() {
            self.led_elsewhere(&moved, core, turn);
            core.failed(&mut self.sessions[at].retry, turn);
        }
    }

    /// Ends a session that was lost before it was closed. The next one begins after a back-off.
    fn lost(&mut self, at: usize, core: &Core, turn: &mut Turn<'_, '_>) {
        self.ended(at, false, core, turn);
        core.failed(&mut self.sessions[at].retry, turn);
    }

    fn ended(&mut self, at: usize, closed: bool, core: &Core, turn: &mut Turn<'_, '_>) {
        let session = &mut self.sessions[at];
        session.epoch = OPEN;
        session.partitions.clear();
        session.held.clear();
        let session = session.number;
        core.emit(turn, EventKind::SessionEnded { session, closed });
    }
}

impl super::session::Session {
    fn succeeded(&mut self) {
        self.retry.succeeded();
        self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
    }
}
