//! Checks requests against the permissions of their clients, before any other part handles them.

use super::Shard;
use super::audit::Denied;
use crate::dispatch::authorization::{Amendment, By, Denial, Verdict, screen};
use crate::net::ConnectionId;
use crate::security::acls::Permissions;
use muster_codec::header::RequestHeader;
use muster_codec::{ApiKey, PartitionRequest, Response, Routed};
use muster_coordinator::{Describes, RequestId};
use std::cell::RefCell;
use std::sync::Arc;

/// A request whose denied parts are removed.
pub(super) enum Screened {
    /// The request is handled unchanged.
    Whole,
    /// The request is handled, as a whole or in part. Its answer is amended before it is sent.
    Amended {
        amendment: Amendment,
        /// Whether a part of the request was removed. If so, the rest must be encoded again.
        is_part: bool,
    },
    Refused(Response<'static>),
}

impl Shard {
    /// Removes the parts of a request that its client is denied.
    ///
    /// # Errors
    /// The reason for closing the connection, if a denial cannot be reported because the client
    /// expects no answer.
    pub(super) fn authorize(
        &mut self,
        id: ConnectionId,
        header: &RequestHeader<'_>,
        request: &mut Routed<'_>,
    ) -> Result<Screened, String> {
        let version = header.api_version;
        let Some(permissions) = self.permissions(id) else {
            let amendment = Amendment::unrestricted(request);
            let amended = |amendment| Screened::Amended { amendment, is_part: false };
            return Ok(amendment.map_or(Screened::Whole, amended));
        };
        let by = By {
            version,
            permissions: &permissions,
            image: self.broker.image(),
            config: self.broker.config(),
            denied: RefCell::new(None),
        };
        let verdict = screen(request, &by);
        let denied = by.denied.into_inner();
        let client_id = header.client_id.as_deref();
        let refused = match verdict {
            Verdict::Passed => return Ok(Screened::Whole),
            Verdict::Restricted => None,
            Verdict::InPart(refused) => Some(refused),
            Verdict::Refused(refused) => {
                self.report_denied(id, client_id, &permissions, (refused.api_key(), denied));
                refuse_silent(request)?;
                return Ok(Screened::Refused(refused));
            }
        };
        let is_part = refused.is_some();
        if let Some(refused) = &refused {
            self.report_denied(id, client_id, &permissions, (refused.api_key(), denied));
            refuse_silent(request)?;
        }
        let restriction = (permissions, self.broker.image().clone());
        let amendment = Amendment::new(request, restriction, (version, refused));
        Ok(Screened::Amended { amendment, is_part })
    }

    /// The topics that the client of a request may describe; None for all.
    pub(super) fn describes(&mut self, request: RequestId) -> Option<Arc<dyn Describes>> {
        let permissions = self.permissions_of(request)?;
        Some(permissions)
    }

    /// The permissions of the client of a request; None without an authorizer.
    pub(super) fn permissions_of(&mut self, request: RequestId) -> Option<Arc<Permissions>> {
        self.permissions(ConnectionId(request.connection))
    }

    /// The permissions of a connection's client; None without an authorizer.
    fn permissions(&mut self, id: ConnectionId) -> Option<Arc<Permissions>> {
        let Self { broker, clients, .. } = self;
        clients.permissions(id, broker.acl_rules()?, broker.image().acls())
    }

    /// Counts and logs that a part of a request was denied.
    pub(super) fn report_denied(
        &mut self,
        id: ConnectionId,
        client_id: Option<&str>,
        by: &Permissions,
        (api, denial): (ApiKey, Option<Denial>),
    ) {
        self.clients.count_denied();
        let Some((denial, (host, _))) = denial.zip(self.clients.peer(id)) else { return };
        let denied = Denied { principal: by.principal(), client_id, host: &host, api, denial };
        self.audit.denied(self.times.now, &denied);
    }
}

/// Called after a denial: if a producer expects no answers, its connection is closed, as in Kafka.
fn refuse_silent(request: &Routed<'_>) -> Result<(), String> {
    if let Routed::Partition(PartitionRequest::Produce(body)) = request
        && body.acks == 0
    {
        return Err("a produce with acks=0 was denied".to_owned());
    }
    Ok(())
}
