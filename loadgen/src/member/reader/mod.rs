//! A reader: a consumer without a group. It has all partitions of its topics, and reads the records
//! that producers write after it starts. Each leader has one Fetch in flight, which waits for
//! records.

mod log;
pub(super) mod messages;

use std::time::Duration;

use muster_codec::ApiKey;
use muster_codec::ErrorCode;
use muster_codec::messages::{FetchResponse, ListOffsetsResponse, PartitionData};

use self::messages::MOST;
use super::State;
use super::backoff::Retry;
use super::core::{Core, Turn};
use super::error::{Fatal, Step, fatal_of, is_retriable, refusal};
use super::io::{Answer, Destination, NodeIndex, Request, Response};
use super::leaders::Leaders;
use super::owned::sorted;
use crate::event::{EventKind, Returned};
use crate::plan::{Partition, ReaderPlan};
use crate::time::Time;

/// How long a leaving reader waits for the records of transactions that end at that time.
const CLOSING: Duration = Duration::from_secs(2);

pub(super) struct Reader {
    plan: ReaderPlan,
    partitions: Vec<Partition>,
    /// The offset to read next, by the index of the partition.
    positions: Vec<Option<i64>>,
    /// Whether the first position of every partition is known.
    has_begun: bool,
    leaders: Leaders,
    calls: Vec<Call>,
    closing: Option<Closing>,
    retry: Retry,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Call {
    token: u32,
    node: NodeIndex,
    of: Purpose,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Positions,
    Records,
}

/// The state of a reader that leaves at `since`. `quiet` has the leaders that have answered a later
/// fetch without new records. They are not asked again.
#[derive(Debug)]
struct Closing {
    since: Time,
    quiet: Vec<NodeIndex>,
    is_over: bool,
}

impl Reader {
    pub(super) fn new(plan: &ReaderPlan) -> Self {
        let partitions = sorted(plan.partitions.to_vec());
        Self {
            plan: plan.clone(),
            positions: vec![None; partitions.len()],
            has_begun: false,
            leaders: Leaders::of(partitions.len()),
            partitions,
            calls: Vec::new(),
            closing: None,
            retry: Retry::default(),
        }
    }

    /// Sends the requests that are due.
    pub(super) fn advance(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        self.leaders.advance(&self.partitions, core, turn)?;
        if !self.retry.ready(turn.now()) {
            return Ok(());
        }
        for (node, places) in self.due() {
            self.ask(node, &places, core, turn)?;
        }
        Ok(())
    }

    /// Reads until no leader has new records, for at most [`CLOSING`], and ends.
    pub(super) fn finish(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let (now, has_begun) = (turn.now(), self.has_begun);
        let closing = self.closing.get_or_insert(Closing {
            since: now,
            quiet: Vec::new(),
            is_over: !has_begun,
        });
        closing.is_over |= now >= closing.since + CLOSING;
        if closing.is_over { Ok(()) } else { self.advance(core, turn) }
    }

    pub(super) fn finish_deadline(&self) -> Option<Time> {
        let closing = self.closing.as_ref().filter(|closing| !closing.is_over)?;
        let end = closing.since + CLOSING;
        Some(self.deadline().map_or(end, |due| due.min(end)))
    }

    pub(super) fn is_idle(&self) -> bool {
        let is_over = |closing: &Closing| closing.is_over || self.due().is_empty();
        self.calls.is_empty() && self.closing.as_ref().is_some_and(is_over)
    }

    pub(super) fn abandon(&mut self) {
        self.calls.clear();
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let next = (!self.due().is_empty()).then(|| self.retry.until());
        self.leaders.deadline().into_iter().chain(next).min()
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        self.leaders.awaits(token) || self.calls.iter().any(|call| call.token == token)
    }

    pub(super) fn state(&self) -> State {
        if self.has_begun { State::Stable } else { State::Joining }
    }

    pub(super) fn answered(
        &mut self,
        answer: Answer<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let of_leaders = self.leaders.answered(answer, &self.partitions, core, turn);
        let Some(answer) = of_leaders else { return Ok(()) };
        let Some(at) = self.calls.iter().position(|call| call.token == answer.token) else {
            return Ok(());
        };
        let call = self.calls.swap_remove(at);
        match (call.of, answer.outcome) {
            (Purpose::Positions, Ok(Response::ListOffsets(response))) => {
                self.positioned(&response, core, turn)
            }
            (Purpose::Records, Ok(Response::Fetch(response))) => {
                let moved = self.read(&response, answer.arrived, core, turn)?;
                self.fell_quiet(call.node, answer.sent, moved);
                Ok(())
            }
            (Purpose::Positions | Purpose::Records, Ok(_) | Err(_)) => {
                core.emit(turn, EventKind::Disconnected);
                self.look_up(core, turn);
                Ok(())
            }
        }
    }

    /// The partitions for which a request can be sent now, as indexes, by leader. The requests ask
    /// for first positions until those of all partitions are known, and then for records.
    fn due(&self) -> Vec<(NodeIndex, Vec<usize>)> {
        let mut due: Vec<(NodeIndex, Vec<usize>)> = Vec::new();
        for place in 0..self.partitions.len() {
            if !self.has_begun && self.positions[place].is_some() {
                continue;
            }
            let Some(node) = self.leaders.node(place).filter(|node| self.is_free(*node)) else {
                continue;
            };
            match due.iter_mut().find(|(known, _)| *known == node) {
                Some((_, places)) => places.push(place),
                None => due.push((node, vec![place])),
            }
        }
        due
    }

