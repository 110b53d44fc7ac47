//! A share session with a leader. It has one request at a time, each with the next session epoch.
//! Records of a fetch are acknowledged before the next fetch, or with it.

use std::collections::VecDeque;

use super::{Share, messages};
use crate::event::{AcknowledgedBatch, EventKind};
use crate::member::backoff::Retry;
use crate::member::core::{Core, Turn};
use crate::member::error::Step;
use crate::member::io::{Destination, NodeIndex, Request};
use crate::member::owned::difference;
use crate::plan::{AcknowledgeBy, Acquire, Partition};
use crate::time::Time;
use muster_codec::ApiKey;

/// The session epochs of the requests that open and that close a session.
pub(super) const OPEN: i32 = 0;
const CLOSE: i32 = -1;

pub(super) struct Session {
    pub(super) node: NodeIndex,
    /// The token of the request that opened the session. It is unique among the member's sessions.
    pub(super) number: u32,
    /// The epoch of the next request.
    pub(super) epoch: i32,
    /// The partitions that the leader has in the session.
    pub(super) partitions: Vec<Partition>,
    pub(super) call: Option<Call>,
    pub(super) held: VecDeque<Held>,
    /// When the member will have processed the records that it holds.
    pub(super) ready_at: Time,
    pub(super) retry: Retry,
}

/// A request under way.
pub(super) struct Call {
    pub(super) token: u32,
    pub(super) of: Purpose,
    /// The partitions with acknowledgements in the request.
    pub(super) acknowledges: Vec<Partition>,
}

pub(super) enum Purpose {
    /// A ShareFetch. When it has been answered, the session contains these partitions.
    Fetch(Vec<Partition>),
    Acknowledge,
    Close,
}

/// Records that the member will acknowledge in the same way. `batch` is the number of the acquired
/// batch that contained them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) batch: usize,
    pub(super) records: AcknowledgedBatch,
}

/// The next request of a session.
enum Next {
    Fetch(Vec<Partition>),
    Acknowledge,
    Close,
    Drop,
}

impl Session {
    pub(super) fn new(node: NodeIndex) -> Self {
        Self {
            node,
            number: 0,
            epoch: OPEN,
            partitions: Vec::new(),
            call: None,
            held: VecDeque::new(),
            ready_at: Time::ZERO,
            retry: Retry::default(),
        }
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        self.call.as_ref().is_some_and(|call| call.token == token)
    }

    /// Removes the records that the next request acknowledges, and returns them. `by` decides
    /// whether these are all, those of one batch, or one record.
    fn take(&mut self, by: AcknowledgeBy) -> Vec<AcknowledgedBatch> {
        let Some(front) = self.held.front_mut() else { return Vec::new() };
        let of = front.batch;
        match by {
            AcknowledgeBy::Fetch => self.held.drain(..).map(|held| held.records).collect(),
            AcknowledgeBy::Batch => {
                let end = self.held.partition_point(|held| held.batch == of);
                self.held.drain(..end).map(|held| held.records).collect()
            }
            AcknowledgeBy::Record if front.records.first < front.records.last => {
                let record = AcknowledgedBatch { last: front.records.first, ..front.records };
                front.records.first += 1;
                vec![record]
            }
            AcknowledgeBy::Record => self.held.drain(..1).map(|held| held.records).collect(),
        }
    }
}

impl Share {
    /// Sends the requests that are due in each session. Removes sessions that have ended.
    pub(super) fn send(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let mut at = 0;
        while at < self.sessions.len() {
            let due = self.session_deadline(&self.sessions[at], core);
            let next = due.filter(|due| *due <= turn.now()).map(|_| self.next(at, turn, core));
            match next.flatten() {
                Some(Next::Drop) => {
                    self.sessions.swap_remove(at);
                    continue;
                }
                Some(next) => self.request(at, next, core, turn)?,
                None => {}
            }
            at += 1;
        }
        Ok(())
    }

