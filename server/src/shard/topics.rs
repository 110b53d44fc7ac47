//! The internal topics of a shard, while it is loaded and while it serves.

use super::Common;
use crate::cluster::ClusterImage;
use crate::controller::{Accepted, Controller};
use crate::groups::Slots;
use crate::placement::CONTROLLER;
use crate::shares::{Shares, SlotStates};
use crate::topics::{self, InternalTopic};
use crate::transactions::{Coordinators, Transactions};
use muster_runtime::{Damage, Topic, TopicSet};
use muster_storage::TopicRules;

/// The state machines of all partitions of internal topics that a shard leads.
pub(super) struct Internal {
    /// On the controller only.
    pub(super) image: Option<Accepted>,
    pub(super) slots: Slots,
    pub(super) transactions: Coordinators,
    pub(super) shares: SlotStates,
}

impl Internal {
    /// State machines that have replayed no record.
    pub(super) fn new(common: &Common, number: u32) -> Self {
        let Common { config, placement, life, .. } = common;
        let image = || Accepted::new(ClusterImage::new(config), config);
        Self {
            image: (number == CONTROLLER).then(image),
            slots: Slots::new(config, *placement, number),
            transactions: Coordinators::new(config, *placement, number, *life),
            shares: SlotStates::new(config, *placement, number),
        }
    }
}

impl TopicSet for Internal {
    fn rules(&self) -> TopicRules {
        topics::RULES
    }

    fn get(&mut self, number: u8) -> Option<&mut dyn Topic> {
        match InternalTopic::of_number(number)? {
            InternalTopic::Cluster => self.image.as_mut().map(Accepted::topic),
            InternalTopic::ConsumerOffsets => Some(self.slots.topic()),
            InternalTopic::TransactionState => Some(self.transactions.topic()),
            InternalTopic::ShareState => Some(self.shares.topic()),
        }
    }

    fn each(&mut self, act: &mut dyn FnMut(&mut dyn Topic)) {
        act(self.slots.topic());
        act(self.transactions.topic());
        act(self.shares.topic());
        self.image.iter_mut().for_each(|it| act(it.topic()));
    }
}

/// The parts of a shard that have the topics beside the groups.
pub(super) struct Others<'s> {
    pub(super) controller: &'s mut Option<Controller>,
    pub(super) transactions: &'s mut Transactions,
    pub(super) shares: &'s mut Shares,
}

impl TopicSet for Others<'_> {
    fn rules(&self) -> TopicRules {
        topics::RULES
    }

    fn get(&mut self, number: u8) -> Option<&mut dyn Topic> {
        match InternalTopic::of_number(number)? {
            InternalTopic::Cluster => self.controller.as_mut().map(Controller::topic),
            InternalTopic::TransactionState => Some(self.transactions.topic()),
            InternalTopic::ShareState => Some(self.shares.states_mut().topic()),
            InternalTopic::ConsumerOffsets => None,
        }
    }

    fn each(&mut self, act: &mut dyn FnMut(&mut dyn Topic)) {
        act(self.transactions.topic());
        act(self.shares.states_mut().topic());
        self.controller.iter_mut().for_each(|it| act(it.topic()));
    }

    /// The image and the share states are read as a whole when a snapshot is opened, so their
    /// damage is found there.
    fn damage(&mut self) -> Option<Damage> {
        self.transactions.coordinators().damage()
    }
}
