//! The requests of a member that concern offsets, and the loads that the scenario gives it. The
//! member reads committed offsets when it gets partitions. As its load, it commits and reads
//! positions, and sends extra heartbeats in addition to the regular ones. It handles errors like
//! the Java client (`ConsumerCoordinator`, `CommitRequestManager`).

use std::sync::Arc;

use muster_codec::messages::OffsetCommitResponse;
use muster_codec::{ApiKey, ErrorCode};

use super::backoff::Retry;
use super::core::{Core, Turn};
use super::error::{Step, fatal, refusal, unsupported};
use super::io::{Destination, Failure, NodeIndex, Overdue, Regular, Request, Response};
use super::offset_messages::{
    Identity, STATIC_COMMIT, commit_request, fetch_request, fetched, refused,
};
use super::schedule::Schedule;
use crate::event::EventKind;
use crate::plan::{Load, Partition, Workload};
use crate::time::Time;

#[derive(Default)]
pub(super) struct Offsets {
    commit: Option<Schedule>,
    fetch: Option<Schedule>,
    heartbeat: Option<Schedule>,
    in_flight: Vec<InFlight>,
    retry: Retry,
    next_commit: u32,
    /// The member owned no partitions at the last check, so no request was due.
    paused: bool,
}

/// A request that does not belong to the membership.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    token: u32,
    pub(super) incarnation: u32,
    pub(super) purpose: Purpose,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    Commit {
        id: u32,
    },
    /// A commit of the positions in partitions that the member gave up. It is not part of the load.
    LastCommit {
        id: u32,
    },
    /// A fetch that belongs to the load.
    Fetch,
    /// A fetch for newly assigned partitions. `losses` is the value of
    /// [`super::owned::Owned::losses`] when the fetch was sent.
    FirstFetch {
        losses: u32,
    },
    Heartbeat,
}

/// The effect of an answer on the membership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    Nothing,
    /// The coordinator has moved.
    LookUp,
    /// The connection broke.
    Broke,
    /// A commit was refused with an error that may concern the membership.
    CommitRefused(ErrorCode),
}

impl Offsets {
    pub(super) fn set_workload(&mut self, workload: Workload, turn: &mut Turn<'_, '_>) {
        let now = turn.now();
        let random = &mut *turn.context.random;
        let in_flight = &self.in_flight;
        let mut begin = |load: Option<Load>, is_of_it: fn(Purpose) -> bool| {
            let under_way = in_flight.iter().filter(|one| is_of_it(one.purpose)).count();
            load.and_then(|load| Schedule::new(load, under_way as u32, now, random))
        };
        self.commit = begin(workload.commit, |purpose| matches!(purpose, Purpose::Commit { .. }));
        self.fetch = begin(workload.fetch, |purpose| purpose == Purpose::Fetch);
        self.heartbeat = begin(workload.heartbeat, |purpose| purpose == Purpose::Heartbeat);
    }

    /// Called when a new process starts. It has no requests in flight, and the ids of commits
    /// continue.
    pub(super) fn restart(&mut self, workload: Workload, turn: &mut Turn<'_, '_>) {
        *self = Self { next_commit: self.next_commit, paused: true, ..Self::default() };
        self.set_workload(workload, turn);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        self.in_flight.iter().any(|in_flight| in_flight.token == token)
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        let reads = !core.owned.is_ready() && !self.reads_first();
        let commit = self.commit.as_ref().filter(|_| core.owned.is_ready());
        let loads = [commit, self.fetch.as_ref(), self.heartbeat.as_ref()].into_iter().flatten();
        let next = loads.filter_map(Schedule::deadline).chain(reads.then_some(Time::ZERO)).min()?;
        Some(next.max(self.retry.until()))
    }

    /// The requests of the loads that are due but can't be sent: for each load the one that has
    /// been due for longest. `heartbeat` is the kind as which extra heartbeats are counted.
    pub(super) fn overdue(
        &self,
        core: &Core,
        heartbeat: Regular,
        now: Time,
    ) -> impl Iterator<Item = Overdue> {
        let waits = self.paused || core.owned.is_empty();
        let commit = self.commit.as_ref().filter(|_| core.owned.is_ready());
        let loads = [
            (Regular::Commit, commit),
            (Regular::Fetch, self.fetch.as_ref()),
            (heartbeat, self.heartbeat.as_ref()),
        ];
        let loads = loads.into_iter().filter(move |_| !waits);
        loads.filter_map(move |(of, load)| {
            let (due, every) = load?.overdue(now)?;
            Some(Overdue { of, due, every })
        })
    }

