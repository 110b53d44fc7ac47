//! Long requests take longer to answer than a slice. A shard answers only one of them at a time,
//! because its partial answer uses memory. The others wait in the input of their connections, in
//! order of arrival.
//!
//! [`LongRequests`] is sans-I/O. Its inputs are
//! - a request that [`is_long`], while no other is in progress ([`LongRequests::begin`]);
//! - for each slice, the [`Sources`] of the answer ([`LongRequests::answer_slice`]). The last slice
//!   passes the whole answer to the connections;
//! - the answers that coordinators give later ([`LongRequests::reply`]). A slice waits for them;
//! - closed connections ([`LongRequests::connection_closed`]).
//!
//! Invariants:
//! - All topics and configs in an answer are from one image, the one at the first slice.
//! - The partial answer and the rest of the request together fit in the budget of one answer
//!   ([`LongRequests::held`] returns their size). An element that would exceed the budget becomes
//!   an error.
//!
//! `apis/` has the list of the APIs with long requests, and a file for each.
//!
//! A long request asks for groups or their offsets, topics, configs, resources with configs,
//! transactional ids or coordinators, or deletes groups. It is split into short requests, one for
//! each slice, and the elements of each short answer are encoded at once. Meanwhile no other
//! request of its connection is handled. Each group is answered once, with its state at the time of
//! its slice.
//!
//! Single items are not split. These are the description of one group (10,000 members: about 5 ms,
//! an estimate), the offsets of one group (a million: 0.2 s), a page of DescribeTopicPartitions,
//! and an OffsetFetch before version 8. The names in a request are also read and checked for
//! repetitions at once (130,000 names: about 10 ms, an estimate).

mod answer;
mod apis;
mod owned;
mod rest;
mod slice;
#[cfg(test)]
mod tests;
mod weight;

pub(crate) use apis::is_long;
pub(crate) use slice::{SliceEffects, Sources};
pub(crate) use weight::Sizes;

use crate::cluster::{ClusterImage, View};
use crate::dispatch::authorization::Amendment;
use crate::net::{ConnectionId, Connections, Reply};
use answer::Answer;
use muster_codec::Request;
use muster_codec::header::RequestHeader;
use muster_coordinator::RequestId;
use rest::Rest;
use slice::Slice;
use std::sync::Arc;

/// The long requests of a shard.
#[derive(Debug, Default)]
pub(crate) struct LongRequests {
    under_way: Option<LongRequest>,
}

/// The long request in progress.
#[derive(Debug)]
struct LongRequest {
    rest: Box<dyn Rest>,
    /// The source of all topics and configs in the answer.
    image: Arc<ClusterImage>,
    answer: Answer,
    /// Whether the coordinators answer the last slice later.
    is_waiting: bool,
}

impl LongRequests {
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether the request in progress waits for [`Self::reply`].
    pub(crate) fn is_waiting(&self) -> bool {
        self.under_way.as_ref().is_some_and(|it| it.is_waiting)
    }

    /// Begins to answer a long request. Returns None, and does nothing, if its API has no long
    /// requests.
    pub(crate) fn begin(
        &mut self,
        connection: ConnectionId,
        header: &RequestHeader<'_>,
        request: Request<'_>,
        image: Arc<ClusterImage>,
        connections: &mut Connections,
    ) -> Option<RequestId> {
        let version = header.api_version;
        let api = request.api_key();
        let layout = api.version(version).ok()?;
        let rest = apis::take_apart(request, version)?;
        let asked = connections.begin(connection, api, header.correlation_id, version);
        connections.hold(asked);
        let answer = Answer::new(asked, layout, rest.items(), rest.held());
        self.under_way = Some(LongRequest { rest, image, answer, is_waiting: false });
        Some(asked)
    }

    /// Sets how the answer to the request in progress is changed before it leaves.
    pub(crate) fn amend(&mut self, request: RequestId, amendment: Option<Amendment>) {
        let under_way = self.under_way.as_mut().filter(|it| it.answer.request() == request);
        if let Some(under_way) = under_way {
            under_way.answer.amend(amendment);
        }
    }

    /// Answers the next slice of the request in progress; None if there is none. The request must
    /// not be waiting.
    pub(crate) fn answer_slice(&mut self, sources: Sources<'_>) -> Option<SliceEffects> {
        let LongRequest { rest, image, answer, is_waiting } = self.under_way.as_mut()?;
        let Sources { groups, transactions, mut inputs, view, clients } = sources;
        let view = View { image, ..view };
        let sources = Sources { groups, transactions, inputs: inputs.again(), view, clients };
        let mut slice = Slice::new(sources, answer);
        rest.answer_slice(&mut slice);
        *is_waiting = slice.is_waiting();
        let answered = slice.answered();
        if rest.is_empty() && !*is_waiting {
            self.under_way = None;
        }
        Some(answered)
    }

    /// Takes an answer that coordinators give later: for the slice that waits for it, or for its
    /// connection.
    pub(crate) fn reply(&mut self, connections: &mut Connections, reply: Reply<'_>) {
        let is_awaited =
            |it: &&mut LongRequest| it.is_waiting && it.answer.request() == reply.request;
        let Some(LongRequest { rest, answer, is_waiting, .. }) =
            self.under_way.as_mut().filter(is_awaited)
        else {
            return connections.reply(reply);
        };
        *is_waiting = false;
        answer.wait_for(reply.visible_at);
        answer.add(connections, reply.response, rest.is_empty());
        if rest.is_empty() {
            self.under_way = None;
        }
    }

    /// The request in progress.
    pub(crate) fn request(&self) -> Option<RequestId> {
        self.under_way.as_ref().map(|it| it.answer.request())
    }

    /// The connection of the request in progress.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        self.request().map(|request| ConnectionId(request.connection))
    }

    /// The bytes that the request in progress uses.
    pub(crate) fn held(&self) -> usize {
        self.under_way.as_ref().map_or(0, |it| it.rest.held() + it.answer.held())
    }

    /// Drops the request in progress if its connection was closed.
    pub(crate) fn connection_closed(&mut self, id: ConnectionId) {
        self.under_way.take_if(|it| it.answer.request().connection == id.0);
    }
}
