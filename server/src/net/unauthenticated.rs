//! Clients that are not authenticated, ordered by the time at which each has to be closed.

use super::ConnectionId;
use super::limits::{AUTHENTICATION_PATIENCE_MS, UNAUTHENTICATED_MAX};
use crate::clock::earliest;
use muster_codec::Response;
use muster_coordinator::RequestId;
use std::collections::VecDeque;

/// The reason for closing the connection of a client that failed. The log has details (target
/// `audit`).
pub(crate) const NOT_AUTHENTICATED: &str = "its authentication failed";

/// Clients that are not authenticated.
#[derive(Debug, Default)]
pub(super) struct Unauthenticated {
    /// The clients in the order of arrival. Some are authenticated by now, or gone.
    waiting: VecDeque<(i64, ConnectionId)>,
    failed: VecDeque<Failed>,
}

/// A client that failed to authenticate: at the time `at` its answer is sent and its connection is
/// closed.
#[derive(Debug)]
pub(super) struct Failed {
    pub at: i64,
    pub id: ConnectionId,
    pub answer: Option<(RequestId, Response<'static>)>,
}

impl Unauthenticated {
    /// Adds a new client. If there are too many, returns the oldest one, which must be closed.
    /// `is_here` returns whether a client's connection is open and not authenticated yet.
    pub(super) fn add(
        &mut self,
        now: i64,
        id: ConnectionId,
        is_here: impl Fn(ConnectionId) -> bool,
    ) -> Option<ConnectionId> {
        self.waiting.push_back((now, id));
        if self.waiting.len() > UNAUTHENTICATED_MAX {
            self.waiting.retain(|(_, id)| is_here(*id));
        }
        let are_too_many = self.waiting.len() > UNAUTHENTICATED_MAX;
        let first = if are_too_many { self.waiting.pop_front() } else { None };
        first.map(|(_, id)| id)
    }

    /// Adds a client that failed. If there are too many, returns the oldest one, which must be
    /// closed now.
    pub(super) fn fail(&mut self, failed: Failed) -> Option<Failed> {
        self.failed.push_back(failed);
        let are_too_many = self.failed.len() > UNAUTHENTICATED_MAX;
        if are_too_many { self.failed.pop_front() } else { None }
    }

    /// The next client that failed and has to go now.
    pub(super) fn next_failed(&mut self, now: i64) -> Option<Failed> {
        self.failed.pop_front_if(|failed| failed.at <= now)
    }

    /// The next client that has taken too long. All input that arrived before `handled_until` was
    /// handled, so no input of a client that is in time is overlooked.
    pub(super) fn next_overdue(&mut self, handled_until: i64) -> Option<ConnectionId> {
        let began = handled_until - AUTHENTICATION_PATIENCE_MS;
        self.waiting.pop_front_if(|(at, _)| *at <= began).map(|(_, id)| id)
    }

    /// When the next client has to go.
    pub(super) fn deadline(&self) -> Option<i64> {
        let failed = self.failed.front().map(|failed| failed.at);
        let overdue = self.waiting.front().map(|(at, _)| at + AUTHENTICATION_PATIENCE_MS + 1);
        earliest([failed, overdue])
    }
}