    /// Sends requests that are due, as the member with this identity.
    pub(super) fn advance(
        &mut self,
        identity: Identity<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        if self.pause(core, turn.now()) || !self.retry.ready(turn.now()) {
            return Ok(());
        }
        if !core.owned.is_ready() && !self.reads_first() {
            let purpose = Purpose::FirstFetch { losses: core.owned.losses() };
            let (unknown, now) = (core.owned.unknown(), turn.now());
            self.send_fetch(&unknown, purpose, now, identity, core, turn)?;
        }
        while let Some(due) = self.fetch.as_ref().and_then(|load| load.next(turn.now())) {
            let Some(load) = &mut self.fetch else { break };
            load.sent();
            let partitions = core.owned.window(load.partitions(), &mut load.cursor);
            self.send_fetch(&partitions, Purpose::Fetch, due, identity, core, turn)?;
        }
        while core.owned.is_ready()
            && let Some(due) = self.commit.as_ref().and_then(|load| load.next(turn.now()))
        {
            self.send_commit(due, identity, core, turn)?;
        }
        Ok(())
    }

    /// If an extra heartbeat has to be sent now, returns the time at which it was due.
    pub(super) fn heartbeat_due(&self, now: Time) -> Option<Time> {
        self.heartbeat.as_ref().filter(|_| !self.paused && self.retry.ready(now))?.next(now)
    }

    pub(super) fn heartbeat_sent(&mut self, token: u32, incarnation: u32) {
        if let Some(load) = &mut self.heartbeat {
            load.sent();
        }
        self.in_flight.push(InFlight { token, incarnation, purpose: Purpose::Heartbeat });
    }

    /// Removes and returns the request that was answered.
    pub(super) fn take(&mut self, token: u32) -> Option<InFlight> {
        let at = self.in_flight.iter().position(|in_flight| in_flight.token == token)?;
        let in_flight = self.in_flight.swap_remove(at);
        let load = match in_flight.purpose {
            Purpose::Commit { .. } => &mut self.commit,
            Purpose::Fetch => &mut self.fetch,
            Purpose::Heartbeat => &mut self.heartbeat,
            Purpose::FirstFetch { .. } | Purpose::LastCommit { .. } => &mut None,
        };
        if let Some(load) = load {
            load.answered();
        }
        Some(in_flight)
    }

    /// Handles an answer to a request other than a heartbeat.
    pub(super) fn answered(
        &mut self,
        purpose: Purpose,
        sent: Time,
        outcome: Result<Response<'_>, Failure>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<Effect> {
        match (purpose, outcome) {
            (
                Purpose::Commit { id } | Purpose::LastCommit { id },
                Ok(Response::OffsetCommit(response)),
            ) => Ok(self.committed(id, &response, core, turn)),
            (_, Ok(Response::OffsetFetch(response))) => {
                let read = fetched(&response, turn.context.topics);
                self.read(purpose, sent, read, core, turn)
            }
            (purpose, Ok(_) | Err(_)) => {
                if let Purpose::Commit { id } | Purpose::LastCommit { id } = purpose {
                    core.emit(turn, EventKind::CommitUnknown { id });
                }
                core.failed(&mut self.retry, turn);
                Ok(Effect::Broke)
            }
        }
    }

    /// Called when an extra heartbeat has failed: loads wait for the back-off.
    pub(super) fn heartbeat_failed(&mut self, core: &Core, turn: &mut Turn<'_, '_>) {
        core.failed(&mut self.retry, turn);
    }

    /// Gives up all requests in flight. Their answers will be ignored, so the results of commits
    /// among these requests are unknown.
    pub(super) fn abandon(&mut self, core: &Core, turn: &mut Turn<'_, '_>) {
        for in_flight in std::mem::take(&mut self.in_flight) {
            if let Purpose::Commit { id } | Purpose::LastCommit { id } = in_flight.purpose {
                core.emit(turn, EventKind::CommitUnknown { id });
            }
        }
    }

    fn reads_first(&self) -> bool {
        self.in_flight.iter().any(|one| matches!(one.purpose, Purpose::FirstFetch { .. }))
    }

    /// Pauses the loads while the process is not a member, for example while it waits for a
    /// rebalance: then no request is due. An unreachable coordinator does not pause the loads: then
    /// requests are due, and late.
    pub(super) fn hold(&mut self) {
        self.paused = true;
    }

    /// Pauses the loads while the member has no partitions. When it gets some, requests that would
    /// have been due in the meantime are skipped.
    fn pause(&mut self, core: &Core, now: Time) -> bool {
        let paused = core.owned.is_empty();
        if self.paused && !paused {
            let all = [&mut self.commit, &mut self.fetch, &mut self.heartbeat];
            all.into_iter().flatten().for_each(|load| load.skip(now));
        }
        self.paused = paused;
        paused
    }

    fn send_commit(
        &mut self,
        due: Time,
        identity: Identity<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let (Some(node), Some(load)) = (core.lookup.node(), &mut self.commit) else {
            return Ok(());
        };
        load.sent();
        let partitions = core.owned.window(load.partitions(), &mut load.cursor);
        let offsets = if core.consumes {
            core.owned.known(&partitions).into()
        } else {
            core.owned.advance(&partitions)
        };
        let purpose = |id| Purpose::Commit { id };
        self.commit(node, offsets, purpose, due, identity, core, turn)
    }

