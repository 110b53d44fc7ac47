//! Sends a shard's requests to the controller and limits them. The limits are needed because a
//! request takes memory in the controller's mailbox even after its client has gone.

use super::missing_topics::MissingTopics;
use super::producer_ids::{ProducerIds, refused};
use crate::dispatch::Call;
use crate::event::Command;
use crate::mailbox::{AdminRequest, Created, ToController};
use crate::net::Connections;
use crate::placement::CONTROLLER;
use crate::quotas::Limit;
use crate::security::Principal;
use muster_codec::messages::{InitProducerIdRequest, InitProducerIdResponse};
use muster_codec::{ApiKey, ErrorCode};
use muster_coordinator::{EVENT_NAME_BYTES_MAX, MissingTopic, RequestId};
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum total size of requests that the shard has sent and the controller has not answered.
/// Clients that wait for each answer before they send the next request do not reach it.
const ADMIN_BYTES_MAX: usize = 32 << 20;

/// The maximum number of messages that name topics to create and wait for the controller. Each
/// message has the names of one request.
const AUTO_CREATES_MAX: usize = 64;

/// A shard's requests to the controller.
#[derive(Debug, Default)]
pub(crate) struct ControllerRequests {
    shard: u32,
    /// The lengths of unanswered requests.
    admin: HashMap<RequestId, usize>,
    admin_bytes: usize,
    auto_creates: usize,
    missing: MissingTopics,
    producer_ids: ProducerIds,
}

impl ControllerRequests {
    pub(crate) fn new(shard: u32) -> Self {
        Self { shard, ..Self::default() }
    }

    /// Sends the controller a request that changes the cluster, as only the controller's log has
    /// such changes. Returns false if too many requests of this shard are not answered yet.
    pub(crate) fn ask(
        &mut self,
        call: &Call<'_>,
        api: ApiKey,
        host: Arc<str>,
        principal: Principal,
        limit: Option<Limit>,
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
        send(ToController::Admin { from: self.shard, request: call.request, admin }, out);
        true
    }

    /// Asks the controller to create topics that a client named in a request. If too many such
    /// messages wait already, drops this one: the client repeats the names until the topics exist.
    pub(crate) fn create_topics(
        &mut self,
        topics: Vec<String>,
        host: Arc<str>,
        out: &mut Vec<Command>,
    ) {
        if self.add_auto_create() {
            send(ToController::AutoCreate { from: self.shard, topics, host }, out);
        }
    }

    /// Requests the creation of topics that are missing for a streams group or a share group,
    /// except for topics whose creation is under way or failed recently. Returns whether the
    /// creation of any of the topics is then under way.
    pub(crate) fn create_missing(
        &mut self,
        now: i64,
        missing: &[MissingTopic],
        limit: Option<Limit>,
        retry_ms: i64,
        out: &mut Vec<Command>,
    ) -> bool {
        if let Some(creation) = self.missing.ask(now, missing, limit, retry_ms) {
            let creation = Box::new(creation);
            send(ToController::CreateMissing { from: self.shard, creation }, out);
        }
        self.missing.are_under_way(missing)
    }

    pub(crate) fn missing_created(&mut self, now: i64, created: Created) {
        self.missing.created(now, created);
    }

    /// The missing topics of a group whose creation failed recently, with the reason.
    pub(crate) fn failed_creations<'m>(
        &'m self,
        now: i64,
        missing: &'m [MissingTopic],
    ) -> impl Iterator<Item = (&'m str, &'m str)> {
        self.missing.failed(now, missing)
    }

    /// Answers InitProducerId from the shard's block of ids, or once the next block has come.
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

    /// The producer ids from which coordinators of transactions take theirs. Call
    /// [`Self::ask_for_ids`] after they have.
    pub(crate) fn producer_ids(&mut self) -> &mut dyn muster_transactions::ProducerIds {
        &mut self.producer_ids
    }

    /// Requests the next block of producer ids if one is needed.
    pub(crate) fn ask_for_ids(&mut self, out: &mut Vec<Command>) {
        if self.producer_ids.is_to_ask() {
            send(ToController::ProducerIds { from: self.shard }, out);
        }
    }

    /// Takes a block of producer ids, and answers requests that wait for one.
    pub(crate) fn producer_ids_came(
        &mut self,
        first: i64,
        count: i32,
        answers: &mut Connections,
        out: &mut Vec<Command>,
    ) {
        self.producer_ids.came(first, count);
        self.answer_waiting(answers, out);
    }

    /// Refuses the requests that wait for producer ids, because another node of the cluster
    /// allocates them. Clients try again, at any broker. The error is Kafka's for ids that have not
    /// come yet.
    pub(crate) fn no_producer_ids(&mut self, answers: &mut Connections) {
        let response = InitProducerIdResponse::refused(ErrorCode::CoordinatorLoadInProgress);
        let response = response.into();
        let waiting = self.producer_ids.did_not_come();
        waiting.into_iter().for_each(|request| answers.answer_now(request, &response));
    }

    fn answer_waiting(&mut self, answers: &mut Connections, out: &mut Vec<Command>) {
        while let Some((request, response)) = self.producer_ids.next_answer() {
            answers.answer_now(request, &response.into());
        }
        self.ask_for_ids(out);
    }

    /// Adds a request, unless the limit would be exceeded: then returns false. A request of any
    /// size is accepted if no other is unanswered.
    fn add_admin(&mut self, request: RequestId, bytes: usize) -> bool {
        if !self.admin.is_empty() && self.admin_bytes + bytes > ADMIN_BYTES_MAX {
            return false;
        }
        self.admin.insert(request, bytes);
        self.admin_bytes += bytes;
        true
    }

    /// Notes that a request was answered. Ignores a request that was sent before this shard failed
    /// and was loaded again.
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

fn send(message: ToController, out: &mut Vec<Command>) {
    out.push(Command::mail(CONTROLLER, message));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_up_to_their_limit_and_a_single_one_always() {
        let mut waiting = ControllerRequests::default();
        let of = |connection| RequestId { connection, sequence: 0 };
        assert!(waiting.add_admin(of(1), 2 * ADMIN_BYTES_MAX));
        assert!(!waiting.add_admin(of(2), 1));
        waiting.admin_answered(of(1));
        assert!(waiting.add_admin(of(2), ADMIN_BYTES_MAX) && !waiting.add_admin(of(3), 1));
        waiting.admin_answered(of(2));
        // Answers come in any order, and an answer may be to a request of the failed shard before
        // this one.
        assert!(waiting.add_admin(of(4), 5) && waiting.add_admin(of(5), 7));
        waiting.admin_answered(of(5));
        assert_eq!(waiting.admin_bytes, 5);
        waiting.admin_answered(of(2));
        waiting.admin_answered(of(4));
        assert_eq!((waiting.admin.len(), waiting.admin_bytes), (0, 0));
    }

    #[test]
    fn names_of_topics_wait_up_to_their_limit() {
        let mut waiting = ControllerRequests::default();
        assert!((0..AUTO_CREATES_MAX).all(|_| waiting.add_auto_create()));
        assert!(!waiting.add_auto_create());
        waiting.auto_create_taken();
        assert!(waiting.add_auto_create());
    }
}