    fn is_free(&self, node: NodeIndex) -> bool {
        let is_quiet = |closing: &Closing| closing.is_over || closing.quiet.contains(&node);
        !self.calls.iter().any(|call| call.node == node)
            && !self.closing.as_ref().is_some_and(is_quiet)
    }

    fn partitions_at(&self, places: &[usize]) -> Vec<Partition> {
        places.iter().map(|place| self.partitions[*place]).collect()
    }

    /// Asks a leader for first positions until all are known, and then for records.
    fn ask(
        &mut self,
        node: NodeIndex,
        places: &[usize],
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let of = if self.has_begun { Purpose::Records } else { Purpose::Positions };
        let (api, least) = match of {
            Purpose::Positions => (ApiKey::ListOffsets, messages::LIST_OFFSETS_LEAST),
            Purpose::Records => (ApiKey::Fetch, messages::FETCH_LEAST),
        };
        let version = core.version(turn, api, least, " with an isolation level")?;
        let (version, request) = self.request(of, places, version, turn);
        let due = turn.now();
        let token = core.send_due(turn, Destination::Node(node), version, request, due);
        self.calls.push(Call { token, node, of });
        Ok(())
    }

    /// Builds a request, in at most the given version.
    fn request(
        &self,
        of: Purpose,
        places: &[usize],
        version: i16,
        turn: &Turn<'_, '_>,
    ) -> (i16, Request) {
        let (partitions, topics) = (self.partitions_at(places), turn.context.topics);
        if of == Purpose::Positions {
            return (version, Request::ListOffsets(messages::list_offsets(&partitions, topics)));
        }
        let positions = places.iter().map(|place| self.positions[*place].unwrap_or(0));
        let positions: Vec<i64> = positions.collect();
        let version = messages::fetch_version(version, &partitions, topics);
        let isolation = self.plan.isolation;
        let request = messages::fetch(&partitions, &positions, isolation, MOST, version, topics);
        (version, Request::Fetch(request))
    }

    fn positioned(
        &mut self,
        response: &ListOffsetsResponse<'_>,
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        for topic in &response.topics {
            let index = turn.context.topics.named(&topic.name);
            for answered in &topic.partitions {
                let Some(place) = index.and_then(|it| self.place(it.0, answered.partition_index))
                else {
                    continue;
                };
                if self.judge(ApiKey::ListOffsets, answered.error_code, core, turn)? {
                    self.positions[place] = Some(answered.offset.max(0));
                }
            }
        }
        if !self.has_begun && self.positions.iter().all(Option::is_some) {
            self.has_begun = true;
            let positions = (0..self.partitions.len()).map(|place| self.position(place)).collect();
            let isolation = self.plan.isolation;
            core.emit(turn, EventKind::ReadingFrom { isolation, positions });
        }
        Ok(())
    }

    /// Takes the records of an answer. Returns whether it contained anything new.
    fn read(
        &mut self,
        response: &FetchResponse<'_>,
        arrived: Time,
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<bool> {
        if !self.judge(ApiKey::Fetch, response.error_code, core, turn)? {
            return Ok(false);
        }
        let (mut records, mut moved) = (Vec::new(), Vec::new());
        for topic in &response.responses {
            let index = turn.context.topics.answered(topic.topic_id, &topic.topic);
            for data in &topic.partitions {
                let Some(place) = index.and_then(|it| self.place(it.0, data.partition_index))
                else {
                    continue;
                };
                if self.judge(ApiKey::Fetch, data.error_code, core, turn)?
                    && self.take(place, data, &mut records)?
                {
                    moved.push(self.position(place));
                }
            }
        }
        let is_new = !moved.is_empty();
        if is_new {
            self.retry.succeeded();
            let (records, positions) = (records.into(), moved.into());
            core.emit(turn, EventKind::Read { arrived, records, positions });
        }
        Ok(is_new)
    }

    /// Takes the fetched bytes of a partition. Returns whether its position moved.
    fn take(
        &mut self,
        place: usize,
        data: &PartitionData<'_>,
        records: &mut Vec<Returned>,
    ) -> Step<bool> {
        let from = self.positions[place].unwrap_or(0);
        let log = log::read(self.partitions[place], from, data, self.plan.isolation)?;
        records.extend(log.returned);
        self.positions[place] = Some(log.next);
        Ok(log.next > from)
    }

    fn place(&self, topic: u32, number: i32) -> Option<usize> {
        let partition = Partition::from((topic, u32::try_from(number).ok()?));
        self.partitions.binary_search(&partition).ok()
    }

    fn position(&self, place: usize) -> (Partition, i64) {
        (self.partitions[place], self.positions[place].unwrap_or(0))
    }

    /// Returns true if the code is not an error. Otherwise counts the error. An error after which
    /// clients do not retry ends the reader.
    fn judge(
        &mut self,
        api: ApiKey,
        code: i16,
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<bool> {
        let Some(error) = refusal(code) else { return Ok(true) };
        core.refused(turn, api, code);
        if error == ErrorCode::OffsetOutOfRange {
            return Err(Fatal(
                "records were removed before they were read (retention.bytes, retention.ms)".into(),
            ));
        }
        if !is_retriable(error) {
            return Err(fatal_of(api, &format!("reader {}", core.plan.index.0), error, None));
        }
        self.look_up(core, turn);
        Ok(false)
    }

    /// Looks up the leaders again, after a back-off.
    fn look_up(&mut self, core: &Core, turn: &mut Turn<'_, '_>) {
        self.leaders.forget();
        core.failed(&mut self.retry, turn);
    }

    fn fell_quiet(&mut self, node: NodeIndex, sent: Time, moved: bool) {
        if let Some(closing) = self.closing.as_mut().filter(|it| !moved && sent >= it.since) {
            closing.quiet.push(node);
        }
    }
}
