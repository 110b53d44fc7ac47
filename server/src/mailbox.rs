//! Messages to a shard: from other shards, and from the other threads of the process.
//!
//! Records and commits stay on the shard to which a client sends them. Some requests wait for
//! another shard: changes of the cluster for the controller ([`Message::Admin`]), the first batch
//! and the offsets of a transaction for its coordinator ([`Message::Letters`]), and requests for
//! the offsets of share groups, or for their deletion, for the leaders of the partitions
//! ([`Message::StateQuestion`]). Dead letters of share groups go to the leaders of their queues
//! ([`Message::DeadLetters`]).

use crate::backup::BackupOrder;
use crate::cluster::{self, ClusterImage, OfflineList};
use crate::inquiry::Inquiry;
use crate::partitions::LettersEnd;
use crate::quotas::Limit;
use crate::report::Report;
use crate::security::{Principal, TokenKeys};
use crate::telemetry::Pushed;
use crossbeam_channel::Sender;
use muster_codec::{ApiKey, ControllerResponse, ErrorCode, Uuid};
use muster_coordinator::{MissingTopic, RequestId, StateRequest, StateResult};
use muster_fairness::Address;
use muster_tls::Tls;
use muster_transactions::message::{FromSlot, ToSlot, ToSlotBody};
use muster_uring::Waker;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Kafka's words for UNKNOWN_SERVER_ERROR.
const NOT_WRITTEN: &str = "The server experienced an unexpected error when processing the request.";

/// A request that only the controller, shard 0, can decide. The body is unchanged.
#[derive(Debug)]
pub struct AdminRequest {
    pub api: ApiKey,
    pub version: i16,
    /// The address of the client in Kafka's form.
    pub host: Arc<str>,
    pub principal: Principal,
    /// The id of the client; a long one is cut.
    pub client_id: Box<str>,
    /// The quota of the client's changes.
    pub limit: Option<Limit>,
    pub body: Vec<u8>,
}

/// Internal topics of a streams group that are to be created for one of its members.
#[derive(Debug)]
pub struct Creation {
    pub(crate) topics: Vec<MissingTopic>,
    /// The quota of the client's changes.
    pub(crate) limit: Option<Limit>,
    /// How long to wait before topics that could not be created are tried again.
    pub(crate) retry_ms: i64,
}

/// The outcome of a [`Creation`].
#[derive(Debug)]
pub struct Created {
    pub(crate) topics: Vec<Arc<str>>,
    /// The topics that were not created, with the reason.
    pub(crate) failed: Vec<(Arc<str>, String)>,
    pub(crate) retry_ms: i64,
}

