//! Long requests: those whose answer takes longer than a slice. A shard answers one at a time,
//! because an answer takes memory while it is gathered; the others wait in the input of their
//! connections, in order of arrival.
//!
//! [`LongRequests`] is sans-I/O. Its inputs are
//! - a request that [`is_long`], when no other is under way ([`LongRequests::begin`]);
//! - for each slice, the [`Sources`] of its answer ([`LongRequests::answer_slice`]). The last slice
//!   passes the whole answer to the connections;
//! - connections that were closed ([`LongRequests::connection_closed`]).
//!
//! Invariants:
//! - The topics and configs of an answer are those of one image, that of its first slice.
//! - An answer and the rest of its request ([`LongRequests::held`] returns their bytes) are within
//!   the budget of one answer: elements that exceed it become errors.
//!
//! `apis/` has a file for each API with long requests, and the table of them.

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
use crate::net::{ConnectionId, Connections};
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

/// The long request under way.
#[derive(Debug)]
struct LongRequest {
    rest: Box<dyn Rest>,
    /// The topics and configs of the whole answer.
    image: Arc<ClusterImage>,
    answer: Answer,
}

impl LongRequests {
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Begins a request of a connection. If its API has no long requests, returns None and does
    /// nothing.
    pub(crate) fn begin(
        &mut self,
        (connection, header): (ConnectionId, &RequestHeader<'_>),
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
        self.under_way = Some(LongRequest { rest, image, answer });
        Some(asked)
    }

    /// Has the answer to the request under way changed before it leaves.
    pub(crate) fn amend(&mut self, request: RequestId, amendment: Option<Amendment>) {
        let under_way = self.under_way.as_mut().filter(|it| it.answer.request() == request);
        if let Some(under_way) = under_way {
            under_way.answer.amend(amendment);
        }
    }

    /// Answers the next slice of the request under way; None if there is no such request.
    pub(crate) fn answer_slice(&mut self, sources: Sources<'_>) -> Option<SliceEffects> {
        let LongRequest { rest, image, answer } = self.under_way.as_mut()?;
        let Sources { groups, transactions, mut inputs, view, clients } = sources;
        let view = View { image, ..view };
        let sources = Sources { groups, transactions, inputs: inputs.again(), view, clients };
        let mut slice = Slice::new(sources, answer);
        rest.answer_slice(&mut slice);
        let answered = slice.answered();
        if rest.is_empty() {
            self.under_way = None;
        }
        Some(answered)
    }

    /// The request under way.
    pub(crate) fn request(&self) -> Option<RequestId> {
        self.under_way.as_ref().map(|it| it.answer.request())
    }

    /// Its connection.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        self.request().map(|request| ConnectionId(request.connection))
    }

    /// Bytes held for the request under way.
    pub(crate) fn held(&self) -> usize {
        self.under_way.as_ref().map_or(0, |it| it.rest.held() + it.answer.held())
    }

    /// Drops the request of a closed connection.
    pub(crate) fn connection_closed(&mut self, id: ConnectionId) {
        self.under_way.take_if(|it| it.answer.request().connection == id.0);
    }
}
