//! The client of a telemetry request, and a push on its way.

use crate::config::ClientAttribute;
use muster_codec::record_batch::Compression;
use muster_codec::{ErrorCode, Uuid};
use muster_coordinator::RequestId;
use std::sync::Arc;

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client<'c> {
    pub(crate) instance_id: Uuid,
    pub(crate) connection: u64,
    pub(crate) client_id: &'c str,
    /// The name and version from ApiVersions. If the client sent none, `unknown`, as in Kafka.
    pub(crate) software: (&'c str, &'c str),
    /// The address without Kafka's slash.
    pub(crate) address: &'c str,
    pub(crate) port: u16,
    pub(crate) principal: &'c str,
    pub(crate) node: u32,
}

/// A push that a shard has accepted.
#[derive(Debug)]
pub struct Push {
    /// The shard that accepted the push.
    pub from: u32,
    pub(super) request: RequestId,
    pub(super) instance_id: Uuid,
    pub(super) client_id: Arc<str>,
    /// Attributes that describe the client, under Kafka's names. A forwarded push has them, too.
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) interval_ms: i32,
    pub(super) compression: Compression,
    pub(super) metrics: Vec<u8>,
    /// The longest that `metrics` may be when unpacked, in bytes.
    pub(super) unpacked_bytes_max: usize,
}

/// The outcome of a push.
#[derive(Debug, Clone, Copy)]
pub struct Pushed {
    pub(super) instance_id: Uuid,
    pub(crate) request: RequestId,
    /// The length of the push.
    pub(super) bytes: usize,
    pub(super) error: ErrorCode,
}

impl Client<'_> {
    /// The name and version of unknown software, as in Kafka.
    pub(crate) const UNKNOWN: (&'static str, &'static str) = ("unknown", "unknown");

    /// A client attribute as text.
    pub(super) fn attribute(&self, attribute: ClientAttribute) -> String {
        match attribute {
            ClientAttribute::InstanceId => self.instance_id.to_string(),
            ClientAttribute::ClientId => self.client_id.to_owned(),
            ClientAttribute::SoftwareName => self.software.0.to_owned(),
            ClientAttribute::SoftwareVersion => self.software.1.to_owned(),
            ClientAttribute::SourceAddress => self.address.to_owned(),
            ClientAttribute::SourcePort => self.port.to_string(),
        }
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let known = ClientAttribute::ALL.map(|(name, attribute)| (name, self.attribute(attribute)));
        let mut all = known.to_vec();
        all.push(("principal", self.principal.to_owned()));
        all.push(("broker_id", self.node.to_string()));
        all
    }
}

impl Push {
    pub(super) fn new(
        client: &Client<'_>,
        request: RequestId,
        compression: Compression,
        metrics: Vec<u8>,
        interval_ms: i32,
        unpacked_bytes_max: usize,
    ) -> Self {
        Self {
            from: client.node,
            request,
            instance_id: client.instance_id,
            client_id: client.client_id.into(),
            attributes: client.attributes(),
            interval_ms,
            compression,
            metrics,
            unpacked_bytes_max,
        }
    }

    /// The outcome of this push.
    pub fn ended(&self, error: ErrorCode) -> Pushed {
        Pushed {
            instance_id: self.instance_id,
            request: self.request,
            bytes: self.metrics.len(),
            error,
        }
    }
}