    /// When a session will have something to send.
    pub(super) fn session_deadline(&self, session: &Session, core: &Core) -> Option<Time> {
        if session.call.is_some() {
            return None;
        }
        let processes = !self.closing && !session.held.is_empty();
        let ready = if processes { session.ready_at } else { Time::ZERO };
        // While the leaders are looked up, only a session with records to acknowledge sends
        // requests.
        let unknown = !self.leaders.are_known() && !core.owned.is_empty();
        let waits = unknown && !self.closing && session.held.is_empty();
        (!waits).then(|| ready.max(session.retry.until()))
    }

    fn next(&self, at: usize, turn: &Turn<'_, '_>, core: &Core) -> Option<Next> {
        let session = &self.sessions[at];
        let holds = !session.held.is_empty() && session.ready_at <= turn.now();
        let piggybacks = self.plan.acknowledge == AcknowledgeBy::Fetch;
        let wanted = if self.closing { Vec::new() } else { self.wanted(session.node, core) };
        // While the leaders are looked up, a fetch is only sent to carry acknowledgements. It
        // leaves the session's partitions as they are.
        let unknown = !self.closing && !self.leaders.are_known();
        let wanted = if unknown { session.partitions.clone() } else { wanted };
        Some(match session.epoch {
            OPEN if wanted.is_empty() => Next::Drop,
            OPEN => Next::Fetch(wanted),
            _ if self.closing => Next::Close,
            _ if holds && (!piggybacks || wanted.is_empty()) => Next::Acknowledge,
            _ if wanted.is_empty() => Next::Close,
            // The fetch also acknowledges records. Their partitions must not leave the session with
            // it.
            _ if holds => Next::Fetch(session.partitions.clone()),
            _ => Next::Fetch(wanted),
        })
    }

    fn request(&mut self, at: usize, next: Next, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let by = match next {
            Next::Acknowledge if self.plan.acknowledge != AcknowledgeBy::Fetch => {
                self.plan.acknowledge
            }
            _ => AcknowledgeBy::Fetch,
        };
        let (now, opens) = (turn.now(), self.sessions[at].epoch == OPEN);
        let session = &mut self.sessions[at];
        let batches = if session.ready_at <= now { session.take(by) } else { Vec::new() };
        let (version, request, of) = self.message(at, next, &batches, core, turn)?;
        let session = &mut self.sessions[at];
        let to = Destination::Leader(session.node);
        let token = core.send_due(turn, to, version, request, now);
        if opens {
            session.number = token;
        }
        let acknowledges = batches.iter().map(|batch| batch.partition).collect();
        session.call = Some(Call { token, of, acknowledges });
        if !batches.is_empty() {
            let (id, session, batches) = (token, session.number, batches.into());
            core.emit(turn, EventKind::AcknowledgeSent { id, session, batches });
        }
        Ok(())
    }

    fn message(
        &self,
        at: usize,
        next: Next,
        batches: &[AcknowledgedBatch],
        core: &Core,
        turn: &Turn<'_, '_>,
    ) -> Step<(i16, Request, Purpose)> {
        let (session, topics) = (&self.sessions[at], turn.context.topics);
        let by = messages::By { group: &core.group().id, member: &self.membership.member_id };
        let acknowledge = |epoch| {
            let version = core.version(turn, ApiKey::ShareAcknowledge, 1, "")?;
            let request = messages::acknowledge(by, epoch, batches, topics);
            Ok((version, Request::ShareAcknowledge(request)))
        };
        Ok(match next {
            Next::Fetch(wanted) => {
                let least = if self.plan.acquire == Acquire::RecordLimit { 2 } else { 1 };
                let version =
                    core.version(turn, ApiKey::ShareFetch, least, " with an acquire mode")?;
                let added = difference(&wanted, &session.partitions);
                let forgotten = difference(&session.partitions, &wanted);
                let (epoch, plan) = (session.epoch, &self.plan);
                let fetch = messages::Fetch { epoch, added, forgotten, batches, plan };
                let request = Request::ShareFetch(fetch.request(by, topics));
                (version, request, Purpose::Fetch(wanted))
            }
            Next::Acknowledge => {
                let (version, request) = acknowledge(session.epoch)?;
                (version, request, Purpose::Acknowledge)
            }
            Next::Close | Next::Drop => {
                let (version, request) = acknowledge(CLOSE)?;
                (version, request, Purpose::Close)
            }
        })
    }
}