/// A message to a shard.
#[derive(Debug)]
pub enum Message {
    /// To the controller: decide this; the answer goes to shard `from`.
    Admin { from: u32, request: RequestId, admin: Box<AdminRequest> },
    /// From the controller: the response to one of the shard's clients.
    AdminAnswer { request: RequestId, response: Box<ControllerResponse<'static>> },
    /// To the controller: a client of shard `from` named topics that do not exist.
    AutoCreate { from: u32, topics: Vec<String>, host: Arc<str> },
    /// From the controller: it has taken an `AutoCreate` of this shard out of its mailbox.
    AutoCreateTaken,
    /// To the controller: a streams group of shard `from` lacks topics.
    CreateMissing { from: u32, creation: Box<Creation> },
    /// From the controller: these topics are in the image that was sent before, or could not be
    /// created.
    MissingCreated(Created),
    /// To the controller: shard `from` needs a block of producer ids.
    ProducerIds { from: u32 },
    /// From the controller: producer ids from `first`, `count` of them.
    ProducerIdBlock { first: i64, count: i32 },
    /// From the controller: the new image of the cluster.
    Image(Arc<ClusterImage>),
    /// To the controller: clients of shard `by` now have the permissions of the image with this
    /// version of access. No client uses older permissions any longer.
    AccessTaken { by: u32, version: i64 },
    /// To the controller: shard `from` has removed the offsets of all topics that were deleted up
    /// to this version of the image.
    Forgotten { from: u32, version: i64 },
    /// To all shards: all offline partitions of shard `from`.
    Offline { from: u32, partitions: OfflineList },
    /// Messages of the coordinators of transactions and the slots of shard `from`.
    Letters { from: u32, letters: Vec<Letter> },
    /// Shard `by` has taken letters out of its mailbox: their number and bytes.
    LettersTaken { by: u32, letters: usize, bytes: usize },
    /// From the coordinator of a share group: a question about share state on this shard.
    StateQuestion(StateQuestion),
    /// The answer to a `StateQuestion`.
    StateAnswer(StateAnswer),
    /// From the leader of a partition of a share group: records for the group's dead letter queue,
    /// whose partition this shard leads.
    DeadLetters(DeadLetters),
    /// The answer to `DeadLetters`.
    DeadLettersAdded(DeadLettersAdded),
    /// To the controller: the outcome of a check of certificates, with the reason for each shard
    /// whose certificates are refused.
    CertificatesChecked { number: u64, refused: BTreeMap<u32, String> },
    /// For the reactor: the TLS of each listener, None for one without.
    Tls(Arc<[Option<Tls>]>),
    /// From the telemetry thread: the outcome of a push.
    Pushed(Pushed),
    /// The current keys by which tokens are checked.
    TokenKeys(TokenKeys),
    /// For the reactor: send copies of the shard's counters and gauges.
    Report(Sender<Report>),
    /// For the reactor, from the admin side: link the shard's files for a backup.
    BackUp(BackupOrder),
    /// From the admin side.
    Inquiry(Inquiry),
    /// From the operator: finish pending requests and end.
    Stop,
}

/// The way to reach another shard.
#[derive(Debug, Clone)]
pub struct Peer {
    pub sender: Sender<Message>,
    pub waker: Waker,
}

impl Peer {
    /// Sends a message. If the shard has ended, the message is dropped: the process is ending.
    pub fn send(&self, message: Message) {
        if self.sender.send(message).is_ok() {
            self.waker.wake();
        }
    }
}

/// A message between a coordinator of transactions and a slot. `coordinator` is the coordinator's
/// partition of `__transaction_state`.
#[derive(Debug)]
pub enum Letter {
    ToSlot { coordinator: u32, message: ToSlot },
    ToCoordinator { coordinator: u32, message: FromSlot },
}

/// A request of the coordinator of a share group, for the leader of some of its partitions.
#[derive(Debug)]
pub struct StateQuestion {
    /// The shard of the coordinator, and the number of this question there.
    pub(crate) from: u32,
    pub(crate) number: u64,
    pub(crate) group_id: Arc<str>,
    pub(crate) request: StateRequest,
}

/// Results of a [`StateQuestion`].
#[derive(Debug)]
pub struct StateAnswer {
    pub(crate) to: u32,
    pub(crate) number: u64,
    pub(crate) results: Vec<StateResult>,
    /// Whether no results of this shard follow.
    pub(crate) is_last: bool,
}

/// A batch of dead letters for the leader of a partition of their queue.
#[derive(Debug)]
pub struct DeadLetters {
    /// The shard of the share partition, and the number of this batch there.
    pub(crate) from: u32,
    pub(crate) number: u64,
    /// The address of the member whose share of limits the batch uses.
    pub(crate) address: Address,
    pub(crate) topic_id: Uuid,
    pub(crate) partition: i32,
    pub(crate) batch: Vec<u8>,
}

/// The answer to [`DeadLetters`].
#[derive(Debug)]
pub struct DeadLettersAdded {
    pub(crate) number: u64,
    pub(crate) end: LettersEnd,
}

impl Letter {
    /// The approximate bytes of memory that the letter takes.
    pub(crate) fn bytes(&self) -> usize {
        let held = match self {
            Self::ToSlot { message, .. } => match &message.body {
                ToSlotBody::ReportWanted { .. } => 0,
                ToSlotBody::Reported(reported) => size_of_val(&reported.known[..]),
                ToSlotBody::Verdict(verdict) => verdict.refused.bytes(),
                ToSlotBody::Sync(sync) => sync.partitions.bytes(),
                ToSlotBody::Marker(marker) => marker.partitions.bytes(),
            },
            Self::ToCoordinator { message, .. } => match message {
                FromSlot::Report(report) => size_of_val(&report.open[..]),
                FromSlot::Question(question) => {
                    question.transactional_id.len() + question.partitions.bytes()
                }
                FromSlot::Synced { partitions, .. } | FromSlot::Marked { partitions, .. } => {
                    partitions.bytes()
                }
            },
        };
        size_of::<Self>() + held
    }
}

impl Message {
    /// Turns the message into an error: the change was not made durable.
    pub(crate) fn fail(&mut self) {
        match self {
            Self::AdminAnswer { response, .. } => {
                cluster::fail(response, ErrorCode::UnknownServerError);
            }
            Self::ProducerIdBlock { count, .. } => *count = 0,
            Self::MissingCreated(Created { topics, failed, .. }) => {
                let failure = |topic: &Arc<str>| (topic.clone(), NOT_WRITTEN.to_owned());
                *failed = topics.iter().map(failure).collect();
            }
            Self::Admin { .. }
            | Self::AutoCreate { .. }
            | Self::AutoCreateTaken
            | Self::CreateMissing { .. }
            | Self::ProducerIds { .. }
            | Self::Image(_)
            | Self::AccessTaken { .. }
            | Self::Forgotten { .. }
            | Self::Offline { .. }
            | Self::Letters { .. }
            | Self::LettersTaken { .. }
            | Self::StateQuestion(_)
            | Self::StateAnswer(_)
            | Self::DeadLetters(_)
            | Self::DeadLettersAdded(_)
            | Self::CertificatesChecked { .. }
            | Self::Tls(_)
            | Self::TokenKeys(_)
            | Self::Pushed(_)
            | Self::Report(_)
            | Self::BackUp(_)
            | Self::Inquiry(_)
            | Self::Stop => {}
        }
    }
}
