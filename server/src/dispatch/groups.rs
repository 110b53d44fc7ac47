//! Requests of groups: those of this shard go to its coordinator; what it must not see is refused
//! here, as Kafka's broker does in front of its coordinator.

use super::Call;
use super::refusal::{self, Refused};
use crate::clock::Times;
use crate::net::ConnectionId;
use crate::shard::Shard;
use muster_codec::{ErrorCode, Request};
use muster_coordinator::limits::GROUPS_MAX;
use muster_coordinator::{Caller, Output};

impl Shard {
    pub(crate) fn group_request(
        &mut self,
        id: ConnectionId,
        call: &Call<'_>,
        mut request: Request<'_>,
    ) {
        if let Some(group_id) = refusal::single_group(&request, call.version)
            && !self.coordinates(group_id)
        {
            let error = ErrorCode::NotCoordinator;
            let Some(response) = refusal::whole(&request, call.version, error) else { return };
            return self.connections.answer(call.request, &response, 0);
        }
        match self.take_refused(&mut request, call.version) {
            Some(refused) if refusal::is_empty(&request) => {
                self.connections.answer(call.request, &refused.into_response(), 0);
            }
            refused => self.coordinate(id, call, request, refused),
        }
    }

    fn coordinate(
        &mut self,
        id: ConnectionId,
        call: &Call<'_>,
        request: Request<'_>,
        refused: Option<Refused>,
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
        if let Some(no_room) = self.groups.coordinator.take_no_room() {
            let (words, max) = (no_room.words(), GROUPS_MAX);
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
        self.apply(output);
    }

    /// Takes out of a request the groups of other shards and the topics that do not exist.
    fn take_refused(&self, request: &mut Request<'_>, version: i16) -> Option<Refused> {
        let foreign = |group_id: &str| !self.coordinates(group_id);
        let unknown = |name: &str| self.image.topic(name).is_none();
        match request {
            Request::OffsetFetch(body) if version >= 8 => refusal::fetch(body, foreign),
            Request::DescribeGroups(body) => refusal::describe(body, foreign),
            Request::ConsumerGroupDescribe(body) => refusal::describe_consumer(body, foreign),
            Request::DeleteGroups(body) => refusal::delete(body, foreign),
            Request::OffsetCommit(body) if version < 10 => refusal::commit(body, unknown),
            Request::OffsetDelete(body) => refusal::offset_delete(body, unknown),
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
        let position = self.groups.next_position();
        let (last, failed) = match self.groups.append(self.now, &output.records) {
            Ok(last) => (last, false),
            Err(error) => {
                let words = format_args!("records of a request were not written: {error}");
                self.request_error("write", words);
                self.groups.not_written(&output.records);
                // Nothing has the position that they would have had.
                (self.groups.last_position(), true)
            }
        };
        for mut answer in output.answers {
            if failed {
                refusal::fail(&mut answer.response, ErrorCode::UnknownServerError);
            }
            // Of a call that wrote to several groups the answer waits for the last.
            let visible_at = if answer.visible_at == position { last } else { answer.visible_at };
            self.connections.answer(answer.request, &answer.response, visible_at);
        }
    }

    fn coordinates(&self, group_id: &str) -> bool {
        self.common.placement.group_shard(group_id) == self.number
    }
}
