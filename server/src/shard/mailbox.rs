//! Messages between shards: control messages only, never a client's produce or commit.

use crate::cluster::{self, ClusterImage, OfflineList};
use muster_codec::{ApiKey, ControllerResponse, ErrorCode};
use muster_coordinator::RequestId;
use std::sync::Arc;

/// A request that only the controller, shard 0, can decide. The body is unchanged.
#[derive(Debug)]
pub struct AdminRequest {
    pub api: ApiKey,
    pub version: i16,
    /// The address of the client in Kafka's form.
    pub host: Arc<str>,
    pub body: Vec<u8>,
}

/// A message to another shard, or to the same one.
#[derive(Debug)]
pub enum Message {
    /// To the controller: decide this; the answer goes to shard `from`.
    Admin { from: u32, request: RequestId, admin: AdminRequest },
    /// From the controller: the response to one of the shard's clients.
    AdminAnswer { request: RequestId, response: Box<ControllerResponse<'static>> },
    /// To the controller: a client of shard `from` named topics that do not exist.
    AutoCreate { from: u32, topics: Vec<String>, host: Arc<str> },
    /// From the controller: it has taken such a message out of its mailbox.
    AutoCreateTaken,
    /// To the controller: shard `from` needs a block of producer ids.
    ProducerIds { from: u32 },
    /// From the controller: producer ids from `first`, `count` of them.
    ProducerIdBlock { first: i64, count: i32 },
    /// From the controller: the new image of the cluster.
    Image(Arc<ClusterImage>),
    /// To the controller: the groups of shard `from` have no offsets left of topics deleted up to
    /// this version.
    Forgotten { from: u32, version: i64 },
    /// The offline partitions of shard `from`, all of them.
    Offline { from: u32, partitions: OfflineList },
    /// From the operator: finish pending requests and end.
    Stop,
}

impl Message {
    /// Turns the message into an error: the change was not made durable.
    pub(super) fn fail(&mut self) {
        match self {
            Self::AdminAnswer { response, .. } => {
                cluster::fail(response, ErrorCode::UnknownServerError);
            }
            Self::ProducerIdBlock { count, .. } => *count = 0,
            Self::Admin { .. }
            | Self::AutoCreate { .. }
            | Self::AutoCreateTaken
            | Self::ProducerIds { .. }
            | Self::Image(_)
            | Self::Forgotten { .. }
            | Self::Offline { .. }
            | Self::Stop => {}
        }
    }
}
