//! What shards tell each other: control messages only, never a client's produce or commit.

use crate::cluster::{ClusterImage, OfflineList};
use crate::dispatch::refusal;
use muster_codec::{ApiKey, ErrorCode, Response};
use muster_coordinator::RequestId;
use std::sync::Arc;

/// A request that only the controller, shard 0, can decide. The body is as it came.
#[derive(Debug)]
pub struct AdminRequest {
    pub api: ApiKey,
    pub version: i16,
    /// The address of the client, as Kafka prints it.
    pub host: Arc<str>,
    pub body: Vec<u8>,
}

/// A message to another shard, or to oneself.
#[derive(Debug)]
pub enum Message {
    /// To the controller: decide this; the answer goes to shard `from`.
    Admin { from: u32, request: RequestId, admin: AdminRequest },
    /// From the controller: the response to a client of yours.
    AdminAnswer { request: RequestId, response: Box<Response<'static>> },
    /// To the controller: somebody asked for topics that are not there.
    AutoCreate { topics: Vec<String>, host: Arc<str> },
    /// To the controller: a block of producer ids for shard `from`.
    ProducerIds { from: u32 },
    /// From the controller: producer ids from `first`, `count` of them.
    ProducerIdBlock { first: i64, count: i32 },
    /// From the controller: the cluster is now this.
    Image(Arc<ClusterImage>),
    /// To the controller: what was gone in this version of the topics is gone for the groups of shard
    /// `from`, too.
    Forgotten { from: u32, version: i64 },
    /// These partitions of shard `from` are offline, and no others.
    Offline { from: u32, partitions: OfflineList },
    /// From the operator: finish what was begun and end.
    Stop,
}

impl Message {
    /// What it was to tell did not come to be.
    pub(super) fn fail(&mut self) {
        match self {
            Self::AdminAnswer { response, .. } => {
                refusal::fail(response, ErrorCode::UnknownServerError);
            }
            Self::ProducerIdBlock { count, .. } => *count = 0,
            Self::Admin { .. }
            | Self::AutoCreate { .. }
            | Self::ProducerIds { .. }
            | Self::Image(_)
            | Self::Forgotten { .. }
            | Self::Offline { .. }
            | Self::Stop => {}
        }
    }
}
