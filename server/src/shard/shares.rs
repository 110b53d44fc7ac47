//! Requests of share partitions, and the messages about share state between group coordinators and
//! the leaders of partitions.

use super::{Command, Shard};
use crate::dispatch::Call;
use crate::mailbox::{StateAnswer, StateQuestion};
use crate::partitions::Effects;
use crate::placement::Slot;
use crate::security::acls::{Operation, ResourceType};
use crate::shares::{Asked, Client, Inputs, Shares};
use muster_codec::ShareRequest;
use muster_coordinator::MissingTopic;

/// The time after which a failed creation of a dead letter queue is tried again.
const QUEUE_RETRY_MS: i64 = 1_000;

impl Shard {
    pub(super) fn share_request(&mut self, call: &Call<'_>, request: &ShareRequest<'_>) {
        self.clients.answers().hold(call.request);
        let permissions = self.permissions_of(call.request);
        let may_read = |topic: &str| {
            let allow = |it: &_| {
                crate::security::acls::Permissions::allow(
                    it,
                    Operation::Read,
                    ResourceType::Topic,
                    topic,
                )
            };
            permissions.as_deref().is_none_or(allow)
        };
        let asked = Asked {
            request: call.request,
            version: call.version,
            listener: call.listener,
            address: self.clients.address(call.request),
        };
        let client = Client { asked, may_read: &may_read };
        self.on_shares(|shares, inputs, _| match request {
            ShareRequest::ShareFetch(body) => shares.share_fetch(inputs, &client, body),
            ShareRequest::ShareAcknowledge(body) => shares.share_acknowledge(inputs, &client, body),
            ShareRequest::InitializeShareGroupState(_)
            | ShareRequest::ReadShareGroupState(_)
            | ShareRequest::WriteShareGroupState(_)
            | ShareRequest::DeleteShareGroupState(_)
            | ShareRequest::ReadShareGroupStateSummary(_) => {
                shares.state_request(inputs, call.request, request);
            }
        });
    }

    /// Calls the share groups, and carries out the effects.
    pub(super) fn on_shares(
        &mut self,
        act: impl FnOnce(&mut Shares, &mut Inputs<'_>, &mut Vec<Command>),
    ) {
        let mut effects = Effects::default();
        let Self { shares, runtime, partitions, broker, commands, times, .. } = self;
        let (image, config) = (&**broker.image(), broker.config());
        let (placement, shard) = (broker.common().placement, broker.number());
        let mut inputs = Inputs {
            times: *times,
            image,
            config,
            placement,
            shard,
            runtime,
            partitions,
            effects: &mut effects,
        };
        act(shares, &mut inputs, commands);
        self.perform(effects);
    }

    /// Continues the work of the share groups until nothing is left to do: handles the reads that
    /// have ended, the partitions that have grown, and the requests of group coordinators.
    pub(super) fn settle_shares(&mut self) {
        if self.shares.is_settled() && !self.groups.has_state_calls() {
            return;
        }
        loop {
            let mut is_idle = true;
            self.on_shares(|shares, inputs, _| is_idle = !shares.settle(inputs));
            for (slot, state_call) in self.groups.take_state_calls(&self.runtime) {
                is_idle = false;
                self.on_shares(|shares, inputs, out| {
                    shares.ask_leaders(inputs, slot, state_call, out);
                });
            }
            for (slot, state_call) in self.groups.take_refused_calls() {
                is_idle = false;
                self.shares.refuse_call(slot, state_call);
            }
            let now = self.times.now;
            while let Some((slot, state_call, results)) = self.shares.next_answered(now) {
                is_idle = false;
                self.late_replies(|groups, inputs, take| {
                    groups.state_answered(inputs, slot, (state_call, &results), take);
                });
            }
            if is_idle {
                break;
            }
        }
        self.send_dead_letters();
        for (id, wait_ms) in self.shares.take_throttled() {
            self.clients.answers().throttle(id, wait_ms);
        }
        for refused in self.shares.take_refused() {
            refused.log(self.times.now, &mut self.errors);
        }
        for reply in self.shares.take_answers() {
            self.clients.answers().reply(reply);
        }
        self.count_waiting();
    }

    /// Sends dead letters to the leaders of their queues, and requests the creation of missing
    /// queues.
    fn send_dead_letters(&mut self) {
        if !self.shares.has_letters_to_take() {
            return;
        }
        let mail = self.shares.take_mail();
        self.commands.extend(mail.into_iter().map(|(to, message)| Command::mail(to, message)));
        for topic in self.shares.take_wanted_topics() {
            self.create_queue(topic);
        }
        let dropped = self.shares.take_dropped_letters();
        if dropped.count > 0 {
            let words = format_args!(
                "{} records did not come to the dead letter queue: {}",
                dropped.count, dropped.first
            );
            self.errors.warn(self.times.now, "dead letters", words);
        }
    }

    /// Asks the controller to create a queue, unless a creation has failed recently.
    fn create_queue(&mut self, topic: MissingTopic) {
        let topics = [topic];
        let Self { controller_requests, commands, times, .. } = self;
        if controller_requests.create_missing(times.now, &topics, None, QUEUE_RETRY_MS, commands) {
            return;
        }
        let mut failed = controller_requests.failed_creations(times.now, &topics);
        let why = failed.next().map(|(_, why)| why.to_owned());
        drop(failed);
        let [topic] = &topics;
        self.on_shares(|shares, inputs, _| {
            shares.topic_not_asked(inputs, &topic.name, why.as_deref());
        });
    }

    /// After a power loss: removes share state of records that logs have lost.
    pub(super) fn forget_lost_shares(&mut self) {
        let states = self.shares.states_mut();
        let waiting = states.forget_lost(&mut self.runtime, self.times, &self.partitions);
        if !waiting.is_empty() {
            tracing::warn!(
                "{} partitions have lost records that share groups knew and that were not synced",
                waiting.len()
            );
        }
        let until = self.runtime.log().progress().accepted();
        self.partitions.withhold(waiting, until);
    }

    /// Continues the work that waited for share state that is now durable.
    pub(super) fn share_states_flushed(&mut self) {
        let Self { runtime, shares, .. } = &*self;
        let slots = runtime.moved_slots().filter_map(|(it, at)| Some((Slot(it.place()?), at)));
        let moved: Vec<_> = slots.filter(|(slot, _)| shares.awaits_flush(*slot)).collect();
        for (slot, position) in moved {
            self.on_shares(|shares, inputs, _| shares.flushed(inputs, slot, position));
        }
        if self.shares.has_state_answers() {
            self.on_shares(|shares, inputs, out| shares.send_state_answers(inputs, out));
        }
    }

    pub(super) fn state_question(&mut self, question: StateQuestion) {
        self.on_shares(|shares, inputs, out| shares.answer_coordinator(inputs, question, out));
    }

    pub(super) fn state_answer(&mut self, answer: StateAnswer) {
        self.shares.take_state_answer(self.times.now, answer);
    }

    /// Ends locks and waits that are due, and writes changes of share partitions.
    pub(super) fn shares_turn(&mut self) {
        if self.shares.may_have_work(self.times.now) {
            let handled_until = self.clients.handled_until();
            self.on_shares(|shares, inputs, out| {
                shares.turn(inputs, handled_until);
                shares.answer_questions(inputs, out);
            });
        }
        self.settle_shares();
        if self.shares.has_late_archives() {
            self.on_shares(|shares, inputs, _| shares.write_changes(inputs));
        }
    }
}
