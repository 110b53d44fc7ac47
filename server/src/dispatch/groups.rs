//! Requests of groups: those of this shard go to its coordinator; what it must not see is refused
//! here, as Kafka's broker does in front of its coordinator.

use super::Call;
use super::group_apis::{self, Front, Screened};
use crate::clock::Times;
use crate::net::{ConnectionId, Connections};
use crate::shard::Shard;
use muster_codec::{ErrorCode, GroupRequest, Response};
use muster_coordinator::limits::GROUPS_MAX;
use muster_coordinator::{Answer, Caller, Output};

impl Shard {
    pub(crate) fn group_request(
        &mut self,
        id: ConnectionId,
        call: &Call<'_>,
        request: GroupRequest<'_>,
    ) {
        self.group_answers(id, call, request, Connections::take_answer);
    }

    /// Handles a request; `take` is given the answers that there are now, to it and to others.
    pub(crate) fn group_answers(
        &mut self,
        id: ConnectionId,
        call: &Call<'_>,
        mut request: GroupRequest<'_>,
        mut take: impl FnMut(&mut Connections, Answer<'_>),
    ) {
        match self.screen(&mut request, call.version) {
            Screened::Passed => self.coordinate(id, call, request, None, take),
            Screened::InPart(refused) => self.coordinate(id, call, request, Some(refused), take),
            Screened::Refused(response) => {
                let answer = Answer { request: call.request, response, visible_at: 0 };
                take(&mut self.connections, answer);
            }
        }
    }

    /// Refuses what the coordinator must not see.
    fn screen(&self, request: &mut GroupRequest<'_>, version: i16) -> Screened {
        if !self.common.config.serves(request.api_key()) {
            let error = ErrorCode::UnsupportedVersion;
            return Screened::Refused(group_apis::refused(request, version, error));
        }
        let is_foreign = |group_id: &str| !self.coordinates(group_id);
        let front = Front { version, topics: &*self.image, is_foreign: &is_foreign };
        group_apis::screen(request, &front)
    }

    fn coordinate(
        &mut self,
        id: ConnectionId,
        call: &Call<'_>,
        request: GroupRequest<'_>,
        refused: Option<Response<'static>>,
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
        self.report_refusal(&host);
        let own = output.answers.iter_mut().find(|answer| answer.request == call.request);
        if let Some((own, refused)) = own.zip(refused) {
            group_apis::merge(&mut own.response, refused);
        }
        self.write(output, take);
    }

    fn report_refusal(&mut self, host: &str) {
        let Some(refusal) = self.groups.coordinator.take_refusal() else { return };
        let (words, max) = (refusal.words(), GROUPS_MAX);
        let words = format_args!(
            "a client at {host} could not create a group: {words} Of {max}, there are {}",
            self.groups.coordinator.groups()
        );
        self.request_error("groups", words);
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
                let error = ErrorCode::UnknownServerError;
                answer.response = group_apis::failed(answer.response, error);
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
