//! The state of a member that does not depend on its protocol: its plan, its coordinator, the
//! partitions that it owns with their positions, and the numbers of its requests.

use std::time::Duration;

use muster_codec::ApiKey;

use super::backoff::Retry;
use super::coordinator::{self, Key, Lookup};
use super::error::{Step, unsupported};
use super::io::{Destination, Failure, NodeIndex, Outgoing, Request, Response};
use super::owned::{Owned, difference};
use super::{Context, Output};
use crate::event::{Event, EventKind};
use crate::plan::{GroupPlan, MemberPlan, Partition, Protocol};
use crate::time::Time;

/// One call of a member: the input from its owner, and the member's output.
pub(super) struct Turn<'a, 'b> {
    pub(super) context: &'a mut Context<'b>,
    pub(super) output: &'a mut Output,
}

impl Turn<'_, '_> {
    pub(super) fn now(&self) -> Time {
        self.context.now
    }
}

pub(super) struct Core {
    pub(super) plan: MemberPlan,
    pub(super) lookup: Lookup,
    pub(super) owned: Owned,
    /// The number of identities that the member has had: a new member id, or a new join, is a new
    /// identity. The answer to a request that an earlier identity sent does not fence the current
    /// one.
    pub(super) incarnation: u32,
    /// Whether the member reads records. If so, its positions are the offsets that it reads next.
    pub(super) consumes: bool,
    /// The partitions that the member gave up in this turn, with its positions in them. It commits
    /// these positions before it reports to the coordinator that the partitions are given up.
    pub(super) given_up: Vec<(Partition, i64)>,
    next_token: u32,
}

impl Core {
    pub(super) fn new(plan: MemberPlan) -> Self {
        Self {
            plan,
            lookup: Lookup::default(),
            owned: Owned::default(),
            incarnation: 0,
            consumes: false,
            given_up: Vec::new(),
            next_token: 0,
        }
    }

    /// Prepares a new process with the same plan. The numbers of requests continue, so that no late
    /// answer is taken for that of a new request.
    pub(super) fn restart(&mut self) {
        self.lookup = Lookup::default();
        self.incarnation = self.incarnation.wrapping_add(1);
    }

    pub(super) fn group(&self) -> &GroupPlan {
        &self.plan.group
    }

    pub(super) fn emit(&self, turn: &mut Turn<'_, '_>, kind: EventKind) {
        let (group, member) = (self.plan.group.index, self.plan.index);
        turn.output.events.push(Event { at: turn.context.now, group, member, kind });
    }

    pub(super) fn refused(&self, turn: &mut Turn<'_, '_>, api: ApiKey, error: i16) {
        self.emit(turn, EventKind::Refused { api: api as i16, error });
    }

    pub(super) fn failed(&self, retry: &mut Retry, turn: &mut Turn<'_, '_>) {
        retry.failed(turn.context.now, &self.plan.group.backoff, turn.context.random);
    }

    pub(super) fn failed_once(&self, retry: &mut Retry, turn: &mut Turn<'_, '_>) {
        retry.failed_once(turn.context.now, &self.plan.group.backoff, turn.context.random);
    }

    /// The version of an API to use, at least `least`. If the cluster has none, the error names
    /// `needed` as what is missing.
    pub(super) fn version(
        &self,
        turn: &Turn<'_, '_>,
        api: ApiKey,
        least: i16,
        needed: &str,
    ) -> Step<i16> {
        match turn.context.versions.of(api) {
            Some(version) if version >= least => Ok(version),
            _ => Err(unsupported(api, needed)),
        }
    }

    /// When the first heartbeat of a membership is due: at a random time within the interval.
    /// Members of a real group start at different times, so their heartbeats are spread.
    pub(super) fn first_heartbeat(interval: Duration, turn: &mut Turn<'_, '_>) -> Time {
        turn.now() + interval.mul_f64(turn.context.random.f64())
    }

    /// Sends a request to the coordinator.
    pub(super) fn send(
        &mut self,
        turn: &mut Turn<'_, '_>,
        node: NodeIndex,
        version: i16,
        request: Request,
    ) -> u32 {
        let due = turn.now();
        self.send_due(turn, Destination::Node(node), version, request, due)
    }

    pub(super) fn send_due(
        &mut self,
        turn: &mut Turn<'_, '_>,
        to: Destination,
        version: i16,
        request: Request,
        due: Time,
    ) -> u32 {
        let token = self.next_token;
        self.next_token = token.wrapping_add(1);
        turn.output.requests.push(Outgoing { to, version, request, due, every: None, token });
        token
    }

