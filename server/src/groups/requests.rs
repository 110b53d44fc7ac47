//! Group requests. As in Kafka's `KafkaApis`, the parts that a coordinator must not get are refused
//! first. The rest goes to the coordinator of the group's slot. A request for groups of several
//! slots is split, and the answers are joined.

use super::coordinators::Coordinators;
use super::{Groups, Inputs, ListingOfSlots};
use crate::dispatch::group_apis::{self, Destination, ScreenContext};
use crate::dispatch::{LOADING, check_served};
use crate::limit_gauges::Limit;
use crate::limit_refusals::Refused;
use crate::net::{Reply, VisibleAt};
use crate::placement::Slot;
use muster_codec::{ErrorCode, GroupRequest, Response};
use muster_coordinator::{
    Answer, Caller, Limited, Listing, MissingTopic, Output, Refusal, RequestId, StateCall,
    StateResult,
};
use muster_fairness::Address;
use muster_faults::Fault;
use muster_runtime::Runtime;
use muster_storage::LogSlot;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

impl Groups {
    /// Handles any request but TxnOffsetCommit (see [`Self::txn_offset_commit`]). `take` receives
    /// the answer, unless the coordinator parks the request. It also receives the answers to
    /// requests that were parked and that this request completes. Returns the internal topics that
    /// the request's streams group lacks.
    pub(crate) fn request<'r>(
        &mut self,
        inputs: Inputs<'_>,
        caller: Caller<'r>,
        mut request: GroupRequest<'r>,
        mut take: impl FnMut(Reply<'r>),
    ) -> Option<Arc<[MissingTopic]>> {
        debug_assert!(!matches!(request, GroupRequest::TxnOffsetCommit(_)));
        match self.screen(&mut request, caller.api_version, &inputs) {
            Destination::Slot(slot, refused) => {
                return self
                    .coordinators
                    .coordinate(slot, inputs, caller, request, refused, &mut take);
            }
            Destination::Slots(refused) => {
                let late = self.coordinators.split(inputs, caller, request, refused, &mut take);
                self.late.0.extend(late.map(|it| (caller.request, it)));
            }
            Destination::Shard => {
                take(self.list_groups(inputs.runtime, &request, caller.request));
            }
            Destination::Answered(response) => {
                let (request, visible_at) = (caller.request, VisibleAt::Now);
                take(Reply { request, response, visible_at });
            }
        }
        None
    }

    /// Refuses the parts that a coordinator must not get, and decides where the rest goes.
    pub(super) fn screen(
        &self,
        request: &mut GroupRequest<'_>,
        version: i16,
        inputs: &Inputs<'_>,
    ) -> Destination {
        if !self.config.serves(request.api_key()) {
            let error = ErrorCode::UnsupportedVersion;
            return Destination::Answered(group_apis::refused(request, version, error));
        }
        let slots = self.slots();
        let slot_of = |group_id: &str| {
            let slot = slots.slot_of(group_id);
            if !slots.has(slot) {
                return Err(ErrorCode::NotCoordinator);
            }
            check_served(inputs.runtime, slot).map(|()| slot)
        };
        let (topics, is_loading) = (inputs.image, inputs.runtime.is_loading());
        let context = ScreenContext { version, topics, slot_of: &slot_of, is_loading };
        group_apis::screen(request, &context)
    }

    /// Whether a request has to wait until this node serves the slots of its groups.
    pub(crate) fn is_loading(
        &self,
        runtime: &Runtime,
        request: &mut GroupRequest<'_>,
        version: i16,
    ) -> bool {
        let slots = self.slots();
        let is_loading = |group: &str| {
            let slot = slots.slot_of(group);
            slots.has(slot) && check_served(runtime, slot) == Err(LOADING)
        };
        group_apis::names_any(request, version, &is_loading)
    }

    /// The slots of the groups that a request names; None if it is about all groups of the shard.
    pub(crate) fn slots_of(
        &self,
        request: &mut GroupRequest<'_>,
        version: i16,
    ) -> Option<BTreeSet<LogSlot>> {
        let slots = RefCell::new(BTreeSet::new());
        let note = |group: &str| {
            slots.borrow_mut().insert(self.slots().slot_of(group).log_slot());
            false
        };
        let is_about_all = group_apis::names_any(request, version, &note);
        (!is_about_all).then(|| slots.into_inner())
    }

