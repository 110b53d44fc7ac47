//! The role of a member: member of a classic, consumer, share or streams group, client without
//! membership, producer or reader.

use muster_codec::{ApiKey, ErrorCode};

use super::State;
use super::classic::{Classic, is_fencing};
use super::consumer::{self, Consumer};
use super::core::{Core, Turn};
use super::error::Step;
use super::heartbeating::Heartbeating;
use super::heartbeats::LEAVE;
use super::io::{Answer, Overdue, Request, Response};
use super::offset_messages::Identity;
use super::owned::sorted;
use super::producer::Producer;
use super::reader::Reader;
use super::share::Share;
use super::streams::Streams;
use crate::event::Stop;
use crate::plan::{Delivery, Protocol, Workload};
use crate::time::Time;

pub(super) enum Role {
    Classic(Box<Classic>),
    Consumer(Box<Consumer>),
    Manual,
    Producer(Box<Producer>),
    Reader(Box<Reader>),
    Share(Box<Share>),
    Streams(Box<Streams>),
}

/// The member id in commits of a client without membership.
const NO_MEMBER: &str = "";
/// The member epoch in commits of a client without membership.
const NO_EPOCH: i32 = -1;

impl Role {
    pub(super) fn new(protocol: &Protocol) -> Self {
        match protocol {
            Protocol::Classic { .. } => Self::Classic(Box::new(Classic::new())),
            Protocol::Consumer { .. } => Self::Consumer(Box::new(Consumer::new())),
            Protocol::Manual { .. } => Self::Manual,
            Protocol::Producer(plan) => Self::Producer(Box::new(Producer::new(plan))),
            Protocol::Reader(plan) => Self::Reader(Box::new(Reader::new(plan))),
            Protocol::Share(plan) => Self::Share(Box::new(Share::new(plan))),
            Protocol::Streams(plan) => Self::Streams(Box::new(Streams::new(plan))),
        }
    }

    pub(super) fn is_manual(&self) -> bool {
        matches!(self, Self::Manual)
    }

    /// Whether the member needs a coordinator to do anything.
    pub(super) fn needs_coordinator(&self, core: &Core) -> bool {
        match &core.group().protocol {
            Protocol::Producer(plan) => matches!(plan.delivery, Delivery::Transactions(_)),
            Protocol::Reader(_) => false,
            Protocol::Classic { .. }
            | Protocol::Consumer { .. }
            | Protocol::Manual { .. }
            | Protocol::Share(_)
            | Protocol::Streams(_) => true,
        }
    }

    /// Begins to work. A manual member has its partitions from the start, without an assignment.
    pub(super) fn begin(&mut self, work: Workload, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if let Protocol::Manual { partitions } = &core.group().protocol {
            let partitions = sorted(partitions.to_vec());
            let fetched = core.group().fetches_on_assignment;
            core.owned.replace(partitions, fetched);
        }
        if let Self::Streams(streams) = self {
            streams.begin(core, turn);
        }
        self.set_workload(work, turn);
    }

    /// Sets the load of a producer. Other roles have no load of their own.
    pub(super) fn set_workload(&mut self, work: Workload, turn: &mut Turn<'_, '_>) {
        if let Self::Producer(producer) = self {
            producer.set_load(work.produce, turn);
        }
    }

    /// When the transaction in flight was due.
    pub(super) fn unfinished(&self) -> Option<Time> {
        match self {
            Self::Producer(producer) => producer.unfinished(),
            Self::Classic(_)
            | Self::Consumer(_)
            | Self::Manual
            | Self::Reader(_)
            | Self::Share(_)
            | Self::Streams(_) => None,
        }
    }

    /// Continues work that must not be left half done when the member stops: a transaction, or
    /// records that are still to be acknowledged or read.
    pub(super) fn finish(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        match self {
            Self::Producer(producer) => producer.finish(core, turn),
            Self::Share(share) => share.finish(core, turn),
            Self::Reader(reader) => reader.finish(core, turn),
            Self::Classic(_) | Self::Consumer(_) | Self::Manual | Self::Streams(_) => Ok(()),
        }
    }

    /// When [`Role::finish`] will have something to do.
    pub(super) fn finish_deadline(&self, core: &Core) -> Option<Time> {
        match self {
            Self::Producer(producer) => producer.finish_deadline(core),
            Self::Share(share) => share.finish_deadline(core),
            Self::Reader(reader) => reader.finish_deadline(),
            Self::Classic(_) | Self::Consumer(_) | Self::Manual | Self::Streams(_) => None,
        }
    }

    /// Gives up the requests in flight of the role: their answers will be ignored.
    pub(super) fn abandon(&mut self, turn: &mut Turn<'_, '_>) {
        match self {
            Self::Producer(producer) => producer.abandon(turn),
            Self::Share(share) => share.abandon(),
            Self::Reader(reader) => reader.abandon(),
            Self::Classic(_) | Self::Consumer(_) | Self::Manual | Self::Streams(_) => {}
        }
    }