    /// Commits the member's positions in partitions that it has just given up, as a client with
    /// `enable.auto.commit` does. In the output, the commit is inserted at index `before`: before
    /// the request that reports to the coordinator that the partitions are given up. Does nothing
    /// if the load contains no commits.
    pub(super) fn commit_given_up(
        &mut self,
        identity: Option<Identity<'_>>,
        before: usize,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let offsets = std::mem::take(&mut core.given_up);
        let commits = self.commit.is_some() && !offsets.is_empty();
        let (Some(identity), Some(node), true) = (identity, core.lookup.node(), commits) else {
            return Ok(());
        };
        let purpose = |id| Purpose::LastCommit { id };
        let now = turn.now();
        self.commit(node, offsets.into(), purpose, now, identity, core, turn)?;
        if let Some(commit) = turn.output.requests.pop() {
            turn.output.requests.insert(before, commit);
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // two callers, which differ in all arguments
    fn commit(
        &mut self,
        node: NodeIndex,
        offsets: Arc<[(Partition, i64)]>,
        purpose: fn(u32) -> Purpose,
        due: Time,
        identity: Identity<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let least = if core.plan.instance_id.is_some() { STATIC_COMMIT } else { 0 };
        let version = core.version(turn, ApiKey::OffsetCommit, least, " of static members")?;
        let request = commit_request(&offsets, identity, &core.plan, turn.context.topics);
        let id = self.next_commit;
        self.next_commit = id.wrapping_add(1);
        core.emit(turn, EventKind::CommitSent { id, epoch: identity.epoch, offsets });
        let request = Request::OffsetCommit(request);
        let token = core.send_due(turn, Destination::Node(node), version, request, due);
        let (incarnation, purpose) = (core.incarnation, purpose(id));
        self.in_flight.push(InFlight { token, incarnation, purpose });
        Ok(())
    }

    fn send_fetch(
        &mut self,
        partitions: &[Partition],
        purpose: Purpose,
        due: Time,
        identity: Identity<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let Some(node) = core.lookup.node() else { return Ok(()) };
        let Some(version) = turn.context.versions.of(ApiKey::OffsetFetch) else {
            return Err(unsupported(ApiKey::OffsetFetch, ""));
        };
        let request = fetch_request(partitions, identity, &core.plan, version, turn.context.topics);
        let request = Request::OffsetFetch(request);
        let token = core.send_due(turn, Destination::Node(node), version, request, due);
        self.in_flight.push(InFlight { token, incarnation: core.incarnation, purpose });
        Ok(())
    }

    fn committed(
        &mut self,
        id: u32,
        response: &OffsetCommitResponse<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Effect {
        let refused: Arc<[(Partition, i16)]> = refused(response, turn.context.topics);
        let first = refused.first().and_then(|(_, code)| refusal(*code));
        core.emit(turn, EventKind::CommitAnswered { id, refused });
        let Some(error) = first else {
            self.retry.succeeded();
            core.lookup.confirm();
            return Effect::Nothing;
        };
        core.failed(&mut self.retry, turn);
        match error {
            ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::RequestTimedOut => Effect::LookUp,
            error => Effect::CommitRefused(error),
        }
    }

    fn read(
        &mut self,
        purpose: Purpose,
        sent: Time,
        read: Result<Vec<(Partition, i64)>, i16>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<Effect> {
        let offsets = match read {
            Ok(offsets) => offsets,
            Err(code) => return self.not_read(code, core, turn),
        };
        self.retry.succeeded();
        core.lookup.confirm();
        // The offsets are not used if the member has lost partitions since it sent this fetch:
        // another member may have committed higher offsets before the member got them back.
        if purpose == (Purpose::FirstFetch { losses: core.owned.losses() }) {
            offsets.iter().for_each(|(partition, offset)| core.owned.found(partition, *offset));
        }
        core.emit(turn, EventKind::Fetched { sent, offsets: offsets.into() });
        Ok(Effect::Nothing)
    }

    fn not_read(&mut self, code: i16, core: &Core, turn: &mut Turn<'_, '_>) -> Step<Effect> {
        core.refused(turn, ApiKey::OffsetFetch, code);
        core.failed(&mut self.retry, turn);
        match refusal(code) {
            Some(ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) => {
                Ok(Effect::LookUp)
            }
            Some(error) if is_fatal(error) => {
                Err(fatal(ApiKey::OffsetFetch, &core.group().id, error, None))
            }
            _ => Ok(Effect::Nothing),
        }
    }
}

/// Whether no later offset request can succeed after this error.
pub(super) fn is_fatal(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::GroupAuthorizationFailed
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::UnsupportedVersion
            | ErrorCode::InvalidGroupId
    )
}
