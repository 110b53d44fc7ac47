//! Requests of groups: those of this shard's slots go to their coordinators. Parts that they must
//! not see are refused here, as Kafka's broker does in front of its coordinator. A request for
//! groups of several slots is split here, and the answers are joined.

use super::Shard;
use super::durable::Inputs;
use super::slots::ListingOfSlots;
use crate::clock::Times;
use crate::dispatch::Call;
use crate::dispatch::group_apis::{self, Destination, Front};
use crate::net::{ConnectionId, Connections, VisibleAt};
use crate::placement::Slot;
use muster_codec::{ErrorCode, GroupRequest, Response};
use muster_coordinator::limits::GROUPS_MAX;
use muster_coordinator::{Answer, Caller, GroupRefusal, Output, RequestId};

/// The answer to a request of a group, with what it waits for.
#[derive(Debug)]
pub(crate) struct GroupReply<'r> {
    pub(crate) request: RequestId,
    pub(crate) response: Response<'r>,
    pub(crate) visible_at: VisibleAt,
}

impl<'r> GroupReply<'r> {
    fn of(slot: Slot, Answer { request, response, visible_at }: Answer<'r>) -> Self {
        Self { request, response, visible_at: VisibleAt::position(slot, visible_at) }
    }
}

impl GroupReply<'_> {
    /// Passes an answer on to its connection.
    pub(crate) fn send(connections: &mut Connections, reply: GroupReply<'_>) {
        connections.answer(reply.request, &reply.response, reply.visible_at);
    }
}

impl Shard {
    pub(crate) fn group_request(
        &mut self,
        id: ConnectionId,
        call: &Call<'_>,
        request: GroupRequest<'_>,
    ) {
        self.group_answers(id, call, request, GroupReply::send);
    }

    /// Handles a request; `take` is given the answers that there are now, to it and to others.
    pub(crate) fn group_answers(
        &mut self,
        id: ConnectionId,
        call: &Call<'_>,
        mut request: GroupRequest<'_>,
        mut take: impl FnMut(&mut Connections, GroupReply<'_>),
    ) {
        let Some(host) = self.connections.get(id).map(|c| c.host.clone()) else { return };
        let caller = Caller {
            request: call.request,
            api_version: call.version,
            client_id: &call.client_id,
            client_host: &host,
        };
        match self.screen(&mut request, call.version) {
            Destination::Slot(slot, refused) => {
                self.coordinate(slot, caller, request, refused, &mut take);
            }
            Destination::Slots(refused) => self.split(caller, request, refused, &mut take),
            Destination::Shard => self.list_groups(&request, caller, &mut take),
            Destination::Refused(response) => {
                let (request, visible_at) = (call.request, VisibleAt::Now);
                take(&mut self.connections, GroupReply { request, response, visible_at });
            }
        }
    }

    /// Refuses what a coordinator must not see, and finds the coordinator of the rest.
    fn screen(&self, request: &mut GroupRequest<'_>, version: i16) -> Destination {
        if !self.common.config.serves(request.api_key()) {
            let error = ErrorCode::UnsupportedVersion;
            return Destination::Refused(group_apis::refused(request, version, error));
        }
        let slots = &self.groups.slots;
        let slot_of = |group_id: &str| Some(slots.slot_of(group_id)).filter(|it| slots.has(*it));
        let front = Front { version, topics: &*self.image, slot_of: &slot_of };
        group_apis::screen(request, &front)
    }

    /// Passes a request to the coordinator of a slot. `refused` is the answer to its other part.
    fn coordinate<'r>(
        &mut self,
        slot: Slot,
        caller: Caller<'r>,
        request: GroupRequest<'r>,
        mut refused: Option<Response<'static>>,
        take: &mut impl FnMut(&mut Connections, GroupReply<'r>),
    ) {
        let (times, ids) = (self.times(), self.ids.as_mut());
        let inputs = Inputs { times, ids, topics: &*self.image };
        let (output, refusal) = self.groups.handle(slot, inputs, caller, request);
        if let Some(refusal) = refusal {
            self.report_refusal(refusal, caller.client_host);
        }
        self.write(slot, output, |connections, mut reply| {
            if reply.request == caller.request
                && let Some(refused) = refused.take()
            {
                group_apis::merge(&mut reply.response, refused);
            }
            take(connections, reply);
        });
    }

    /// Passes a request for groups of several slots to the coordinator of each, and joins their
    /// answers, which are all there at once.
    fn split<'r>(
        &mut self,
        caller: Caller<'r>,
        request: GroupRequest<'r>,
        refused: Option<Response<'static>>,
        take: &mut impl FnMut(&mut Connections, GroupReply<'r>),
    ) {
        let mut joined: Option<GroupReply<'r>> = None;
        let slots = &self.groups.slots;
        for (slot, part) in group_apis::by_slot(request, |group_id| slots.slot_of(group_id)) {
            self.coordinate(slot, caller, part, None, &mut |connections, reply: GroupReply<'r>| {
                match &mut joined {
                    _ if reply.request != caller.request => take(connections, reply),
                    None => joined = Some(reply),
                    Some(joined) => {
                        group_apis::merge(&mut joined.response, reply.response);
                        joined.visible_at.join(reply.visible_at);
                    }
                }
            });
        }
        let Some(mut joined) = joined else { return };
        if let Some(refused) = refused {
            group_apis::merge(&mut joined.response, refused);
        }
        take(&mut self.connections, joined);
    }

