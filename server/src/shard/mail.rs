//! Messages to the shard, for each of its parts.

use super::{Command, Message, Shard, Stopping};
use crate::controller;
use crate::mailbox::{FromController, ToBroker, ToController, ToShares, ToTransactions};

impl Shard {
    /// Passes a message to the part that receives it.
    pub(super) fn mail(&mut self, message: Message) {
        match message {
            Message::Controller(message) => self.control(message),
            Message::FromController(message) => self.controller_answered(message),
            Message::Broker(ToBroker::Image(image)) => self.image_changed(image),
            Message::Broker(ToBroker::Offline { from, partitions }) => {
                self.broker.set_offline(from, partitions);
            }
            Message::Broker(ToBroker::Node(node)) => self.broker.set_node(node),
            Message::Broker(ToBroker::Leading(news)) => self.broker.take_leaders(&news),
            Message::Transactions(ToTransactions::Letters { from, letters }) => {
                self.letters(from, letters);
            }
            Message::Transactions(ToTransactions::LettersTaken { by, letters, bytes }) => {
                self.transactions.letters_taken(by, letters, bytes);
            }
            Message::Shares(message) => self.mail_for_shares(message),
            // The reactor has handled it.
            Message::Reactor(_) => {}
            Message::Inquiry(inquiry) => self.inquire(inquiry),
            Message::TokenKeys(keys) => self.clients.set_token_keys(&keys),
            Message::Pushed(outcome) => self.pushed(&outcome),
            Message::Stop => {
                if self.stopping == Stopping::No {
                    self.stopping = Stopping::Draining { since: self.times.now };
                    self.clients.stop();
                }
            }
        }
    }

    fn controller_answered(&mut self, message: FromController) {
        match message {
            FromController::AdminAnswer { request, response } => {
                self.controller_requests.admin_answered(request);
                let mut response = (*response).into();
                self.clients.answers().answer_of_controller(request, &mut response);
            }
            FromController::AutoCreateTaken => self.controller_requests.auto_create_taken(),
            FromController::MissingCreated(created) => self.missing_created(created),
            FromController::ProducerIdBlock { first, count } => {
                let (answers, out) = (self.clients.answers(), &mut self.commands);
                self.controller_requests.producer_ids_came(first, count, answers, out);
                self.transactions_have_ids();
            }
            FromController::NoProducerIds => {
                self.controller_requests.no_producer_ids(self.clients.answers());
            }
        }
    }

    fn mail_for_shares(&mut self, message: ToShares) {
        match message {
            ToShares::StateQuestion(question) => self.state_question(question),
            ToShares::StateAnswer(answer) => self.state_answer(answer),
            ToShares::DeadLetters(letters) => {
                self.on_shares(|shares, inputs, _| shares.append_letters(inputs, &letters));
            }
            ToShares::DeadLettersAdded(added) => {
                self.on_shares(|shares, inputs, _| shares.letters_added(inputs, &added));
            }
        }
    }

    /// Passes a message to the controller.
    fn control(&mut self, message: ToController) {
        let Self { controller, broker, runtime, ids, errors, times, .. } = self;
        let Some(controller) = controller else { return };
        let view = broker.view();
        let ids = ids.as_mut();
        let inputs = controller::Inputs { times: *times, view, ids, errors, runtime };
        if let Some(taken_from) = controller.take(inputs, message) {
            self.commands.push(Command::mail(taken_from, FromController::AutoCreateTaken));
        }
        self.publish();
    }
}
