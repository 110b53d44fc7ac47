//! The internal topics of a shard, while it is loaded and while it serves.

use super::Common;
use crate::cluster::ClusterImage;
use crate::controller::{Accepted, Controller};
use crate::groups::{Groups, Slots};
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
}

/// The parts of a shard that have the state machines of its internal topics while it serves.
pub(super) struct Topics<'s> {
    pub(super) groups: &'s mut Groups,
    pub(super) controller: &'s mut Option<Controller>,
    pub(super) transactions: &'s mut Transactions,
    pub(super) shares: &'s mut Shares,
}

impl TopicSet for Topics<'_> {
    fn rules(&self) -> TopicRules {
        topics::RULES
    }

    fn get(&mut self, number: u8) -> Option<&mut dyn Topic> {
        match InternalTopic::of_number(number)? {
            InternalTopic::Cluster => self.controller.as_mut().map(Controller::topic),
            InternalTopic::ConsumerOffsets => Some(self.groups.topic()),
            InternalTopic::TransactionState => Some(self.transactions.topic()),
            InternalTopic::ShareState => Some(self.shares.states_mut().topic()),
        }
    }

    /// Damage of the image or of share states is not reported here: it was found when the snapshot
    /// was opened, because they are then read as a whole.
    fn damage(&mut self) -> Option<Damage> {
        let Self { groups, transactions, controller: _, shares: _ } = self;
        groups.slots().damage().or_else(|| transactions.coordinators().damage())
    }
}