    /// Answers a list of the groups of all slots that is short.
    fn list_groups(
        &mut self,
        request: &GroupRequest<'_>,
        caller: Caller<'_>,
        take: &mut impl FnMut(&mut Connections, GroupReply<'_>),
    ) {
        let GroupRequest::ListGroups(body) = request else {
            unreachable!("only a list is about all groups of a shard")
        };
        let mut listing = ListingOfSlots::new(body);
        self.groups.list(&mut listing, usize::MAX);
        let (response, visible_at) = (listing.take().into(), listing.visible_at());
        let request = caller.request;
        take(&mut self.connections, GroupReply { request, response, visible_at });
    }

    fn report_refusal(&mut self, refusal: GroupRefusal, host: &str) {
        let (words, max) = (refusal.words(), GROUPS_MAX);
        let words = format_args!(
            "a client at {host} could not create a group: {words} Of {max}, there are {}",
            self.groups.slots.groups()
        );
        self.request_error("groups", words);
    }

    /// Does what groups have due, as far as all has been handled that came before.
    pub(crate) fn groups_expire(&mut self) {
        let (now, wall) = (self.heard, self.wall);
        if let Some(slot) = self.groups.due(now) {
            let (times, ids) = (Times { now, wall }, self.ids.as_mut());
            let output = self.groups.expire(slot, Inputs { times, ids, topics: &*self.image });
            self.apply(slot, output);
        }
    }

    /// Writes the records of a slot's output, then lets its answers go as far as they may.
    pub(crate) fn apply(&mut self, slot: Slot, output: Output<'_>) {
        self.write(slot, output, GroupReply::send);
    }

    /// Writes the records of a slot's output; `take` is given its answers, each with the position
    /// that it waits for.
    fn write<'r>(
        &mut self,
        slot: Slot,
        output: Output<'r>,
        mut take: impl FnMut(&mut Connections, GroupReply<'r>),
    ) {
        let position = self.groups.next_position(slot);
        let (last, failed) = match self.groups.append(slot, self.now, &output.records) {
            Ok(last) => (last, false),
            Err(refused) => {
                let words = format_args!("records were not written: {}", refused.error);
                self.request_error("write", words);
                let (times, ids) = (self.times(), self.ids.as_mut());
                let inputs = Inputs { times, ids, topics: &*self.image };
                let records = &output.records[refused.written..];
                let dismissed = self.groups.not_written(slot, inputs, records);
                for answer in dismissed.answers {
                    take(&mut self.connections, GroupReply::of(slot, answer));
                }
                // Nothing has the position that they would have had.
                (self.groups.position(slot), true)
            }
        };
        for mut answer in output.answers {
            if failed {
                let error = ErrorCode::UnknownServerError;
                answer.response = group_apis::failed(answer.response, error);
            }
            // Of a call that wrote to several groups the answer waits for the last.
            if answer.visible_at == position {
                answer.visible_at = last;
            }
            take(&mut self.connections, GroupReply::of(slot, answer));
        }
    }
}
