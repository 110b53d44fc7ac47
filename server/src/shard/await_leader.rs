//! The stage of a cluster's requests at which the leader of their slots matters. A request that
//! this node cannot answer yet stays in the input of its connection, and passes the stage again.
//!
//! It waits for two things. The first is a leader that was elected here and is not ready: after a
//! second, the request is refused with COORDINATOR_LOAD_IN_PROGRESS. The second is a proof that
//! this node still leads the slot, if the request only reads ([`super::confirmed_reads`]): after a
//! second it is refused with NOT_COORDINATOR, because this node may be cut off.

use super::Shard;
use super::confirmed_reads::is_confirmed;
use super::stages::{End, Flow};
use crate::dispatch::{group_apis, transaction_apis};
use crate::net::ConnectionId;
use muster_codec::header::RequestHeader;
use muster_codec::{BrokerRequest, ErrorCode, Request, Response, Routed};
use muster_runtime::replicas::{Proof, Ticket};
use muster_storage::LogSlot;
use std::cell::OnceCell;
use std::collections::BTreeSet;

impl Shard {
    /// Lets a request pass if this node may answer it now, or refuses it.
    pub(super) fn await_leader<'f>(
        &mut self,
        id: ConnectionId,
        header: &RequestHeader<'f>,
        (request, body): (Request<'f>, &'f [u8]),
    ) -> Flow<Request<'f>> {
        let waited = self.clients.take_wait(id);
        let tickets = self.confirmed_reads.take(id);
        let is_read = is_confirmed(request.api_key());
        if !is_read && !self.runtime.is_loading() {
            return Flow::Continue(request);
        }
        let mut request = Routed::from(request);
        let version = header.api_version;
        let waits = self.is_loading(&mut request, version);
        if waits && self.clients.wait_to_be_served(id, waited) {
            return Flow::Break(End::Unserved);
        }
        if is_read {
            let tickets = self.unproved(tickets, &mut request, version);
            if !tickets.is_empty() {
                let has_room = self.confirmed_reads.has_room(&tickets);
                if has_room && self.clients.wait_to_be_served(id, waited) {
                    self.confirmed_reads.put(id, tickets);
                    return Flow::Break(End::Unserved);
                }
                return self.refuse_read(id, header, (request, body));
            }
        }
        Flow::Continue(request.into())
    }

    /// Whether a slot of a request is led here but not served yet.
    fn is_loading(&self, request: &mut Routed<'_>, version: i16) -> bool {
        let Self { groups, transactions, runtime, .. } = self;
        if !runtime.is_loading() {
            return false;
        }
        let of_id = |id: &str| transactions.is_loading(runtime, id);
        match request {
            Routed::Group(request) => groups.is_loading(runtime, request, version),
            Routed::Transaction(request) => transaction_apis::may_name(request, version, &of_id),
            Routed::Broker(BrokerRequest::InitProducerId(body)) => {
                body.transactional_id.as_deref().is_some_and(of_id)
            }
            Routed::Partition(_)
            | Routed::Share(_)
            | Routed::Controller(_)
            | Routed::Cluster(_)
            | Routed::Broker(_) => false,
        }
    }

    /// The tickets of a read, if some of them are not proved. If a term has ended since they were
    /// taken, takes new ones. A slot that this node does not serve needs none.
    fn unproved(
        &mut self,
        tickets: Vec<Ticket>,
        request: &mut Routed<'_>,
        version: i16,
    ) -> Vec<Ticket> {
        let Some(replicas) = self.runtime.replication() else { return Vec::new() };
        let proofs: Vec<_> = tickets.iter().map(|it| replicas.proof(it)).collect();
        if tickets.is_empty() || proofs.contains(&Proof::Lost) {
            let slots = self.slots_of_read(request, version);
            return slots.into_iter().filter_map(|slot| self.runtime.ask(slot)).collect();
        }
        if proofs.contains(&Proof::Awaited) { tickets } else { Vec::new() }
    }

    /// The slots that a read is about. For reads of transactions, all that this node serves.
    fn slots_of_read(&self, request: &mut Routed<'_>, version: i16) -> BTreeSet<LogSlot> {
        let served = || self.runtime.replication().into_iter().flat_map(|it| it.served());
        match request {
            Routed::Group(request) => {
                self.groups.slots_of(request, version).unwrap_or_else(|| served().collect())
            }
            Routed::Transaction(_)
            | Routed::Partition(_)
            | Routed::Share(_)
            | Routed::Controller(_)
            | Routed::Cluster(_)
            | Routed::Broker(_) => served().collect(),
        }
    }

    /// Refuses a read, because nothing has proved that this node leads.
    fn refuse_read<'f, T>(
        &mut self,
        id: ConnectionId,
        header: &RequestHeader<'f>,
        (request, body): (Routed<'f>, &'f [u8]),
    ) -> Flow<T> {
        let request = Request::from(request);
        let (api, version) = (request.api_key(), header.api_version);
        let (request, screened) = self.screen(id, header, request)?;
        let mut call = self.admit(id, api, header.clone(), body);
        let rest = OnceCell::new();
        let error = ErrorCode::NotCoordinator;
        let refused: Option<Response<'_>> = match self.amend(&mut call, request, screened, &rest)? {
            Routed::Group(mut request) => Some(group_apis::refused(&mut request, version, error)),
            Routed::Transaction(request) => {
                Some(transaction_apis::refused(&request, version, error))
            }
            Routed::Partition(_)
            | Routed::Share(_)
            | Routed::Controller(_)
            | Routed::Cluster(_)
            | Routed::Broker(_) => None,
        };
        if let Some(refused) = refused {
            self.clients.answers().answer_now(call.request, &refused);
        }
        Flow::Break(End::Handled)
    }
}
