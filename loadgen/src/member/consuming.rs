//! Fetches the records of a member's partitions from their leaders. The positions advance with the
//! records, so that the member commits how far it has read. A member that does not consume commits
//! invented positions.

use muster_codec::messages::{FetchResponse, PartitionData};
use muster_codec::{ApiKey, DecodeError, ErrorCode};

use super::backoff::Retry;
use super::batches::batches;
use super::core::{Core, Turn};
use super::error::{Fatal, Step, fatal, is_retriable, refusal};
use super::io::{Answer, Destination, NodeIndex, Request, Response};
use super::leaders::Leaders;
use super::numbered::Numbered;
use super::reader::messages::{self, Most};
use super::schedule::Schedule;
use crate::event::{ConsumedBatch, EventKind};
use crate::plan::{Fetching, Isolation, Partition};
use crate::time::Time;

pub(super) struct Consuming {
    schedule: Option<Schedule>,
    /// The maximum size of an answer in bytes.
    bytes: u32,
    /// The calls in flight, one for each leader.
    calls: Vec<Call>,
    /// Partitions whose leaders are being looked up.
    asked: Vec<Partition>,
    leaders: Option<Leaders>,
    retry: Retry,
    /// The member had nothing to read at the last check, so no fetch was due.
    paused: bool,
}

impl Default for Consuming {
    fn default() -> Self {
        Self {
            schedule: None,
            bytes: 0,
            calls: Vec::new(),
            asked: Vec::new(),
            leaders: None,
            retry: Retry::default(),
            paused: true,
        }
    }
}

struct Call {
    token: u32,
    /// The offsets from which the fetch reads.
    positions: Vec<(Partition, i64)>,
}

impl Consuming {
    pub(super) fn set(&mut self, records: Option<Fetching>, turn: &mut Turn<'_, '_>) {
        let (now, in_flight) = (turn.now(), u32::from(!self.calls.is_empty()));
        let random = &mut *turn.context.random;
        self.bytes = records.map_or(0, |records| records.bytes);
        self.schedule =
            records.and_then(|records| Schedule::new(records.load, in_flight, now, random));
    }

    pub(super) fn abandon(&mut self) {
        self.calls.clear();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        self.calls.iter().any(|call| call.token == token)
            || self.leaders.as_ref().is_some_and(|leaders| leaders.awaits(token))
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        let next = self.schedule.as_ref().filter(|_| reads(core))?.deadline()?;
        match &self.leaders {
            // No fetch is due before the leaders are known.
            Some(leaders) if leaders.is_asking() => None,
            Some(leaders) => Some(next.max(leaders.deadline().unwrap_or(Time::ZERO))),
            None => Some(next.max(self.retry.until())),
        }
    }

    /// Sends the requests that are due.
    pub(super) fn advance(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let now = turn.now();
        let paused = !reads(core);
        if let Some(schedule) = self.schedule.as_mut().filter(|_| self.paused && !paused) {
            schedule.skip(now);
        }
        self.paused = paused;
        if paused || !self.retry.ready(now) {
            return Ok(());
        }
        let Some(due) = self.schedule.as_ref().and_then(|schedule| schedule.next(now)) else {
            return Ok(());
        };
        let Some(of_nodes) = self.by_leader(core, turn)? else { return Ok(()) };
        for (node, positions) in of_nodes {
            self.fetch(node, positions, due, core, turn)?;
        }
        if let Some(schedule) = &mut self.schedule {
            schedule.sent();
        }
        Ok(())
    }

    /// Handles the answer to a lookup or a fetch.
    pub(super) fn answered(
        &mut self,
        answer: Answer<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let answer = match &mut self.leaders {
            Some(leaders) => leaders.answered(answer, &self.asked, core, turn),
            None => Some(answer),
        };
        self.leaders.take_if(|leaders| leaders.are_known());
        let Some(answer) = answer else { return Ok(()) };
        let Some(at) = self.calls.iter().position(|call| call.token == answer.token) else {
            return Ok(());
        };
        let call = self.calls.swap_remove(at);
        if let Some(schedule) = self.schedule.as_mut().filter(|_| self.calls.is_empty()) {
            schedule.answered();
        }
        match answer.outcome {
            Ok(Response::Fetch(response)) => {
                self.read(&call, &response, answer.arrived, core, turn)
            }
            Ok(_) | Err(_) => {
                call.positions.iter().for_each(|(one, _)| turn.context.nodes.not_led(*one));
                core.failed(&mut self.retry, turn);
                Ok(())
            }
        }
    }

