//! Requests of a shard that are with the controller, and their limits: they take memory in its
//! mailbox, even after their clients have gone.

use super::missing_topics::MissingTopics;
use super::producer_ids::{ProducerIds, refused};
use crate::dispatch::Call;
use crate::event::Command;
use crate::mailbox::{AdminRequest, Created, Message};
use crate::net::Connections;
use crate::placement::CONTROLLER;
use crate::quotas::Limit;
use crate::security::Principal;
use muster_codec::ApiKey;
use muster_codec::messages::InitProducerIdRequest;
use muster_coordinator::{EVENT_NAME_BYTES_MAX, MissingTopic, RequestId};
use std::collections::HashMap;
use std::sync::Arc;

/// The bytes of requests of a shard that wait for the controller: far more than clients send that
/// wait for their answers.
const ADMIN_BYTES_MAX: usize = 32 << 20;

/// The messages with names of topics to create that wait for the controller; each has the names of
/// one request.
const AUTO_CREATES_MAX: usize = 64;

/// The requests of a shard to the controller.
#[derive(Debug, Default)]
pub(crate) struct ToController {
    shard: u32,
    /// The lengths of requests without an answer.
    admin: HashMap<RequestId, usize>,
    admin_bytes: usize,
    auto_creates: usize,
    missing: MissingTopics,
    producer_ids: ProducerIds,
}

impl ToController {
    pub(crate) fn new(shard: u32) -> Self {
        Self { shard, ..Self::default() }
    }

    /// Sends a request that changes the cluster: the controller's log is the one that all obey.
    /// False if too many wait there.
    pub(crate) fn ask(
        &mut self,
        call: &Call<'_>,
        api: ApiKey,
        (host, principal, limit): (Arc<str>, Principal, Option<Limit>),
        out: &mut Vec<Command>,
    ) -> bool {
        if !self.add_admin(call.request, call.body.len()) {
            return false;
        }
        let (version, body) = (call.version, call.body.to_vec());
        let client_id = &*call.client_id;
        let client_id = client_id[..client_id.floor_char_boundary(EVENT_NAME_BYTES_MAX)].into();
        let admin =
            Box::new(AdminRequest { api, version, host, principal, client_id, limit, body });
        send(Message::Admin { from: self.shard, request: call.request, admin }, out);
        true
    }

    /// Has topics created that a request named. If too many such messages wait, its client has to
    /// name them again, as it does until they are there.
    pub(crate) fn create_topics(
        &mut self,
        topics: Vec<String>,
        host: Arc<str>,
        out: &mut Vec<Command>,
    ) {
        if self.add_auto_create() {
            send(Message::AutoCreate { from: self.shard, topics, host }, out);
        }
    }

    /// Has topics created that a streams group or a share group lacks, except for those that are
    /// under way or have failed of late. False if none of them is under way then.
    pub(crate) fn create_missing(
        &mut self,
        now: i64,
        missing: &[MissingTopic],
        client: (Option<Limit>, i64),
        out: &mut Vec<Command>,
    ) -> bool {
        if let Some(creation) = self.missing.ask(now, missing, client) {
            let creation = Box::new(creation);
            send(Message::CreateMissing { from: self.shard, creation }, out);
        }
        self.missing.are_under_way(missing)
    }

    pub(crate) fn missing_created(&mut self, now: i64, created: Created) {
        self.missing.created(now, created);
    }

    /// The internal topics of a streams group whose creation has failed of late, with the reason.
    pub(crate) fn failed_creations<'m>(
        &'m self,
        now: i64,
        missing: &'m [MissingTopic],
    ) -> impl Iterator<Item = (&'m str, &'m str)> {
        self.missing.failed(now, missing)
    }

    /// InitProducerId: answered from the block of ids that the shard has, or once the next one has
    /// come.
    pub(crate) fn init_producer_id(
        &mut self,
        call: &Call<'_>,
        body: &InitProducerIdRequest<'_>,
        answers: &mut Connections,
        out: &mut Vec<Command>,
    ) {
        match refused(body) {
            Some(response) => answers.answer_now(call.request, &response.into()),
            None => {
                self.producer_ids.wait(call.request);
                self.answer_waiting(answers, out);
            }
        }
    }

    /// The producer ids of the coordinators of transactions. [`Self::ask_for_ids`] follows.
    pub(crate) fn producer_ids(&mut self) -> &mut dyn muster_transactions::ProducerIds {
        &mut self.producer_ids
    }

    /// Asks for the next block of producer ids if one is needed.
    pub(crate) fn ask_for_ids(&mut self, out: &mut Vec<Command>) {
        if self.producer_ids.is_to_ask() {
            send(Message::ProducerIds { from: self.shard }, out);
        }
    }

    /// A block of producer ids has come.
    pub(crate) fn producer_ids_came(
        &mut self,
        (first, count): (i64, i32),
        answers: &mut Connections,
        out: &mut Vec<Command>,
    ) {
        self.producer_ids.came(first, count);
        self.answer_waiting(answers, out);
    }

    fn answer_waiting(&mut self, answers: &mut Connections, out: &mut Vec<Command>) {
        while let Some((request, response)) = self.producer_ids.next_answer() {
            answers.answer_now(request, &response.into());
        }
        self.ask_for_ids(out);
    }

    /// Adds a request; false if there are too many. A single one is always taken.
    fn add_admin(&mut self, request: RequestId, bytes: usize) -> bool {
        if !self.admin.is_empty() && self.admin_bytes + bytes > ADMIN_BYTES_MAX {
            return false;
        }
        self.admin.insert(request, bytes);
        self.admin_bytes += bytes;
        true
    }

    /// A request was answered, by this shard or by the failed one in whose place it is.
    pub(crate) fn admin_answered(&mut self, request: RequestId) {
        self.admin_bytes -= self.admin.remove(&request).unwrap_or(0);
        assert!(!self.admin.is_empty() || self.admin_bytes == 0, "the lengths add up");
    }

    fn add_auto_create(&mut self) -> bool {
        let may_add = self.auto_creates < AUTO_CREATES_MAX;
        self.auto_creates += usize::from(may_add);
        may_add
    }

    pub(crate) fn auto_create_taken(&mut self) {
        self.auto_creates = self.auto_creates.saturating_sub(1);
    }
}

fn send(message: Message, out: &mut Vec<Command>) {
    out.push(Command::Mail { to: CONTROLLER, message });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_up_to_their_limit_and_a_single_one_always() {
        let mut waiting = ToController::default();
        let of = |connection| RequestId { connection, sequence: 0 };
        assert!(waiting.add_admin(of(1), 2 * ADMIN_BYTES_MAX));
        assert!(!waiting.add_admin(of(2), 1));
        waiting.admin_answered(of(1));
        assert!(waiting.add_admin(of(2), ADMIN_BYTES_MAX) && !waiting.add_admin(of(3), 1));
        waiting.admin_answered(of(2));
        // Answers come in any order, and one may be to a request of the shard that failed before.
        assert!(waiting.add_admin(of(4), 5) && waiting.add_admin(of(5), 7));
        waiting.admin_answered(of(5));
        assert_eq!(waiting.admin_bytes, 5);
        waiting.admin_answered(of(2));
        waiting.admin_answered(of(4));
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