    pub(super) fn advance(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        match self {
            Self::Classic(classic) => classic.advance(core, turn),
            Self::Consumer(consumer) => consumer.advance(core, turn),
            Self::Producer(producer) => producer.advance(core, turn),
            Self::Share(share) => share.advance(core, turn),
            Self::Streams(streams) => streams.advance(core, turn),
            Self::Reader(reader) => reader.advance(core, turn),
            Self::Manual => Ok(()),
        }
    }

    pub(super) fn keep_alive(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        match self {
            Self::Classic(classic) => classic.keep_alive(core, turn),
            Self::Consumer(consumer) => consumer.keep_alive(core, turn),
            Self::Share(share) => share.keep_alive(core, turn),
            Self::Streams(streams) => streams.keep_alive(core, turn),
            Self::Manual | Self::Producer(_) | Self::Reader(_) => Ok(()),
        }
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        match self {
            Self::Classic(classic) => classic.deadline(core),
            Self::Consumer(consumer) => consumer.deadline(core),
            Self::Producer(producer) => producer.deadline(core),
            Self::Share(share) => share.deadline(core),
            Self::Streams(streams) => streams.deadline(core),
            Self::Reader(reader) => reader.deadline(),
            Self::Manual => None,
        }
    }

    /// When [`Role::keep_alive`] will have something to do.
    pub(super) fn heartbeat_deadline(&self, core: &Core) -> Option<Time> {
        match self {
            Self::Classic(classic) => classic.heartbeat_deadline(core),
            Self::Consumer(consumer) => consumer.membership.deadline(core),
            Self::Share(share) => share.membership.deadline(core),
            Self::Streams(streams) => streams.membership.deadline(core),
            Self::Manual | Self::Producer(_) | Self::Reader(_) => None,
        }
    }

    /// The heartbeat, or a producer's round, that is due but can't be sent.
    pub(super) fn overdue(&self, core: &Core, now: Time) -> Option<Overdue> {
        match self {
            Self::Classic(classic) => classic.overdue(core, now),
            Self::Consumer(consumer) => consumer.membership.overdue(now),
            Self::Producer(producer) => producer.overdue(now),
            Self::Share(share) => share.membership.overdue(now),
            Self::Streams(streams) => streams.membership.overdue(now),
            Self::Manual | Self::Reader(_) => None,
        }
    }

    /// The loads of `workload` that this role can have; the others are removed. For example, a
    /// manual member sends no heartbeats and reads no records.
    pub(super) fn workload(&self, workload: Workload) -> Workload {
        match self {
            Self::Manual => Workload { heartbeat: None, records: None, ..workload },
            Self::Producer(_) | Self::Reader(_) | Self::Share(_) => Workload::default(),
            Self::Streams(_) => Workload { heartbeat: workload.heartbeat, ..Workload::default() },
            Self::Classic(_) | Self::Consumer(_) => workload,
        }
    }

    pub(super) fn state(&self) -> State {
        match self {
            Self::Classic(classic) => classic.state(),
            Self::Consumer(consumer) => consumer.membership.state(),
            Self::Producer(producer) => producer.state(),
            Self::Share(share) => share.membership.state(),
            Self::Streams(streams) => streams.membership.state(),
            Self::Reader(reader) => reader.state(),
            Self::Manual => State::Stable,
        }
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        match self {
            Self::Classic(classic) => classic.awaits(token),
            Self::Consumer(consumer) => consumer.membership.awaits(token),
            Self::Producer(producer) => producer.awaits(token),
            Self::Share(share) => share.awaits(token),
            Self::Streams(streams) => streams.membership.awaits(token),
            Self::Reader(reader) => reader.awaits(token),
            Self::Manual => false,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Classic(classic) => classic.is_idle(),
            Self::Consumer(consumer) => consumer.membership.is_idle(),
            Self::Producer(producer) => producer.is_idle(),
            Self::Share(share) => share.is_idle(),
            Self::Streams(streams) => streams.membership.is_idle(),
            Self::Reader(reader) => reader.is_idle(),
            Self::Manual => true,
        }
    }

