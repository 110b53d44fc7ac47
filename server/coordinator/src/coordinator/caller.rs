//! The sender of a request.

use crate::client::Client;
use crate::context::Describes;
use crate::output::RequestId;
use alloc::sync::Arc;

/// The sender of a request, and the request's version.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'r> {
    pub request: RequestId,
    pub api_version: i16,
    pub client_id: &'r str,
    /// The client's address as Kafka prints it: `/127.0.0.1`.
    pub client_host: &'r str,
    /// The topics that the client may describe; None for all. As in Kafka, if its heartbeat causes
    /// the regular expressions of a group to be resolved, only these topics can match them.
    pub describes: Option<&'r Arc<dyn Describes>>,
}

impl<'r> Caller<'r> {
    pub(crate) fn client(&self) -> Client<'r> {
        Client { id: self.client_id, host: self.client_host }
    }
}
