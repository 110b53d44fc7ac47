//! The membership of a member whose heartbeats join, keep it alive and leave, as in consumer, share
//! and streams groups. Each kind of group adds its own fields to the heartbeats.

use std::sync::Arc;

use muster_codec::{ApiKey, ErrorCode};

use super::State;
use super::core::{Core, Turn};
use super::error::{Fatal, Remedy, Step, fatal, refusal, remedy};
use super::heartbeats::{self, Heartbeats, JOIN, LEAVE};
use super::io::{Destination, NodeIndex, Overdue, Regular, Request};
use crate::event::EventKind;
use crate::time::Time;

/// The heartbeat of a kind of group: its API, the lowest version that members use, and its name in
/// the measures of regular requests.
pub(super) struct Beats {
    pub(super) api: ApiKey,
    pub(super) least_version: i16,
    pub(super) regular: Regular,
}

pub(super) struct Membership {
    of: &'static Beats,
    /// The member chooses it once per simulated process, or the coordinator assigns it.
    pub(super) member_id: Arc<str>,
    pub(super) epoch: i32,
    in_flight: Option<InFlight>,
    heartbeats: Heartbeats,
    /// The next heartbeat is the first since the member joined. If it is sent early, to acknowledge
    /// an assignment, the heartbeat after it is due at a random time within the interval.
    first: bool,
    /// The next heartbeat contains all fields, because one has failed or the subscription has
    /// changed.
    full: bool,
    /// The next heartbeat reports what the member owns, and is sent at once.
    acknowledge: bool,
    /// The member has given up partitions or tasks, and the coordinator has not answered the
    /// heartbeat that reports this.
    unconfirmed: bool,
    /// The epoch or the assignment changed since the member was last settled.
    unsettled: bool,
    fenced: bool,
}

#[derive(Clone, Copy)]
struct InFlight {
    token: u32,
    incarnation: u32,
    /// Whether the heartbeat reports what the member owns.
    reports_owned: bool,
}

/// The part of an answer that all kinds of groups share.
pub(super) struct Beat<'a> {
    pub(super) error: i16,
    pub(super) said: Option<&'a str>,
    pub(super) member_id: Option<&'a str>,
    pub(super) epoch: i32,
    pub(super) interval_ms: i32,
}

/// The meaning of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// The coordinator accepts the sender as a member, so the rest of the answer is valid.
    /// `joined`: this is the answer to a request to join.
    Alive {
        joined: bool,
    },
    /// The sender is no longer a member, has lost all that it owned, and joins again.
    Out,
    Nothing,
}

impl Membership {
    pub(super) fn new(of: &'static Beats) -> Self {
        Self {
            of,
            member_id: Arc::default(),
            epoch: JOIN,
            in_flight: None,
            heartbeats: Heartbeats::new(),
            first: false,
            full: true,
            acknowledge: false,
            unconfirmed: false,
            unsettled: true,
            fenced: false,
        }
    }

    pub(super) fn version(&self, core: &Core, turn: &Turn<'_, '_>) -> Step<i16> {
        core.version(turn, self.of.api, self.of.least_version, "")
    }

    /// Returns the coordinator's node if a heartbeat has to be sent to it now.
    pub(super) fn due(&self, core: &Core, now: Time) -> Option<NodeIndex> {
        let is_due = self.deadline(core).is_some_and(|due| due <= now);
        core.lookup.node().filter(|_| is_due)
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        let idle = self.in_flight.is_none() && core.lookup.node().is_some() && self.epoch >= JOIN;
        idle.then(|| self.heartbeats.deadline(self.is_at_once()))
    }

    /// The heartbeat that is due and can't be sent, if there is one.
    pub(super) fn overdue(&self, now: Time) -> Option<Overdue> {
        let is_idle = self.epoch > JOIN && self.in_flight.is_none();
        self.heartbeats.overdue(self.of.regular, now).filter(|_| is_idle)
    }