    /// Passes the results of the partitions' leaders on to the coordinator that requested them.
    pub(crate) fn state_answered(
        &mut self,
        inputs: Inputs<'_>,
        slot: Slot,
        (state_call, results): (StateCall, &[StateResult]),
        mut take: impl FnMut(Reply<'static>),
    ) {
        let Self { coordinators, late, .. } = self;
        coordinators.state_answered(slot, inputs, (state_call, results), |reply| {
            late.join(reply, &mut take);
        });
    }

    /// The requests of coordinators to the leaders of partitions, once the records before them are
    /// durable.
    pub(crate) fn take_state_calls(&mut self, runtime: &Runtime) -> Vec<(Slot, StateCall)> {
        self.coordinators.take_state_calls(runtime)
    }

    /// The requests to the leaders of partitions that will not be sent, because the log refused the
    /// records on which they depend.
    pub(crate) fn take_refused_calls(&mut self) -> Vec<(Slot, StateCall)> {
        self.coordinators.take_refused_calls()
    }

    /// Whether coordinators have requests to the leaders of partitions, durable or not.
    pub(crate) fn has_state_calls(&self) -> bool {
        self.coordinators.has_state_calls()
    }

    /// Answers a ListGroups that is not a long request: lists the groups of all slots in one call.
    fn list_groups(
        &mut self,
        runtime: &Runtime,
        request: &GroupRequest<'_>,
        asked: RequestId,
    ) -> Reply<'static> {
        let GroupRequest::ListGroups(body) = request else {
            unreachable!("only a list is about all groups of a shard")
        };
        let mut list = ListingOfSlots::new(Listing::new(body));
        self.list(runtime, &mut list, usize::MAX);
        let (response, visible_at) = (list.listing.take().into(), list.visible_at());
        Reply { request: asked, response, visible_at }
    }
}

/// The answers to requests for groups of several slots that are not complete: the coordinators of
/// some of these groups answer later. They wait for the leaders of partitions, or delete offsets in
/// slices.
#[derive(Debug, Default)]
pub(super) struct LateAnswers(HashMap<RequestId, LateAnswer>);

impl LateAnswers {
    /// Passes an answer on, once all coordinators of its request have answered.
    pub(super) fn join(&mut self, reply: Reply<'static>, take: &mut impl FnMut(Reply<'static>)) {
        let request = reply.request;
        let Some(mut waiting) = self.0.remove(&request) else { return take(reply) };
        waiting.join(reply);
        match waiting.left {
            0 => waiting.joined.into_iter().for_each(take),
            _ => drop(self.0.insert(request, waiting)),
        }
    }
}

#[derive(Debug)]
struct LateAnswer {
    /// The number of answers that are missing.
    left: usize,
    joined: Option<Reply<'static>>,
}

impl LateAnswer {
    /// `left` is the number of missing answers. `joined` has the answers so far, including the
    /// refused part of the request; it is None if there are none yet.
    fn new(
        request: RequestId,
        left: usize,
        joined: Option<Reply<'_>>,
        refused: Option<Response<'static>>,
    ) -> Self {
        let detached = joined.map(|it| Reply {
            request,
            response: group_apis::detached(it.response),
            visible_at: it.visible_at,
        });
        let refused = refused.map(|response| {
            let visible_at = VisibleAt::Now;
            Reply { request, response, visible_at }
        });
        Self { left, joined: detached.or(refused) }
    }

    fn join(&mut self, reply: Reply<'static>) {
        self.left -= 1;
        match &mut self.joined {
            None => self.joined = Some(reply),
            Some(joined) => {
                group_apis::merge(&mut joined.response, reply.response);
                joined.visible_at.join(reply.visible_at);
            }
        }
    }
}

impl Coordinators {
    /// Passes a request to the coordinator of a slot. If a part of the request was refused,
    /// `refused` has the answer to that part, which is added. Returns the missing topics as
    /// [`Self::write`] does.
    pub(super) fn coordinate<'r>(
        &mut self,
        slot: Slot,
        mut inputs: Inputs<'_>,
        caller: Caller<'r>,
        request: GroupRequest<'r>,
        mut refused: Option<Response<'static>>,
        take: &mut impl FnMut(Reply<'r>),
    ) -> Option<Arc<[MissingTopic]>> {
        let (output, refusal) = self.handle(slot, inputs.again(), caller, request);
        if let Some(refusal) = refusal {
            self.report_refusal(&mut inputs, refusal, caller.client_host);
        }
        self.write(slot, inputs, output, |mut reply| {
            if reply.request == caller.request
                && let Some(refused) = refused.take()
            {
                group_apis::merge(&mut reply.response, refused);
            }
            take(reply);
        })
    }