    /// Marks the newest request of this turn as a regular one, which is due at this interval.
    pub(super) fn repeats(turn: &mut Turn<'_, '_>, every: Duration) {
        if let Some(outgoing) = turn.output.requests.last_mut() {
            outgoing.every = Some(every);
        }
    }

    /// Looks up the coordinator if it is unknown and the back-off is over.
    pub(super) fn search(&mut self, turn: &mut Turn<'_, '_>) -> Step {
        if !self.lookup.due(turn.now()) {
            return Ok(());
        }
        let token = self.ask_for(&self.key(), turn)?;
        self.lookup.asked(token);
        Ok(())
    }

    pub(super) fn found(
        &mut self,
        outcome: Result<Response<'_>, Failure>,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let mut lookup = std::mem::take(&mut self.lookup);
        let read = self.found_for(&self.key(), &mut lookup, outcome, turn);
        self.lookup = lookup;
        read
    }

    /// The name by which the member's coordinator is found. For a producer the client id is its
    /// transactional id.
    fn key(&self) -> Key {
        match self.plan.group.protocol {
            Protocol::Producer(_) => Key::Transactions(self.plan.client_id.clone()),
            Protocol::Classic { .. }
            | Protocol::Consumer { .. }
            | Protocol::Manual { .. }
            | Protocol::Reader(_)
            | Protocol::Share(_)
            | Protocol::Streams(_) => Key::Group(self.plan.group.id.clone()),
        }
    }

    /// Sends a lookup of a coordinator, and returns its token.
    pub(super) fn ask_for(&mut self, key: &Key, turn: &mut Turn<'_, '_>) -> Step<u32> {
        let version = self.version(turn, ApiKey::FindCoordinator, key.least_version(), "")?;
        let (request, due) = (coordinator::request(key, version), turn.now());
        Ok(self.send_due(turn, Destination::Any, version, request, due))
    }

    /// Takes the answer to [`Core::ask_for`].
    pub(super) fn found_for(
        &self,
        key: &Key,
        lookup: &mut Lookup,
        outcome: Result<Response<'_>, Failure>,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let (now, backoff) = (turn.now(), self.plan.group.backoff);
        if let Ok(Response::FindCoordinator(response)) = outcome {
            match coordinator::read(key, &response)? {
                Ok((host, port)) => {
                    lookup.at(turn.context.nodes.intern(host, port));
                    lookup.retry.succeeded_with_pause(now, &backoff, turn.context.random);
                    return Ok(());
                }
                Err(error) => self.refused(turn, ApiKey::FindCoordinator, error.code()),
            }
        }
        lookup.failed();
        lookup.retry.failed(now, &backoff, turn.context.random);
        Ok(())
    }

    /// Called when a request to the coordinator has failed. The coordinator is looked up again, as
    /// by real clients.
    pub(super) fn broke(&mut self, turn: &mut Turn<'_, '_>) {
        if self.lookup.node().is_some() {
            self.emit(turn, EventKind::Disconnected);
            self.lookup.forget();
        }
    }

    /// Adopts an assignment, and reports an event with the new partitions.
    pub(super) fn adopt(&mut self, epoch: i32, assigned: Vec<Partition>, turn: &mut Turn<'_, '_>) {
        let added = difference(&assigned, self.owned.partitions());
        let fetched = self.plan.group.fetches_on_assignment;
        self.owned.replace(assigned, fetched);
        if added.is_empty() {
            return;
        }
        let partitions = if added.len() == self.owned.partitions().len() {
            self.owned.shared()
        } else {
            added.into()
        };
        self.emit(turn, EventKind::Assigned { epoch, partitions });
    }

    /// Gives up the partitions that are not in `kept`.
    pub(super) fn revoke_but(&mut self, kept: &[Partition], turn: &mut Turn<'_, '_>) {
        let revoked = difference(self.owned.partitions(), kept);
        if !revoked.is_empty() {
            self.keep_positions(&revoked);
            self.owned.remove(&revoked);
            self.emit(turn, EventKind::Revoked { partitions: revoked.into() });
        }
    }

    fn keep_positions(&mut self, revoked: &[Partition]) {
        if self.consumes {
            self.given_up.extend(self.owned.known(revoked));
        }
    }

    pub(super) fn revoke_all(&mut self, turn: &mut Turn<'_, '_>) {
        let all = self.owned.shared();
        self.keep_positions(&all);
        if let Some(partitions) = self.owned.clear() {
            self.emit(turn, EventKind::Revoked { partitions });
        }
    }

    pub(super) fn lose_all(&mut self, turn: &mut Turn<'_, '_>) {
        if let Some(partitions) = self.owned.clear() {
            self.emit(turn, EventKind::Lost { partitions });
        }
    }
}

/// The duration in whole milliseconds, limited to the protocol's 32 bits.
pub(super) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