    pub(super) fn state(&self) -> State {
        heartbeats::state(self.epoch, self.fenced, self.unsettled)
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        self.in_flight.is_some_and(|in_flight| in_flight.token == token)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    pub(super) fn is_member(&self) -> bool {
        self.epoch > JOIN
    }

    /// Whether the next heartbeat is a request to join.
    pub(super) fn joins(&self) -> bool {
        self.epoch == JOIN
    }

    /// Whether the next heartbeat contains the description of the member.
    pub(super) fn is_full(&self) -> bool {
        self.joins() || self.full
    }

    /// Whether the next heartbeat reports what the member owns.
    pub(super) fn reports_owned(&self) -> bool {
        self.is_full() || self.acknowledge
    }

    pub(super) fn is_acknowledging(&self) -> bool {
        self.acknowledge
    }

    /// The id and epoch for commits, if it is a member.
    pub(super) fn identity(&self) -> Option<(&str, i32)> {
        self.is_member().then_some((&self.member_id, self.epoch))
    }

    pub(super) fn choose_id(&mut self, turn: &mut Turn<'_, '_>) {
        if self.member_id.is_empty() {
            self.member_id = heartbeats::new_member_id(turn);
        }
    }

    /// Sends the heartbeat that is due.
    pub(super) fn send(
        &mut self,
        node: NodeIndex,
        version: i16,
        request: Request,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) {
        if self.joins() {
            core.emit(turn, EventKind::Joining);
        }
        let at_once = self.is_at_once();
        let due = if at_once { turn.now() } else { self.heartbeats.next };
        let token = core.send_due(turn, Destination::Node(node), version, request, due);
        if !at_once {
            Core::repeats(turn, self.heartbeats.interval);
        }
        self.sent(token, self.reports_owned(), core);
        if self.first && self.acknowledge {
            self.heartbeats.begin(turn);
        } else {
            self.heartbeats.next = turn.now() + self.heartbeats.interval;
        }
        (self.full, self.acknowledge, self.first) = (false, false, false);
    }

    /// Makes the next heartbeat the last one, with this epoch. Returns the coordinator's node.
    /// Returns `None` if it is unknown, or if the process is not a member now.
    pub(super) fn begin_to_leave(&mut self, epoch: i32, core: &Core) -> Option<NodeIndex> {
        let node = core.lookup.node().filter(|_| self.is_member())?;
        self.epoch = epoch;
        Some(node)
    }

    pub(super) fn send_last(
        &mut self,
        node: NodeIndex,
        request: Request,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let version = self.version(core, turn)?;
        let token = core.send(turn, node, version, request);
        self.sent(token, false, core);
        Ok(())
    }

    /// Gives up the heartbeat in flight: its answer will be ignored.
    pub(super) fn abandon(&mut self) {
        self.in_flight = None;
    }

    /// Takes the answer to the heartbeat in flight. `beat` is `None` if there is no answer, or one
    /// to another kind of request.
    pub(super) fn answered(
        &mut self,
        sent: Time,
        beat: Option<Beat<'_>>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<Heard> {
        let Some(in_flight) = self.in_flight.take() else { return Ok(Heard::Nothing) };
        match beat {
            beat if self.epoch <= LEAVE => self.left(beat, core, turn),
            // The member was fenced after it had sent this heartbeat, so the answer no longer
            // matters.
            Some(_) if in_flight.incarnation != core.incarnation => {}
            Some(beat) => {
                let confirms = in_flight.reports_owned && beat.error == 0;
                self.unconfirmed &= !confirms;
                return self.heard(sent, beat, core, turn);
            }
            None => {
                self.failed(core, turn);
                core.broke(turn);
            }
        }
        Ok(Heard::Nothing)
    }

    /// Handles the answer to a regular or extra heartbeat that the member sent with its current
    /// identity.
    pub(super) fn heard(
        &mut self,
        sent: Time,
        beat: Beat<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<Heard> {
        match beat.error {
            0 => self.alive(sent, beat, core, turn),
            _ => self.refused(&beat, core, turn),
        }
    }

    /// Called when an extra heartbeat or its answer was lost. The answer may have contained a new
    /// assignment, which the coordinator sends only once. So the next heartbeat has all fields, and
    /// the coordinator sends the assignment again.
    pub(super) fn extra_failed(&mut self) {
        self.full = true;
    }

    /// Makes the next heartbeat report what the member owns now.
    pub(super) fn acknowledge(&mut self) {
        self.acknowledge = true;
    }

    /// Called when the member's subscription has changed. The next heartbeat describes the member
    /// again, and is sent when it is due, as by Kafka's client.
    pub(super) fn describe_again(&mut self) {
        self.full = true;
    }

    /// Notes that the member gave up partitions or tasks. It is settled only once the coordinator
    /// has answered the heartbeat that reports this.
    pub(super) fn gave_up(&mut self) {
        self.unconfirmed = true;
    }

    pub(super) fn unsettle(&mut self) {
        self.unsettled = true;
    }

    /// Reports [`EventKind::Settled`] once, when the assignment of this epoch is adopted.
    pub(super) fn settle(&mut self, busy: bool, core: &Core, turn: &mut Turn<'_, '_>) {
        let settles = self.unsettled && !busy && !self.unconfirmed && self.is_member();
        if settles {
            self.unsettled = false;
            core.emit(turn, EventKind::Settled { epoch: self.epoch });
        }
    }

    fn is_at_once(&self) -> bool {
        self.joins() || self.acknowledge
    }

    fn sent(&mut self, token: u32, reports_owned: bool, core: &Core) {
        let incarnation = core.incarnation;
        self.in_flight = Some(InFlight { token, incarnation, reports_owned });
    }

    fn left(&self, beat: Option<Beat<'_>>, core: &mut Core, turn: &mut Turn<'_, '_>) {
        match beat {
            Some(beat) if beat.error != 0 => core.refused(turn, self.of.api, beat.error),
            Some(_) => {}
            None => core.broke(turn),
        }
    }

    fn alive(
        &mut self,
        sent: Time,
        beat: Beat<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<Heard> {
        self.heartbeats.retry.succeeded();
        let epoch = beat.epoch;
        if epoch <= JOIN {
            let group = &core.group().id;
            return Err(Fatal(format!("a member of group {group} received the epoch {epoch}")));
        }
        let joined = self.joins();
        if joined {
            self.joined(&beat, core, turn);
        } else if epoch != self.epoch {
            core.emit(turn, EventKind::Epoch { epoch });
            self.unsettled = true;
        }
        self.epoch = epoch;
        core.emit(turn, EventKind::Alive { sent, epoch });
        self.heartbeats.keep_interval(beat.interval_ms, turn.now());
        if joined {
            self.first = true;
            self.heartbeats.begin(turn);
        }
        Ok(Heard::Alive { joined })
    }

    fn joined(&mut self, beat: &Beat<'_>, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if let Some(id) = beat.member_id.filter(|id| **id != *self.member_id) {
            self.member_id = Arc::from(id);
        }
        core.incarnation = core.incarnation.wrapping_add(1);
        self.fenced = false;
        self.unsettled = true;
        let member_id = Arc::clone(&self.member_id);
        core.emit(turn, EventKind::Joined { member_id, epoch: beat.epoch });
    }

    /// Handles an error of the coordinator.
    fn refused(
        &mut self,
        beat: &Beat<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step<Heard> {
        let (api, code) = (self.of.api, beat.error);
        let Some(error) = refusal(code) else { return Ok(Heard::Nothing) };
        match error {
            ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch => {
                self.rejoin(code, core, turn);
                core.failed_once(&mut self.heartbeats.retry, turn);
                return Ok(Heard::Out);
            }
            // The coordinator still has a session of a previous member with this instance id. Here
            // the Java client gives up, and a process supervisor would restart it. So the member
            // retries until that session is over.
            ErrorCode::UnreleasedInstanceId => {
                self.rejoin(code, core, turn);
                core.failed(&mut self.heartbeats.retry, turn);
                return Ok(Heard::Out);
            }
            ErrorCode::FencedInstanceId => core.emit(turn, EventKind::Fenced { error: code }),
            error => match remedy(error) {
                Remedy::GiveUp => {}
                Remedy::LookUp => {
                    core.refused(turn, api, code);
                    core.lookup.forget();
                    // The heartbeat is sent once the coordinator is found again. The lookup has its
                    // own back-off.
                    self.full = true;
                    self.heartbeats.next = turn.now();
                    return Ok(Heard::Nothing);
                }
                Remedy::Retry => {
                    core.refused(turn, api, code);
                    self.failed(core, turn);
                    return Ok(Heard::Nothing);
                }
            },
        }
        Err(fatal(api, &core.group().id, error, beat.said))
    }

    /// Called when a heartbeat has failed. The next one follows after the back-off, with all
    /// fields.
    fn failed(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        self.full = true;
        self.heartbeats.next = turn.now();
        core.failed(&mut self.heartbeats.retry, turn);
    }

    /// Makes the member join again with the same id, because the coordinator has refused its id,
    /// its epoch or its instance id. The member loses all that it owned.
    fn rejoin(&mut self, error: i16, core: &mut Core, turn: &mut Turn<'_, '_>) {
        core.emit(turn, EventKind::Fenced { error });
        core.lose_all(turn);
        core.incarnation = core.incarnation.wrapping_add(1);
        let member_id = std::mem::take(&mut self.member_id);
        let (heartbeats, in_flight) = (self.heartbeats.again(), self.in_flight);
        *self = Self { member_id, heartbeats, in_flight, fenced: true, ..Self::new(self.of) };
    }
}
