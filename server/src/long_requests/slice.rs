//! A slice of a long request. It has the parts of the shard from which it is answered, and the
//! answer so far, which it extends.

use super::answer::Answer;
use super::weight::Sizes;
use crate::cluster::View;
use crate::groups::{Groups, Inputs, ListingOfSlots};
use crate::net::{Clients, VisibleAt};
use crate::transactions::{ListingOfIds, Transactions};
use muster_codec::{ErrorCode, GroupRequest, Response};
use muster_coordinator::{Caller, RequestId};

/// The parts of a shard that long requests are answered from.
pub(crate) struct Sources<'s> {
    pub(crate) groups: &'s mut Groups,
    pub(crate) transactions: &'s Transactions,
    /// The inputs of a call of the groups.
    pub(crate) inputs: Inputs<'s>,
    pub(crate) view: View<'s>,
    pub(crate) clients: &'s mut Clients,
}

/// The effects of a slice.
pub(crate) struct SliceEffects {
    pub(crate) request: RequestId,
    /// The number of items that were answered.
    pub(crate) items: usize,
    /// Topics to create, as items name them.
    pub(crate) to_create: Vec<String>,
}

/// A slice that is being answered.
pub(super) struct Slice<'s> {
    sources: Sources<'s>,
    answer: &'s mut Answer,
    /// Whether the slice completes the answer.
    is_last: bool,
    /// Whether coordinators answer the slice later.
    is_waiting: bool,
    items: usize,
    to_create: Vec<String>,
}

impl<'s> Slice<'s> {
    pub(super) fn new(sources: Sources<'s>, answer: &'s mut Answer) -> Self {
        let (is_last, is_waiting) = (false, false);
        Self { sources, answer, is_last, is_waiting, items: 0, to_create: Vec::new() }
    }

    pub(super) fn version(&self) -> i16 {
        self.answer.version()
    }

    /// The view of the cluster. Its image is the same for all slices of the answer.
    pub(super) fn view(&self) -> View<'s> {
        self.sources.view
    }

    pub(super) fn sizes(&mut self) -> Sizes<'_> {
        let Sources { groups, transactions, view, .. } = &mut self.sources;
        Sizes { groups, transactions, image: view.image }
    }

    /// Call this before the slice is answered. Sets how many items it has, and whether it is the
    /// last.
    pub(super) fn count(&mut self, items: usize, is_last: bool) {
        (self.items, self.is_last) = (items, is_last);
    }

    /// Adds a response that need not wait for the log.
    pub(super) fn add(&mut self, response: Response<'_>) {
        self.answer.add(self.sources.clients.answers(), response, self.is_last);
    }

    /// Replaces the answer so far by an error.
    pub(super) fn fail(&mut self, response: Response<'_>) {
        self.answer.clear();
        self.add(response);
    }

    /// Adds the response of the group coordinators. If they do not answer at once, the slice waits
    /// for their answer.
    pub(super) fn add_from_groups(&mut self, request: GroupRequest<'_>) {
        let Self { sources, answer, is_last, is_waiting, .. } = self;
        let Sources { groups, inputs, clients, .. } = sources;
        let (asked, is_last) = (answer.request(), *is_last);
        let Some(client_host) = clients.host(asked) else { return };
        let api_version = answer.version();
        let caller = Caller {
            request: asked,
            api_version,
            client_id: "",
            client_host: &client_host,
            describes: None,
        };
        *is_waiting = true;
        groups.request(inputs.again(), caller, request, |reply| {
            if reply.request == asked {
                *is_waiting = false;
                answer.wait_for(reply.visible_at);
                answer.add(clients.answers(), reply.response, is_last);
            } else {
                clients.answers().reply(reply);
            }
        });
    }

    /// Adds the next groups of a list.
    pub(super) fn add_listed(&mut self, list: &mut ListingOfSlots, count: usize) {
        let Sources { groups, inputs, .. } = &mut self.sources;
        groups.list(inputs.runtime, list, count);
        self.is_last = list.is_complete();
        let response = list.listing.take();
        self.add_part(list.visible_at(), response.error_code, response.into());
    }

    /// Adds the next transactional ids of a list.
    pub(super) fn add_listed_ids(&mut self, ids: &mut ListingOfIds, count: usize) {
        let Sources { transactions, inputs, .. } = &self.sources;
        let flushed = |slot| inputs.runtime.flushed(slot);
        transactions.coordinators().list(ids, inputs.times.wall, count, flushed);
        self.is_last = ids.list.is_complete();
        let response = ids.take();
        self.add_part(ids.list.visible_at(), response.error_code, response.into());
    }

    /// Adds a part of a list. If the whole list fails, replaces the answer so far by the error.
    fn add_part(&mut self, visible_at: VisibleAt, error_code: i16, response: Response<'_>) {
        self.answer.wait_for(visible_at);
        if error_code == ErrorCode::None.code() {
            self.add(response);
        } else {
            self.fail(response);
        }
    }

    /// Requests the creation of topics that the request names.
    pub(super) fn create(&mut self, topics: Vec<String>) {
        self.to_create.extend(topics);
    }

    /// Whether the slice waits for an answer of coordinators.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    pub(super) fn answered(self) -> SliceEffects {
        SliceEffects {
            request: self.answer.request(),
            items: self.items,
            to_create: self.to_create,
        }
    }
}
