//! Requests of groups: those of this shard go to its coordinator; what it must not see is refused
//! here, as Kafka's broker does in front of its coordinator.

use super::refusal::{self, Refused};
use super::{Call, absent};
use crate::clock::Times;
use crate::net::{ConnectionId, Connections};
use crate::shard::Shard;
use muster_codec::messages::ConsumerGroupDescribeResponse;
use muster_codec::{ErrorCode, Request, Response};
use muster_coordinator::limits::GROUPS_MAX;
use muster_coordinator::{Answer, Caller, Output};

impl Shard {
    pub(crate) fn group_request(
        &mut self,
        id: ConnectionId,
        call: &Call<'_>,
        request: Request<'_>,
    ) {
        self.group_answers(id, call, request, Connections::take_answer);
    }

    /// Handles a request; `take` is given the answers that there are now, to it and to others.
    pub(crate) fn group_answers(
        &mut self,
        id: ConnectionId,
        call: &Call<'_>,
        mut request: Request<'_>,
        mut take: impl FnMut(&mut Connections, Answer<'_>),
    ) {
        let own = |response| Answer { request: call.request, response, visible_at: 0 };
        if !self.common.config.serves(request.api_key()) {
            let response = refuse_protocol(call.version, &mut request);
            return take(&mut self.connections, own(response));
        }
        let mut refused = self.take_refused(&mut request, call.version);
        if let Some(refused) = refused.take_if(|_| refusal::is_empty(&request)) {
            return take(&mut self.connections, own(refused.into_response()));
        }
        let foreign = |group_id: &str| !self.coordinates(group_id);
        if let Some(error) = refusal::error_of_whole(&request, call.version, foreign) {
            let Some(mut response) = refusal::whole(&request, call.version, error) else { return };
            refused.into_iter().for_each(|refused| refused.merge_into(&mut response));
            return take(&mut self.connections, own(response));
        }
        self.coordinate(id, call, request, refused, take);
    }

    fn coordinate(
        &mut self,
        id: ConnectionId,
        call: &Call<'_>,
        request: Request<'_>,
        refused: Option<Refused>,
        take: impl FnMut(&mut Connections, Answer<'_>),
    ) {
        let Some(host) = self.connections.get(id).map(|c| c.host.clone()) else { return };
        let caller = Caller {
            request: call.request,
            api_version: call.version,
            client_id: &call.client_id,
            client_host: &host,
        };
        let mut output =
            self.groups.handle(self.times(), self.ids.as_mut(), &*self.image, caller, request);
        if let Some(refusal) = self.groups.coordinator.take_refusal() {
            let (words, max) = (refusal.words(), GROUPS_MAX);
            let words = format_args!(
                "a client at {host} could not create a group: {words} Of {max}, there are {}",
                self.groups.coordinator.groups()
            );
            self.request_error("groups", words);
        }
        if let Some(refused) = refused {
            let own = output.answers.iter_mut().find(|answer| answer.request == call.request);
            if let Some(answer) = own {
                refused.merge_into(&mut answer.response);
            }
        }
        self.write(output, take);
    }

    /// Takes out of a request the groups of other shards, and the topics and partitions that do not exist.
    fn take_refused(&self, request: &mut Request<'_>, version: i16) -> Option<Refused> {
        let foreign = |group_id: &str| !self.coordinates(group_id);
        match request {
            Request::OffsetFetch(body) if version >= 8 => refusal::fetch(body, foreign),
            Request::DescribeGroups(body) => refusal::describe(body, foreign),
            Request::ConsumerGroupDescribe(body) => {
                refusal::describe_consumer(body, ErrorCode::NotCoordinator, foreign)
            }
            Request::DeleteGroups(body) => refusal::delete(body, foreign),
            Request::OffsetCommit(body) => Some(absent::commit(body, version, &*self.image)),
            Request::OffsetDelete(body) => Some(absent::offset_delete(body, &*self.image)),
            _ => None,
        }
    }

    /// Does what groups have due, as far as all has been handled that came before.
    pub(crate) fn groups_expire(&mut self) {
        let (now, wall) = (self.heard, self.wall);
        if self.groups.is_expiry_due(now) {
            let times = Times { now, wall };
            let output = self.groups.expire(times, self.ids.as_mut(), &*self.image);
            self.apply(output);
        }
    }

    /// Writes the records of an output, then lets its answers go as far as they may.
    pub(crate) fn apply(&mut self, output: Output<'_>) {
        self.write(output, Connections::take_answer);
    }

    /// Writes the records of an output; `take` is given its answers, each with the position that it
    /// waits for.
    fn write(&mut self, output: Output<'_>, mut take: impl FnMut(&mut Connections, Answer<'_>)) {
        let position = self.groups.next_position();
        let (last, failed) = match self.groups.append(self.now, &output.records) {
            Ok(last) => (last, false),
            Err(refused) => {
                let words = format_args!("records were not written: {}", refused.error);
                self.request_error("write", words);
                let (times, ids) = (self.times(), self.ids.as_mut());
                let records = &output.records[refused.written..];
                let dismissed = self.groups.not_written(times, ids, &*self.image, records);
                let take = |answer| take(&mut self.connections, answer);
                dismissed.answers.into_iter().for_each(take);
                // Nothing has the position that they would have had.
                (self.groups.last_position(), true)
            }
        };
        for mut answer in output.answers {
            if failed {
                refusal::fail(&mut answer.response, ErrorCode::UnknownServerError);
            }
            // Of a call that wrote to several groups the answer waits for the last.
            if answer.visible_at == position {
                answer.visible_at = last;
            }
            take(&mut self.connections, answer);
        }
    }

    fn coordinates(&self, group_id: &str) -> bool {
        self.common.placement.group_shard(group_id) == self.number
    }
}

/// `group.coordinator.rebalance.protocols` leaves it out.
fn refuse_protocol(version: i16, request: &mut Request<'_>) -> Response<'static> {
    let error = ErrorCode::UnsupportedVersion;
    let response = match request {
        Request::ConsumerGroupDescribe(body) => {
            refusal::describe_consumer(body, error, |_| true).map(Refused::into_response)
        }
        other => refusal::whole(other, version, error),
    };
    // Of a request for nothing nothing is refused.
    response.unwrap_or_else(|| ConsumerGroupDescribeResponse::default().into())
}
