//! Long requests in a shard: takes the next one out of the input of its connection, and passes the
//! parts of the shard from which [`crate::long_requests`] makes the answer.

use super::Shard;
use super::authorization::Screened;
use crate::config::ListenerIndex;
use crate::dispatch;
use crate::groups::Inputs;
use crate::long_requests::{SliceEffects, Sources};
use crate::net::{Input, Kind};
use muster_faults::Fault;
use std::sync::Arc;

impl Shard {
    /// Answers slices of the long request under way, or of the next one.
    pub(super) fn continue_long(&mut self, is_over: &mut dyn FnMut() -> bool) {
        if self.long.is_waiting() {
            return;
        }
        if self.long.is_under_way() || self.begin_next_long() {
            self.answer_slice();
            while self.has_slice() && !self.is_to_pause(is_over) {
                self.answer_slice();
            }
        }
        self.queue_long();
    }

    /// Queues the next slice, unless the request under way waits for its coordinators.
    pub(super) fn queue_long(&mut self) {
        self.count_long();
        if !self.long.is_waiting() {
            self.clients.queue_long(self.long.is_under_way());
        }
    }

    fn has_slice(&self) -> bool {
        self.long.is_under_way() && !self.long.is_waiting()
    }

    fn is_to_pause(&self, is_over: &mut dyn FnMut() -> bool) -> bool {
        self.runtime.is_closed() || (is_over() && !Fault::UnslicedScan.is_injected())
    }

    /// Counts the bytes held for the long request under way.
    fn count_long(&mut self) {
        self.clients.answers().count(Kind::Long, self.long.held());
    }

    /// Takes the next long request out of the input of its connection; false if there is none.
    fn begin_next_long(&mut self) -> bool {
        while let Some((input, length)) = self.clients.next_long() {
            let begun = length.and_then(|length| self.begin_long(&input, length));
            let handled = begun.unwrap_or(0);
            let log_is_closed = self.runtime.is_closed();
            self.clients.handled(input, (handled, true), log_is_closed, &mut self.commands);
            if begun.is_some() {
                return true;
            }
        }
        false
    }

    /// Begins the request of this length at the start of `input`.
    fn begin_long(&mut self, input: &Input, length: usize) -> Option<usize> {
        let frame = input.bytes().get(4..length)?;
        let dispatch::Read { header, request, .. } = dispatch::read(frame).ok()?;
        let request = request?;
        let (id, api, version) = (input.id(), request.api_key(), header.api_version);
        let (request, screened) = self.screen(id, &header, request).continue_value()?;
        let amendment = match screened {
            Screened::Whole => None,
            Screened::Amended { amendment, .. } => Some(amendment),
            Screened::Refused(response) => {
                let answers = self.clients.answers();
                let asked = answers.begin(id, api, header.correlation_id, version);
                answers.answer_now(asked, &response);
                return Some(length);
            }
        };
        let (image, answers) = (Arc::clone(self.broker.image()), self.clients.answers());
        let begun = self.long.begin(id, &header, request.into(), image, answers)?;
        self.long.amend(begun, amendment);
        let quotas = self.broker.image().client_quotas();
        if !quotas.is_empty() {
            let client_id = header.client_id.as_deref().unwrap_or_default();
            self.clients.charge_time(begun, client_id, quotas);
        }
        Some(length)
    }

    /// Answers the next slice of the request. The time that this takes is charged to the client.
    fn answer_slice(&mut self) {
        let request = self.long.request();
        request.into_iter().for_each(|it| self.clients.answers().works_on(it));
        self.answer_next_slice();
        request.into_iter().for_each(|it| self.clients.answers().rests(it));
    }

    fn answer_next_slice(&mut self) {
        let Self {
            long, groups, runtime, transactions, ids, broker, errors, clients, times, ..
        } = self;
        let (times, ids, image) = (*times, ids.as_mut(), &**broker.image());
        let inputs = Inputs { times, ids, image, errors, runtime };
        let listener = long.connection().map_or(ListenerIndex::FIRST, |id| clients.listener(id));
        let view = broker.view_on(listener);
        let sources = Sources { groups, transactions, inputs, view, clients };
        let Some(SliceEffects { request, items, to_create }) = long.answer_slice(sources) else {
            return;
        };
        self.counters.requests_handled += items as u64;
        self.create_topics(request, to_create);
    }
}
