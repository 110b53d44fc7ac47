//! Requests of a shard that are with the controller, and their limits: they take memory in its
//! mailbox, also after their clients have gone.

use super::{AdminRequest, Message, Shard};
use crate::dispatch::Call;
use crate::net::ConnectionId;
use crate::placement::CONTROLLER;
use crate::shard::Command;
use muster_codec::ApiKey;
use muster_coordinator::RequestId;
use std::collections::VecDeque;
use std::sync::Arc;

/// The bytes of requests of a shard that wait for the controller: far more than clients send that
/// wait for their answers.
const ADMIN_BYTES_MAX: usize = 32 << 20;

/// The messages with names of topics to create that wait for the controller; each has the names of
/// one request.
const AUTO_CREATES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct ToController {
    /// The lengths of requests without an answer, in order, as the controller answers them.
    admin: VecDeque<usize>,
    admin_bytes: usize,
    auto_creates: usize,
}

impl ToController {
    /// Adds a request; false if there are too many. A single one is always taken.
    fn add_admin(&mut self, bytes: usize) -> bool {
        if !self.admin.is_empty() && self.admin_bytes + bytes > ADMIN_BYTES_MAX {
            return false;
        }
        self.admin.push_back(bytes);
        self.admin_bytes += bytes;
        true
    }

    /// A request was answered, by this shard or by the failed one in whose place it is.
    pub(super) fn admin_answered(&mut self) {
        self.admin_bytes -= self.admin.pop_front().unwrap_or(0);
        assert!(!self.admin.is_empty() || self.admin_bytes == 0, "the lengths add up");
    }

    fn add_auto_create(&mut self) -> bool {
        let may_add = self.auto_creates < AUTO_CREATES_MAX;
        self.auto_creates += usize::from(may_add);
        may_add
    }

    pub(super) fn auto_create_taken(&mut self) {
        self.auto_creates = self.auto_creates.saturating_sub(1);
    }
}

impl Shard {
    /// Only the controller changes the cluster: its log is the one that all obey.
    pub(crate) fn ask_controller(&mut self, call: &Call<'_>, api: ApiKey) {
        let (from, request) = (self.number, call.request);
        let Some(host) = self.host(request) else { return };
        if !self.to_controller.add_admin(call.body.len()) {
            let reason = "too many requests wait for the controller";
            return self.close(ConnectionId(request.connection), reason.to_owned());
        }
        let admin = AdminRequest { api, version: call.version, host, body: call.body.to_vec() };
        self.connections.hold(request);
        self.send_to_controller(Message::Admin { from, request, admin });
    }

    /// Has topics created that a request named. If too many such messages wait, its client has to
    /// name them again, as it does until they are there.
    pub(crate) fn create_topics(&mut self, request: RequestId, topics: Vec<String>) {
        let Some(host) = self.host(request).filter(|_| !topics.is_empty()) else { return };
        if self.to_controller.add_auto_create() {
            let from = self.number;
            self.send_to_controller(Message::AutoCreate { from, topics, host });
        }
    }

    pub(crate) fn send_to_controller(&mut self, message: Message) {
        self.commands.push(Command::Mail { to: CONTROLLER, message });
    }

    /// The address of the client that sent a request.
    pub(crate) fn host(&self, request: RequestId) -> Option<Arc<str>> {
        let connection = self.connections.get(ConnectionId(request.connection));
        connection.map(|connection| connection.host.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_up_to_their_limit_and_a_single_one_always() {
        let mut waiting = ToController::default();
        assert!(waiting.add_admin(2 * ADMIN_BYTES_MAX));
        assert!(!waiting.add_admin(1));
        waiting.admin_answered();
        assert!(waiting.add_admin(ADMIN_BYTES_MAX) && !waiting.add_admin(1));
        // An answer to a request of the shard that failed before.
        waiting.admin_answered();
        waiting.admin_answered();
        assert_eq!((waiting.admin.len(), waiting.admin_bytes), (0, 0));
    }

    #[test]
    fn names_of_topics_wait_up_to_their_limit() {
        let mut waiting = ToController::default();
        assert!((0..AUTO_CREATES_MAX).all(|_| waiting.add_auto_create()));
        assert!(!waiting.add_auto_create());
        waiting.auto_create_taken();
        assert!(waiting.add_auto_create());
    }
}
