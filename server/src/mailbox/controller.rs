//! Messages to the controller, shard 0, and its answers.

use crate::cluster;
use crate::quotas::Limit;
use crate::security::Principal;
use muster_codec::{ApiKey, ControllerResponse, ErrorCode};
use muster_coordinator::{MissingTopic, RequestId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Kafka's words for UNKNOWN_SERVER_ERROR.
const NOT_WRITTEN: &str = "The server experienced an unexpected error when processing the request.";

/// A message to the controller.
#[derive(Debug)]
pub enum ToController {
    /// Decide this request. Shard `from` gets the answer.
    Admin { from: u32, request: RequestId, admin: Box<AdminRequest> },
    /// A client of shard `from` named topics that do not exist.
    AutoCreate { from: u32, topics: Vec<String>, host: Arc<str> },
    /// A streams group or a share group of shard `from` lacks topics.
    CreateMissing { from: u32, creation: Box<Creation> },
    /// Shard `from` needs a block of producer ids.
    ProducerIds { from: u32 },
    /// Shard `by` now applies the access rights of the image with this version. None of its clients
    /// has older permissions any longer.
    AccessTaken { by: u32, version: i64 },
    /// Shard `from` has removed the offsets of all topics that were deleted up to this version of
    /// the image.
    Forgotten { from: u32, version: i64 },
    /// The outcome of a check of certificates, with the reason for each shard whose certificates
    /// are refused.
    CertificatesChecked { number: u64, refused: BTreeMap<u32, String> },
}

/// A message from the controller to a shard that has sent it a request.
#[derive(Debug)]
pub enum FromController {
    /// The response to one of the shard's clients.
    AdminAnswer { request: RequestId, response: Box<ControllerResponse<'static>> },
    /// The controller has taken an `AutoCreate` of this shard out of its mailbox.
    AutoCreateTaken,
    /// For each of these topics: it was created and is in an image that was sent before this
    /// message, or it could not be created.
    MissingCreated(Created),
    /// The shard may hand out `count` producer ids, the first of which is `first`.
    ProducerIdBlock { first: i64, count: i32 },
    /// In a cluster: another node allocates producer ids.
    NoProducerIds,
}

/// A request that only the controller, shard 0, can decide. `body` is as the client sent it.
#[derive(Debug)]
pub struct AdminRequest {
    pub api: ApiKey,
    pub version: i16,
    /// The address of the client in Kafka's form.
    pub host: Arc<str>,
    pub principal: Principal,
    /// The id of the client; a long id is cut.
    pub client_id: Box<str>,
    /// The quota of the client's changes.
    pub limit: Option<Limit>,
    pub body: Vec<u8>,
}

/// Topics to create. They are the internal topics that a member of a streams group needs, or the
/// dead letter queue of a share group.
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

impl FromController {
    /// Turns the message into an error, because it is not known to be durable.
    pub(crate) fn fail(&mut self, error: ErrorCode) {
        match self {
            Self::AdminAnswer { response, .. } => {
                cluster::fail(response, error);
            }
            Self::ProducerIdBlock { count, .. } => *count = 0,
            Self::MissingCreated(Created { topics, failed, .. }) => {
                let failure = |topic: &Arc<str>| (topic.clone(), NOT_WRITTEN.to_owned());
                *failed = topics.iter().map(failure).collect();
            }
            Self::AutoCreateTaken | Self::NoProducerIds => {}
        }
    }
}