    /// Splits a request for groups of several slots, passes each part to the coordinator of its
    /// slot, and joins the answers. If some coordinators answer later, returns the answers of the
    /// others, joined.
    fn split<'r>(
        &mut self,
        mut inputs: Inputs<'_>,
        caller: Caller<'r>,
        request: GroupRequest<'r>,
        refused: Option<Response<'static>>,
        take: &mut impl FnMut(Reply<'r>),
    ) -> Option<LateAnswer> {
        let mut joined: Option<Reply<'r>> = None;
        let mut late = 0;
        let slots = self.slots();
        for (slot, part) in group_apis::by_slot(request, |group_id| slots.slot_of(group_id)) {
            let inputs = inputs.again();
            late += 1;
            self.coordinate(slot, inputs, caller, part, None, &mut |reply: Reply<'r>| {
                late -= usize::from(reply.request == caller.request);
                match &mut joined {
                    _ if reply.request != caller.request => take(reply),
                    None => joined = Some(reply),
                    Some(_) if Fault::LostPart.is_injected() => {}
                    Some(joined) => {
                        group_apis::merge(&mut joined.response, reply.response);
                        joined.visible_at.join(reply.visible_at);
                    }
                }
            });
        }
        if let (Some(joined), Some(refused)) = (&mut joined, refused.clone()) {
            group_apis::merge(&mut joined.response, refused);
        }
        if late > 0 {
            return Some(LateAnswer::new(caller.request, late, joined, refused));
        }
        joined.into_iter().for_each(take);
        None
    }

    fn state_answered(
        &mut self,
        slot: Slot,
        mut inputs: Inputs<'_>,
        (state_call, results): (StateCall, &[StateResult]),
        take: impl FnMut(Reply<'static>),
    ) {
        let output = self.call(slot, inputs.again(), |coordinator, context| {
            coordinator.state_answered(context, state_call, results)
        });
        self.write(slot, inputs, output, take);
    }

    fn report_refusal(&self, inputs: &mut Inputs<'_>, refusal: Refusal, host: &str) {
        let limit = match refusal.limit {
            Limited::Groups => Limit::Groups,
            Limited::MemberBytes => Limit::MemberBytes,
            Limited::PendingBytes => Limit::PendingBytes,
        };
        let refused = Refused { limit, exceeded: refusal.exceeded, address: Address::of(host) };
        refused.log(inputs.times.now, inputs.errors);
    }

    /// Writes the records of a slot's output. `take` receives the answers of the output, each with
    /// the position that must be durable before it is sent. Returns the internal topics that a
    /// streams group lacks, unless the log refused its records.
    pub(super) fn write<'r>(
        &mut self,
        slot: Slot,
        mut inputs: Inputs<'_>,
        output: Output<'r>,
        mut take: impl FnMut(Reply<'r>),
    ) -> Option<Arc<[MissingTopic]>> {
        let position = inputs.runtime.next_position(slot.log_slot());
        let written = self.write_records(slot, inputs.again(), &output, &mut take);
        let (last, failed) = written.map_or_else(|last| (last, true), |last| (last, false));
        if failed {
            self.refused_calls.extend(output.state_calls.into_iter().map(|it| (slot, it)));
        } else {
            self.keep_state_calls(slot, (position, last), output.state_calls);
        }
        for mut answer in output.answers {
            if failed {
                let error = ErrorCode::UnknownServerError;
                answer.response = group_apis::failed(answer.response, error);
            }
            // The records may have been divided among several operations. The coordinator knows
            // only the position of the first. An answer that waits for this has to wait for the
            // last one.
            if answer.visible_at == position {
                answer.visible_at = last;
            }
            take(reply_of(slot, answer));
        }
        output.missing_topics.filter(|_| !failed)
    }

    /// Writes the records of an output. If the log refuses records, `take` receives error answers
    /// to the parked requests of their groups. Returns the position of the last record.
    ///
    /// # Errors
    /// The log refused a record. The error is the position of the last record that was written.
    fn write_records<'r>(
        &mut self,
        slot: Slot,
        mut inputs: Inputs<'_>,
        output: &Output<'_>,
        mut take: impl FnMut(Reply<'r>),
    ) -> Result<u64, u64> {
        let (now, Output { producer, records, .. }) = (inputs.times.now, output);
        let refused = match self.append(inputs.runtime, slot, now, *producer, records) {
            Ok(last) => return Ok(last),
            Err(refused) => refused,
        };
        let words = format_args!("records were not written: {}", refused.error);
        inputs.errors.log(now, "write", words);
        let dismissed = self.not_written(slot, inputs.again(), &records[refused.written..]);
        dismissed.answers.into_iter().for_each(|it| take(reply_of(slot, it)));
        // No answer may wait for a position that was not written.
        Err(inputs.runtime.position(slot.log_partition()))
    }
}

pub(super) fn reply_of(slot: Slot, answer: Answer<'_>) -> Reply<'_> {
    let Answer { request, response, visible_at } = answer;
    Reply { request, response, visible_at: VisibleAt::position(slot.log_slot(), visible_at) }
}