    /// The positions of the owned partitions, by leader. `None` if some leaders are unknown: they
    /// are looked up then.
    #[allow(clippy::type_complexity)] // the sentence above names the type
    fn by_leader(
        &mut self,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<Option<Vec<(NodeIndex, Vec<(Partition, i64)>)>>> {
        let mut of_nodes: Vec<(NodeIndex, Vec<(Partition, i64)>)> = Vec::new();
        let mut unknown = Vec::new();
        for (partition, position) in core.owned.positions() {
            let Some(node) = turn.context.nodes.leader(partition) else {
                unknown.push(partition);
                continue;
            };
            match of_nodes.iter_mut().find(|(known, _)| *known == node) {
                Some((_, positions)) => positions.push((partition, position)),
                None => of_nodes.push((node, vec![(partition, position)])),
            }
        }
        if unknown.is_empty() {
            self.leaders = None;
            return Ok(Some(of_nodes));
        }
        if self.leaders.as_ref().is_none_or(|leaders| !leaders.is_asking()) {
            if self.asked != unknown || self.leaders.is_none() {
                self.leaders = Some(Leaders::of(unknown.len()));
                self.asked = unknown;
            }
            if let Some(leaders) = &mut self.leaders {
                leaders.advance(&self.asked, core, turn)?;
            }
        }
        Ok(None)
    }

    fn fetch(
        &mut self,
        node: NodeIndex,
        positions: Vec<(Partition, i64)>,
        due: Time,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let version = core.version(turn, ApiKey::Fetch, messages::FETCH_LEAST, "")?;
        let (partitions, offsets): (Vec<_>, Vec<_>) = positions.iter().copied().unzip();
        let topics = turn.context.topics;
        let version = messages::fetch_version(version, &partitions, topics);
        let most = i32::try_from(self.bytes).unwrap_or(i32::MAX);
        let most = Most { of_partition: most, of_all: most };
        let isolation = Isolation::ReadUncommitted;
        let request = messages::fetch(&partitions, &offsets, isolation, most, version, topics);
        let (to, request) = (Destination::Leader(node), Request::Fetch(request));
        let token = core.send_due(turn, to, version, request, due);
        self.calls.push(Call { token, positions });
        Ok(())
    }

    fn read(
        &mut self,
        call: &Call,
        response: &FetchResponse<'_>,
        arrived: Time,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        if let Some(error) = refusal(response.error_code) {
            return self.refused(error, &call.positions, core, turn);
        }
        let mut consumed = Vec::new();
        for topic in &response.responses {
            let index = turn.context.topics.answered(topic.topic_id, &topic.topic);
            for data in &topic.partitions {
                let number = u32::try_from(data.partition_index).ok();
                let Some((topic, number)) = index.zip(number) else { continue };
                let partition = Partition { topic, number };
                let Some((_, from)) = call.positions.iter().find(|(one, _)| *one == partition)
                else {
                    continue;
                };
                self.take(partition, *from, data, &mut consumed, core, turn)?;
            }
        }
        if !consumed.is_empty() {
            self.retry.succeeded();
            core.emit(turn, EventKind::Consumed { arrived, batches: consumed.into() });
        }
        Ok(())
    }

    /// Takes the fetched records of a partition, if `from` is still the member's position in it.
    fn take(
        &mut self,
        partition: Partition,
        from: i64,
        data: &PartitionData<'_>,
        consumed: &mut Vec<ConsumedBatch>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        if core.owned.position(&partition) != Some(from) {
            return Ok(());
        }
        match refusal(data.error_code) {
            None => {}
            // Continues at the start of the log, as with auto.offset.reset = earliest.
            Some(ErrorCode::OffsetOutOfRange) if data.log_start_offset > from => {
                core.refused(turn, ApiKey::Fetch, data.error_code);
                core.owned.moved(&partition, data.log_start_offset);
                return Ok(());
            }
            Some(error) => return self.refused(error, &[(partition, from)], core, turn),
        }
        let mut next = from;
        for batch in batches(data.records.as_deref().unwrap_or_default()) {
            let batch = batch.map_err(|error| malformed(partition, &error))?;
            let (first, last) = (batch.header.base_offset.max(next), batch.header.last_offset());
            if last < next {
                continue;
            }
            if !batch.header.is_control() {
                let mut records = batch.records().map_err(|error| malformed(partition, &error))?;
                let record = records.next().transpose();
                let record = record.map_err(|error| malformed(partition, &error))?;
                let numbered = record.and_then(|record| Numbered::of(record.key?));
                let due = numbered.map(|it| Time::from_micros(it.number));
                match consumed.last_mut() {
                    // Consecutive batches that were due at the same time share one entry.
                    Some(before)
                        if (before.partition, before.due) == (partition, due)
                            && before.last.checked_add(1) == Some(first) =>
                    {
                        before.last = last;
                    }
                    _ => consumed.push(ConsumedBatch { partition, first, last, due }),
                }
            }
            next = last.saturating_add(1);
        }
        core.owned.moved(&partition, next);
        Ok(())
    }

    /// Counts an error. If clients do not retry after it, it ends the member, unless it is
    /// OFFSET_OUT_OF_RANGE. Otherwise the leaders of the partitions are looked up again.
    fn refused(
        &mut self,
        error: ErrorCode,
        of: &[(Partition, i64)],
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        core.refused(turn, ApiKey::Fetch, error.code());
        if !is_retriable(error) && error != ErrorCode::OffsetOutOfRange {
            return Err(fatal(ApiKey::Fetch, &core.group().id, error, None));
        }
        of.iter().for_each(|(partition, _)| turn.context.nodes.not_led(*partition));
        core.failed(&mut self.retry, turn);
        Ok(())
    }
}

/// Whether the member has partitions, and knows its position in each.
fn reads(core: &Core) -> bool {
    !core.owned.is_empty() && core.owned.is_ready()
}

fn malformed(partition: Partition, error: &DecodeError) -> Fatal {
    let (topic, number) = (partition.topic.0, partition.number);
    Fatal(format!("Fetch of partition {number} of topic {topic} returned batches: {error}"))
}