    /// The id and epoch for commits, if there are any.
    pub(super) fn identity(&self) -> Option<Identity<'_>> {
        let (member_id, epoch) = match self {
            Self::Classic(classic) => classic.identity()?,
            Self::Consumer(consumer) => consumer.membership.identity()?,
            Self::Streams(streams) => streams.membership.identity()?,
            Self::Manual => (NO_MEMBER, NO_EPOCH),
            Self::Producer(_) | Self::Reader(_) | Self::Share(_) => return None,
        };
        Some(Identity { member_id, epoch })
    }

    /// A heartbeat that the load sends in addition to the regular heartbeats, with its version.
    /// `None` if the role has none.
    pub(super) fn extra_heartbeat(
        &self,
        core: &Core,
        turn: &Turn<'_, '_>,
    ) -> Step<Option<(i16, Request)>> {
        match self {
            Self::Classic(classic) => classic.extra_heartbeat(core, turn).map(Some),
            Self::Consumer(consumer) => consumer.extra_heartbeat(core, turn).map(Some),
            Self::Streams(streams) => streams.extra_heartbeat(core, turn).map(Some),
            Self::Manual | Self::Producer(_) | Self::Reader(_) | Self::Share(_) => Ok(None),
        }
    }

    /// Sends the request with which the member leaves its group, if its role has one.
    pub(super) fn leave(&mut self, how: Stop, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        match self {
            Self::Classic(_) if how == Stop::Close => Ok(()),
            Self::Classic(classic) => classic.leave(core, turn),
            Self::Consumer(it) => it.leave(consumer::last_epoch(how), core, turn),
            Self::Share(share) => share.leave(LEAVE, core, turn),
            Self::Streams(streams) => streams.leave(LEAVE, core, turn),
            Self::Manual | Self::Producer(_) | Self::Reader(_) => Ok(()),
        }
    }

    pub(super) fn answered(
        &mut self,
        answer: Answer<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let Answer { sent, outcome, .. } = answer;
        match self {
            Self::Classic(classic) => classic.answered(sent, outcome, core, turn),
            Self::Consumer(consumer) => consumer.heartbeat_answered(sent, outcome, core, turn),
            Self::Streams(streams) => streams.heartbeat_answered(sent, outcome, core, turn),
            Self::Producer(producer) => producer.answered(Answer { outcome, ..answer }, core, turn),
            Self::Share(share) => share.answered(Answer { outcome, ..answer }, core, turn),
            Self::Reader(reader) => reader.answered(Answer { outcome, ..answer }, core, turn),
            Self::Manual => Ok(()),
        }
    }

    /// Handles the answer to an extra heartbeat that was sent with the current identity.
    pub(super) fn extra_answered(
        &mut self,
        sent: Time,
        response: Response<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        match (self, response) {
            (Self::Classic(classic), Response::Heartbeat(response)) if classic.is_member() => {
                classic.heartbeat_answered(sent, response.error_code, core, turn)
            }
            (Self::Consumer(consumer), response) => {
                consumer.extra_answered(sent, response, core, turn)
            }
            (Self::Streams(streams), response) => {
                streams.extra_answered(sent, response, core, turn)
            }
            _ => Ok(()),
        }
    }

    /// Called when an extra heartbeat or its answer was lost.
    pub(super) fn extra_failed(&mut self) {
        match self {
            Self::Consumer(consumer) => consumer.membership.extra_failed(),
            Self::Streams(streams) => streams.membership.extra_failed(),
            Self::Classic(_)
            | Self::Manual
            | Self::Producer(_)
            | Self::Reader(_)
            | Self::Share(_) => {}
        }
    }

    /// Asks the coordinator to end all members of the streams application. Returns false for a role
    /// that has no application.
    pub(super) fn ask_for_shutdown(&mut self) -> bool {
        match self {
            Self::Streams(streams) => {
                streams.ask_for_shutdown();
                true
            }
            Self::Classic(_)
            | Self::Consumer(_)
            | Self::Manual
            | Self::Producer(_)
            | Self::Reader(_)
            | Self::Share(_) => false,
        }
    }

    /// Called when the subscription has changed. A classic member notices this itself.
    pub(super) fn describe_again(&mut self) {
        match self {
            Self::Consumer(consumer) => consumer.membership.describe_again(),
            Self::Classic(_)
            | Self::Manual
            | Self::Producer(_)
            | Self::Reader(_)
            | Self::Share(_)
            | Self::Streams(_) => {}
        }
    }

    /// Whether the coordinator asks all members of the streams application to end.
    pub(super) fn is_to_end(&self) -> bool {
        matches!(self, Self::Streams(streams) if streams.is_to_end())
    }

    /// Called when a commit with the current identity was refused. A member of a classic group acts
    /// on the error. A member of a consumer group waits for the answer to its next heartbeat.
    pub(super) fn commit_refused(
        &mut self,
        error: ErrorCode,
        sent: Time,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let Self::Classic(classic) = self else { return Ok(()) };
        match error {
            // The member is joining. The answer to JoinGroup or SyncGroup will show whether it is a
            // member.
            _ if !classic.is_member() => Ok(()),
            ErrorCode::RebalanceInProgress => {
                classic.must_rejoin(sent, core, turn);
                Ok(())
            }
            error if is_fencing(error) => classic.fence(ApiKey::OffsetCommit, error, core, turn),
            _ => Ok(()),
        }
    }
}
