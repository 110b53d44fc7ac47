//! The internal topics of a shard beside its groups.

use crate::cluster::ClusterImage;
use crate::controller::Controller;
use crate::groups::{OtherTopics, ShareStates, TransactionCoordinators};
use crate::shares::Shares;
use crate::topics::InternalTopic;
use crate::transactions::Transactions;
use muster_runtime::{Topic, TopicSet};

/// The parts of a shard that have these topics.
pub(super) struct Others<'s> {
    pub(super) controller: &'s mut Option<Controller>,
    pub(super) transactions: &'s mut Transactions,
    pub(super) shares: &'s mut Shares,
}

impl TopicSet for Others<'_> {
    fn get(&mut self, number: u8) -> Option<&mut dyn Topic> {
        match InternalTopic::of_number(number)? {
            InternalTopic::Cluster => self.controller.as_mut().map(Controller::topic),
            InternalTopic::TransactionState => Some(self.transactions.topic()),
            InternalTopic::ShareState => Some(self.shares.states_mut().topic()),
            InternalTopic::ConsumerOffsets => None,
        }
    }
}

impl OtherTopics for Others<'_> {
    fn image(&self) -> Option<&ClusterImage> {
        self.controller.as_ref().map(Controller::accepted)
    }

    fn transactions(&self) -> &dyn TransactionCoordinators {
        self.transactions.coordinators()
    }

    fn shares(&self) -> &dyn ShareStates {
        self.shares.states()
    }
}
