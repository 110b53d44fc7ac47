//! The inputs of a shard's groups: those of a call to a coordinator, and those at the end of a
//! turn.

use super::slots::Slots;
use crate::clock::Times;
use crate::cluster::ClusterImage;
use crate::logging::RequestErrors;
use crate::net::Connections;
use crate::topics::{self, InternalTopic};
use muster_coordinator::Ids;
use muster_runtime::{Damage, Topic, TopicSet};
use muster_storage::TopicRules;

/// The inputs of a call to a coordinator.
pub(crate) struct Inputs<'i> {
    pub(crate) times: Times,
    pub(crate) ids: &'i mut dyn Ids,
    pub(crate) image: &'i ClusterImage,
    pub(crate) errors: &'i mut RequestErrors,
}

impl Inputs<'_> {
    /// Returns the same inputs again, for a caller that makes several calls with them.
    pub(crate) fn again(&mut self) -> Inputs<'_> {
        let Self { times, ids, image, errors } = self;
        Inputs { times: *times, ids: &mut **ids, image, errors }
    }
}

/// The state of the shard at the end of a turn.
pub(crate) struct TurnEnd<'t> {
    pub(crate) now: i64,
    pub(crate) is_stopping: bool,
    /// The internal topics beside the groups.
    pub(crate) others: &'t mut dyn TopicSet,
    pub(crate) connections: &'t Connections,
}

/// All topics of a shard.
pub(super) struct AllTopics<'t> {
    pub(super) slots: &'t mut Slots,
    pub(super) others: &'t mut dyn TopicSet,
}

impl TopicSet for AllTopics<'_> {
    fn rules(&self) -> TopicRules {
        topics::RULES
    }

    fn get(&mut self, number: u8) -> Option<&mut dyn Topic> {
        if InternalTopic::of_number(number) == Some(InternalTopic::ConsumerOffsets) {
            Some(self.slots.topic())
        } else {
            self.others.get(number)
        }
    }

    fn each(&mut self, act: &mut dyn FnMut(&mut dyn Topic)) {
        act(self.slots.topic());
        self.others.each(act);
    }

    fn damage(&mut self) -> Option<Damage> {
        self.slots.damage().or_else(|| self.others.damage())
    }
}
